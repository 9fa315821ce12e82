//! Sessions of secured datagrams (RFC 7252 9.1): messages that wait for one or end with it, and the
//! timers of its handshake.
//!
//! The driver has the keys. The engine requests a session before the first message to a peer; the
//! driver reports its beginning and its end. A message belongs to one session. The end of the
//! session ends all of its exchanges, so that no message is matched with, or sent in, another one
//! (RFC 7252 9.1.1, 9.1.2).

use core::net::SocketAddr;

use carob_cc::TransmissionParameters;
use carob_cc::controller::Timer;
use carob_cc::evidence::{
    Abandoned, Answer, Answered, Expired, Lost, Reason, Sent, Signal, Start, Transmission,
};
use carob_cc::time::Duration;
use smallvec::SmallVec;

use crate::address::PeerIndex;
use crate::carrier::Carrier;
use crate::congestion::{Congestion, CongestionControl};
use crate::context::{Context, Queued};

/// The state of a peer's session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Session {
    /// Unknown.
    #[default]
    Unknown,
    /// The driver was requested to make one.
    Requested,
    /// Established.
    Open,
}

/// A flight of handshake messages (RFC 6347 4.2.4), an exchange for the peer's controller.
#[derive(Debug)]
pub struct Flight {
    peer: SocketAddr,
    timer: Timer,
    bytes: u32,
    transmissions: SmallVec<[Transmission; 2]>,
}

impl Flight {
    /// The timeout of the last transmission.
    pub fn timeout(&self) -> Duration {
        self.timer.timeout
    }

    /// Transmissions so far.
    pub fn copies(&self) -> usize {
        self.transmissions.len()
    }
}

impl Carrier {
    /// Returns whether messages may be sent to a peer; requests a session if there is none.
    pub(crate) fn has_session(&mut self, cx: &mut Context, peer: PeerIndex) -> bool {
        if !cx.config.secured {
            return true;
        }
        let state = &mut self.peers[peer];
        if state.session == Session::Unknown && !state.queue.is_empty() {
            state.session = Session::Requested;
            cx.out.push(Queued::Connect(state.address));
        }
        self.peers[peer].session == Session::Open
    }

    /// Handles a new session with `peer`: waiting messages are sent.
    pub(crate) fn session_opened(&mut self, cx: &mut Context, peer: SocketAddr) {
        if let Some(index) = self.peers.find(peer) {
            self.peers[index].session = Session::Open;
            self.silences.clear(index);
            self.pump(cx, index);
        }
    }

    /// Handles a CON without a reply. The peer may have lost its session, without a way to report
    /// it: sending stops until the driver decides.
    pub(crate) fn suspect_session(&mut self, cx: &mut Context, peer: PeerIndex) {
        let state = &mut self.peers[peer];
        if cx.config.secured && state.session == Session::Open {
            state.session = Session::Requested;
            cx.out.push(Queued::Close(state.address));
        }
    }

    /// Handles a session that could not be made: another may be requested. Returns the peer, if
    /// known.
    pub(crate) fn session_not_made(&mut self, peer: SocketAddr) -> Option<PeerIndex> {
        let index = self.peers.find(peer)?;
        self.peers[index].session = Session::Unknown;
        Some(index)
    }
}

impl Carrier {
    /// Discards the state received in an ended session: messages, response bodies and observers.
    /// Returns the peer, if known.
    pub(crate) fn forget_session(
        &mut self,
        cx: &mut Context,
        peer: SocketAddr,
    ) -> Option<PeerIndex> {
        // A Message ID of the next session is another one, even with the same value (RFC 7252
        // 9.1.1).
        self.dedup.forget_peer(peer);
        // The peer may have authenticated as somebody else: the rest of a body is not for
        // whoever comes next.
        self.response_cache.remove_of_peer(peer);
        let index = self.peers.find(peer)?;
        // Requested again only when all state of this one is discarded.
        self.peers[index].session = Session::Requested;
        self.remove_observers_of(cx, index);
        Some(index)
    }

    /// All state of a session is discarded: another may be requested.
    pub(crate) fn session_forgotten(&mut self, cx: &mut Context, peer: PeerIndex) {
        debug_assert!(self.peers[peer].session == Session::Requested);
        debug_assert!(
            self.peers[peer].outstanding == 0,
            "its exchanges have ended"
        );
        self.peers[peer].session = Session::Unknown;
        self.pump(cx, peer);
    }

