//! The DTLS session of a source port, and the timer of its handshake: 1 s, then twice as long each
//! time, restarted for each flight (RFC 6347 4.2.4.1).

use carob::dtls::{ClientSession, HandshakeError, SESSION_BUFFER, SessionOutput};
use carob_cc::time::{Duration, Instant};
use carob_proto::endpoint::SessionEnd;

use super::plan::Target;
use super::socket::Outbox;

/// The first timer of a flight, and the longest.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A handshake under way.
#[derive(Debug)]
struct Handshake {
    /// When its flight leaves again, or it is given up.
    due: Instant,
    timeout: Duration,
    until: Instant,
}

/// A session, or the handshake that is to make one.
#[derive(Debug)]
pub(super) struct Session {
    inner: ClientSession,
    handshake: Option<Handshake>,
}

/// Change of a session's state.
#[derive(Debug)]
pub(super) enum Happened {
    Connected,
    Failed(HandshakeError),
    Ended(SessionEnd),
}

/// Buffer for the output of sessions, shared by all of a thread.
#[derive(Debug, Default)]
pub(super) struct Room {
    buffer: Vec<u8>,
    /// Messages that have come, and where each ends.
    inbox: Vec<u8>,
    ends: Vec<usize>,
}

impl Room {
    /// Room for sessions, if there are to be any.
    pub(super) fn new(secured: bool) -> Self {
        let bytes = if secured { SESSION_BUFFER } else { 0 };
        Self {
            buffer: vec![0; bytes],
            ..Self::default()
        }
    }

    /// Takes the messages out, to be [given back](Self::give_back).
    pub(super) fn take(&mut self) -> (Vec<u8>, Vec<usize>) {
        (
            core::mem::take(&mut self.inbox),
            core::mem::take(&mut self.ends),
        )
    }

    pub(super) fn give_back(&mut self, (mut inbox, mut ends): (Vec<u8>, Vec<usize>)) {
        inbox.clear();
        ends.clear();
        (self.inbox, self.ends) = (inbox, ends);
    }
}

impl Session {
    /// Begins a handshake, which ends within `limit`.
    pub(super) fn begin(
        target: &Target,
        now: Instant,
        limit: std::time::Duration,
    ) -> Result<Self, HandshakeError> {
        let Some(secure) = &target.secure else {
            let problem = "the target has no credentials".to_owned();
            return Err(HandshakeError::NoCredential { problem });
        };
        let (server, name) = (target.address, secure.name.as_ref());
        let inner = secure.sessions.connect(now, server, name)?;
        let until = now + Duration::from(limit);
        let handshake = Some(Handshake {
            due: (now + FIRST_TIMEOUT).min(until),
            timeout: FIRST_TIMEOUT,
            until,
        });
        Ok(Self { inner, handshake })
    }

    pub(super) fn is_connecting(&self) -> bool {
        self.handshake.is_some()
    }

    /// When it is to be [looked at](Self::expire).
    pub(super) fn due(&self) -> Option<Instant> {
        self.handshake.as_ref().map(|handshake| handshake.due)
    }

    /// The suite's name, once it is chosen.
    pub(super) fn suite(&self) -> Option<&'static str> {
        self.inner.suite()
    }

    pub(super) fn receive(
        &mut self,
        now: Instant,
        datagram: &[u8],
        room: &mut Room,
        outbox: &mut Outbox,
    ) -> Option<Happened> {
        self.inner.receive(now, datagram);
        self.drain(now, room, outbox)
    }

    /// Sends a message; it is lost if the session cannot take it.
    pub(super) fn send(&mut self, message: &[u8], room: &mut Room, outbox: &mut Outbox) {
        if self.inner.send(message).is_ok() {
            while let SessionOutput::Datagram { bytes, .. } = self.inner.poll(&mut room.buffer) {
                outbox.push(bytes);
            }
        }
    }

    /// Handles the timer: retransmits a flight, or gives the handshake up.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        room: &mut Room,
        outbox: &mut Outbox,
    ) -> Option<Happened> {
        let handshake = self.handshake.as_mut().filter(|of| of.due <= now)?;
        if now >= handshake.until {
            self.handshake = None;
            return Some(Happened::Failed(self.inner.given_up()));
        }
        handshake.timeout = (handshake.timeout + handshake.timeout).min(LONGEST_TIMEOUT);
        handshake.due = (now + handshake.timeout).min(handshake.until);
        self.inner.resend(now);
        self.drain(now, room, outbox)
    }

    /// Sends close_notify.
    pub(super) fn close(&mut self, room: &mut Room, outbox: &mut Outbox) {
        self.inner.close();
        while let SessionOutput::Datagram { bytes, .. } = self.inner.poll(&mut room.buffer) {
            outbox.push(bytes);
        }
    }

    /// Executes the session's outputs until there are none.
    pub(super) fn drain(
        &mut self,
        now: Instant,
        room: &mut Room,
        outbox: &mut Outbox,
    ) -> Option<Happened> {
        let mut happened = None;
        loop {
            match self.inner.poll(&mut room.buffer) {
                SessionOutput::Datagram { bytes, fresh } => {
                    outbox.push(bytes);
                    if let Some(handshake) = self.handshake.as_mut().filter(|_| fresh) {
                        handshake.timeout = FIRST_TIMEOUT;
                        handshake.due = (now + FIRST_TIMEOUT).min(handshake.until);
                    }
                }
                SessionOutput::Message(bytes) => {
                    room.inbox.extend_from_slice(bytes);
                    room.ends.push(room.inbox.len());
                }
                SessionOutput::Connected => {
                    self.handshake = None;
                    happened = Some(Happened::Connected);
                }
                SessionOutput::Failed(why) => {
                    self.handshake = None;
                    happened = Some(Happened::Failed(why));
                }
                SessionOutput::Ended(why) => happened = Some(Happened::Ended(why)),
                SessionOutput::Nothing => return happened,
                _ => debug_assert!(false, "an output unknown to this driver"),
            }
        }
    }
}
