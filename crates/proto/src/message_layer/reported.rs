//! Messages whose receipt the peer reports, one report for several: blocks of a body as NON (RFC
//! 9177 7.2).
//!
//! To the controller such a message is one with an acknowledgement: it has a timer and counts against
//! the window until it is reported, lost, or its timer expires. A repetition is another message with a
//! Message ID and its own token, so that a report names the transmission it answers.

use carob_cc::TransmissionParameters;
use carob_cc::controller::Timer;
use carob_cc::evidence::{Answer, Answered, Lost, Matched, Reason, Start};
use carob_cc::time::{Duration, Instant};

use crate::address::PeerIndex;
use crate::block::q_upload::BlockTransmission;
use crate::carrier::{Carrier, Outcome};
use crate::config::Tracing;
use crate::context::Context;
use crate::message_layer::peer::Peer;
use crate::message_layer::{Exchange, Purpose, State};
use crate::trace::TraceEvent;

/// The share of ACK_TIMEOUT between blocks until there is a round-trip time: a set as one burst would
/// exceed the buffer of a slow link.
const FIRST_SPACING: u64 = 64;

/// The most doublings of the time until a message is presumed to have arrived.
const SLOWDOWNS: u16 = 6;

/// The departure of a block before the first round-trip time is known, if it is not now.
pub(crate) fn first_set_departure(
    now: Instant,
    peer: &Peer,
    parameters: &TransmissionParameters,
) -> Option<Instant> {
    let spacing = Duration::from_micros(parameters.ack_timeout.as_micros() / FIRST_SPACING);
    let earliest = peer.last_sent + spacing;
    (peer.outstanding > 0 && earliest > now).then_some(earliest)
}

impl Peer {
    /// The time until a message would be in a report: the latest round trip and a quarter of it.
    fn report_delay(&self) -> Duration {
        let latest = Duration::from_micros(self.tally.round_trip.into());
        latest + latest.half().half()
    }
}

impl Exchange {
    /// The time until a reported message is presumed to have arrived. It then counts against the window no
    /// longer, as if it had its own acknowledgement. Doubled while reports are late: the path may have
    /// become slower.
    pub(crate) fn presumed_arrival(&self, peer: &Peer) -> Duration {
        self.arrival(peer).times(self.slowdown(peer))
    }

    /// The time of arrival if reports are in time: the latest round trip and a quarter of it, by which the
    /// queue may have grown; at most two of the shortest, since a queue that a report shows has drained
    /// before the next report; at most the timer.
    fn arrival(&self, peer: &Peer) -> Duration {
        if peer.tally.round_trip == 0 {
            return self.timer.timeout;
        }
        let most = Duration::from_micros(peer.tally.shortest.into()).times(2);
        peer.report_delay().min(most).min(self.timer.timeout)
    }

    /// The factor of late reports: 2 for each burst that is presumed to have arrived and not reported, from
    /// one and a half bursts on.
    fn slowdown(&self, peer: &Peer) -> u64 {
        let burst = u16::from(self.request.burst.max(1));
        let bursts = peer.presumed.saturating_sub(burst / 2) / burst;
        1 << bursts.min(SLOWDOWNS)
    }

    /// Returns whether it was presumed to have arrived.
    pub(crate) fn is_presumed_received(&self) -> bool {
        self.is_reported() && self.state == (State::Waiting { counted: false })
    }

    /// Returns whether it is a NON whose receipt the peer reports.
    #[inline]
    pub(crate) const fn is_reported(&self) -> bool {
        self.request.burst > 0 && !self.confirmable
    }
}

impl Carrier {
    /// The first timer of a message that is acknowledged or reported.
    #[inline]
    pub(crate) fn begin_timer(
        &mut self,
        cx: &mut Context,
        index: u32,
        parameters: &TransmissionParameters,
    ) {
        let exchange = &mut self.exchanges[index as usize];
        debug_assert!(
            exchange.transmissions.is_empty(),
            "the timer of a retransmission"
        );
        let peer = &mut self.peers[exchange.peer];
        let start = Start::new(cx.now, parameters)
            .with_running(peer.outstanding)
            .with_kind(exchange.purpose.kind());
        let controller = peer.congestion.controller();
        let mut timer = controller.first_timeout(&start, &mut *cx.random);
        timer.timeout = parameters.limit_timer(timer.timeout, None);
        if exchange.request.least_timeout > 0 {
            let least = Duration::from_micros(exchange.request.least_timeout.into());
            // The back-off of a silent peer doubles without a limit.
            let cap = (parameters.rto_max).unwrap_or_else(|| parameters.max_transmit_wait());
            timer.timeout = timer.timeout.max(least.min(cap));
        }
        exchange.timer = timer;
        cx.counters.timeouts.add(timer.timeout);
    }

