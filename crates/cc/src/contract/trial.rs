//! The trial: an engine with random behaviour, and its exchanges with their transmissions, as the engine keeps them.

use super::check::{Call, HISTORY};
use super::{Breach, FIRST_MAX, Lcg, WAIT_MAX};
use crate::controller::{Controller, Gauge, Timer};
use crate::evidence::{
    Abandoned, Answer, Answered, Expired, Kind, LateAnswer, Lost, Matched, Reason, SendCandidate,
    Sent, Signal, Start, Transmission,
};
use crate::parameters::TransmissionParameters;
use crate::random::Random;
use crate::time::{Duration, Instant};

/// Maximum parallel exchanges.
const PARALLEL: usize = 4;

/// Clock difference of the second controller: whole seconds, because one variant of CoCoA checks
/// its clock once a second.
const LATER: Duration = Duration::from_secs(1000);

/// Trial of a controller, or of two of a kind with the same events.
#[derive(Debug)]
pub struct Trial<C> {
    one: Side<C>,
    other: Option<Side<C>>,
    shrinks: bool,
    parameters: TransmissionParameters,
    now: Instant,
    drawn: u64,
    /// The slot of the event under way, if it belongs to an exchange.
    slot: Option<usize>,
    /// The latest calls of the controller, in a ring.
    calls: [Call; HISTORY],
    called: usize,
}

/// One of them, with the engine's state for it.
#[derive(Debug)]
struct Side<C> {
    controller: C,
    later: Duration,
    exchanges: [Exchange; PARALLEL],
    /// Its random stream; both have the same.
    random: Lcg,
}

impl<C> Side<C> {
    fn new(controller: C, later: Duration) -> Self {
        Self {
            controller,
            later,
            exchanges: core::array::from_fn(|_| Exchange::vacant()),
            random: Lcg(7),
        }
    }
}

impl<C: Controller> Trial<C> {
    /// Creates a trial of two new controllers. `shrinks`: the timers of an exchange may become
    /// shorter.
    pub fn new(one: C, other: C, shrinks: bool) -> Self {
        Self {
            other: Some(Side::new(other, LATER)),
            ..Self::alone(one, shrinks)
        }
    }

    /// Creates a trial of one controller. It takes half the time; agreement is not checked.
    pub fn alone(one: C, shrinks: bool) -> Self {
        Self {
            one: Side::new(one, Duration::ZERO),
            other: None,
            shrinks,
            parameters: TransmissionParameters::DEFAULT,
            now: Instant::ZERO,
            drawn: 0,
            slot: None,
            calls: [Call::NONE; HISTORY],
            called: 0,
        }
    }

    /// Sets the transmission parameters. Default: RFC 7252's.
    #[must_use]
    pub fn with_parameters(mut self, parameters: TransmissionParameters) -> Self {
        self.parameters = parameters;
        self
    }

    /// Returns a digest of the decisions so far.
    pub fn digest(&self) -> u64 {
        self.drawn
    }

