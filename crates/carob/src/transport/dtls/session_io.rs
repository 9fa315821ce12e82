//! Input and output of DTLS sessions: feeds datagrams and executes the sessions' outputs.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use carob_cc::time::Instant;
use carob_proto::Escaped;
use carob_proto::endpoint::SessionEnd;

use super::HandshakeError;
use super::layer::DtlsLayer;
use super::record;
use super::secure::{DtlsError, DtlsOutput};
use super::sessions::{Role, Session};
use super::verify::NotTrusted;
use crate::clock::processor_time;
use crate::transport::Engine;
use crate::transport::handshake::PeerIdentity;

impl DtlsLayer {
    /// Feeds a datagram to a session.
    pub(super) fn feed(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        index: u32,
        datagram: &[u8],
    ) {
        let session = &mut self.sessions.slots[index as usize];
        // Handshakes that this endpoint began are its own choice, and count against no budget.
        let begun_by_peer = session.handshake.is_some() && !session.role.is_client();
        let before = begun_by_peer.then(processor_time);
        if let Some(handshake) = &mut session.handshake {
            // Even an invalid datagram: "no answer" would send the operator to look at the network.
            handshake.peer_responded = true;
        }
        let at = engine.std_time(now);
        match session.secure.receive(at, datagram) {
            Ok(()) => self.poll(engine, now, index, datagram.len() as u32, false),
            Err(broken) => self.on_fatal_error(engine, now, index, broken),
        }
        if let Some(before) = before {
            let took = processor_time().saturating_sub(before);
            self.admission.took(now, took);
        }
    }

    /// Executes the outputs of a session. `received` is the length of the datagram it was fed, if
    /// any; `timed` marks a retransmission by its timer.
    pub(super) fn poll(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        index: u32,
        received: u32,
        timed: bool,
    ) {
        let session = &mut self.sessions.slots[index as usize];
        let (peer, own) = (session.peer, session.own);
        let (mut fresh, mut copied) = (0, 0);
        let (mut connected, mut closed, mut refused) = (false, false, false);
        loop {
            match session.secure.poll(&mut self.buffer) {
                DtlsOutput::Datagram {
                    bytes,
                    fresh: is_fresh,
                } => {
                    if let Some(handshake) = &mut session.handshake {
                        handshake.proven |= record::records(bytes).any(|record| record.epoch > 0);
                    }
                    let count = if is_fresh { &mut fresh } else { &mut copied };
                    *count += bytes.len() as u32;
                    self.outbox.push(peer, own, bytes);
                }
                DtlsOutput::Message(bytes) => {
                    self.inbox.extend_from_slice(bytes);
                    self.ends.push(self.inbox.len());
                }
                DtlsOutput::Certificate(der) => {
                    let name = self.names.get(&peer).map(|name| &**name);
                    if let Err(wrong) = session.on_certificate(der, name) {
                        let problem = wrong.problem;
                        let error = HandshakeError::NotTrusted { problem };
                        return self.fail(engine, now, index, error, Some(wrong.alert));
                    }
                }
                DtlsOutput::Identity { identity, known } => session.on_identity(identity, known),
                DtlsOutput::NotProven => {
                    let alert = session.on_wrong_key();
                    refused |= alert.is_some();
                    if let Some(alert) = alert {
                        self.outbox.push(peer, own, &alert);
                    }
                }
                DtlsOutput::Connected => connected = true,
                DtlsOutput::Closed => closed = true,
                DtlsOutput::Nothing => break,
            }
        }
        if refused {
            self.report_unproven(now, index);
        }
        // Before the promotion, which ends the handshake and its flight with it.
        self.report_flight(
            engine,
            now,
            index,
            (fresh, copied, received),
            connected,
            timed,
        );
        if connected {
            self.promote(engine, now, index);
        }
        self.deliver(engine, now, index, peer, own);
        if closed {
            // The library has replied with its own close_notify.
            self.end(engine, now, index, SessionEnd::Closed);
        }
    }

    /// Reports a client that has not proven its key.
    fn report_unproven(&self, now: Instant, index: u32) {
        let session = &self.sessions.slots[index as usize];
        let claimed = session.claimed.as_deref().unwrap_or_default();
        self.report_failed(now, session.peer, Some(claimed), &session.unproven(claimed));
    }