    /// Handles the timer of a reported message. Reports are due for the time after the last message in
    /// either direction; meanwhile the timer runs on, but no longer than MAX_TRANSMIT_WAIT.
    pub(crate) fn expire_reported(&mut self, cx: &mut Context, index: u32) {
        let exchange = &self.exchanges[index as usize];
        debug_assert!(exchange.is_reported() && matches!(exchange.state, State::Waiting { .. }));
        let peer = &self.peers[exchange.peer];
        let purpose = exchange.purpose;
        let sent = self.departed(index).unwrap_or(cx.now);
        let timeout = exchange.timer.timeout;
        let slowdown = exchange.slowdown(peer);
        let arrival = exchange.arrival(peer);
        if exchange.state == (State::Waiting { counted: true }) && arrival < timeout {
            let due = sent + arrival.times(slowdown);
            if due > cx.now {
                return cx.timers.set(exchange.timer_id, due);
            }
            self.release_window(index);
            let exchange = &mut self.exchanges[index as usize];
            exchange.state = State::Waiting { counted: false };
            let due = cx.now + timeout;
            cx.timers.set(exchange.timer_id, due);
            let peer = exchange.peer;
            self.peers[peer].presumed += 1;
            self.report(Outcome::PresumedReceived {
                purpose,
                exchange: index,
            });
            return self.pump(cx, peer);
        }
        let due = peer.last_sent.max(peer.last_heard) + timeout.times(slowdown);
        let wait = self.exchange_parameters(cx, index).max_transmit_wait();
        let due = due.min(sent + wait.max(timeout));
        if due > cx.now {
            return cx.timers.set(exchange.timer_id, due);
        }
        let silence = self.report_lost(cx, index).then_some(timeout);
        cx.counters.of_mut(purpose.kind()).expired += 1;
        let peer = self.retire(cx, index, true);
        self.report(Outcome::Unreported {
            purpose,
            exchange: index,
            silence,
        });
        self.pump(cx, peer);
    }

    /// Reports the loss of a message to the controller; returns whether the peer was silent since.
    fn report_lost(&mut self, cx: &Context, index: u32) -> bool {
        let exchange = &self.exchanges[index as usize];
        debug_assert!(exchange.is_reported(), "others have a timer of their own");
        let last = exchange.transmissions.last().copied().unwrap_or_default();
        let peer = &mut self.peers[exchange.peer];
        // Not what was heard at the moment of departure, which says nothing of this message.
        let silent = peer.last_heard <= last.at;
        let lost = Lost::new(cx.now, last, exchange.bytes.len() as u32, silent);
        peer.congestion.controller().on_lost(&lost);
        silent
    }

    /// The departure of a reported message; `None` while it is queued.
    pub(crate) fn departed(&self, index: u32) -> Option<Instant> {
        let exchange = self.exchanges.get(index as usize)?;
        exchange.transmissions.last().map(|last| last.at)
    }

    /// Ends a message that the peer has reported missing.
    pub(crate) fn end_missing(&mut self, cx: &mut Context, index: u32) {
        self.report_lost(cx, index);
        self.retire(cx, index, true);
    }

    /// Ends a message that the peer has reported received; returns its bytes.
    pub(crate) fn end_received(&mut self, cx: &mut Context, index: u32) -> u32 {
        let exchange = &self.exchanges[index as usize];
        debug_assert!(exchange.is_reported());
        let bytes = exchange.bytes.len() as u32;
        let queued = exchange.is_queued();
        if queued {
            let peer = exchange.peer;
            self.peers[peer].queue.remove(&mut self.exchanges, index);
        } else {
            cx.counters.of_mut(exchange.purpose.kind()).answered += 1;
        }
        self.retire(cx, index, false);
        // A repetition that is still queued was not sent: its bytes are no evidence.
        if queued { 0 } else { bytes }
    }

