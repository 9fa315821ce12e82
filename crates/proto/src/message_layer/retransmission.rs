//! Transmissions and retransmissions of an exchange's message (RFC 7252 4.2).

use carob_cc::TransmissionParameters;
use carob_cc::controller::Timer;
use carob_cc::evidence::{Expired, LossReason, Lost, Reason, Sent, Transmission};
use carob_cc::time::{Duration, Instant};

use crate::carrier::Carrier;
use crate::codec::Type;
use crate::config::Tracing;
use crate::context::Context;
use crate::event::Failure;
use crate::message_layer::peer::Peer;
use crate::message_layer::{Exchange, Purpose, State};
use crate::trace::TraceEvent;

/// Consequence of an expired timer of an unacknowledged message.
enum Expiry {
    /// Nothing yet: the timer runs on.
    Later(Instant),
    /// The transmission is lost.
    Lost(LossReason),
}

impl Exchange {
    /// The time from a transmission until it may be lost: the controller's time threshold, or the whole
    /// timer.
    pub(crate) fn first_expiry(&self, peer: &Peer) -> Duration {
        match peer.congestion.as_ref().gap_detection() {
            Some(gap) if self.repairs_now < gap.repairs => {
                gap.time_threshold.min(self.timer.timeout)
            }
            _ => self.timer.timeout,
        }
    }

    /// Judges an expired timer. A message of a window is lost after its timer, or once after the time
    /// threshold if a later message has been answered. No timer is shorter than the path's timeout now, which
    /// has grown if a queue has.
    fn judge_expiry(
        &mut self,
        now: Instant,
        peer: &Peer,
        parameters: &TransmissionParameters,
    ) -> Expiry {
        let Some(last) = self.transmissions.last().map(|last| last.at) else {
            return Expiry::Lost(LossReason::Timer);
        };
        let elapsed = now.since(last);
        let (due, look) = match peer.congestion.as_ref().gap_detection() {
            None => (last + self.timer.timeout, None),
            Some(gap) => {
                let timeout = self.timer.timeout.max(gap.timeout);
                let due = last + timeout;
                let evident = gap.answered_departure > last && elapsed >= gap.time_threshold;
                let may = self.repairs_now < gap.repairs && parameters.max_retransmit > 0;
                if evident && may && now < due {
                    return Expiry::Lost(LossReason::Gap);
                }
                let look = (elapsed + elapsed.half().half()).max(gap.time_threshold);
                (due, may.then_some(last + look))
            }
        };
        if now >= due {
            return Expiry::Lost(LossReason::Timer);
        }
        self.lengthened = due;
        Expiry::Later(look.map_or(due, |look| due.min(look)))
    }

    /// Returns whether a lost transmission is followed by another. Repairs for a gap do not count
    /// against MAX_RETRANSMIT.
    fn may_retransmit(
        &self,
        reason: LossReason,
        now: Instant,
        parameters: &TransmissionParameters,
    ) -> bool {
        debug_assert!(self.confirmable, "only a CON is retransmitted");
        let retransmissions = self.retransmissions();
        let began = self.transmissions.first().map_or(now, |first| first.at);
        // Repairs leave on evidence that the path works, so that they are not the silence which
        // MAX_RETRANSMIT counts.
        let timeouts = retransmissions.saturating_sub(self.repairs);
        retransmissions < TransmissionParameters::MAX_RETRANSMIT_LIMIT
            && (reason == LossReason::Gap
                || parameters.permits_retransmission(timeouts, now.since(began)))
    }

    /// Counts a repair for a gap; after a timeout another is permitted.
    fn count_repair(&mut self, reason: LossReason) {
        if reason == LossReason::Gap {
            self.repairs = self.repairs.saturating_add(1);
            self.repairs_now = self.repairs_now.saturating_add(1);
        } else {
            self.repairs_now = 0;
        }
        debug_assert!(self.repairs_now <= self.repairs);
    }
}