    /// Returns the latest calls of the controller, the latest first.
    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        let kept = self.called.min(HISTORY);
        (1..=kept).map(|back| &self.calls[(self.called - back) % HISTORY])
    }

    /// Draws a random event, and checks the decisions after it.
    ///
    /// # Errors
    ///
    /// The first violation of the contract.
    pub fn step(&mut self, random: &mut dyn Random) -> Result<(), Breach> {
        let draw = random.next_u32();
        let slot = usize::try_from(draw >> 8).unwrap_or_default() % PARALLEL;
        self.pass(random.next_u32());
        let running = self.one.exchanges[slot].runs();
        self.slot = matches!(draw & 0xff, 0..=199).then_some(slot);
        match (draw & 0xff, running) {
            (0..=109, false) => self.send(slot, draw),
            (0..=109, true) => self.answer(slot, random.next_u32()),
            (110..=189, true) => self.expire(slot, draw),
            (190..=199, true) => self.abandon(slot, draw),
            (110..=199, false) | (200..=229, _) => self.notify(draw),
            (230..=235, _) => self.late(draw),
            (236..=239, _) => self.signal(draw),
            _ => self.look(),
        }
    }

    /// Advances time: by zero, or up to a power of two of microseconds.
    fn pass(&mut self, draw: u32) {
        // Up to 2^35 us, 9.5 hours; one in 4,096 steps, months.
        let exponent = match draw & 0xfff {
            0 => 43,
            some => some % 36,
        };
        let most = 1_u64 << exponent;
        let micros = (u64::from(draw >> 12) * most) >> 20;
        self.now += Duration::from_micros(micros);
    }

    fn both<R: PartialEq>(
        &mut self,
        advice: &'static str,
        mut ask: impl FnMut(&mut Side<C>, Instant, &TransmissionParameters) -> R,
    ) -> Result<R, Breach> {
        let exchange = self.slot.map(|slot| &self.one.exchanges[slot]);
        self.calls[self.called % HISTORY] = Call {
            advice,
            at: self.now,
            exchange: exchange.map(|exchange| (exchange.kind, exchange.retransmissions())),
            timer: None,
        };
        self.called += 1;
        let one = ask(&mut self.one, self.now, &self.parameters);
        if let Some(other) = &mut self.other {
            let other = ask(other, self.now + LATER, &self.parameters);
            if one != other {
                return Err(Breach::Differs { advice });
            }
        }
        Ok(one)
    }

    /// Keeps the timer that the latest call returned.
    fn returned(&mut self, timer: Duration) {
        let latest = self.called.saturating_sub(1) % HISTORY;
        self.calls[latest].timer = Some(timer);
        self.note(timer);
    }

    fn send(&mut self, slot: usize, draw: u32) -> Result<(), Breach> {
        let kind = match draw >> 28 {
            0..=11 => Kind::Request,
            12..=13 => Kind::Response,
            _ => Kind::Notification,
        };
        self.begin(slot, kind)
    }

    fn begin(&mut self, slot: usize, kind: Kind) -> Result<(), Breach> {
        let running = self.one.exchanges.iter().filter(|e| e.runs()).count();
        let running = u16::try_from(running).unwrap_or(u16::MAX);
        self.slot = Some(slot);
        self.one.exchanges[slot].kind = kind;
        let timer = self.both("first timer", |side, now, parameters| {
            let start = Start::new(now, parameters)
                .with_running(running)
                .with_kind(kind);
            let timer = side.controller.first_timeout(&start, &mut side.random);
            let exchange = &mut side.exchanges[slot];
            (exchange.kind, exchange.timer) = (kind, timer);
            timer
        })?;
        self.returned(timer.timeout);
        if timer.timeout.is_zero() {
            return Err(Breach::NoTimer);
        }
        if timer.timeout > FIRST_MAX {
            return Err(Breach::LongFirst(timer.timeout));
        }
        self.copy(slot)
    }

    fn copy(&mut self, slot: usize) -> Result<(), Breach> {
        self.both("stamp", |side, now, parameters| {
            let exchange = &mut side.exchanges[slot];
            let copies = u8::try_from(exchange.copies().len()).unwrap_or(u8::MAX);
            let sent = Sent::new(now, parameters, 60)
                .with_kind(exchange.kind)
                .with_retransmissions(copies);
            let state = side.controller.on_sent(&sent, &mut side.random);
            exchange.push(Transmission { at: now, state });
        })
    }

    fn expire(&mut self, slot: usize, draw: u32) -> Result<(), Breach> {
        let exchange = &self.one.exchanges[slot];
        // The engine may be called late, never early.
        self.now = self.now.max(exchange.expires());
        let (before, retransmissions) = (exchange.timer.timeout, exchange.retransmissions());
        self.both("loss", |side, now, _| {
            if let Some(&last) = side.exchanges[slot].copies().last() {
                let lost = Lost::new(now, last, 60, true);
                side.controller.on_lost(&lost);
            }
        })?;
        if draw >> 29 == 0 && retransmissions == 0 {
            // A NON whose receipt the peer reports: its repetition is another message.
            self.one.exchanges[slot].clear();
            if let Some(other) = &mut self.other {
                other.exchanges[slot].clear();
            }
            return self.look();
        }
        if retransmissions >= self.parameters.max_retransmit {
            return self.end(slot, Reason::TimedOut);
        }
        let timer = self.both("next timer", |side, now, parameters| {
            let exchange = &mut side.exchanges[slot];
            let state = exchange.timer.state;
            let expired = Expired::new(now, parameters, state, retransmissions, before);
            let mut timer = side.controller.next_timeout(&expired, &mut side.random);
            if let Some(cap) = parameters.rto_max {
                timer.timeout = timer.timeout.min(cap.max(before));
            }
            exchange.timer = timer;
            timer
        })?;
        self.returned(timer.timeout);
        let after = timer.timeout;
        if after.is_zero() {
            return Err(Breach::NoTimer);
        }
        if after < before && !self.shrinks {
            return Err(Breach::Shrank { before, after });
        }
        self.copy(slot)
    }

    fn answer(&mut self, slot: usize, draw: u32) -> Result<(), Breach> {
        let form = match (draw >> 16) & 7 {
            0 => Answer::Separate,
            1 | 2 => Answer::Empty,
            _ => Answer::Piggybacked,
        };
        self.both("answer", |side, now, parameters| {
            let exchange = &mut side.exchanges[slot];
            let answered = exchange.answered(now, parameters, draw);
            let mut answered = answered.with_answer(form, 80);
            // One in eight empty answers reports other messages, too.
            let reports = form == Answer::Empty && (draw >> 19).is_multiple_of(8);
            if reports {
                let also = 80 * ((draw >> 22) & 0x7f);
                answered = answered.with_also(also, also / 2);
            }
            side.controller.on_answered(&answered);
            if form == Answer::Empty && exchange.kind == Kind::Request && !reports {
                let response = exchange.answered(now, parameters, draw.rotate_left(9));
                let response = response.with_answer(Answer::Separate, 80);
                side.controller.on_response(&response);
            }
            exchange.clear();
        })?;
        if draw.is_multiple_of(4) {
            self.look()
        } else {
            Ok(())
        }
    }

    fn abandon(&mut self, slot: usize, draw: u32) -> Result<(), Breach> {
        let reasons = [Reason::Reset, Reason::Cancelled, Reason::Unreachable];
        let which = usize::try_from(draw >> 16).unwrap_or_default() % reasons.len();
        self.end(slot, reasons[which])
    }

    fn end(&mut self, slot: usize, reason: Reason) -> Result<(), Breach> {
        self.both("end", |side, now, parameters| {
            let exchange = &mut side.exchanges[slot];
            let Timer { timeout, state } = exchange.timer;
            let copies = exchange.retransmissions();
            let abandoned = Abandoned::new(now, parameters, state, reason, copies, timeout);
            side.controller.on_abandoned(&abandoned);
            exchange.clear();
        })?;
        self.look()
    }

    /// A notification as NON, or a NON request: requests its departure, waits and sends it.
    fn notify(&mut self, draw: u32) -> Result<(), Breach> {
        self.slot = None;
        let kind = match draw >> 29 {
            0 => Kind::Request,
            _ => Kind::Notification,
        };
        let asked = self.now;
        let departs = |side: &mut Side<C>, at: Instant, parameters: &TransmissionParameters| {
            let candidate = SendCandidate::new(at, parameters, 60)
                .with_kind(kind)
                .with_confirmable(false);
            let leaves = side.controller.earliest_departure_time(&candidate);
            let leaves = leaves.max(at).since(Instant::ZERO + side.later);
            (leaves, side.controller.must_confirm(&candidate))
        };
        let (leaves, _) = self.both("departure", departs)?;
        let leaves = Instant::ZERO + leaves;
        let wait = leaves.since(asked);
        if wait > WAIT_MAX {
            return Err(Breach::LongWait(wait));
        }
        self.note(wait);
        self.now = leaves;
        let (again, confirm) = self.both("departure", departs)?;
        if Instant::ZERO + again < leaves {
            return Err(Breach::EarlierWhenLater);
        }
        if confirm {
            // As CON it is an exchange; without a free slot it is not sent.
            let free = self.one.exchanges.iter().position(|e| !e.runs());
            return free.map_or(Ok(()), |slot| self.begin(slot, kind));
        }
        self.both("stamp", |side, now, parameters| {
            let sent = Sent::new(now, parameters, 60)
                .with_kind(kind)
                .with_confirmable(false);
            side.controller.on_sent(&sent, &mut side.random)
        })?;
        Ok(())
    }

    fn late(&mut self, draw: u32) -> Result<(), Breach> {
        let since = Duration::from_micros(u64::from(draw));
        self.both("late answer", |side, now, _| {
            let late = LateAnswer::new(now, 3, 2, since).with_abandoned(draw >> 31 == 0);
            side.controller.on_late_answer(&late);
        })
    }

    fn signal(&mut self, draw: u32) -> Result<(), Breach> {
        let signal = match draw >> 30 {
            0 => Signal::Unreachable,
            _ => Signal::SlowDown(Duration::from_secs(u64::from(draw >> 20))),
        };
        self.both("signal", |side, now, _| {
            side.controller.on_signal(now, signal);
        })
    }

    /// Checks the decisions that need no event.
    fn look(&mut self) -> Result<(), Breach> {
        let window = self.both("window", |side, now, parameters| {
            side.controller.window(now, parameters)
        })?;
        if window.exchanges == 0 || window.bytes == 0 {
            return Err(Breach::ClosedWindow);
        }
        let (rto, digest) = self.both("gauges", |side, now, _| {
            let (mut rto, mut digest) = (None, 0_u64);
            side.controller.gauges(now, &mut |name, gauge| {
                if let ("rto", Gauge::Time(time)) = (name, gauge) {
                    rto = Some(time);
                }
                // States count by length: a digest compares two controllers, it identifies nothing.
                let value = match gauge {
                    Gauge::Time(time) => time.as_micros(),
                    Gauge::Count(count) => count,
                    Gauge::State(state) => u64::try_from(state.len()).unwrap_or_default(),
                };
                digest = digest.rotate_left(7) ^ value;
            });
            (rto, digest)
        })?;
        self.note(Duration::from_micros(digest));
        match rto {
            Some(rto) if rto.is_zero() => Err(Breach::NoRto),
            _ => Ok(()),
        }
    }

    fn note(&mut self, advice: Duration) {
        self.drawn = self.drawn.rotate_left(5) ^ advice.as_micros();
    }
}

