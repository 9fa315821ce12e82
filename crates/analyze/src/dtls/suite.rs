//! Cipher suites of DTLS 1.2 with authenticated encryption, and their key derivation (RFC 5246
//! sections 5, 6.3, 8.1).

use aes::{Aes128, Aes256};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use ccm::Ccm;
use ccm::aead::consts::{U8, U12, U16};
use ccm::aead::{Aead, KeyInit as _, Payload};
use chacha20poly1305::ChaCha20Poly1305;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256, Sha384};

use super::secrets::{MASTER_BYTES, RANDOM_BYTES};

type Aes128Ccm = Ccm<Aes128, U16, U12>;
type Aes256Ccm = Ccm<Aes256, U16, U12>;
type Aes128Ccm8 = Ccm<Aes128, U8, U12>;
type Aes256Ccm8 = Ccm<Aes256, U8, U12>;

/// Bytes of the nonce in each record, which is also the length of its number.
const EXPLICIT_BYTES: usize = 8;
const NONCE_BYTES: usize = 12;
/// Bytes of a header of a record.
const HEADER_BYTES: usize = 13;

/// Authenticated ciphers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cipher {
    Aes128Ccm,
    Aes256Ccm,
    Aes128Ccm8,
    Aes256Ccm8,
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

impl Cipher {
    const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Ccm | Self::Aes128Ccm8 | Self::Aes128Gcm => 16,
            Self::Aes256Ccm | Self::Aes256Ccm8 | Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Bytes of a nonce that the handshake sets.
    const fn fixed_bytes(self) -> usize {
        match self {
            Self::ChaCha20Poly1305 => NONCE_BYTES,
            _ => NONCE_BYTES - EXPLICIT_BYTES,
        }
    }

    const fn tag_bytes(self) -> usize {
        match self {
            Self::Aes128Ccm8 | Self::Aes256Ccm8 => 8,
            _ => 16,
        }
    }

    fn open(
        self,
        key: &[u8],
        nonce: &[u8; NONCE_BYTES],
        sealed: &[u8],
        header: &[u8],
    ) -> Option<Vec<u8>> {
        let payload = Payload {
            msg: sealed,
            aad: header,
        };
        match self {
            Self::Aes128Ccm => open::<Aes128Ccm>(key, nonce, payload),
            Self::Aes256Ccm => open::<Aes256Ccm>(key, nonce, payload),
            Self::Aes128Ccm8 => open::<Aes128Ccm8>(key, nonce, payload),
            Self::Aes256Ccm8 => open::<Aes256Ccm8>(key, nonce, payload),
            Self::Aes128Gcm => open::<Aes128Gcm>(key, nonce, payload),
            Self::Aes256Gcm => open::<Aes256Gcm>(key, nonce, payload),
            Self::ChaCha20Poly1305 => open::<ChaCha20Poly1305>(key, nonce, payload),
        }
    }
}

fn open<C: Aead + ccm::aead::KeyInit>(
    key: &[u8],
    nonce: &[u8; NONCE_BYTES],
    payload: Payload<'_, '_>,
) -> Option<Vec<u8>> {
    let cipher = C::new_from_slice(key).ok()?;
    let nonce = nonce[..].try_into().ok()?;
    cipher.decrypt(nonce, payload).ok()
}

/// Hashes of pseudorandom functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha384,
}

impl Hash {
    fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha384 => Sha384::digest(bytes).to_vec(),
        }
    }

    fn hmac(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => {
                let mac = Hmac::<Sha256>::new_from_slice(key);
                let mac = mac.map(|mac| mac.chain_update(bytes).finalize().into_bytes().to_vec());
                mac.unwrap_or_default()
            }
            Self::Sha384 => {
                let mac = Hmac::<Sha384>::new_from_slice(key);
                let mac = mac.map(|mac| mac.chain_update(bytes).finalize().into_bytes().to_vec());
                mac.unwrap_or_default()
            }
        }
    }

    /// The pseudorandom function (RFC 5246 section 5).
    fn expand(self, secret: &[u8], label: &str, seed: &[&[u8]], length: usize) -> Vec<u8> {
        let seed = [&[label.as_bytes()], seed].concat().concat();
        let mut chained = self.hmac(secret, &seed);
        let mut output = Vec::with_capacity(length + chained.len());
        while output.len() < length {
            output.extend(self.hmac(secret, &[&chained[..], &seed].concat()));
            chained = self.hmac(secret, &chained);
        }
        output.truncate(length);
        output
    }
}

