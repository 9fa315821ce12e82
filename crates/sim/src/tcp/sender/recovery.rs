//! Loss recovery: effects of ACKs and timeouts on state, scoreboard and window.

use carob_cc::time::{Duration, Instant};

use super::scoreboard::{AcknowledgedSegments, MarkedLoss};
use super::{AckInput, Prr, Sender, TimedOut};
use crate::tcp::congestion::{Ack, LostSegment, State, Timeout};
use crate::tcp::counters::SenderEvent;
use crate::tcp::settings::{
    AfterTimeout, HalfOf, IdleRestart, PartialAckTimer, PrrBound, Reduction,
};

/// The effect of an ACK, for the state machine.
#[derive(Clone, Copy, Debug)]
struct AckEffect {
    now: Instant,
    advanced: bool,
    duplicate: bool,
    taken: AcknowledgedSegments,
}

impl Sender {
    /// Handles an acceptable ACK.
    pub(in crate::tcp) fn handle_ack(&mut self, input: &AckInput<'_>) {
        let now = input.now;
        // A paced segment may have been acknowledged; transmission decides again.
        self.paced = false;
        let (prior_in_flight, prior_losses) = (self.in_flight(), self.board.losses);
        let advanced = input.ack > self.una;
        let same_window = core::mem::replace(&mut self.peer_window, input.window) == input.window;
        // RFC 5681 2: a duplicate carries no data, changes no window, and something is outstanding.
        let duplicate = !advanced
            && input.bare
            && same_window
            && input.ack == self.una
            && !self.board.is_empty();
        let mut taken = AcknowledgedSegments::default();
        let mut delivered = 0;
        if advanced {
            self.una = input.ack;
            self.buffer.acknowledge(input.ack);
            let rate = &mut self.rate;
            taken = self.board.acknowledge(input.ack, |sent| rate.saw(sent));
            self.retries = 0;
            self.estimator.progressed();
            if self.sack {
                delivered += taken.delivered;
            } else if taken.segments > 0 {
                delivered += self.board.undo_duplicates(taken.segments);
                delivered -= self.announced_before(delivered);
            }
        } else if input.window == 0 {
            self.retries = 0; // the peer lives
        }
        if self.sack {
            for &(start, end) in input.sack {
                let rate = &mut self.rate;
                delivered += self.board.sack(start, end, |sent| rate.saw(sent));
            }
        }
        let rtt = self.sample_rtt(input, advanced, &taken);
        self.counters.duplicate_acks += u64::from(duplicate);
        if input.congestion_echo {
            self.enter_cwr();
        }
        let effect = AckEffect {
            now,
            advanced,
            duplicate,
            taken,
        };
        let was = self.state;
        delivered += self.react(&effect);
        self.adapt_to_reordering();
        self.rate.delivered += u64::from(delivered);
        if was == State::Recovery && self.state != State::Recovery {
            self.counters.in_recovery += now.since(self.recovery_began);
        }
        let losses = self.board.losses - prior_losses;
        self.control(&effect, was, delivered, losses as u32, prior_in_flight, rtt);
        self.restart_timer(&effect, was);
        if advanced || duplicate {
            let what = if advanced {
                SenderEvent::Acked
            } else {
                SenderEvent::Duplicate
            };
            self.note(now, what, input.ack);
        }
    }

    /// Feeds the estimator; returns the sample of the last acknowledged segment.
    fn sample_rtt(
        &mut self,
        input: &AckInput<'_>,
        advanced: bool,
        taken: &AcknowledgedSegments,
    ) -> Option<Duration> {
        if !advanced {
            return None;
        }
        // Karn: an ACK that covers a retransmitted segment gives no sample, unless it echoes a
        // timestamp.
        let since = |sent_at: Option<Instant>| {
            let sent_at = sent_at.filter(|_| !taken.repeated)?;
            Some(input.now.since(sent_at))
        };
        let rtt = input.echoed.or_else(|| since(taken.first_sent_at))?;
        self.estimator.sample(rtt, self.una, self.nxt);
        let last = since(taken.last_sent_at).or(input.echoed);
        if let Some(last) = last {
            self.rate.saw_rtt(last);
        }
        last
    }

