//! HMAC of the DTLS library, with cookies that were verified before there is a session.

use std::cell::Cell;
use std::sync::OnceLock;

use dimpl::crypto::{CryptoProvider, HmacProvider, rust_crypto};
use dimpl::{CryptoError, HashAlgorithm};

use crate::transport::key_log;

thread_local! {
    /// The cookie of the handshake that [`expecting`] sets up on this thread.
    static EXPECTED: Cell<Option<Expected>> = const { Cell::new(None) };
}

/// The cookie that was sent to the client with this random number, and returned by it.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    pub(super) random: [u8; 32],
    pub(super) cookie: [u8; 32],
}

/// HMAC of the library, with the cookies verified by this transport.
///
/// The library computes a cookie by `hmac_sha256` over the client's random number alone, and
/// everything else, the pseudorandom function included, by `hmac`. Only `hmac_sha256` is replaced,
/// for the random number of the handshake that is being set up.
#[derive(Debug)]
pub(super) struct CookieHmac;

impl HmacProvider for CookieHmac {
    fn hmac_sha256(&self, key: &[u8], data: &[u8]) -> Result<[u8; 32], CryptoError> {
        match EXPECTED.get() {
            Some(expected) if expected.random == data => Ok(expected.cookie),
            _ => real().hmac_provider.hmac_sha256(key, data),
        }
    }

    fn hmac(
        &self,
        hash: HashAlgorithm,
        key: &[u8],
        data: &[u8],
        out: &mut [u8],
    ) -> Result<usize, CryptoError> {
        key_log::see_key_expansion(key, data);
        real().hmac_provider.hmac(hash, key, data, out)
    }
}

/// Runs `set_up` on this thread with an expected cookie, removed at return and at a panic.
pub(super) fn expecting<T>(expected: Expected, set_up: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            EXPECTED.set(None);
        }
    }
    let _reset = Reset;
    EXPECTED.set(Some(expected));
    set_up()
}

pub(super) fn real() -> &'static CryptoProvider {
    static PROVIDER: OnceLock<CryptoProvider> = OnceLock::new();
    PROVIDER.get_or_init(rust_crypto::default_provider)
}

/// HMAC-SHA-256, for cookies.
pub(crate) fn hmac(key: &[u8], data: &[u8]) -> Option<[u8; 32]> {
    real().hmac_provider.hmac_sha256(key, data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: Expected = Expected {
        random: [1; 32],
        cookie: [2; 32],
    };

    #[test]
    fn panic_during_session_setup_leaves_no_cookie_on_thread() {
        let set_up = || expecting(EXPECTED, || panic!("in the library"));
        std::panic::catch_unwind(set_up).expect_err("it panics");
        let after = CookieHmac.hmac_sha256(&[3; 32], &EXPECTED.random);
        assert_eq!(after.ok(), hmac(&[3; 32], &EXPECTED.random));
    }

    #[test]
    fn session_setup_replaces_only_the_hmac_of_its_cookie() {
        expecting(EXPECTED, || {
            let cookie = CookieHmac.hmac_sha256(&[3; 32], &EXPECTED.random);
            assert_eq!(cookie.ok(), Some(EXPECTED.cookie));
            let other = CookieHmac.hmac_sha256(&[3; 32], &[4; 32]);
            assert_eq!(other.ok(), hmac(&[3; 32], &[4; 32]));
            // The pseudorandom function, even over the same bytes.
            let mut prf = [0; 32];
            let written =
                CookieHmac.hmac(HashAlgorithm::SHA256, &[3; 32], &EXPECTED.random, &mut prf);
            assert_eq!(written.ok(), Some(32));
            assert_eq!(Some(prf), hmac(&[3; 32], &EXPECTED.random));
        });
    }
}
