//! The message layer of one peer, one CON message at a time, with a controller of `carob-cc`.
//!
//! `Peer` needs neither heap nor standard library. `cargo run -p carob-cc --example exchange`
//! simulates a link with a round trip of 2 s and a loss of every fifth datagram.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use carob_cc::algorithms::fasor::Fasor;
use carob_cc::evidence::{
    Abandoned, Answer, Answered, ExchangeState, Expired, Reason, Start, Transmission,
};
use carob_cc::random::Random;
use carob_cc::registry::Family;
use carob_cc::time::{Duration, Instant};
use carob_cc::{Controller, TransmissionParameters};

/// Maximum number of transmissions; MAX_RETRANSMIT must be lower.
const TRANSMISSIONS: usize = 6;

/// A CON message that waits for its acknowledgement.
struct Exchange {
    message_id: u16,
    state: ExchangeState,
    timeout: Duration,
    deadline: Instant,
    sent: [Transmission; TRANSMISSIONS],
    count: usize,
}

/// Action of the caller when a timer expires.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send the same message again.
    Retransmit,
    /// Report to the application that the peer did not respond.
    GiveUp,
    /// Nothing: the timer still runs.
    Wait,
}

/// The exchanges of one peer and its controller.
pub(crate) struct Peer<C> {
    controller: C,
    parameters: TransmissionParameters,
    exchange: Option<Exchange>,
}

impl<C: Controller> Peer<C> {
    pub(crate) fn new(controller: C, parameters: TransmissionParameters) -> Self {
        assert!(usize::from(parameters.max_retransmit) < TRANSMISSIONS);
        Self {
            controller,
            parameters,
            exchange: None,
        }
    }

    /// Registers a CON message that is sent now; false while another one is outstanding.
    pub(crate) fn send(&mut self, now: Instant, id: u16, random: &mut dyn Random) -> bool {
        if self.exchange.is_some() {
            return false;
        }
        let start = Start::new(now, &self.parameters);
        let timer = self.controller.first_timeout(&start, random);
        let mut sent = [Transmission::default(); TRANSMISSIONS];
        sent[0].at = now;
        self.exchange = Some(Exchange {
            message_id: id,
            state: timer.state,
            timeout: timer.timeout,
            deadline: now + timer.timeout,
            sent,
            count: 1,
        });
        true
    }

    /// The time of the next call of `on_timer`; `None` if no message is outstanding.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.exchange.as_ref().map(|exchange| exchange.deadline)
    }

    /// Retransmits or gives up at the deadline.
    pub(crate) fn on_timer(&mut self, now: Instant, random: &mut dyn Random) -> Action {
        let parameters = &self.parameters;
        let Some(exchange) = self.exchange.as_mut() else {
            return Action::Wait;
        };
        if now < exchange.deadline {
            return Action::Wait;
        }
        let (state, timeout) = (exchange.state, exchange.timeout);
        let retransmissions = (exchange.count - 1) as u8;
        if retransmissions == parameters.max_retransmit {
            self.end(now, Reason::TimedOut);
            return Action::GiveUp;
        }
        let expired = Expired::new(now, parameters, state, retransmissions, timeout);
        let timer = self.controller.next_timeout(&expired, random);
        // The cap is applied by the message layer. It never shortens a timer below the previous one.
        let cap = parameters.rto_max.unwrap_or(Duration::MAX).max(timeout);
        exchange.state = timer.state;
        exchange.timeout = timer.timeout.min(cap);
        exchange.deadline = now + exchange.timeout;
        exchange.sent[exchange.count].at = now;
        exchange.count += 1;
        Action::Retransmit
    }

    /// Handles an ACK of `bytes`; false if it belongs to no outstanding message.
    pub(crate) fn on_ack(&mut self, now: Instant, id: u16, answer: Answer, bytes: u32) -> bool {
        let Some(exchange) = self.exchange.take_if(|exchange| exchange.message_id == id) else {
            return false;
        };
        let sent = &exchange.sent[..exchange.count];
        let (state, timeout) = (exchange.state, exchange.timeout);
        let answered = Answered::new(now, &self.parameters, state, sent, timeout);
        self.controller
            .on_answered(&answered.with_answer(answer, bytes));
        true
    }

    /// Handles a Reset; false if it belongs to no outstanding message.
    pub(crate) fn on_reset(&mut self, now: Instant, id: u16) -> bool {
        let known = (self.exchange.as_ref()).is_some_and(|exchange| exchange.message_id == id);
        if known {
            self.end(now, Reason::Reset);
        }
        known
    }

    fn end(&mut self, now: Instant, reason: Reason) {
        if let Some(Exchange {
            state,
            timeout,
            count,
            ..
        }) = self.exchange.take()
        {
            let retransmissions = (count - 1) as u8;
            let parameters = &self.parameters;
            let abandoned =
                Abandoned::new(now, parameters, state, reason, retransmissions, timeout);
            self.controller.on_abandoned(&abandoned);
        }
    }

    /// The current RTO of the controller.
    pub(crate) fn rto(&self, now: Instant) -> Option<Duration> {
        self.controller.rto(now)
    }
}

/// A xorshift generator. A device should use its hardware generator instead.
pub(crate) struct XorShift(pub(crate) u32);

impl Random for XorShift {
    fn next_u32(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }
}

const ROUND_TRIP: Duration = Duration::from_secs(2);

/// Sends `messages` over a link that drops the datagrams selected by `lost`. Returns the number of datagrams, the
/// number of failed messages, and the end time.
pub(crate) fn simulate<C: Controller>(
    peer: &mut Peer<C>,
    messages: u16,
    lost: impl Fn(u32) -> bool,
) -> (u32, u32, Instant) {
    let (mut now, mut datagrams, mut failed) = (Instant::ZERO, 0, 0);
    let random = &mut XorShift(7);
    for id in 0..messages {
        peer.send(now, id, random);
        let mut ack = (!lost(datagrams)).then(|| now + ROUND_TRIP);
        datagrams += 1;
        while let Some(deadline) = peer.deadline() {
            if let Some(at) = ack.filter(|at| *at <= deadline) {
                now = at;
                peer.on_ack(now, id, Answer::Piggybacked, 16);
                continue;
            }
            now = deadline;
            match peer.on_timer(now, random) {
                Action::Retransmit => {
                    ack = ack.or_else(|| (!lost(datagrams)).then(|| now + ROUND_TRIP));
                    datagrams += 1;
                }
                Action::GiveUp => failed += 1,
                Action::Wait => {}
            }
        }
    }
    (datagrams, failed, now)
}

fn main() {
    let profile = &Fasor::PROFILES[0]; // `fasor`; another one by name: `iter().find(...)`
    let controller = Fasor::new(&profile.constants);
    let mut peer = Peer::new(controller, TransmissionParameters::DEFAULT);
    let (datagrams, failed, end) = simulate(&mut peer, 20, |number| number % 5 == 4);
    println!("20 messages, {datagrams} datagrams, {failed} failed");
    if let Some(rto) = peer.rto(end) {
        println!("RTO {rto} after {}", end.since(Instant::ZERO));
    }
    peer.send(end, 20, &mut XorShift(8));
    if peer.on_reset(end + ROUND_TRIP, 20) {
        println!("message 20 was rejected with a Reset");
    }
}
