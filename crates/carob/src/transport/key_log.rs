//! Key log of the process: secrets of TLS and DTLS sessions, for programs that decrypt captures.

use std::fmt::{self, Write as _};
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

static OUTPUT: OnceLock<Mutex<Box<dyn Write + Send>>> = OnceLock::new();

/// Error of [`log_keys_to`]: the process has a key log already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLogTaken;

impl fmt::Display for KeyLogTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the process has a key log already")
    }
}

impl std::error::Error for KeyLogTaken {}

/// Writes the secrets of all later TLS and DTLS sessions of the process to `output`, in the format of
/// `SSLKEYLOGFILE` (RFC 9850): `LABEL RANDOM SECRET`, a line each. Lines that cannot be written are
/// dropped.
///
/// Readers of the log can decrypt these sessions. It is meant for captures of your own traffic.
///
/// # Errors
///
/// [`KeyLogTaken`] at the second call.
///
/// ```
/// # let folder = std::env::temp_dir();
/// # let path = folder.join(format!("carob-key-log-{}", std::process::id()));
/// carob::log_keys_to(std::fs::File::create(&path)?)?;
/// assert!(carob::log_keys_to(std::io::sink()).is_err());
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn log_keys_to(output: impl Write + Send + 'static) -> Result<(), KeyLogTaken> {
    OUTPUT
        .set(Mutex::new(Box::new(output)))
        .map_err(|_| KeyLogTaken)
}

/// Writes a line.
fn write(label: &str, random: &[u8], secret: &[u8]) {
    let Some(output) = OUTPUT.get() else {
        return;
    };
    let line = line(label, random, secret);
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    // A session does not fail for its log.
    let _ = output.write_all(line.as_bytes());
    // A program that decrypts a running capture needs the line now.
    let _ = output.flush();
}

fn line(label: &str, random: &[u8], secret: &[u8]) -> String {
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            // A String takes every write.
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    format!("{label} {} {}\n", hex(random), hex(secret))
}

/// The key log for the TLS library.
#[cfg(feature = "tls")]
#[derive(Debug)]
pub(crate) struct TlsKeyLog;

#[cfg(feature = "tls")]
impl rustls::KeyLog for TlsKeyLog {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        write(label, client_random, secret);
    }

    fn will_log(&self, _label: &str) -> bool {
        OUTPUT.get().is_some()
    }
}

/// Writes the master secret of a DTLS session, if `seed` is the input of the pseudorandom function for
/// the keys of records (RFC 5246 section 6.3): a label, the server's random value, and the client's.
#[cfg(feature = "dtls")]
pub(crate) fn see_key_expansion(master: &[u8], seed: &[u8]) {
    if OUTPUT.get().is_some()
        && let Some(random) = client_random(seed)
    {
        write("CLIENT_RANDOM", random, master);
    }
}

#[cfg(feature = "dtls")]
fn client_random(seed: &[u8]) -> Option<&[u8]> {
    const RANDOM_BYTES: usize = 32;
    let randoms = seed.strip_prefix(b"key expansion")?;
    // The server's random value is the first one in this seed (RFC 5246 6.3).
    (randoms.len() == 2 * RANDOM_BYTES).then(|| &randoms[RANDOM_BYTES..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_label_random_and_secret() {
        let text = line("CLIENT_RANDOM", &[0, 255], &[10]);
        assert_eq!(text, "CLIENT_RANDOM 00ff 0a\n");
    }

    #[cfg(feature = "dtls")]
    #[test]
    fn only_the_seed_of_record_keys_has_a_random_value() {
        let seed = [&b"key expansion"[..], &[1; 32], &[2; 32]].concat();
        assert_eq!(client_random(&seed), Some(&[2; 32][..]));
        assert_eq!(client_random(&seed[1..]), None);
        assert_eq!(client_random(&seed[..76]), None);
    }
}
