//! Echo values: address validation and request freshness (RFC 9175 2).
//!
//! A value is a MAC over the client's address and the time, so a challenge needs no state. Time is
//! divided into epochs of half a value's lifetime. The epoch is not in the value: the server tries
//! the present and the previous one. A value is therefore valid for half its lifetime at least, and
//! for its lifetime at most. It may be used more than once within that time.
//!
//! With eight bytes, a challenge is at most three times as long as any request with a token or a
//! path. Guessing a value takes 2^63 datagrams on average. The MAC is SipHash-2-4 with a random
//! 128-bit key. A restarted server has another key and challenges again.

use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};

use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};
use siphasher::sip::SipHasher24;

/// Bytes of an Echo value of this endpoint; others' have up to 40.
pub(crate) const ECHO_BYTES: usize = 8;

/// An Echo value of a server, of at most 40 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerEcho {
    bytes: [u8; 40],
    length: u8,
}

impl PeerEcho {
    /// Stores an option value; `None` if its length is not permitted.
    pub(crate) fn new(value: &[u8]) -> Option<Self> {
        let mut bytes = [0; 40];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        (!value.is_empty()).then_some(Self {
            bytes,
            length: value.len() as u8,
        })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length.into()).unwrap_or_default()
    }
}

/// Creates and verifies Echo values.
#[derive(Clone, Default)]
pub(crate) struct Challenges {
    /// The key, drawn on first use, so that endpoints without challenges draw none.
    key: Option<[u8; 16]>,
}

impl core::fmt::Debug for Challenges {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Challenges") // the key is secret
    }
}

impl Challenges {
    /// A value for a peer, valid for `lifetime` at most.
    pub(crate) fn value(
        &mut self,
        random: &mut dyn Random,
        now: Instant,
        lifetime: Duration,
        peer: SocketAddr,
    ) -> [u8; ECHO_BYTES] {
        let key = *self.key.get_or_insert_with(|| {
            let mut key = [0; 16];
            for word in key.chunks_exact_mut(4) {
                word.copy_from_slice(&random.next_u32().to_be_bytes());
            }
            key
        });
        code(&key, epoch(now, lifetime), peer).to_be_bytes()
    }

    /// Returns whether a value is a valid one of this endpoint for this peer.
    pub(crate) fn check(
        &self,
        now: Instant,
        lifetime: Duration,
        peer: SocketAddr,
        value: &[u8],
    ) -> bool {
        let (Some(key), Ok(value)) = (&self.key, <[u8; ECHO_BYTES]>::try_from(value)) else {
            return false;
        };
        let (value, epoch) = (u64::from_be_bytes(value), epoch(now, lifetime));
        // Compares both as integers: constant time reveals nothing.
        let mut wrong = value ^ code(key, epoch, peer);
        if let Some(before) = epoch.checked_sub(1) {
            let other = value ^ code(key, before, peer);
            wrong = if wrong == 0 { wrong } else { other };
        }
        wrong == 0
    }
}

fn epoch(now: Instant, lifetime: Duration) -> u64 {
    now.since(Instant::ZERO).as_micros() / (lifetime.as_micros() / 2).max(1)
}

fn code(key: &[u8; 16], epoch: u64, peer: SocketAddr) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    // A socket of both families shows IPv4 peers mapped; both forms are one peer.
    let ip = match peer.ip().to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut message = [0; 26];
    message[..8].copy_from_slice(&epoch.to_be_bytes());
    message[8..24].copy_from_slice(&ip.octets());
    message[24..].copy_from_slice(&peer.port().to_be_bytes());
    hasher.write(&message);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(60);

    struct Count(u32);

    impl Random for Count {
        fn next_u32(&mut self) -> u32 {
            self.0 += 1;
            self.0
        }
    }

    fn peer(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn echo_value_is_bound_to_peer_and_time() {
        let mut challenges = Challenges::default();
        let here = peer("[2001:db8::1]:5683");
        let value = challenges.value(&mut Count(0), at(100), LIFETIME, here);
        let good = |now, from, value: &[u8]| challenges.check(at(now), LIFETIME, from, value);
        // It was made in the epoch from 90 s on.
        for now in [100, 119, 120, 149] {
            assert!(good(now, here, &value), "{now}");
        }
        for now in [0, 89, 150, 1_000] {
            assert!(!good(now, here, &value), "{now}");
        }
        assert!(!good(100, peer("[2001:db8::1]:5684"), &value));
        assert!(!good(100, peer("[2001:db8::2]:5683"), &value));
        for bit in 0..64 {
            let other = (u64::from_be_bytes(value) ^ 1 << bit).to_be_bytes();
            assert!(!good(100, here, &other));
        }
        assert!(!good(100, here, &value[..7]) && !good(100, here, &[]));
    }

    #[test]
    fn another_key_makes_other_values() {
        let here = peer("192.0.2.1:5683");
        let (mut one, mut two) = (Challenges::default(), Challenges::default());
        assert!(!one.check(at(0), LIFETIME, here, &[0; 8]), "none was given");
        let value = one.value(&mut Count(0), at(0), LIFETIME, here);
        assert_ne!(two.value(&mut Count(9), at(0), LIFETIME, here), value);
        assert!(!two.check(at(0), LIFETIME, here, &value));
        assert!(one.check(at(0), LIFETIME, peer("[::ffff:192.0.2.1]:5683"), &value));
    }

    #[test]
    fn the_code_is_siphash_2_4() {
        // The published vector of SipHash-2-4 for the key 00..0f and the message 00..0e.
        let key: [u8; 16] = core::array::from_fn(|n| n as u8);
        let message: [u8; 15] = core::array::from_fn(|n| n as u8);
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write(&message);
        assert_eq!(hasher.finish(), 0xa129_ca61_49be_45e5);
    }
}
