//! The ClientHello, and the cookie that validates the client's address before any state is stored
//! (RFC 6347 4.2.1).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use carob_cc::time::Instant;

use super::record::{self, HANDSHAKE_HEADER, RECORD_HEADER};
use crate::transport::dtls::dimpl_hmac::hmac;

const CLIENT_HELLO: u8 = 1;
const HELLO_VERIFY_REQUEST: u8 = 3;
/// Bytes of a cookie.
const COOKIE: usize = 32;
/// Lifetime of a cookie secret; a cookie is accepted for this long and up to as long again.
const PERIOD: Duration = Duration::from_secs(60);

/// A ClientHello, complete and in the first record of its datagram.
///
/// A fragmented one is ignored, because its reassembly would need state for an unvalidated address;
/// a ClientHello of CoAP's suites is much shorter than a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hello<'a> {
    record: &'a [u8],
    sequence: u64,
    number: u16,
    random: [u8; 32],
    /// The range of the cookie in the message body.
    cookie: (usize, usize),
    suites: &'a [u8],
    /// The offset of the extensions.
    extensions: usize,
}

impl<'a> Hello<'a> {
    /// Parses the ClientHello at the start of a datagram.
    pub(crate) fn read(datagram: &'a [u8]) -> Option<Self> {
        let first = record::first(datagram)?;
        if first.message_type() != Some(CLIENT_HELLO) {
            return None;
        }
        let number = first.message_number()?;
        let (header, body) = first.body.split_at_checked(HANDSHAKE_HEADER)?;
        let length = [0, header[1], header[2], header[3]];
        // A fragmented ClientHello would need state before the address is validated.
        let whole = header[6..9] == [0; 3] && header[9..12] == header[1..4];
        if !whole || u32::from_be_bytes(length) as usize != body.len() {
            return None;
        }
        let random = *body.get(2..)?.first_chunk()?;
        let session = 34;
        let before = session + 1 + usize::from(*body.get(session)?);
        let length = usize::from(*body.get(before)?);
        let cookie = (before + 1, before + 1 + length);
        let suites = body.get(cookie.1..)?;
        let (length, rest) = suites.split_first_chunk()?;
        let suites = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
        let compression = cookie.1 + 2 + suites.len();
        let extensions = compression + 1 + usize::from(*body.get(compression)?);
        body.get(compression..extensions)?;
        Some(Self {
            record: &datagram[..first.length()],
            sequence: first.sequence,
            number,
            random,
            cookie,
            suites,
            extensions,
        })
    }

    /// The record.
    pub(crate) fn record(&self) -> &'a [u8] {
        self.record
    }

    /// The record's number.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The client random, which distinguishes two handshakes.
    pub(crate) fn random(&self) -> [u8; 32] {
        self.random
    }

    fn body(&self) -> &'a [u8] {
        &self.record[RECORD_HEADER + HANDSHAKE_HEADER..]
    }

    /// The cookie, in the second ClientHello of a handshake.
    pub(crate) fn cookie(&self) -> Option<[u8; COOKIE]> {
        let cookie = &self.body()[self.cookie.0..self.cookie.1];
        // The second ClientHello has message number 1; the first cannot have a cookie yet.
        (self.number == 1).then(|| cookie.try_into().ok()).flatten()
    }

    /// The offered suites, by preference.
    pub(crate) fn suites(&self) -> impl Iterator<Item = u16> + use<'a> {
        let pairs = self.suites.chunks_exact(2);
        pairs.map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
    }

    /// The parameters that a client must repeat: version, random number, session, suites and
    /// compression (RFC 6347 4.2.1). Its extensions may change, as in Go's library.
    fn parameters(&self) -> [&'a [u8]; 2] {
        let body = self.body();
        [
            &body[..self.cookie.0 - 1],
            &body[self.cookie.1..self.extensions],
        ]
    }

    /// The body without the cookie.
    fn bare(&self) -> Vec<u8> {
        let body = self.body();
        let mut bare = body[..self.cookie.0].to_vec();
        bare[self.cookie.0 - 1] = 0;
        bare.extend_from_slice(&body[self.cookie.1..]);
        bare
    }

    /// The first ClientHello of this handshake, reconstructed.
    pub(crate) fn without_cookie(&self) -> Vec<u8> {
        record::handshake(CLIENT_HELLO, 0xfd, 0, 0, &self.bare())
    }
}

/// Stateless generator and verifier of cookies.
pub(crate) struct Cookies {
    secret: [u8; 32],
}