    /// Reports to the controller the report that names this message, which also covers `also` bytes of
    /// others, and ends it. Unless the report was `prompt`, it gives no round trip.
    pub(crate) fn end_reporting(
        &mut self,
        cx: &mut Context,
        index: u32,
        (also, recent): (u32, u32),
        prompt: bool,
    ) {
        let parameters = self.exchange_parameters(cx, index);
        let exchange = &self.exchanges[index as usize];
        debug_assert!(exchange.is_reported() && !exchange.transmissions.is_empty());
        let peer = &mut self.peers[exchange.peer];
        let Timer { timeout, state } = exchange.timer;
        let transmissions = &exchange.transmissions;
        let sent = exchange.bytes.len() as u32;
        let matched = if prompt {
            // A repetition is another message: this one has one transmission.
            Matched::Exact(0)
        } else {
            // A late report would give the server's timer as the round trip of the path.
            Matched::Ambiguous {
                earliest: 0,
                latest: 0,
            }
        };
        let answered = Answered::new(cx.now, &parameters, state, transmissions, timeout)
            .with_matched(matched)
            .with_answer(Answer::Empty, sent)
            .with_also(also, recent);
        if let Some(round_trip) = answered.round_trip() {
            peer.tally.record_round_trip(round_trip);
            cx.counters.round_trips.add(round_trip);
        }
        cx.counters.of_mut(exchange.purpose.kind()).answered += 1;
        peer.congestion.controller().on_answered(&answered);
        let group = (peer.aggregate, exchange.peer);
        (self.aggregates).report_reply(group, sent, exchange.group_state, &answered);
        if cx.config.trace != Tracing::Off {
            let what = TraceEvent::Answered {
                id: exchange.id.unwrap_or_default(),
                retransmissions: exchange.retransmissions(),
                since_original: answered.since_original(),
                rto: peer.congestion.as_ref().rto(cx.now),
            };
            let address = peer.address;
            cx.trace(address, what);
        }
        self.retire(cx, index, false);
    }

    /// Ends an acknowledged block: its response, if any, names another.
    pub(crate) fn end_acknowledged(&mut self, cx: &mut Context, index: u32) {
        let exchange = &self.exchanges[index as usize];
        debug_assert!(exchange.state == State::Unacknowledged);
        let purpose = exchange.purpose;
        let transmission = match purpose {
            Purpose::Request {
                block1: Some(block),
                ..
            } => self.transmission_of(index, block.number),
            _ => None,
        };
        self.report(Outcome::BlockAcknowledged {
            purpose,
            exchange: index,
            transmission,
        });
        self.end(cx, index, false);
    }

    /// Continues a peer's queue after the ends of several messages.
    pub(crate) fn continue_queue(&mut self, cx: &mut Context, peer: PeerIndex) {
        self.pump(cx, peer);
    }
}

impl Carrier {
    /// Returns whether an exchange carries a reported message.
    pub(crate) fn is_reported(&self, index: u32) -> bool {
        let exchange = self.exchanges.get(index as usize);
        exchange.is_some_and(Exchange::is_reported)
    }

    /// Returns whether a message left by `until`, and so long ago that a report of now would know of it.
    pub(crate) fn is_report_due(&self, now: Instant, until: Instant, index: u32) -> bool {
        let Some(exchange) = self.exchanges.get(index as usize) else {
            return false;
        };
        let due = self.peers[exchange.peer].report_delay();
        let is_due = |at: Instant| at <= until && now.since(at) >= due;
        let sent = exchange.transmissions.last();
        exchange.is_presumed_received() && sent.is_some_and(|sent| is_due(sent.at))
    }

    /// The transmission of a block; `None` while it is queued.
    pub(crate) fn transmission_of(&self, index: u32, block: u32) -> Option<BlockTransmission> {
        let exchange = self.exchanges.get(index as usize)?;
        let at = exchange.transmissions.last()?.at;
        Some(BlockTransmission {
            token: exchange.token,
            block,
            at,
        })
    }

    /// Ends a message whose receipt is unknown: its report is no longer awaited.
    pub(crate) fn end_unknown(&mut self, cx: &mut Context, index: u32) {
        debug_assert!(
            !self.exchanges[index as usize].is_queued(),
            "it has not left"
        );
        self.report_abandoned(cx, index, Reason::Cancelled);
        self.retire(cx, index, true);
    }
}