/// A cipher suite that can be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suite {
    cipher: Cipher,
    hash: Hash,
    /// True where a pre-shared key alone gives the master secret.
    pub(super) is_psk: bool,
}

impl Suite {
    /// The suite of a number of the registry of TLS.
    pub(super) fn of(number: u16) -> Option<Self> {
        use Cipher::{
            Aes128Ccm, Aes128Ccm8, Aes128Gcm, Aes256Ccm, Aes256Ccm8, Aes256Gcm, ChaCha20Poly1305,
        };
        use Hash::{Sha256, Sha384};
        let (cipher, hash, is_psk) = match number {
            // PSK (RFC 5487, RFC 6655, RFC 7905).
            0x00a8 => (Aes128Gcm, Sha256, true),
            0x00a9 => (Aes256Gcm, Sha384, true),
            0xc0a4 => (Aes128Ccm, Sha256, true),
            0xc0a5 => (Aes256Ccm, Sha256, true),
            0xc0a8 => (Aes128Ccm8, Sha256, true),
            0xc0a9 => (Aes256Ccm8, Sha256, true),
            0xccab => (ChaCha20Poly1305, Sha256, true),
            // ECDHE_ECDSA, ECDHE_RSA and ECDHE_PSK (RFC 5289, RFC 7251, RFC 7905, RFC 8442).
            0xc02b | 0xc02f | 0xd001 => (Aes128Gcm, Sha256, false),
            0xc02c | 0xc030 | 0xd002 => (Aes256Gcm, Sha384, false),
            0xc0ac | 0xd005 => (Aes128Ccm, Sha256, false),
            0xc0ad => (Aes256Ccm, Sha256, false),
            0xc0ae | 0xd003 => (Aes128Ccm8, Sha256, false),
            0xc0af => (Aes256Ccm8, Sha256, false),
            0xcca8 | 0xcca9 | 0xccac => (ChaCha20Poly1305, Sha256, false),
            _ => return None,
        };
        Some(Self {
            cipher,
            hash,
            is_psk,
        })
    }

    /// The master secret of a pre-shared key (RFC 4279 section 2). `transcript` holds the handshake up
    /// to the key exchange, if the master secret is an extended one (RFC 7627 section 4).
    pub(super) fn master_of_key(
        self,
        key: &[u8],
        [client, server]: [&[u8; RANDOM_BYTES]; 2],
        transcript: Option<&[u8]>,
    ) -> Option<[u8; MASTER_BYTES]> {
        let length = u16::try_from(key.len()).ok()?.to_be_bytes();
        let zeros = vec![0; key.len()];
        let premaster = [&length[..], &zeros, &length[..], key].concat();
        let master = if let Some(all) = transcript {
            let hash = self.hash.digest(all);
            let label = "extended master secret";
            (self.hash).expand(&premaster, label, &[&hash], MASTER_BYTES)
        } else {
            let seed: [&[u8]; 2] = [client, server];
            (self.hash).expand(&premaster, "master secret", &seed, MASTER_BYTES)
        };
        master.try_into().ok()
    }

    /// The keys of both directions.
    pub(super) fn keys(
        self,
        master: &[u8; MASTER_BYTES],
        [client, server]: [&[u8; RANDOM_BYTES]; 2],
    ) -> Keys {
        let (key, fixed) = (self.cipher.key_bytes(), self.cipher.fixed_bytes());
        let seed: [&[u8]; 2] = [server, client];
        let block = (self.hash).expand(master, "key expansion", &seed, 2 * (key + fixed));
        let (keys, nonces) = block.split_at(2 * key);
        Keys {
            cipher: self.cipher,
            of_sides: [&keys[..key], &keys[key..]].map(<[u8]>::to_vec),
            nonces: [&nonces[..fixed], &nonces[fixed..]].map(<[u8]>::to_vec),
        }
    }
}