    /// Changes state and marks losses; returns deliveries announced by duplicates.
    fn react(&mut self, effect: &AckEffect) -> u32 {
        let mut counted = 0;
        let covered = self.una >= self.recover;
        match self.state {
            State::Cwr if self.una > self.recover => {
                self.end_reduction();
                self.state = State::Open;
            }
            State::Recovery if covered || self.ends_with_any_ack(effect) => {
                // Duplicates stood for segments beyond a hole, and the hole is filled.
                if !self.sack {
                    self.board.sacked = 0;
                }
                if self.holds() {
                    return 0;
                }
                self.end_recovery();
            }
            State::Loss => {
                if covered && !self.holds() {
                    self.state = State::Open;
                } else {
                    if covered {
                        return 0;
                    }
                    if !self.sack && self.settings.careful {
                        // Duplicates count only for segments sent after the timeout.
                        if effect.duplicate && self.nxt > self.recover {
                            counted = self.board.duplicate(1);
                        } else if effect.advanced {
                            self.board.sacked = 0;
                        }
                    }
                    if !self.sack && !self.settings.careful {
                        self.strays = if effect.advanced { 0 } else { self.strays };
                        self.strays += u32::from(effect.duplicate);
                        if self.strays >= self.settings.dup_ack_threshold {
                            self.board.mark_first_again();
                            self.enter_recovery(effect.now);
                        }
                    }
                    return counted;
                }
            }
            _ => {}
        }
        let threshold = self.threshold;
        if self.state == State::Recovery {
            if self.sack {
                self.board.mark_by_sack(threshold);
            } else if effect.advanced {
                // RFC 6582 3.2 step 3: a partial ACK shows the next hole.
                self.board.mark_first();
            } else if effect.duplicate {
                counted = self.board.duplicate(1);
            }
            return counted;
        }
        if self.sack {
            self.board.mark_by_sack(threshold);
        } else {
            if effect.advanced {
                self.board.sacked = 0;
            }
            if effect.duplicate {
                counted = self.board.duplicate(1);
            }
            // RFC 6582 3.2 step 2: not for losses that the last recovery or timeout covered.
            let fresh = !self.settings.careful || self.una > self.recover;
            if self.board.sacked >= threshold && fresh {
                self.board.mark_first();
            }
        }
        if self.board.lost > 0 {
            self.enter_recovery(effect.now);
        } else if self.state != State::Cwr {
            self.state = if self.board.sacked > 0 {
                State::Disorder
            } else {
                self.limited_sent = 0;
                State::Open
            };
        }
        counted
    }

    /// The number of deliveries that duplicates had announced before a timeout.
    fn announced_before(&mut self, delivered: u32) -> u32 {
        if !self.settings.deliveries_once {
            return 0;
        }
        let known = self.announced.min(delivered - 1);
        // All data outstanding at the timeout is acknowledged: nothing remains unknown.
        let over = self.state != State::Loss || self.una >= self.recover;
        self.announced = if over { 0 } else { self.announced - known };
        known
    }

    /// Linux: unexplained duplicates count as reordering, and raise the threshold.
    fn adapt_to_reordering(&mut self) {
        if let Some(distance) = self.board.unexplained.take() {
            let most = self.settings.reordering_max;
            if most > 0 {
                self.threshold = distance.min(most);
            }
        }
    }

    /// Returns whether any ACK ends recovery (RFC 5681 without 6582).
    fn ends_with_any_ack(&self, effect: &AckEffect) -> bool {
        self.settings.reduction == Reduction::Reno && !self.sack && effect.advanced
    }

