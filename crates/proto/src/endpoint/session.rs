//! Sessions, where datagrams are secured (RFC 7252 9.1): what waits for one, what ends with it, and
//! the timers of the handshake that makes it.
//!
//! The driver has the keys. The engine asks it for a session before anything goes to a peer, and is
//! told when there is one, and when it ends. A message belongs to the session that it came or went
//! in: with the session ends everything that was under way in it, so that nothing of it is ever
//! matched with, or sent in, another (RFC 7252 9.1.1, 9.1.2).

use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use carob_cc::TransmissionParameters;
use carob_cc::controller::Timer;
use carob_cc::evidence::{
    Abandoned, Answer, Answered, Expired, Lost, Reason, Sent, Signal, Start, Transmission,
};
use carob_cc::time::{Duration, Instant};
use smallvec::SmallVec;

use super::exchange::State;
use super::{Endpoint, Failure, Queued};
use crate::congestion::{Choice, Congestion};
use crate::peer::PeerIndex;

/// What is known of a peer's session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Session {
    /// Nothing.
    #[default]
    Unknown,
    /// The driver was asked for one.
    Wanted,
    /// It is there.
    Open,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEnd {
    /// The peer closed it.
    Closed,
    /// The peer broke it off.
    Broken,
    /// Another took its place.
    Replaced,
    /// Nothing went through it for long, or others needed its room.
    Idle,
    /// The peer did not answer in it.
    Silent,
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the peer closed the session",
            Self::Broken => "the peer broke the session off",
            Self::Replaced => "another session has taken the place of the one it was sent in",
            Self::Silent => "the peer has fallen silent, and its session was given up",
            Self::Idle => "the session was closed to make room, or for want of use",
        })
    }
}

/// Messages of a handshake that go together and are answered together (RFC 6347 4.2.4), as the
/// peer's controller sees them: an exchange.
#[derive(Debug)]
pub struct Flight {
    peer: SocketAddr,
    timer: Timer,
    bytes: u32,
    transmissions: SmallVec<[Transmission; 2]>,
}

impl Flight {
    /// How long to wait for an answer to the copy sent last.
    pub fn timeout(&self) -> Duration {
        self.timer.timeout
    }

    /// Copies sent.
    pub fn copies(&self) -> usize {
        self.transmissions.len()
    }
}

impl Endpoint {
    /// Whether messages of ours may go to a peer; if it has no session, one is asked for.
    pub(super) fn has_session(&mut self, peer: PeerIndex) -> bool {
        if !self.config.secured {
            return true;
        }
        let state = &mut self.peers[peer];
        if state.session == Session::Unknown && !state.queue.is_empty() {
            state.session = Session::Wanted;
            self.out.push_back(Queued::Connect(state.address));
        }
        self.peers[peer].session == Session::Open
    }

    /// There is a session with `peer`: what waited for it goes.
    pub fn session_opened(&mut self, now: Instant, peer: SocketAddr) {
        if let Some(index) = self.peers.find(peer) {
            self.peers[index].session = Session::Open;
            self.pump(now, index);
        }
    }

    /// A peer has not answered a CON. It may have lost its session, and never could say so: nothing
    /// more goes to it until the driver says which it is.
    pub(super) fn doubt_session(&mut self, peer: PeerIndex) {
        let state = &mut self.peers[peer];
        if self.config.secured && state.session == Session::Open {
            state.session = Session::Wanted;
            self.out.push_back(Queued::Close(state.address));
        }
    }

    /// A session that was asked for could not be made: what waited for it fails with
    /// [`Failure::Unreachable`].
    pub fn session_not_made(&mut self, now: Instant, peer: SocketAddr) {
        if let Some(index) = self.peers.find(peer) {
            self.peers[index].session = Session::Unknown;
            self.abandon_session(now, index, |_| true, Failure::Unreachable);
        }
    }

    /// The session with `peer` has ended: everything that was under way in it ends, on both sides.
    /// Requests that had not left yet wait for the next session, and what we observe is asked for
    /// there again.
    pub fn session_ended(&mut self, now: Instant, peer: SocketAddr, why: SessionEnd) {
        self.dedup.forget_peer(peer);
        self.bodies.remove_of_peer(peer);
        let bytes = self.incoming.remove_of_peer(peer);
        self.assemblies.done_with(peer, bytes);
        while let Some(timer) = self.assemblies.remove_of_peer(peer) {
            self.timers.remove(timer);
        }
        let Some(index) = self.peers.find(peer) else {
            return;
        };
        // Asked for again only when everything of this one is gone.
        self.peers[index].session = Session::Wanted;
        let failure = Failure::SessionEnded(why);
        while let Some(observer) = self
            .observers
            .first_of_peer(self.peers[index].first_observer)
        {
            self.remove_observer(now, observer);
        }
        // The server has forgotten the body that this would be the next block of, and a response
        // of ours is to nobody any more.
        let ends = |exchange: &super::Exchange| {
            exchange.state != State::Queued || !exchange.begins_request()
        };
        self.abandon_session(now, index, ends, failure);
        self.observations_lost(now, index, failure);
        self.peers[index].session = Session::Unknown;
        self.pump(now, index);
    }