/// Keys and fixed nonces of the client's and of the server's records.
pub(super) struct Keys {
    cipher: Cipher,
    of_sides: [Vec<u8>; 2],
    nonces: [Vec<u8>; 2],
}

impl Keys {
    /// The content of a record of the client (0) or the server (1); `None` if it was not sealed with
    /// these keys.
    pub(super) fn open(
        &self,
        side: usize,
        header: &[u8; HEADER_BYTES],
        body: &[u8],
    ) -> Option<Vec<u8>> {
        let number = &header[3..11];
        let fixed = &self.nonces[side];
        let mut nonce = [0; NONCE_BYTES];
        let sealed = if self.cipher == Cipher::ChaCha20Poly1305 {
            // RFC 7905 section 2.
            nonce.copy_from_slice(fixed);
            for (byte, of_number) in nonce[NONCE_BYTES - EXPLICIT_BYTES..].iter_mut().zip(number) {
                *byte ^= of_number;
            }
            body
        } else {
            let (explicit, sealed) = body.split_at_checked(EXPLICIT_BYTES)?;
            nonce[..fixed.len()].copy_from_slice(fixed);
            nonce[fixed.len()..].copy_from_slice(explicit);
            sealed
        };
        let length = sealed.len().checked_sub(self.cipher.tag_bytes())?;
        let length = u16::try_from(length).ok()?.to_be_bytes();
        let authenticated = [number, &header[..3], &length].concat();
        self.cipher
            .open(&self.of_sides[side], &nonce, sealed, &authenticated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudorandom_function_matches_a_published_vector() {
        // "Test vectors for TLS 1.2 PRF" on the list of the IETF's working group TLS, for SHA-256.
        let secret = [
            0x9b, 0xbe, 0x43, 0x6b, 0xa9, 0x40, 0xf0, 0x17, 0xb1, 0x76, 0x52, 0x84, 0x9a, 0x71,
            0xdb, 0x35,
        ];
        let seed = [
            0xa0, 0xba, 0x9f, 0x93, 0x6c, 0xda, 0x31, 0x18, 0x27, 0xa6, 0xf7, 0x96, 0xff, 0xd5,
            0x19, 0x8c,
        ];
        let output = Hash::Sha256.expand(&secret, "test label", &[&seed], 100);
        assert_eq!(
            output[..8],
            [0xe3, 0xf2, 0x29, 0xba, 0x72, 0x7b, 0xe1, 0x7b]
        );
        assert_eq!(output.len(), 100);
    }

    #[test]
    fn sealed_records_open_with_their_key_only() {
        use ccm::aead::Payload;
        let suite = Suite::of(0xc0a8).expect("known");
        let (client, server) = ([1; 32], [2; 32]);
        let keys = suite.keys(&[3; 48], [&client, &server]);
        let header = [23, 0xfe, 0xfd, 0, 1, 0, 0, 0, 0, 0, 5, 0, 0];
        let explicit = [0, 1, 0, 0, 0, 0, 0, 5];
        let nonce: Vec<u8> = [&keys.nonces[0][..], &explicit].concat();
        let aad = [&header[3..11], &header[..3], &[0, 4]].concat();
        let cipher = Aes128Ccm8::new_from_slice(&keys.of_sides[0]).expect("a key");
        let payload = Payload {
            msg: b"ping",
            aad: &aad,
        };
        let nonce = nonce[..].try_into().expect("a nonce");
        let sealed = cipher.encrypt(nonce, payload).expect("sealed");
        let body = [&explicit[..], &sealed].concat();
        assert_eq!(keys.open(0, &header, &body).as_deref(), Some(&b"ping"[..]));
        assert_eq!(keys.open(1, &header, &body), None);
        for cut in 0..body.len() {
            assert_eq!(keys.open(0, &header, &body[..cut]), None, "{cut}");
        }
        let other = suite.keys(&[4; 48], [&client, &server]);
        assert_eq!(other.open(0, &header, &body), None);
    }
}