impl Carrier {
    /// Supersedes an unacknowledged notification by a newer state: a new message that continues its
    /// retransmission count and timer (RFC 7641 4.5.2).
    pub(crate) fn supersede(&mut self, cx: &mut Context, index: u32) {
        let lifetime = self.exchange_lifetime(cx, index);
        let exchange = &self.exchanges[index as usize];
        let supersedes = cx.supersedes_notifications();
        let behind = |observer| supersedes && self.notifications.observers.is_behind(observer);
        if !exchange.purpose.observer().is_some_and(behind) {
            return;
        }
        // Without a free Message ID the older state is retransmitted; the newer follows.
        let peer = exchange.peer;
        let Ok(id) = self.peers[peer]
            .message_ids
            .next(cx.now, lifetime, cx.config.groups)
        else {
            return;
        };
        debug_assert!(exchange.state == State::Unacknowledged && exchange.confirmable);
        self.release_window(index);
        self.refresh_notification(cx, index);
        // A new Message ID, because a duplicate of the old one would be ignored by the client
        // (RFC 7252 4.5).
        self.index.remove_id(&self.exchanges[index as usize], index);
        let exchange = &mut self.exchanges[index as usize];
        let before = exchange.id.replace(id);
        (exchange.superseded).extend(before.map(|before| (before, exchange.first_of_id)));
        // At most MAX_RETRANSMIT_LIMIT + 1 transmissions, which fit a u8.
        exchange.first_of_id = exchange.transmissions.len() as u8;
        exchange.bytes[0] = exchange.bytes[0] & 0xcf | (Type::Confirmable as u8) << 4;
        exchange.bytes[2..4].copy_from_slice(&id.0.to_be_bytes());
        let bytes = exchange.in_flight_bytes();
        let peer = &mut self.peers[peer];
        peer.outstanding += 1;
        peer.outstanding_bytes = peer.outstanding_bytes.saturating_add(bytes);
        let address = peer.address;
        self.index.add_id(&self.exchanges, index);
        if let Some(id) = before {
            cx.trace(address, TraceEvent::Superseded { id });
        }
    }

    /// Sends one transmission of an exchange's message and reports it to the controller.
    pub(crate) fn send_copy(
        &mut self,
        cx: &mut Context,
        index: u32,
        parameters: &TransmissionParameters,
    ) {
        self.charge_aggregate(cx, index);
        let exchange = &mut self.exchanges[index as usize];
        debug_assert!(!exchange.is_queued() && exchange.id.is_some());
        debug_assert!(exchange.confirmable || exchange.transmissions.is_empty());
        let peer = &mut self.peers[exchange.peer];
        let retransmissions = u8::try_from(exchange.transmissions.len()).unwrap_or(u8::MAX);
        let bytes = exchange.bytes.len() as u32;
        let sent = Sent::new(cx.now, parameters, bytes)
            .with_retransmissions(retransmissions)
            .with_kind(exchange.purpose.kind())
            .with_confirmable(exchange.confirmable || exchange.is_reported())
            .with_answer_bytes(exchange.answer_bytes)
            // A window that was not used must not grow (as in RFC 7661 for TCP).
            .with_application_limited(peer.queue.is_empty());
        let state = peer.congestion.controller().on_sent(&sent, &mut *cx.random);
        exchange
            .transmissions
            .push(Transmission { at: cx.now, state });
        // `u32::MAX` means no limit, and must stay so.
        if exchange.budget != u32::MAX {
            exchange.budget = exchange.budget.saturating_sub(bytes);
        }
        let tally = &mut peer.tally;
        tally.transmissions = tally.transmissions.saturating_add(1);
        tally.retransmissions = tally
            .retransmissions
            .saturating_add(u32::from(retransmissions > 0));
        let counts = cx.counters.of_mut(exchange.purpose.kind());
        counts.transmissions += 1;
        counts.retransmissions += u64::from(retransmissions > 0);
        cx.counters.sent.add(exchange.bytes.len());
        let to = peer.address;
        (cx.out).transmit(to, |out| out.extend_from_slice(&exchange.bytes));
        if cx.config.trace != Tracing::Off {
            let what = TraceEvent::Sent {
                id: exchange.id.unwrap_or_default(),
                kind: if exchange.confirmable {
                    Type::Confirmable
                } else {
                    Type::NonConfirmable
                },
                retransmissions,
                purpose: exchange.purpose.kind(),
                timeout: exchange.confirmable.then_some(exchange.timer.timeout),
                bytes,
            };
            cx.trace(to, what);
        }
        let peer = self.exchanges[index as usize].peer;
        self.peers.sent(peer, cx.now);
        let most = usize::from(TransmissionParameters::MAX_RETRANSMIT_LIMIT) + 1;
        debug_assert!(self.exchanges[index as usize].transmissions.len() <= most);
    }

    pub(crate) fn handle_exchange_timer(&mut self, cx: &mut Context, index: u32) {
        let parameters = self.exchange_parameters(cx, index);
        let unanswered = self.suppressed_after(cx, index);
        let exchange = &mut self.exchanges[index as usize];
        debug_assert!(!exchange.transmissions.is_empty(), "it has left once");
        debug_assert!(
            cx.timers.deadline(exchange.timer_id).is_none(),
            "it has expired"
        );
        match exchange.state {
            State::Queued => debug_assert!(false, "a queued exchange has no timer"),
            State::Unacknowledged => self.handle_expiry(cx, index, &parameters),
            State::Waiting { counted: true } if exchange.purpose == Purpose::ResponseSuppressed => {
                self.end(cx, index, false);
            }
            State::Waiting { .. } if exchange.is_reported() => self.expire_reported(cx, index),
            State::Waiting { counted }
                if unanswered.is_some_and(|wait| {
                    let sent = exchange.transmissions.first().map_or(cx.now, |t| t.at);
                    !counted || cx.config.reliable.is_some() || cx.now.since(sent) >= wait
                }) =>
            {
                self.suppress_response(cx, index);
            }
            State::Waiting { counted: true } if cx.config.reliable.is_some() => {
                self.abandon(cx, index, Reason::TimedOut, Failure::NoResponse);
            }
            // Responses of group members are not matched by the message layer.
            State::Waiting { .. } if exchange.purpose.multicast().is_some() => {
                self.end(cx, index, false);
            }
            State::Waiting { counted: true } => {
                exchange.state = State::Waiting { counted: false };
                let peer = exchange.peer;
                let began = exchange.transmissions.first().map_or(cx.now, |t| t.at);
                let wait = unanswered.unwrap_or_else(|| parameters.exchange_lifetime());
                let end = (began + wait).max(cx.now);
                cx.timers.set(exchange.timer_id, end);
                self.release_window(index);
                self.pump(cx, peer);
            }
            State::Waiting { counted: false } => {
                self.abandon(cx, index, Reason::TimedOut, Failure::NoResponse);
            }
        }
    }