    /// Hands received messages, if there are any, to the engine.
    fn deliver(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        index: u32,
        peer: SocketAddr,
        own: Option<IpAddr>,
    ) {
        if self.ends.is_empty() {
            return;
        }
        self.sessions.touch(now, index);
        // Taken out, because the engine's outputs are sent through `self` meanwhile.
        let inbox = std::mem::take(&mut self.inbox);
        let mut ends = std::mem::take(&mut self.ends);
        let mut start = 0;
        for end in ends.drain(..) {
            let message = &inbox[start..end];
            start = end;
            engine.capture().inbound(now, peer, own, message);
            engine.endpoint().handle_datagram(now, peer, message);
            engine.drain(self, now);
        }
        (self.inbox, self.ends) = (inbox, ends);
        self.inbox.clear();
    }

    /// Ends a session after a fatal error.
    pub(super) fn on_fatal_error(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        index: u32,
        broken: DtlsError,
    ) {
        let session = &mut self.sessions.slots[index as usize];
        tracing::debug!(peer = %session.peer, ?broken, "session failed");
        if broken == DtlsError::NotProven
            && let DtlsOutput::Identity { identity, known } = session.secure.poll(&mut self.buffer)
        {
            session.on_identity(identity, known);
        }
        let Some(handshake) = &session.handshake else {
            return self.end(engine, now, index, SessionEnd::Broken);
        };
        let identity = match &session.role {
            Role::Client { identity, .. } => identity.as_deref(),
            Role::Server { .. } => None,
        };
        let alert = broken.alert();
        let error = match &session.claimed {
            Some(claimed) if broken == DtlsError::NotProven => session.unproven(claimed),
            _ => HandshakeError::of(broken, identity, handshake.proven),
        };
        self.fail(engine, now, index, error, alert);
    }

    /// Sends close_notify in a session and ends it.
    pub(super) fn close_session(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        index: u32,
        why: SessionEnd,
    ) {
        self.send_close_notify(index);
        self.end(engine, now, index, why);
    }

    pub(super) fn send_close_notify(&mut self, index: u32) {
        let session = &mut self.sessions.slots[index as usize];
        session.secure.close();
        while let DtlsOutput::Datagram { bytes, .. } = session.secure.poll(&mut self.buffer) {
            self.outbox.push(session.peer, session.own, bytes);
        }
    }

    /// Ends a live session and all exchanges in it.
    pub(super) fn end(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        index: u32,
        why: SessionEnd,
    ) {
        let Session { peer, .. } = self.sessions.remove(index);
        tracing::debug!(%peer, %why, "a session ends");
        engine.session_ended(now, peer, why);
        engine.drain(self, now);
    }
}

impl Session {
    /// Verifies the peer's certificate, if it was requested, and stores it as the peer's identity.
    fn on_certificate(&mut self, der: &[u8], name: Option<&str>) -> Result<(), NotTrusted> {
        let chain = self.secure.chain(der);
        match &self.role {
            Role::Client {
                verifier: Some(verifier),
                ..
            } => verifier.check(der, chain, name, self.peer)?,
            Role::Server {
                verifier: Some(verifier),
                ..
            } => verifier.check(der, chain)?,
            // An unrequested certificate proves nothing.
            _ => return Ok(()),
        }
        self.identity = Some(Arc::new(PeerIdentity::Certificate(der.to_vec())));
        Ok(())
    }

    fn on_identity(&mut self, identity: Vec<u8>, known: bool) {
        self.claimed = Some(identity.clone());
        if known {
            self.identity = Some(Arc::new(PeerIdentity::PreSharedKey(identity)));
        } else {
            let (peer, identity) = (self.peer, Escaped(&identity).to_string());
            tracing::debug!(%peer, identity, "the identity is not known");
        }
    }

    /// The error of a client that has not proven the key of the identity that it claimed.
    fn unproven(&self, claimed: &[u8]) -> HandshakeError {
        let identity = Escaped(claimed).to_string();
        if self.identity.is_some() {
            HandshakeError::WrongKey { identity }
        } else {
            HandshakeError::UnknownIdentity { identity }
        }
    }

    /// The alert for a peer with an invalid proof of possession; at most one per handshake. It is
    /// decrypt_error both for a wrong key and for an unknown identity (RFC 4279 2). The session
    /// continues, because the proof may be forged.
    fn on_wrong_key(&mut self) -> Option<Vec<u8>> {
        let handshake = self.handshake.as_mut()?;
        let first = !std::mem::replace(&mut handshake.refused, true);
        // 51: decrypt_error (RFC 5246 7.2).
        first.then(|| self.secure.alert(51))
    }
}
