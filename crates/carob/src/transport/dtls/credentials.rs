//! Credentials of sessions: keys and certificates, for each peer and as a server.

use std::net::SocketAddr;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::hello::Cookies;
use crate::transport::dtls::dimpl_config::ServerSide;
use crate::transport::dtls::{ClientDtls, ClientSessions, ClientVerifier, Credential, ServerDtls};
use crate::transport::handshake::Replaceable;
use crate::transport::tls::{ClientTls, TlsError};

/// Credentials of sessions opened by this endpoint.
pub(super) struct Client {
    dtls: ClientDtls,
    tls: ClientTls,
    /// By peer with its own credential; `None` for all others. Created at first use.
    made: HashMap<Option<SocketAddr>, Arc<ClientSessions>, FixedState>,
}

impl Client {
    pub(super) fn new(dtls: ClientDtls, tls: ClientTls) -> Self {
        Self {
            dtls,
            tls,
            made: HashMap::with_hasher(FixedState::default()),
        }
    }

    /// Returns the credentials for a peer.
    pub(super) fn of(&mut self, peer: SocketAddr) -> Result<Arc<ClientSessions>, TlsError> {
        let own = self.dtls.peers.get(&peer);
        // Peers without a credential of their own share one entry, so that the table is bounded
        // by the configuration.
        let key = own.map(|_| peer);
        if let Some(made) = self.made.get(&key) {
            return Ok(Arc::clone(made));
        }
        let by_certificate = Credential::Certificates(self.tls.clone());
        let credential = own.or(self.dtls.all.as_ref()).unwrap_or(&by_certificate);
        let made = Arc::new(ClientSessions::of(credential)?);
        self.made.insert(key, Arc::clone(&made));
        Ok(made)
    }
}

/// Credentials of sessions opened by peers.
pub(crate) struct ServerCredentials {
    pub(super) side: ServerSide,
    pub(super) verifier: Option<ClientVerifier>,
}

/// The part of sessions that peers open.
pub(crate) struct Server {
    credentials: Replaceable<ServerCredentials>,
    pub(super) cookies: Cookies,
}

impl ServerCredentials {
    pub(crate) fn new(dtls: &ServerDtls) -> Result<Self, TlsError> {
        if dtls.keys.is_none() && dtls.identity.is_none() {
            let problem = "a server for coaps:// needs pre-shared keys, a certificate, or both";
            return Err(TlsError::Dtls(problem.to_owned()));
        }
        let clients = dtls.clients.clone();
        Ok(Self {
            side: ServerSide::new(
                dtls.keys.clone(),
                dtls.hint.clone(),
                dtls.identity.as_ref(),
                clients.is_some(),
            )?,
            verifier: clients.map(ClientVerifier::new).transpose()?,
        })
    }
}

impl Server {
    pub(crate) fn new(dtls: &ServerDtls) -> Result<Self, TlsError> {
        let credentials = ServerCredentials::new(dtls)?;
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)
            .map_err(|error| TlsError::Dtls(format!("no randomness: {error}")))?;
        Ok(Self {
            credentials: Replaceable::new(Arc::new(credentials)),
            cookies: Cookies::new(secret),
        })
    }

    /// The credentials in use, which can be replaced.
    pub(crate) fn credentials(&self) -> &Replaceable<ServerCredentials> {
        &self.credentials
    }
}
