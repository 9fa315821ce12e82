//! Adapter for `dimpl`, the DTLS library.
//!
//! Its retransmission timers are disabled, and its clock is advanced on demand, so that the peer's
//! congestion controller times the flights. Its servers generate cookies themselves, each with its
//! own secret; here a cookie is verified before a session exists, and the session receives it.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use dimpl::{Dtls, Output};

use super::chain::Chain;
use super::dimpl_config::Lookup;
use super::dimpl_hmac::{Expected, expecting};
use super::hello::Hello;
use super::record::{self, Record};
use super::secure::{DtlsError, DtlsOutput, SecureDatagram};

/// The library's limit on a handshake, beyond every advance of its clock.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(3_000 * 24 * 3_600);
/// Shortest interval between retransmissions of a server's flight in reply to retransmissions of
/// the client.
const AGAIN: Duration = Duration::from_millis(200);

/// A session.
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are facts that do not exclude each other"
)]
pub(crate) struct DimplSession {
    dtls: Dtls,
    /// The lead of the library's clock.
    leap: Duration,
    /// The library's next deadline, on its clock.
    due: Option<Instant>,
    /// The current time, as last passed.
    now: Instant,
    lookup: Option<Arc<Lookup>>,
    /// The client's PSK identity, not yet reported; and whether the client sent one.
    identified: Option<(Vec<u8>, bool)>,
    /// The client's identity has no key.
    unknown: bool,
    resolved: bool,
    /// The highest number of a handshake message sent.
    highest: Option<u16>,
    /// Offset of the sequence numbers of plaintext records, which continue from the cookie
    /// exchange; and the last such number.
    shift: u64,
    last_sequence: u64,
    /// The peer's ChangeCipherSpec was received.
    changed: bool,
    connected: bool,
    not_proven: bool,
    server: bool,
    chain: Chain,
    /// The time of the last retransmission in reply to the peer's.
    again: Option<Instant>,
}

impl DimplSession {
    pub(super) fn new(dtls: Dtls, now: Instant, lookup: Option<Arc<Lookup>>) -> Self {
        let server = !dtls.is_active();
        Self {
            dtls,
            leap: Duration::ZERO,
            due: None,
            now,
            lookup,
            identified: None,
            unknown: false,
            resolved: false,
            highest: None,
            shift: 0,
            last_sequence: 0,
            changed: false,
            connected: false,
            not_proven: false,
            server,
            chain: Chain::default(),
            again: None,
        }
    }

    pub(super) fn tick(&mut self, now: Instant) -> Result<(), DtlsError> {
        self.now = self.now.max(now);
        self.dtls
            .handle_timeout(self.now + self.leap)
            .map_err(broken)
    }

    fn feed(&mut self, datagram: &[u8]) -> Result<(), DtlsError> {
        self.dtls.handle_packet(datagram).map_err(broken)
    }

    /// Feeds the ClientHello of a client that returned this cookie: the library reaches the state
    /// as if it had sent the cookie itself.
    pub(super) fn start_from(
        &mut self,
        hello: &Hello<'_>,
        cookie: [u8; 32],
    ) -> Result<(), DtlsError> {
        let expected = Expected {
            random: hello.random(),
            cookie,
        };
        expecting(expected, || {
            self.feed(&hello.without_cookie())?;
            let mut buffer = [0; 256];
            while !matches!(self.poll(&mut buffer), DtlsOutput::Nothing) {}
            self.feed(hello.record())
        })?;
        // The ServerHello has the record number of the ClientHello that it answers (RFC 6347
        // 4.2.1).
        self.shift = hello.sequence().saturating_sub(self.last_sequence + 1);
        self.highest = None;
        Ok(())
    }

    /// Advances the library's clock to its next deadline.
    fn leap(&mut self) -> Result<(), DtlsError> {
        let Some(due) = self.due.take() else {
            return Ok(());
        };
        self.leap += due.saturating_duration_since(self.now + self.leap);
        self.tick(self.now)
    }

    /// Returns whether a datagram may belong to this live session: plaintext records may be forged.
    /// A client that missed the last flight repeats its own.
    fn is_of_session(&self, datagram: &[u8]) -> bool {
        let mut records = record::records(datagram);
        let repeats = self.server
            && records.clone().next().is_some_and(|first| {
                first.epoch == 0 && first.is_handshake() && first.message_type() != Some(1)
            });
        let allowed = |record: Record<'_>| {
            record.epoch == 1 || repeats && (record.is_handshake() || record.is_change())
        };
        records.all(allowed)
    }
}