    /// Returns whether the state is kept. Linux: without SACK, until data beyond that outstanding
    /// is acknowledged, because duplicates of that very ACK are ambiguous (RFC 6582 3.2 step 2).
    fn holds(&self) -> bool {
        !self.sack
            && self.settings.careful
            && self.settings.reduction == Reduction::Prr
            && self.una == self.recover
    }

    fn enter_recovery(&mut self, now: Instant) {
        if self.state != State::Cwr {
            self.begin_reduction();
        }
        self.recover = self.nxt;
        self.state = State::Recovery;
        self.recovery_began = now;
        self.first_partial = true;
        self.counters.recoveries += 1;
        if !self.module.owns_window() && self.settings.reduction != Reduction::Prr {
            self.force = true;
            self.window.cwnd = self.window.ssthresh;
            // RFC 5681 3.2 step 3: each duplicate shows that a segment has left the network.
            if !self.sack {
                self.window.cwnd += self.settings.dup_ack_threshold;
            }
        }
        self.note(now, SenderEvent::Recovering, self.una);
    }

    fn end_recovery(&mut self) {
        self.state = State::Open;
        if self.settings.reduction == Reduction::Classic && !self.sack {
            // RFC 6582 3.2 step 3: no burst if little is outstanding.
            if !self.module.owns_window() {
                let least = self.board.len().max(1) + 1;
                self.window.cwnd = self.window.ssthresh.min(least);
            }
            return;
        }
        self.end_reduction();
    }

    fn begin_reduction(&mut self) {
        let flight = match self.settings.half_of {
            HalfOf::Window => self.window.cwnd,
            // RFC 5681 3.2 step 2: without the segments of limited transmit.
            HalfOf::Flight => self.board.len().saturating_sub(self.limited_sent).max(1),
        };
        self.prr = Prr {
            flight: flight.max(1),
            ..Prr::default()
        };
        self.window.count = 0;
        self.window.ssthresh = self
            .module
            .ssthresh(self.last_sent_at, &self.window, flight);
    }

    fn end_reduction(&mut self) {
        if !self.module.owns_window() {
            self.window.cwnd = self.window.ssthresh;
        }
    }

    /// Enters the CWR state (RFC 3168 6.1.2): once a window, as for a lost packet.
    fn enter_cwr(&mut self) {
        if self.state > State::Disorder {
            return;
        }
        self.begin_reduction();
        self.recover = self.nxt;
        self.state = State::Cwr;
        self.cwr_pending = true;
        self.counters.ecn_reductions += 1;
        if !self.module.owns_window() && self.settings.reduction != Reduction::Prr {
            self.window.cwnd = self.window.ssthresh;
        }
    }

    /// Updates the congestion window.
    fn control(
        &mut self,
        effect: &AckEffect,
        was: State,
        delivered: u32,
        losses: u32,
        prior_in_flight: u32,
        rtt: Option<Duration>,
    ) {
        let rate = self.rate.sample(effect.now, delivered, self.board.losses);
        self.report_losses(effect.now);
        // Linux, `tcp_is_cwnd_limited`: slow start may double the used window, even if it was not full at this
        // moment.
        let window_limited = if self.window.in_slow_start() {
            self.window.cwnd < 2 * self.most_outstanding
        } else {
            self.window_limited
        };
        let ack = Ack {
            now: effect.now,
            acked: delivered,
            losses,
            lost: self.board.losses,
            prior_in_flight,
            in_flight: self.board.pipe(),
            held_back: self.next_departure.since(effect.now),
            delivered: self.rate.delivered,
            state: self.state,
            window_limited,
            rtt,
            srtt: self.estimator.srtt(),
            rate,
        };
        if self.module.owns_window() {
            let wanted = self.module.wants_app_limited();
            self.module.on_ack(&mut self.window, &ack);
            if wanted || self.module.wants_app_limited() {
                self.rate.limited_by_application(ack.in_flight);
            }
            return;
        }
        match (self.state, self.settings.reduction) {
            (State::Recovery | State::Cwr, Reduction::Prr) => {
                self.reduce(effect, delivered, losses);
            }
            (State::Recovery, _) => self.inflate(effect, was),
            (State::Cwr, _) => {}
            // The ACK that ends a recovery sets the window without growth.
            _ if was == State::Recovery => {}
            _ if effect.advanced => self.module.on_ack(&mut self.window, &ack),
            _ => {}
        }
    }