    fn abandon_session(
        &mut self,
        now: Instant,
        peer: PeerIndex,
        ends: impl Fn(&super::Exchange) -> bool,
        failure: Failure,
    ) {
        let of_peer = self.exchanges.iter().filter(|(_, e)| e.peer == peer);
        let all: Vec<u32> = of_peer
            .filter(|(_, exchange)| ends(exchange))
            .map(|(index, _)| index as u32)
            .collect();
        for index in all {
            // Failing one operation may have ended other exchanges of this list already.
            let Some(exchange) = self.exchanges.get(index as usize) else {
                continue;
            };
            if exchange.state == State::Queued {
                self.peers[peer].queue.remove(&mut self.exchanges, index);
            }
            self.abandon(now, index, Reason::Unreachable, failure);
        }
    }

    /// The first copy of a flight leaves, in all of its datagrams; how long to wait for an answer is
    /// the advice of the peer's controller.
    pub fn flight_sent(&mut self, now: Instant, peer: SocketAddr, bytes: u32) -> Flight {
        let mut flight = Flight {
            peer,
            timer: Timer::default(),
            bytes,
            transmissions: SmallVec::new(),
        };
        let running = self.peer(now, peer).map(|i| self.peers[i].outstanding);
        let running = running.unwrap_or(0);
        self.with_controller(peer, |controller, parameters, random| {
            let start = Start::new(now, parameters).with_running(running);
            flight.timer = controller.controller().first_timeout(&start, random);
        });
        self.flight_leaves(now, &mut flight);
        flight
    }

    /// A flight is sent once more, and not because its timer ran out: the peer has asked again.
    pub fn flight_resent(&mut self, now: Instant, flight: &mut Flight) {
        self.flight_leaves(now, flight);
    }

    /// A flight's timer has run out: whether it is to be sent again, which is then taken as done,
    /// or there were as many copies as MAX_RETRANSMIT allows.
    pub fn flight_expired(&mut self, now: Instant, flight: &mut Flight) -> bool {
        let retransmissions = u8::try_from(flight.copies().saturating_sub(1)).unwrap_or(u8::MAX);
        let Timer { timeout, memo } = flight.timer;
        let mut again = false;
        let last = flight.transmissions.last().copied().unwrap_or_default();
        self.with_controller(flight.peer, |congestion, parameters, random| {
            let controller = congestion.controller();
            controller.on_lost(&Lost::new(now, last, flight.bytes, true));
            again = retransmissions < parameters.max_retransmit;
            if again {
                let expired = Expired::new(now, parameters, memo, retransmissions, timeout);
                flight.timer = controller.next_timeout(&expired, random);
                if let Some(cap) = parameters.rto_max {
                    flight.timer.timeout = flight.timer.timeout.min(cap.max(timeout));
                }
            }
        });
        if again {
            self.flight_leaves(now, flight);
        } else {
            self.abandon_flight(now, flight, Reason::TimedOut);
        }
        again
    }

    /// A flight was answered. If it went once, that is a round trip for the peer's controller.
    pub fn flight_answered(&mut self, now: Instant, flight: &Flight, bytes: u32) {
        let Timer { timeout, memo } = flight.timer;
        let mut round_trip = None;
        self.with_controller(flight.peer, |congestion, parameters, _| {
            let answered = Answered::new(now, parameters, memo, &flight.transmissions, timeout)
                .with_answer(Answer::Piggybacked, bytes);
            round_trip = answered.round_trip();
            congestion.controller().on_answered(&answered);
        });
        if let (Some(round_trip), Some(peer)) = (round_trip, self.peers.find(flight.peer)) {
            self.peers[peer].tally.took(round_trip);
        }
    }

    /// A flight will not be answered.
    pub fn flight_abandoned(&mut self, now: Instant, flight: &Flight) {
        self.abandon_flight(now, flight, Reason::Cancelled);
    }

    fn abandon_flight(&mut self, now: Instant, flight: &Flight, reason: Reason) {
        let retransmissions = u8::try_from(flight.copies().saturating_sub(1)).unwrap_or(u8::MAX);
        let Timer { timeout, memo } = flight.timer;
        self.with_controller(flight.peer, |congestion, parameters, _| {
            let abandoned = Abandoned::new(now, parameters, memo, reason, retransmissions, timeout);
            congestion.controller().on_abandoned(&abandoned);
            if reason == Reason::TimedOut {
                congestion.controller().on_signal(now, Signal::Unreachable);
            }
        });
    }

