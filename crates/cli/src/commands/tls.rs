//! Certificates and keys from files, and a key from the environment: other users can see the
//! command line.

use std::path::Path;

#[cfg(feature = "tls")]
use carob::ServerTls;
#[cfg(feature = "bench")]
use carob::dtls::Credential;
#[cfg(feature = "dtls")]
use carob::dtls::PskError;
use carob::tls::TlsError;
#[cfg(feature = "dtls")]
use carob::{ClientDtls, PreSharedKey, PskStore, ServerDtls};
use carob::{ClientTls, Identity, Server};
#[cfg(feature = "dtls")]
use zeroize::Zeroize as _;
use zeroize::Zeroizing;

#[cfg(feature = "dtls")]
use crate::args::PskArgs;
use crate::args::{ListenArgs, TlsArgs};
use crate::failure::{Failure, Kind};
use crate::printer;

/// Names the file to which secrets of TLS and DTLS sessions are appended.
const KEY_LOG: &str = "SSLKEYLOGFILE";

/// Opens the key log that the environment names.
pub(super) fn log_keys() -> Result<(), Failure> {
    let Some(path) = std::env::var_os(KEY_LOG).filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let path = Path::new(&path);
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    // The secrets are for their owner alone.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path).map_err(|error| {
        Failure::file("write", path, &error).hint(format_args!(
            "{KEY_LOG} in the environment names this file; unset it"
        ))
    })?;
    carob::log_keys_to(file).map_err(|error| Failure::new(Kind::Usage, error))
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::file("read", path, &error))
}

/// Warns of a file with secrets that other users of the machine can read.
fn warn_if_readable(path: &Path) {
    #[cfg(unix)]
    if let Ok(metadata) = std::fs::metadata(path)
        && std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o004 != 0
    {
        let path = path.display();
        printer::remark(&format!(
            "{path}: all users can read this file of keys; chmod 600 {path}"
        ));
    }
    #[cfg(not(unix))]
    let _ = path;
}

pub(super) fn failure(path: &Path, error: &TlsError) -> Failure {
    Failure::new(Kind::File, format_args!("{}: {error}", path.display()))
}

/// The identity of this end: a certificate and its key.
pub(super) fn identity(cert: &Path, key: &Path) -> Result<Identity, Failure> {
    warn_if_readable(key);
    let identity = Identity::from_pem(&read(cert)?, &Zeroizing::new(read(key)?));
    let valid = identity.and_then(|identity| identity.check_validity().map(|()| identity));
    valid.map_err(|error| {
        let key_fault = matches!(
            error,
            TlsError::Pem {
                what: "private key",
                ..
            }
        );
        failure(if key_fault { key } else { cert }, &error)
    })
}

/// Credentials of a server, as the command line names them.
pub(super) struct ServerCredentials {
    #[cfg(feature = "dtls")]
    pub(super) dtls: Option<ServerDtls>,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<ServerTls>,
}

impl ServerCredentials {
    /// Replaces the credentials of a running server.
    pub(super) fn replace(self, server: &Server) -> Result<(), Failure> {
        let unusable = |error: TlsError| Failure::new(Kind::File, error);
        #[cfg(feature = "dtls")]
        if let Some(dtls) = &self.dtls {
            server.set_dtls(dtls).map_err(unusable)?;
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            server.set_tls(tls).map_err(unusable)?;
        }
        Ok(())
    }
}

/// Returns true if a server uses files of keys or certificates.
pub(super) fn has_credentials(args: &ListenArgs) -> bool {
    #[cfg(feature = "dtls")]
    if args.psk_file.is_some() {
        return true;
    }
    args.cert.is_some()
}

/// A server's part.
pub(super) fn of_server(args: &ListenArgs) -> Result<ServerCredentials, Failure> {
    let identity = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => Some(identity(cert, key)?),
        _ => None,
    };
    let clients = match &args.client_ca {
        Some(path) => Some((read(path)?, path)),
        None => None,
    };
    #[cfg(feature = "dtls")]
    let dtls = match args.dtls {
        Some(_) if args.psk_file.is_none() && identity.is_none() => {
            let failure = Failure::new(
                Kind::Usage,
                "--dtls needs pre-shared keys, a certificate, or both",
            );
            return Err(failure.hint("give --psk-file FILE, or --cert FILE and --key FILE"));
        }
        Some(_) => {
            let mut dtls = ServerDtls::new();
            if let Some(path) = &args.psk_file {
                dtls = dtls.keys(keys(path)?);
            }
            if let Some(identity) = &identity {
                dtls = dtls.identity(identity.clone());
            }
            if let Some((pem, path)) = &clients {
                dtls = dtls
                    .clients_pem(pem)
                    .map_err(|error| failure(path, &error))?;
            }
            Some(dtls)
        }
        None => None,
    };
    #[cfg(feature = "tls")]
    let tls = match identity {
        Some(identity) => {
            let mut tls = ServerTls::new(identity);
            if let Some((pem, path)) = &clients {
                tls = tls
                    .clients_pem(pem)
                    .map_err(|error| failure(path, &error))?;
            }
            Some(tls)
        }
        None => None,
    };
    Ok(ServerCredentials {
        #[cfg(feature = "dtls")]
        dtls,
        #[cfg(feature = "tls")]
        tls,
    })
}

