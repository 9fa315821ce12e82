//! The DTLS library that is used: `dimpl`.
//!
//! What it has, we do not do; what it lacks is here. Its clock is ours to move: its own timers are
//! set so long that they never run out, and when ours does, its time leaps to where its own would
//! have. So the controller of the peer decides when copies leave. And its servers make cookies of
//! their own, each with its own secret; ours are made before there is a server (`driver/dtls`), so
//! it is given the one that was checked already.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use dimpl::{Dtls, Output};

use super::chain::Chain;
use super::dimpl_config::Lookup;
use super::dimpl_hmac::{Expected, expecting};
use super::hello::Hello;
use super::record::{self, Record};
use super::secure::{DtlsError, DtlsOutput, SecureDatagram};

/// The library's limit on a handshake, beyond every leap of its clock.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(3_000 * 24 * 3_600);
/// Shortest interval at which a server repeats its flight for a peer that repeats the one before.
const AGAIN: Duration = Duration::from_millis(200);

/// A session.
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are facts that do not exclude each other"
)]
pub(crate) struct DimplSession {
    dtls: Dtls,
    /// By how much its clock is before ours.
    leap: Duration,
    /// When it would do something by itself, on its clock.
    due: Option<Instant>,
    /// Our time, as it was last told.
    now: Instant,
    lookup: Option<Arc<Lookup>>,
    /// The PSK identity of the client that is not yet reported; and whether the client sent one.
    identified: Option<(Vec<u8>, bool)>,
    /// The identity that the client has given has no key.
    unknown: bool,
    resolved: bool,
    /// The highest number of a handshake message that has left.
    highest: Option<u16>,
    /// Added to the sequence numbers of records in the clear, so that they continue those of the
    /// cookie exchange; and the last such number.
    shift: u64,
    last_sequence: u64,
    /// The peer has said that what follows is encrypted.
    changed: bool,
    connected: bool,
    not_proven: bool,
    server: bool,
    chain: Chain,
    /// When the last flight was last sent again to who asked.
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

    /// Gives a server's session the hello of a client that has returned this cookie: the library reaches
    /// the state in which it would be had it sent the cookie itself.
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
        self.shift = hello.sequence().saturating_sub(self.last_sequence + 1);
        self.highest = None;
        Ok(())
    }

    /// Moves the library's clock to where it does the next thing by itself.
    fn leap(&mut self) -> Result<(), DtlsError> {
        let Some(due) = self.due.take() else {
            return Ok(());
        };
        self.leap += due.saturating_duration_since(self.now + self.leap);
        self.tick(self.now)
    }

    /// Returns whether a datagram may belong to this live session: records in the clear may be
    /// forged. A client that missed our last flight repeats its own.
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
                // Its own pause between copies is on its own clock.
                self.leap()?;
            }
            return self.feed(datagram);
        }
        let hello = record::first(datagram).and_then(|record| record.message_type()) == Some(1);
        if self.server && hello {
            // It is the one that was accepted: our flight was lost.
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
        // One that has not begun is closed by being dropped.
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
                // Nobody can prove to have the key that stands for one.
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
    /// Numbers a datagram's records in the clear; whether it is no copy.
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
