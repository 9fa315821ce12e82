//! Certificates and keys from files.

use std::path::Path;

use carob::tls::TlsError;
use carob::{ClientTls, Identity};

use crate::args::TlsArgs;
use crate::failure::{Failure, Kind};

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::file("read", path, &error))
}

pub(super) fn failure(path: &Path, error: &TlsError) -> Failure {
    Failure::new(Kind::File, format_args!("{}: {error}", path.display()))
}

/// Who we are.
pub(super) fn identity(cert: &Path, key: &Path) -> Result<Identity, Failure> {
    Identity::from_pem(&read(cert)?, &read(key)?).map_err(|error| {
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