impl Cookies {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self { secret }
    }

    fn cookie(
        &self,
        period: u64,
        from: SocketAddr,
        own: Option<IpAddr>,
        hello: &Hello<'_>,
    ) -> Option<[u8; COOKIE]> {
        let mut of = period.to_be_bytes().to_vec();
        for address in [Some(from.ip()), own] {
            match address {
                Some(IpAddr::V4(v4)) => of.extend_from_slice(&v4.to_ipv6_mapped().octets()),
                Some(IpAddr::V6(v6)) => of.extend_from_slice(&v6.octets()),
                None => of.extend_from_slice(&[0; 16]),
            }
        }
        of.extend_from_slice(&from.port().to_be_bytes());
        // Both ClientHellos must have the same parameters (RFC 6347 4.2.1).
        for part in hello.parameters() {
            of.extend_from_slice(part);
        }
        hmac(&self.secret, &of)
    }

    fn period(now: Instant) -> u64 {
        now.as_micros() / PERIOD.as_micros() as u64
    }

    /// Returns the cookie of a ClientHello, if it is the one that was sent.
    pub(crate) fn check(
        &self,
        now: Instant,
        from: SocketAddr,
        own: Option<IpAddr>,
        hello: &Hello<'_>,
    ) -> Option<[u8; COOKIE]> {
        let given = hello.cookie()?;
        let period = Self::period(now);
        let matches = |period| {
            let made = self.cookie(period, from, own, hello)?;
            // Compared in constant time, so that a partial match cannot be measured.
            let differ = made.iter().zip(&given).fold(0, |all, (a, b)| all | (a ^ b));
            (differ == 0).then_some(given)
        };
        // A cookie of the end of the last period is valid for one more.
        matches(period).or_else(|| matches(period.checked_sub(1)?))
    }

    /// The HelloVerifyRequest for a client without a cookie: shorter than its ClientHello and
    /// stateless.
    pub(crate) fn ask(
        &self,
        now: Instant,
        from: SocketAddr,
        own: Option<IpAddr>,
        hello: &Hello<'_>,
    ) -> Option<Vec<u8>> {
        let cookie = self.cookie(Self::period(now), from, own, hello)?;
        // The version is DTLS 1.0 regardless of the negotiated one (RFC 6347 4.2.1).
        let mut body = vec![0xfe, 0xff, COOKIE as u8];
        body.extend_from_slice(&cookie);
        let answer = record::handshake(HELLO_VERIFY_REQUEST, 0xff, hello.sequence, 0, &body);
        // No amplification: the answer goes to an address that may be forged.
        (answer.len() <= hello.record.len()).then_some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(number: u16, cookie: &[u8]) -> Vec<u8> {
        let mut body = vec![0xfe, 0xfd];
        body.extend_from_slice(&[7; 32]);
        body.push(0);
        body.push(cookie.len() as u8);
        body.extend_from_slice(cookie);
        body.extend_from_slice(&[0, 4, 0xc0, 0xa8, 0x00, 0xff, 1, 0]);
        record::handshake(CLIENT_HELLO, 0xfd, 5, number, &body)
    }

    fn from(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    fn minutes(minutes: u64) -> Instant {
        Instant::from_micros(minutes * 60_000_000)
    }

    #[test]
    fn cookie_is_bound_to_address_hello_and_time() {
        let cookies = Cookies::new([9; 32]);
        let bytes = hello(0, &[]);
        let bare = Hello::read(&bytes).expect("it is one");
        assert_eq!(bare.suites().collect::<Vec<_>>(), [0xc0a8, 0x00ff]);
        let answer = cookies
            .ask(minutes(5), from(1), None, &bare)
            .expect("it is longer");
        assert!(answer.len() <= bytes.len(), "no amplification");
        let cookie = &answer[answer.len() - COOKIE..];
        let bytes = hello(1, cookie);
        let second = Hello::read(&bytes).expect("it is one");
        assert_eq!(second.without_cookie()[13..], hello(0, &[])[13..]);
        let mut extended = hello(1, cookie);
        extended.extend_from_slice(&[0, 4, 0, 23, 0, 0]);
        for place in [12, 16, 24] {
            extended[place] += 6;
        }
        let other = Hello::read(&extended).expect("it is one");
        assert_eq!(other.bare().len(), bare.bare().len() + 6);
        let checked = cookies.check(minutes(5), from(1), None, &other);
        assert!(checked.is_some(), "extensions may come");
        let check = |now, from, own| cookies.check(now, from, own, &second).is_some();
        assert!(check(minutes(5), from(1), None) && check(minutes(6), from(1), None));
        assert!(!check(minutes(7), from(1), None), "it is too old");
        assert!(!check(minutes(5), from(2), None), "it is another's");
        let elsewhere = Some([192, 0, 2, 9].into());
        assert!(
            !check(minutes(5), from(1), elsewhere),
            "it is for another address of ours"
        );
        let other = Cookies::new([8; 32]);
        assert!(other.check(minutes(5), from(1), None, &second).is_none());
    }

    #[test]
    fn truncated_or_fragmented_hello_is_rejected() {
        let whole = hello(1, &[3; 32]);
        for end in 0..whole.len() {
            assert!(Hello::read(&whole[..end]).is_none(), "{end}");
        }
        for place in 13..60 {
            let mut changed = whole.clone();
            for value in [0, 1, 0x7f, 0xff] {
                changed[place] = value;
                if let Some(hello) = Hello::read(&changed) {
                    // None of these may panic.
                    let _ = (
                        hello.cookie(),
                        hello.suites().count(),
                        hello.without_cookie(),
                    );
                }
            }
        }
    }
}