    /// Handles a timer of an unacknowledged message: retransmits it or gives it up.
    fn handle_expiry(&mut self, cx: &mut Context, index: u32, parameters: &TransmissionParameters) {
        let exchange = &mut self.exchanges[index as usize];
        debug_assert!(exchange.confirmable && !cx.is_stream());
        let peer = &mut self.peers[exchange.peer];
        let reason = match exchange.judge_expiry(cx.now, peer, parameters) {
            Expiry::Later(later) => {
                debug_assert!(later > cx.now, "a timer in the past");
                return cx.timers.set(exchange.timer_id, later);
            }
            Expiry::Lost(reason) => reason,
        };
        if reason == LossReason::Timer
            && let Some(gap) = peer.congestion.as_ref().gap_detection()
        {
            // The timeout of the path may have lengthened this timer.
            exchange.timer.timeout = exchange.timer.timeout.max(gap.timeout);
        }
        let last = exchange.transmissions.last().copied().unwrap_or_default();
        // Whatever came since then shows that the path works, even if it answers another
        // message.
        let silent = peer.last_heard <= last.at;
        let bytes = exchange.bytes.len() as u32;
        let lost = Lost::new(cx.now, last, bytes, silent).with_reason(reason);
        // Each loss is reported, also that of the last transmission, which `next_timeout` is
        // not asked about.
        peer.congestion.controller().on_lost(&lost);
        cx.counters.of_mut(exchange.purpose.kind()).expired += 1;
        let missed = exchange.missed(cx.now, parameters.max_transmit_span());
        let outlives = !cx.config.late_copies && exchange.outlives(cx.now, parameters);
        let may = !missed && !outlives && exchange.has_budget();
        let again = may && exchange.may_retransmit(reason, cx.now, parameters);
        let copies = u8::try_from(exchange.transmissions.len()).unwrap_or(u8::MAX);
        let failure = Failure::TimedOut { copies };
        let peer = exchange.peer;
        let admits_more = self.report_group_timeout(cx, index);
        if self.is_lost_trial(cx, index) {
            self.retry_with_short_token(cx, index, Reason::TimedOut, failure);
        } else if again {
            self.exchanges[index as usize].count_repair(reason);
            self.retransmit(cx, index, parameters, silent, reason);
            if admits_more {
                self.pump(cx, peer);
            }
        } else {
            self.abandon(cx, index, Reason::TimedOut, failure);
        }
    }

    pub(crate) fn retransmit(
        &mut self,
        cx: &mut Context,
        index: u32,
        parameters: &TransmissionParameters,
        silent: bool,
        reason: LossReason,
    ) {
        let exchange = &mut self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        let Timer {
            timeout: before,
            state,
        } = exchange.timer;
        let retransmissions = exchange.retransmissions();
        let expired = Expired::new(cx.now, parameters, state, retransmissions, before)
            .with_silent(silent)
            .with_reason(reason);
        let controller = peer.congestion.controller();
        let mut timer = controller.next_timeout(&expired, &mut *cx.random);
        // The engine's limit holds for any controller, also one of the application.
        timer.timeout = parameters.limit_timer(timer.timeout, Some(before));
        debug_assert!(!timer.timeout.is_zero(), "a timer without a timeout");
        if retransmissions.saturating_add(1) >= parameters.max_retransmit {
            let began = exchange
                .transmissions
                .first()
                .map_or(cx.now, |first| first.at);
            let age = cx.now.since(began);
            timer.timeout = parameters.reach_span(timer.timeout, before, age);
        }
        exchange.timer = timer;
        cx.timers
            .set(exchange.timer_id, cx.now + exchange.first_expiry(peer));
        // The newest state goes with the retransmission, as RFC 7641 4.5.2 asks; after the
        // timer, which it inherits.
        self.supersede(cx, index);
        self.count_retransmission(cx, index);
        self.send_copy(cx, index, parameters);
    }
}