    /// Reports the segments newly marked lost, if the module handles them.
    fn report_losses(&mut self, now: Instant) {
        let Some(marked) = &mut self.board.marked else {
            return;
        };
        for MarkedLoss { sent, losses } in marked.drain(..) {
            let lost = LostSegment {
                now,
                start: sent.start,
                end: sent.end,
                tx_in_flight: sent.packet_state.in_flight,
                lost: (losses - sent.packet_state.losses) as u32,
                app_limited: sent.packet_state.app_limited,
                delivered: self.rate.delivered,
                sack: self.sack,
            };
            self.module.on_lost(&self.window, &lost);
        }
    }

    /// Proportional rate reduction (RFC 6937 3.1).
    fn reduce(&mut self, effect: &AckEffect, delivered: u32, losses: u32) {
        // RFC 6937 sends in proportion to deliveries: without one, the window stays.
        if delivered == 0 {
            return;
        }
        let pipe = self.board.pipe();
        let ssthresh = self.window.ssthresh;
        self.prr.delivered += delivered;
        let credit = self.prr.delivered.saturating_sub(self.prr.out);
        let mut send = if pipe > ssthresh {
            let share = u64::from(self.prr.delivered) * u64::from(ssthresh);
            let due = share.div_ceil(u64::from(self.prr.flight)) as u32;
            due.saturating_sub(self.prr.out)
        } else {
            let bound = match self.settings.prr_bound {
                PrrBound::Conservative => credit,
                PrrBound::SlowStart => credit.max(delivered) + 1,
                PrrBound::Linux => {
                    credit.max(delivered) + u32::from(effect.advanced && losses == 0)
                }
            };
            bound.min(ssthresh - pipe)
        };
        if self.prr.out == 0 {
            send = send.max(1); // the fast retransmit itself
        }
        self.window.cwnd = pipe + send;
    }

    /// Inflates the window (RFC 6582 3.2 steps 2 to 4): by a segment for every duplicate; a partial
    /// ACK deflates it by the acknowledged segments except one.
    fn inflate(&mut self, effect: &AckEffect, was: State) {
        if self.sack {
            return; // RFC 6675: the window stays at ssthresh, the pipe does the rest
        }
        if was != State::Recovery {
            return;
        }
        if effect.advanced {
            let acked = effect.taken.segments;
            self.window.cwnd = self.window.cwnd.saturating_sub(acked).max(1) + u32::from(acked > 0);
            self.force = true;
        } else if effect.duplicate {
            self.window.cwnd += 1;
        }
    }

    fn restart_timer(&mut self, effect: &AckEffect, was: State) {
        if self.board.is_empty() {
            if effect.advanced {
                self.timer = None;
            }
            return;
        }
        if !effect.advanced {
            return;
        }
        // RFC 6582 4: "impatient" lets the timer run on after the first partial ACK.
        let partial = was == State::Recovery && self.state == State::Recovery;
        if partial && self.settings.partial_ack_timer == PartialAckTimer::First {
            if !self.first_partial {
                return;
            }
            self.first_partial = false;
        }
        self.timer = Some(self.estimator.deadline(effect.now));
    }