    fn flight_leaves(&mut self, now: Instant, flight: &mut Flight) {
        let retransmissions = u8::try_from(flight.copies()).unwrap_or(u8::MAX);
        let mut stamp = carob_cc::evidence::Stamp::default();
        self.with_controller(flight.peer, |congestion, parameters, random| {
            let sent =
                Sent::new(now, parameters, flight.bytes).with_retransmissions(retransmissions);
            stamp = congestion.controller().on_sent(&sent, random);
        });
        flight.transmissions.push(Transmission { at: now, stamp });
        if let Some(index) = self.peers.find(flight.peer) {
            let tally = &mut self.peers[index].tally;
            tally.transmissions = tally.transmissions.saturating_add(1);
            tally.retransmissions = tally
                .retransmissions
                .saturating_add(u32::from(retransmissions > 0));
            self.peers.sent(index, now);
        }
    }

    /// Has something said to the controller of a peer, or, if the table of peers had no room for
    /// it, to one that knows nothing.
    fn with_controller(
        &mut self,
        peer: SocketAddr,
        say: impl FnOnce(&mut Congestion, &TransmissionParameters, &mut dyn carob_cc::random::Random),
    ) {
        match self.peers.find(peer) {
            Some(index) => {
                let parameters = self.parameters(index);
                let congestion = &mut self.peers[index].congestion;
                say(congestion, &parameters, &mut *self.random);
            }
            None => say(
                &mut Choice::default().build(peer),
                &self.config.parameters,
                &mut *self.random,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Code;
    use crate::endpoint::{Config, Event, Output, RequestId, Sending};
    use crate::message::{Request, Response};

    /// Every draw is another one; with one that is always the same no token is free twice.
    struct Counting(u32);

    impl carob_cc::random::Random for Counting {
        fn next_u32(&mut self) -> u32 {
            self.0 = self.0.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
            self.0
        }
    }

    fn secured() -> Endpoint {
        let config = Config {
            secured: true,
            ..Config::default()
        };
        Endpoint::new(config, Counting(1))
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn there() -> SocketAddr {
        "[::1]:5684".parse().expect("an address")
    }

    fn ask(endpoint: &mut Endpoint, millis: u64) -> RequestId {
        let asked = endpoint.request(at(millis), there(), Request::get(), Sending::default());
        asked.expect("there is room")
    }

    /// What is sent to the peer, sessions that are asked for, and failures.
    fn drain(endpoint: &mut Endpoint) -> (Vec<Vec<u8>>, usize, Vec<Failure>) {
        let (mut sent, mut wanted, mut failed) = (Vec::new(), 0, Vec::new());
        loop {
            match endpoint.poll() {
                Output::Transmit { bytes, .. } => sent.push(bytes.to_vec()),
                Output::Connect { .. } => wanted += 1,
                Output::Event(Event::Failed { failure, .. }) => failed.push(failure),
                Output::Wait(_) => return (sent, wanted, failed),
                _ => {}
            }
        }
    }

    #[test]
    fn a_request_waits_for_its_session_and_its_timer_does_not_run_before() {
        let mut endpoint = secured();
        ask(&mut endpoint, 0);
        ask(&mut endpoint, 1);
        assert_eq!(drain(&mut endpoint), (Vec::new(), 1, Vec::new()));
        endpoint.handle_timeout(at(60_000));
        assert_eq!(drain(&mut endpoint), (Vec::new(), 0, Vec::new()));
        endpoint.session_opened(at(60_000), there());
        let (sent, wanted, _) = drain(&mut endpoint);
        assert_eq!((sent.len(), wanted), (1, 0), "NSTART holds the other one");
    }

    #[test]
    fn what_was_sent_ends_with_its_session_and_what_was_not_waits_for_the_next() {
        let mut endpoint = secured();
        ask(&mut endpoint, 0);
        ask(&mut endpoint, 1);
        endpoint.session_opened(at(10), there());
        drain(&mut endpoint);
        endpoint.session_ended(at(20), there(), SessionEnd::Closed);
        let (sent, wanted, failed) = drain(&mut endpoint);
        assert_eq!((sent.len(), wanted), (0, 1));
        assert_eq!(failed, [Failure::SessionEnded(SessionEnd::Closed)]);
        endpoint.session_opened(at(30), there());
        assert_eq!(drain(&mut endpoint).0.len(), 1);
        endpoint.session_not_made(at(40), there());
        assert_eq!(drain(&mut endpoint).2, [Failure::Unreachable]);
    }

    #[test]
    fn a_duplicate_in_another_session_is_a_new_request_and_the_old_one_is_answered_to_nobody() {
        let (mut client, mut server) = (secured(), secured());
        ask(&mut client, 0);
        client.session_opened(at(0), there());
        let request = drain(&mut client).0.remove(0);
        let here: SocketAddr = "[::1]:40000".parse().expect("an address");
        let take = |server: &mut Endpoint| {
            server.handle_datagram(at(1), here, &request);
            match server.poll() {
                Output::Event(Event::Request(id)) => Some(id),
                _ => None,
            }
        };
        let first = take(&mut server).expect("it is new");
        assert_eq!(take(&mut server), None, "a duplicate");
        server.session_ended(at(2), here, SessionEnd::Replaced);
        server.respond(at(3), first, &Response::new(Code::CONTENT));
        assert_eq!(
            drain(&mut server).0.len(),
            0,
            "it belonged to the old session"
        );
        assert!(take(&mut server).is_some(), "in the new session it is new");
    }

    /// Has `server` take a request of `here`; its id, if it is one for the application.
    fn asked(
        server: &mut Endpoint,
        here: SocketAddr,
        request: &[u8],
    ) -> Option<crate::endpoint::IncomingId> {
        server.handle_datagram(at(1), here, request);
        match server.poll() {
            Output::Event(Event::Request(id)) => Some(id),
            _ => None,
        }
    }

    #[test]
    fn a_body_that_was_begun_in_a_session_is_not_gone_on_with_in_another() {
        let mut server = secured();
        let here: SocketAddr = "[::1]:40000".parse().expect("an address");
        server.session_opened(at(0), here);
        // GET with Block2 0 and 1, both of 64 bytes.
        let (first, second) = (
            [0x40, 1, 0, 1, 0xd1, 10, 0x02],
            [0x40, 1, 0, 2, 0xd1, 10, 0x12],
        );
        let id = asked(&mut server, here, &first).expect("a request");
        let secret = Response::new(Code::CONTENT).with_payload(alloc::vec![7; 300]);
        server.respond(at(2), id, &secret);
        assert_eq!(drain(&mut server).0.len(), 1);
        server.session_ended(at(3), here, SessionEnd::Replaced);
        server.session_opened(at(3), here);
        let again = asked(&mut server, here, &second);
        assert!(
            again.is_some(),
            "the application decides anew who gets what"
        );
    }

    #[test]
    fn an_observer_goes_with_its_session() {
        let mut server = secured();
        let here: SocketAddr = "[::1]:40000".parse().expect("an address");
        server.session_opened(at(0), here);
        let id = asked(&mut server, here, &[0x41, 1, 0, 1, 9, 0x60]).expect("a request");
        let subject = crate::endpoint::Subject(1);
        assert!(server.observe(at(1), id, subject));
        server.respond(at(1), id, &Response::new(Code::CONTENT));
        assert_eq!(server.observers(subject), 1);
        drain(&mut server);
        server.session_ended(at(3), here, SessionEnd::Replaced);
        server.session_opened(at(3), here);
        assert_eq!(server.observers(subject), 0);
        let told = server.notify(at(4), subject, &Response::new(Code::CONTENT), false);
        assert!(told.is_ok());
        assert_eq!(drain(&mut server).0.len(), 0);
    }

    #[test]
    fn the_timers_of_a_flight_are_the_controllers_and_its_round_trip_is_evidence() {
        let mut config = Config {
            secured: true,
            ..Config::default()
        };
        config.controller = Choice::named("cocoa-plus").expect("it is registered");
        let mut endpoint = Endpoint::new(config, Counting(1));
        let mut flight = endpoint.flight_sent(at(0), there(), 100);
        let first = flight.timeout();
        assert!(first >= Duration::from_secs(2), "{first:?}");
        assert!(endpoint.flight_expired(at(3_000), &mut flight));
        assert!(flight.timeout() > first);
        let mut copies = 2;
        while endpoint.flight_expired(at(100_000), &mut flight) {
            copies += 1;
        }
        assert_eq!(copies, 5, "MAX_RETRANSMIT is 4");

        let flight = endpoint.flight_sent(at(200_000), there(), 100);
        endpoint.flight_answered(at(200_080), &flight, 60);
        let known = endpoint
            .snapshot(at(200_080), there())
            .expect("it is known");
        assert_eq!(known.round_trip, Some(Duration::from_millis(80)));
        let next = endpoint.flight_sent(at(200_100), there(), 100);
        assert!(next.timeout() < first, "it learns: {:?}", next.timeout());
    }
}