    /// Records the first transmission of a flight, with all of its datagrams. The peer's controller
    /// sets the timeout.
    pub(crate) fn flight_sent(&mut self, cx: &mut Context, peer: SocketAddr, bytes: u32) -> Flight {
        let now = cx.now;
        let mut flight = Flight {
            peer,
            timer: Timer::default(),
            bytes,
            transmissions: SmallVec::new(),
        };
        // Fails if the table is full; the handshake then runs with another controller.
        let running = self.peer(cx, peer).map(|i| self.peers[i].outstanding);
        let running = running.unwrap_or(0);
        self.with_controller(cx, peer, |controller, parameters, random| {
            let start = Start::new(now, parameters).with_running(running);
            flight.timer = controller.controller().first_timeout(&start, random);
            flight.timer.timeout = parameters.limit_timer(flight.timer.timeout, None);
        });
        self.transmit_flight(cx, &mut flight);
        flight
    }

    /// Records a retransmission of a flight that the peer requested, not one after a timeout.
    pub(crate) fn flight_resent(&mut self, cx: &mut Context, flight: &mut Flight) {
        self.transmit_flight(cx, flight);
    }

    /// Handles a timeout of a flight. Returns whether it is to be retransmitted, which is then
    /// recorded, or MAX_RETRANSMIT is reached.
    pub(crate) fn flight_expired(&mut self, cx: &mut Context, flight: &mut Flight) -> bool {
        let now = cx.now;
        let retransmissions = u8::try_from(flight.copies().saturating_sub(1)).unwrap_or(u8::MAX);
        let Timer { timeout, state } = flight.timer;
        let mut again = false;
        let last = flight.transmissions.last().copied().unwrap_or_default();
        self.with_controller(cx, flight.peer, |congestion, parameters, random| {
            let controller = congestion.controller();
            controller.on_lost(&Lost::new(now, last, flight.bytes, true));
            let began = flight.transmissions.first().map_or(now, |first| first.at);
            again = retransmissions < TransmissionParameters::MAX_RETRANSMIT_LIMIT
                && parameters.permits_retransmission(retransmissions, now.since(began));
            if again {
                let expired = Expired::new(now, parameters, state, retransmissions, timeout);
                flight.timer = controller.next_timeout(&expired, random);
                flight.timer.timeout = parameters.limit_timer(flight.timer.timeout, Some(timeout));
            }
        });
        if again {
            self.transmit_flight(cx, flight);
        } else {
            self.abandon_flight(cx, flight, Reason::TimedOut);
        }
        again
    }

    /// Records the reply to a flight. Without retransmissions it is a round-trip sample for the
    /// peer's controller.
    pub(crate) fn flight_answered(&mut self, cx: &mut Context, flight: &Flight, bytes: u32) {
        let now = cx.now;
        let Timer { timeout, state } = flight.timer;
        let mut round_trip = None;
        self.with_controller(cx, flight.peer, |congestion, parameters, _| {
            let answered = Answered::new(now, parameters, state, &flight.transmissions, timeout)
                .with_answer(Answer::Piggybacked, bytes);
            round_trip = answered.round_trip();
            congestion.controller().on_answered(&answered);
        });
        if let (Some(round_trip), Some(peer)) = (round_trip, self.peers.find(flight.peer)) {
            self.peers[peer].tally.record_round_trip(round_trip);
        }
    }

    /// Records that a flight is given up.
    pub(crate) fn flight_abandoned(&mut self, cx: &mut Context, flight: &Flight) {
        self.abandon_flight(cx, flight, Reason::Cancelled);
    }

    pub(crate) fn abandon_flight(&mut self, cx: &mut Context, flight: &Flight, reason: Reason) {
        let now = cx.now;
        let retransmissions = u8::try_from(flight.copies().saturating_sub(1)).unwrap_or(u8::MAX);
        let Timer { timeout, state } = flight.timer;
        self.with_controller(cx, flight.peer, |congestion, parameters, _| {
            let abandoned =
                Abandoned::new(now, parameters, state, reason, retransmissions, timeout);
            congestion.controller().on_abandoned(&abandoned);
            if reason == Reason::TimedOut {
                congestion.controller().on_signal(now, Signal::Unreachable);
            }
        });
    }

    pub(crate) fn transmit_flight(&mut self, cx: &mut Context, flight: &mut Flight) {
        let now = cx.now;
        let retransmissions = u8::try_from(flight.copies()).unwrap_or(u8::MAX);
        let mut state = carob_cc::evidence::PacketState::default();
        self.with_controller(cx, flight.peer, |congestion, parameters, random| {
            let sent =
                Sent::new(now, parameters, flight.bytes).with_retransmissions(retransmissions);
            state = congestion.controller().on_sent(&sent, random);
        });
        debug_assert!(!cx.is_stream(), "a connection has no flights");
        flight.transmissions.push(Transmission { at: now, state });
        if let Some(index) = self.peers.find(flight.peer) {
            let tally = &mut self.peers[index].tally;
            tally.transmissions = tally.transmissions.saturating_add(1);
            tally.retransmissions = tally
                .retransmissions
                .saturating_add(u32::from(retransmissions > 0));
            self.peers.sent(index, now);
        }
    }