    /// Handles the timers that are due.
    pub(in crate::tcp) fn handle_timeout(&mut self, now: Instant) -> TimedOut {
        if self.timer.is_none_or(|timer| timer > now) {
            return TimedOut::No;
        }
        self.retries += 1;
        if self.retries > self.settings.retries {
            self.timer = None;
            return TimedOut::GaveUp;
        }
        if self.board.is_empty() {
            self.probe = true; // the window is closed
            self.estimator.back_off();
            self.timer = Some(self.estimator.deadline(now));
            return TimedOut::Sends;
        }
        self.counters.timeouts += 1;
        self.counters.first_timeout.get_or_insert(now);
        if self.state == State::Recovery {
            self.counters.in_recovery += now.since(self.recovery_began);
        }
        // RFC 5681 3.1: not again for a segment whose timer expired before.
        if self.state <= State::Disorder
            || self.una >= self.recover
            // Data was acknowledged since the last timeout, so this is another loss.
            || (self.state == State::Loss && self.retries == 1)
        {
            self.begin_reduction();
        }
        if !self.sack {
            self.announced += self.board.sacked;
            self.board.sacked = 0;
        }
        match self.settings.after_timeout {
            AfterTimeout::GoBackN => {
                // RACK's round-trip time, by which Linux judges, is known only with SACK.
                let spares = self.settings.timeout_spares_recent && self.sack;
                let recent = self.estimator.srtt().filter(|_| spares);
                let until = match recent {
                    Some(srtt) => now - srtt,
                    None => Instant::FAR_FUTURE,
                };
                self.board.mark_all(until);
                self.window.cwnd = self.board.pipe() + 1;
            }
            AfterTimeout::HeadOnly => {
                self.board.mark_first_again();
                self.window.cwnd = 1;
            }
        }
        self.window.count = 0;
        self.state = State::Loss;
        // RFC 6582 3.2 step 4: duplicates of segments sent before the timeout start no fast retransmit.
        self.recover = self.nxt;
        self.report_losses(now);
        self.module.on_timeout(
            &mut self.window,
            &Timeout {
                now,
                in_flight: self.board.pipe(),
                lost: self.board.losses,
                delivered: self.rate.delivered,
                delivered_at: self.rate.delivered_at,
            },
        );
        self.force = true;
        self.estimator.back_off();
        self.timer = Some(self.estimator.deadline(now));
        self.note(now, SenderEvent::TimedOut, self.una);
        TimedOut::Sends
    }

    /// Updates the application-limited state at a write.
    pub(super) fn check_application_limit(&mut self) {
        // The conditions of Linux, `tcp_rate_check_app_limited`: less than a segment to send, room in the
        // window, and every loss retransmitted.
        let unsent = self.buffer.end().saturating_sub(self.nxt.max(1));
        if unsent < self.mss
            && self.in_flight() < self.window.cwnd
            && self.board.lost <= self.board.resent
        {
            self.rate.limited_by_application(self.board.pipe());
        }
    }

    /// Reduces the window after an idle time (RFC 5681 4.1).
    pub(super) fn restart_after_idle(&mut self, now: Instant) {
        if !self.board.is_empty() || self.nxt == 0 {
            return;
        }
        let (idle, rto) = (now.since(self.last_sent_at), self.estimator.rto());
        if idle <= rto || self.module.owns_window() {
            return;
        }
        let least = self.settings.initial_window.min(self.window.cwnd);
        match self.settings.idle_restart {
            IdleRestart::None => return,
            IdleRestart::Rfc5681 => self.window.cwnd = least,
            IdleRestart::Decay => {
                let periods = idle.as_micros() / rto.as_micros().max(1);
                let halved = self.window.cwnd.checked_shr(periods.min(31) as u32);
                // Three quarters of the known capacity are kept (RFC 2861 3).
                let known = self.window.cwnd / 4 * 3;
                self.window.ssthresh = self.window.ssthresh.max(known);
                self.window.cwnd = halved.unwrap_or(0).max(least);
            }
        }
        self.window_limited = false;
        self.most_outstanding = 0;
        self.last_sent_at = now;
    }
}
