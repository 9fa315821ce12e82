//! Next segment: retransmissions first, then new data, as windows and pacing allow.

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};

use super::Sender;
use super::scoreboard::Sent;
use crate::tcp::congestion::State;
use crate::tcp::counters::SenderEvent;
use crate::tcp::settings::Reduction;

/// A segment to be sent, in positions.
#[derive(Clone, Debug)]
pub(in crate::tcp) struct Outgoing {
    pub(in crate::tcp) start: u64,
    pub(in crate::tcp) payload: Bytes,
    pub(in crate::tcp) fin: bool,
    pub(in crate::tcp) push: bool,
    pub(in crate::tcp) copy: bool,
}

impl Sender {
    /// Segments in flight, as compared with the window.
    pub(super) fn in_flight(&self) -> u32 {
        let pipe = self.board.pipe();
        let limited = self.settings.limited_transmit;
        let inflated =
            self.settings.reduction != Reduction::Prr && !self.sack && !self.module.owns_window();
        match self.state {
            // RFC 3042: two segments more.
            State::Open | State::Disorder if inflated && limited => {
                self.board.len() - self.board.sacked.min(2).min(self.board.len())
            }
            // RFC 6582: in recovery the window is inflated instead.
            State::Loss => pipe,
            _ if inflated => self.board.len(),
            State::Open | State::Disorder if !limited => pipe + self.board.sacked,
            _ => pipe,
        }
    }

    /// The next segment to send at `now`.
    pub(in crate::tcp) fn next(&mut self, now: Instant) -> Option<Outgoing> {
        self.paced = false;
        if self.force {
            self.force = false;
            if !self.board.is_empty()
                && let Some(outgoing) = self.resend(now, true)
            {
                return Some(outgoing);
            }
        }
        let full = self.in_flight() >= self.window.cwnd;
        if self.board.lost > self.board.resent && !full {
            if self.must_wait(now) {
                return None;
            }
            return self.resend(now, false);
        }
        let outgoing = self.send_new(now, full);
        self.note_usage(outgoing.is_some());
        outgoing
    }

    fn must_wait(&mut self, now: Instant) -> bool {
        let paced = self.module.pacing_rate().is_some() && self.next_departure > now;
        self.paced |= paced;
        paced
    }

    /// Retransmits a lost segment; the first one if `first`.
    fn resend(&mut self, now: Instant, first: bool) -> Option<Outgoing> {
        if first {
            self.board.mark_first();
        }
        self.begin_flight(now);
        let flight = (self.board.pipe() + 1, self.board.losses);
        let packet_state = self.rate.packet_state(now, false, flight);
        let sent = self.board.next_lost()?;
        sent.copies = sent.copies.saturating_add(1);
        sent.sent_at = now;
        sent.packet_state = packet_state;
        sent.resent = true;
        let sent = *sent;
        self.board.resent += 1;
        self.counters.retransmissions += 1;
        if self.settings.restart_on_retransmit && sent.start == self.una {
            self.timer = Some(self.estimator.deadline(now));
        }
        self.note(now, SenderEvent::Resent, sent.start);
        Some(self.depart(now, &sent))
    }

    fn send_new(&mut self, now: Instant, full: bool) -> Option<Outgoing> {
        let (end, fin) = (self.buffer.end(), self.fin);
        let start = self.nxt;
        let unsent = end.saturating_sub(start);
        let wants_fin = fin.is_some_and(|fin| start <= fin);
        if start == 0 || (unsent == 0 && !wants_fin) {
            return None;
        }
        let probe = core::mem::take(&mut self.probe);
        if full && !probe {
            return None;
        }
        let mut length = unsent.min(self.mss);
        if self.settings.segment_per_write {
            length = length.min(self.buffer.write_end(start).saturating_sub(start));
        }
        let room = (self.una + self.peer_window).saturating_sub(start);
        let outstanding = !self.board.is_empty();
        if room < length && !probe {
            // RFC 9293 3.8.6.2.1: silly window syndrome avoidance.
            if outstanding || room == 0 {
                if !outstanding {
                    let deadline = self.estimator.deadline(now);
                    self.timer.get_or_insert(deadline); // RFC 9293 3.8.6.1
                }
                return None;
            }
            length = room;
        // A probe of one byte makes the peer send its window (RFC 9293 3.8.6.1).
        } else if probe && room < length {
            length = length.min(1);
        }
        let last = start + length == end;
        // RFC 9293 3.7.4: a short segment waits while anything is outstanding.
        if self.settings.nagle && length < self.mss && outstanding && !(last && wants_fin) {
            return None;
        }
        if self.must_wait(now) {
            return None;
        }
        let with_fin = last && wants_fin;
        self.begin_flight(now);
        let flight = (self.board.pipe() + 1, self.board.losses);
        let packet_state = self.rate.packet_state(now, !outstanding, flight);
        let sent = Sent {
            start,
            end: start + length + u64::from(with_fin),
            sent_at: now,
            packet_state,
            copies: 1,
            lost: false,
            resent: false,
            sacked: false,
            fin: with_fin,
        };
        self.board.push(sent);
        self.limited_sent += u32::from(self.state == State::Disorder);
        self.nxt = sent.end;
        // RFC 6298 5.1
        if self.timer.is_none() || !outstanding {
            self.timer = Some(self.estimator.deadline(now));
        }
        self.note(now, SenderEvent::Sent, start);
        Some(self.depart(now, &sent))
    }

    /// Handles the first transmission with nothing in flight, possibly because everything is marked
    /// lost.
    fn begin_flight(&mut self, now: Instant) {
        if self.board.pipe() == 0 && self.rate.is_limited_by_application() {
            self.module.on_restart(&mut self.window, now);
        }
    }

    fn depart(&mut self, now: Instant, sent: &Sent) -> Outgoing {
        self.counters.data_segments += 1;
        self.last_sent_at = now;
        if matches!(self.state, State::Recovery | State::Cwr) {
            self.prr.out += 1;
        }
        let data_end = sent.end - u64::from(sent.fin);
        let payload = self.buffer.slice(sent.start, data_end);
        // Linux does not pace the first segments of a connection (ten, as the qdisc `fq`).
        let begun = self.counters.data_segments > u64::from(self.settings.unpaced_segments);
        if begun && let Some(rate) = self.module.pacing_rate() {
            let mut bytes = payload.len() as u64;
            if self.settings.bbr_pacing_headers {
                bytes += u64::from(self.header_bytes + self.settings.bbr_pacing_frame);
            }
            let gap = Duration::from_micros(bytes * 1_000_000 / rate.max(1));
            // A late transmission is compensated by up to half a gap, as in Linux.
            let credit = now.since(self.next_departure).min(gap.half());
            self.next_departure = now + gap.saturating_sub(credit);
        }
        Outgoing {
            start: sent.start,
            payload,
            fin: sent.fin,
            push: data_end == self.buffer.end(),
            copy: sent.copies > 1,
        }
    }

    /// Records window usage over the current round (RFC 7661).
    fn note_usage(&mut self, sent: bool) {
        let full = self.in_flight() >= self.window.cwnd;
        if !sent && !full {
            return;
        }
        let outstanding = self.board.len();
        if self.una >= self.usage_until
            || full
            || (!self.window_limited && outstanding > self.most_outstanding)
        {
            self.window_limited = full;
            self.most_outstanding = outstanding;
            self.usage_until = self.nxt;
        }
    }
}