/// A client's part.
pub(super) fn of_client(args: &TlsArgs) -> Result<ClientTls, Failure> {
    let mut tls = ClientTls::new();
    if let Some(path) = &args.ca {
        tls = tls
            .trust_pem(&read(path)?)
            .map_err(|error| failure(path, &error))?;
    }
    if let (Some(cert), Some(key)) = (&args.cert, &args.key) {
        tls = tls.identity(identity(cert, key)?);
    }
    Ok(tls)
}

#[cfg(feature = "dtls")]
/// Where a key may be, other than in a file.
const KEY: &str = "CAROB_PSK";

#[cfg(feature = "dtls")]
fn text(path: &Path) -> Result<Zeroizing<String>, Failure> {
    warn_if_readable(path);
    let text = String::from_utf8(read(path)?).map(Zeroizing::new);
    text.map_err(|error| {
        error.into_bytes().zeroize();
        let problem = format!("{}: it is no text", path.display());
        Failure::new(Kind::File, problem).hint("a line is IDENTITY:KEY; write keys as 0xHEX")
    })
}

#[cfg(feature = "dtls")]
fn wrong(path: &Path, error: &PskError) -> Failure {
    Failure::new(Kind::File, format_args!("{}: {error}", path.display()))
}

#[cfg(feature = "dtls")]
/// The keys of a server's clients.
pub(super) fn keys(path: &Path) -> Result<PskStore, Failure> {
    PskStore::from_text(&text(path)?).map_err(|error| wrong(path, &error))
}

#[cfg(feature = "analyze")]
/// All keys of a file.
pub(super) fn all_keys(path: &Path) -> Result<Vec<PreSharedKey>, Failure> {
    PreSharedKey::read_all(&text(path)?).map_err(|error| wrong(path, &error))
}

#[cfg(feature = "dtls")]
/// A client's part over DTLS.
pub(super) fn dtls_of_client(args: &PskArgs) -> Result<ClientDtls, Failure> {
    let dtls = ClientDtls::new();
    Ok(match key(args)? {
        Some(key) => dtls.psk(key),
        None => dtls,
    })
}

#[cfg(feature = "bench")]
/// Credentials of a DTLS client: its pre-shared key, or else certificates.
pub(super) fn credential(psk: &PskArgs, tls: &TlsArgs) -> Result<Credential, Failure> {
    Ok(match key(psk)? {
        Some(key) => Credential::PreSharedKey(key),
        None => Credential::Certificates(of_client(tls)?),
    })
}

#[cfg(feature = "dtls")]
/// The key of the command line.
fn key(args: &PskArgs) -> Result<Option<PreSharedKey>, Failure> {
    let PskArgs {
        psk_identity: identity,
        psk_file: file,
    } = args;
    let usage = |text: String, hint: &str| Failure::new(Kind::Usage, text).hint(hint);
    let key = match (file, identity) {
        (Some(path), identity) => {
            let keys = PreSharedKey::read_all(&text(path)?).map_err(|error| wrong(path, &error))?;
            let count = keys.len();
            let asked = |key: &PreSharedKey| match identity {
                Some(identity) => key.is_of(identity),
                None => count == 1,
            };
            keys.into_iter().find(asked).ok_or_else(|| {
                let at = path.display();
                if let Some(identity) = identity {
                    let text = format!("{at}: it has no key of \"{identity}\"");
                    usage(text, "check the spelling of the identity")
                } else {
                    let text = format!("{at}: it has {count} keys");
                    usage(text, "choose one with --psk-identity")
                }
            })?
        }
        (None, Some(identity)) => {
            let key = std::env::var(KEY).map(Zeroizing::new).map_err(|_| {
                let text = "--psk-identity names a key, but there is none".to_owned();
                usage(
                    text,
                    "give it in a file with --psk-file, or as CAROB_PSK in the environment",
                )
            })?;
            PreSharedKey::from_text(identity, &key)
                .map_err(|error| usage(error.to_string(), "write it as text, or as 0xHEX"))?
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(key))
}