/// Maximum transmissions of a message.
const COPIES: usize = 31;

const _: () = assert!(TransmissionParameters::MAX_RETRANSMIT_LIMIT == 30);

/// A slot for a confirmable message: outstanding once it has transmissions.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) kind: Kind,
    pub(super) timer: Timer,
    copies: [Transmission; COPIES],
    sent: u8,
}

impl Exchange {
    /// An empty slot.
    pub(super) fn vacant() -> Self {
        Self {
            kind: Kind::Request,
            timer: Timer::default(),
            copies: [Transmission::default(); COPIES],
            sent: 0,
        }
    }

    /// Returns whether a message is outstanding here.
    pub(super) fn runs(&self) -> bool {
        self.sent > 0
    }

    /// Clears the slot.
    pub(super) fn clear(&mut self) {
        self.sent = 0;
    }

    pub(super) fn copies(&self) -> &[Transmission] {
        &self.copies[..usize::from(self.sent)]
    }

    pub(super) fn push(&mut self, transmission: Transmission) {
        self.copies[usize::from(self.sent)] = transmission;
        self.sent += 1;
    }

    /// Retransmissions so far.
    pub(super) fn retransmissions(&self) -> u8 {
        self.sent.saturating_sub(1)
    }

    /// The expiry of the running timer.
    pub(super) fn expires(&self) -> Instant {
        self.copies()
            .last()
            .map_or(Instant::ZERO, |copy| copy.at + self.timer.timeout)
    }

    /// An answer at `now` to the transmission that `draw` picks, if the wire names it.
    pub(super) fn answered<'a>(
        &'a self,
        now: Instant,
        parameters: &'a TransmissionParameters,
        draw: u32,
    ) -> Answered<'a> {
        let Timer { timeout, state } = self.timer;
        let answered = Answered::new(now, parameters, state, self.copies(), timeout);
        let latest = self.retransmissions();
        // Below 256: `latest` is a u8.
        let copy = u8::try_from(draw % (u32::from(latest) + 1)).unwrap_or_default();
        match draw >> 30 {
            0 => answered.with_matched(Matched::Exact(copy)),
            1 if copy < latest => answered.with_matched(Matched::Ambiguous {
                earliest: copy,
                latest,
            }),
            _ => answered,
        }
    }
}