    /// Calls a closure with the controller of a peer, or, if the peer table was full, with a new
    /// one.
    pub(crate) fn with_controller(
        &mut self,
        cx: &mut Context,
        peer: SocketAddr,
        say: impl FnOnce(&mut Congestion, &TransmissionParameters, &mut dyn carob_cc::random::Random),
    ) {
        match self.peers.find(peer) {
            Some(index) => {
                let parameters = self.parameters(cx, index);
                let congestion = &mut self.peers[index].congestion;
                say(congestion, &parameters, &mut *cx.random);
            }
            None => say(
                &mut CongestionControl::default().build(peer),
                &cx.config.parameters,
                &mut *cx.random,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::codec::Code;
    use carob_cc::time::Instant;

    use crate::endpoint::Endpoint;
    use crate::endpoint::{Config, Event, Output, RequestConfig, RequestId, SessionEnd};
    use crate::event::Failure;
    use crate::fuzzing::Stream;
    use crate::message::{Request, Response};

    fn secured() -> Endpoint {
        let config = Config {
            secured: true,
            ..Config::default()
        };
        Endpoint::new(config, Stream(1))
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn there() -> SocketAddr {
        "[::1]:5684".parse().expect("an address")
    }

    fn ask(endpoint: &mut Endpoint, millis: u64) -> RequestId {
        let asked = endpoint.request(
            at(millis),
            there(),
            Request::get(),
            RequestConfig::default(),
        );
        asked.expect("there is room")
    }

    /// Messages to the peer, the number of requested sessions, and failures.
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
    fn request_waits_for_session_without_running_timer() {
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
    fn sent_messages_end_with_session_and_unsent_ones_wait() {
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
    fn duplicate_in_new_session_is_a_new_request() {
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
    ) -> Option<crate::event::IncomingId> {
        server.handle_datagram(at(1), here, request);
        match server.poll() {
            Output::Event(Event::Request(id)) => Some(id),
            _ => None,
        }
    }

    #[test]
    fn body_is_not_continued_in_another_session() {
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
    fn observer_is_removed_with_its_session() {
        let mut server = secured();
        let here: SocketAddr = "[::1]:40000".parse().expect("an address");
        server.session_opened(at(0), here);
        let id = asked(&mut server, here, &[0x41, 1, 0, 1, 9, 0x60]).expect("a request");
        let subject = crate::observe::Subject(1);
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
    fn flight_uses_controller_timers_and_reports_its_rtt() {
        let mut config = Config {
            secured: true,
            ..Config::default()
        };
        config.controller = CongestionControl::named("cocoa-plus").expect("it is registered");
        let mut endpoint = Endpoint::new(config, Stream(1));
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
        endpoint.flight_ended(at(200_080), &flight, Some(60));
        let known = endpoint
            .snapshot(at(200_080), there())
            .expect("it is known");
        assert_eq!(known.round_trip, Some(Duration::from_millis(80)));
        let next = endpoint.flight_sent(at(200_100), there(), 100);
        assert!(next.timeout() < first, "it learns: {:?}", next.timeout());
    }

    /// Hands all datagrams of `from` to `to`; the events of `from` meanwhile.
    fn carry(from: &mut Endpoint, to: &mut Endpoint, source: SocketAddr) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            match from.poll() {
                Output::Transmit { bytes, .. } => to.handle_datagram(at(1), source, bytes),
                Output::Event(event) => events.push(event),
                Output::Wait(_) => return events,
                _ => {}
            }
        }
    }

    #[test]
    fn observation_goes_stale_once_with_blocks_in_flight() {
        let here: SocketAddr = "[::1]:40000".parse().expect("an address");
        let mut config = Config {
            secured: true,
            ..Config::default()
        };
        config.parameters.nstart = 4;
        let mut client = Endpoint::new(config, Stream(1));
        let mut server = secured();
        server.session_opened(at(0), here);
        let observing = RequestConfig {
            observe: true,
            ..RequestConfig::default()
        };
        let asked = client.request(at(0), there(), Request::get(), observing);
        asked.expect("there is room");
        client.session_opened(at(0), there());
        carry(&mut client, &mut server, here);
        let Output::Event(Event::Request(id)) = server.poll() else {
            panic!("no request came")
        };
        assert!(server.observe(at(1), id, crate::endpoint::Subject(1)));
        let state = Response::new(Code::CONTENT).with_payload(alloc::vec![7; 8_000]);
        server.respond(at(1), id, &state);
        carry(&mut server, &mut client, there());
        let (blocks, ..) = drain(&mut client);
        assert!(blocks.len() > 1, "{} blocks are in flight", blocks.len());
        client.session_not_made(at(2), there());
        let events = carry(&mut client, &mut server, here);
        let stale = |event: &&Event| matches!(event, Event::Stale { .. });
        assert_eq!(events.iter().filter(stale).count(), 1, "{events:?}");
    }
}