impl SecureDatagram for DimplSession {
    fn receive(&mut self, now: Instant, datagram: &[u8]) -> Result<(), DtlsError> {
        self.tick(now)?;
        if self.connected {
            if !self.is_of_session(datagram) {
                return Ok(());
            }
            let clear = record::records(datagram).any(|record| record.epoch == 0);
            if clear && self.again.is_none_or(|last| now >= last + AGAIN) {
                self.again = Some(now);
                // The interval between retransmissions is on the library's clock.
                self.leap()?;
            }
            return self.feed(datagram);
        }
        let hello = record::first(datagram).and_then(|record| record.message_type()) == Some(1);
        if self.server && hello {
            // It is the accepted one: the server's flight was lost.
            if self.again.is_some_and(|last| now < last + AGAIN) {
                return Ok(());
            }
            self.again = Some(now);
            return self.leap();
        }
        let mut proof = false;
        for record in record::records(datagram) {
            self.chain.read(&record);
            self.changed |= record.epoch == 0 && record.is_change();
            proof |= record.epoch == 1 && record.is_handshake() && self.changed;
        }
        let fed = self.feed(datagram);
        if let Some(lookup) = &self.lookup {
            let mut last = lookup.last.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = last.take() {
                self.unknown |= !found.1;
                self.identified = Some(found);
                self.resolved = true;
            }
        }
        self.not_proven = proof && self.resolved;
        match fed {
            Err(DtlsError::Library(_)) if self.not_proven => Err(DtlsError::NotProven),
            fed => fed,
        }
    }

    fn send(&mut self, message: &[u8]) -> Result<(), DtlsError> {
        self.dtls
            .send_application_data(message)
            .map(|_| ())
            .map_err(broken)
    }

    fn resend(&mut self, now: Instant) -> Result<(), DtlsError> {
        self.tick(now)?;
        self.leap()
    }

    fn close(&mut self) {
        // A session that has not started is closed by drop.
        let _ = self.dtls.close();
    }

    fn alert(&mut self, number: u8) -> Vec<u8> {
        self.last_sequence += 1;
        record::alert(self.last_sequence + self.shift, number)
    }

    fn chain(&self, own: &[u8]) -> &[Vec<u8>] {
        self.chain.after(own)
    }

    fn poll<'a>(&mut self, buffer: &'a mut [u8]) -> DtlsOutput<'a> {
        enum Step {
            Datagram(usize),
            Message(usize),
            Certificate(usize),
            Connected,
            Closed,
            Timer(Instant),
            Other,
        }
        if let Some((identity, known)) = self.identified.take() {
            return DtlsOutput::Identity { identity, known };
        }
        loop {
            let step = match self.dtls.poll_output(buffer) {
                Output::Packet(bytes) => Step::Datagram(bytes.len()),
                Output::ApplicationData(bytes) => Step::Message(bytes.len()),
                Output::PeerCert(der) => Step::Certificate(der.len()),
                Output::Connected => Step::Connected,
                Output::CloseNotify => Step::Closed,
                Output::Timeout(at) => Step::Timer(at),
                Output::BufferTooSmall { .. } => {
                    debug_assert!(false, "the buffer holds the longest datagram");
                    return DtlsOutput::Nothing;
                }
                _ => Step::Other,
            };
            return match step {
                Step::Datagram(length) => {
                    let fresh = self.leaves(&mut buffer[..length]);
                    DtlsOutput::Datagram {
                        bytes: &buffer[..length],
                        fresh,
                    }
                }
                Step::Message(length) => DtlsOutput::Message(&buffer[..length]),
                Step::Certificate(length) => DtlsOutput::Certificate(&buffer[..length]),
                // A dummy key cannot be proven.
                Step::Connected if self.unknown => DtlsOutput::NotProven,
                Step::Connected => {
                    self.connected = true;
                    self.chain = Chain::default();
                    self.not_proven = false;
                    DtlsOutput::Connected
                }
                Step::Closed => DtlsOutput::Closed,
                Step::Timer(at) => {
                    let soon = at.saturating_duration_since(self.now + self.leap) < HANDSHAKE / 2;
                    self.due = soon.then_some(at);
                    if std::mem::take(&mut self.not_proven) {
                        return DtlsOutput::NotProven;
                    }
                    DtlsOutput::Nothing
                }
                Step::Other => continue,
            };
        }
    }
}

impl DimplSession {
    /// Numbers the plaintext records of a datagram; returns whether it is no retransmission.
    fn leaves(&mut self, datagram: &mut [u8]) -> bool {
        let mut fresh = self.connected;
        let mut at = 0;
        while let Some(record) = record::first(&datagram[at..]) {
            let length = record.length();
            if record.epoch == 0 {
                if let Some(number) = record.message_number() {
                    fresh |= self.highest.is_none_or(|highest| number > highest);
                    self.highest = self.highest.max(Some(number));
                }
                self.last_sequence = self.last_sequence.max(record.sequence);
                let sequence = record.sequence + self.shift;
                record::number(&mut datagram[at..], sequence);
            }
            at += length;
        }
        fresh
    }
}

fn broken(error: dimpl::Error) -> DtlsError {
    use dimpl::{Error, SecurityError};
    match error {
        Error::SecurityError(SecurityError::FatalAlert { description }) => {
            DtlsError::Alert(description)
        }
        Error::SecurityError(
            SecurityError::NoMutuallyAcceptableCipherSuite
            | SecurityError::ServerSelectedUnknownCipherSuite
            | SecurityError::ServerSelectedIncompatibleCipherSuite(_)
            | SecurityError::ServerSelectedDisallowedCipherSuite(_),
        ) => DtlsError::NoCommonSuite,
        other => DtlsError::Library(other.to_string()),
    }
}
