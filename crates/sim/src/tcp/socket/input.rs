//! Segments and timeouts in (RFC 9293 3.10.7, 3.10.8).

use carob_cc::time::Duration;

use super::{Event, Socket, State};
use crate::tcp::receiver::Due;
use crate::tcp::segment::{Ecn, Flags, SACK_BLOCKS_MAX, Segment, position};
use crate::tcp::sender::{AckInput, TimedOut};

use carob_cc::time::Instant;

impl Socket {
    /// A segment of the peer arrived.
    pub fn handle_segment(&mut self, now: Instant, segment: &Segment) {
        self.now = self.now.max(now);
        match self.state {
            State::Closed => self.refuse(segment),
            State::Listen => self.in_listen(segment),
            State::SynSent => self.in_syn_sent(segment),
            _ => self.in_connection(segment),
        }
    }

    /// Resets a segment of no connection (RFC 9293 3.5.2).
    fn refuse(&mut self, segment: &Segment) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        let acknowledged = segment.flags.has(Flags::ACK);
        self.answer = Some(Segment {
            seq: if acknowledged { segment.ack } else { 0 },
            ack: segment.seq.wrapping_add(segment.sequence_length()),
            flags: if acknowledged {
                Flags::RST
            } else {
                Flags::RST | Flags::ACK
            },
            ..Segment::default()
        });
    }

    fn in_listen(&mut self, segment: &Segment) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        if segment.flags.has(Flags::ACK) || !segment.flags.has(Flags::SYN) {
            self.refuse(segment);
            return;
        }
        self.opened_at = self.now;
        self.synchronise(segment);
        self.state = State::SynReceived;
        self.sender.nxt = 1;
        self.syn_due = true;
    }

    fn in_syn_sent(&mut self, segment: &Segment) {
        let flags = segment.flags;
        if flags.has(Flags::ACK) && segment.ack != self.local.wrapping_add(1) {
            self.refuse(segment);
            return;
        }
        if flags.has(Flags::RST) {
            if flags.has(Flags::ACK) {
                self.end(Event::Reset);
            }
            return;
        }
        if !flags.has(Flags::SYN) {
            return;
        }
        self.synchronise(segment);
        if flags.has(Flags::ACK) {
            self.options.ecn &= flags.has(Flags::ECE) && !flags.has(Flags::CWR);
            self.establish(segment);
            // Stacks reply before the application has any data.
            self.answer = Some(self.bare(Flags::ACK));
        } else {
            // Simultaneous open (RFC 9293 3.5).
            self.state = State::SynReceived;
            self.syn_due = true;
        }
    }

    /// Applies the options of the peer's SYN.
    fn synchronise(&mut self, segment: &Segment) {
        let (ours, theirs) = (&self.settings, &segment.options);
        self.remote = segment.seq;
        let agreed = &mut self.options;
        // RFC 9293 3.7.1: 536 without the option.
        let mss = ours.mss.min(u32::from(theirs.mss.unwrap_or(536)));
        agreed.timestamps = ours.timestamps && theirs.timestamps.is_some();
        agreed.echo = theirs.timestamps.map_or(0, |(value, _)| value);
        agreed.sack = ours.sack && theirs.sack_permitted;
        agreed.ecn = ours.ecn && segment.flags.has(Flags::ECE);
        // The option takes from the payload (RFC 6691).
        let taken = if agreed.timestamps { 12 } else { 0 };
        agreed.mss = mss.saturating_sub(taken).max(1);
        (agreed.scale_out, agreed.scale_in) = match theirs.window_scale {
            Some(shift) => (Self::scale_for(ours.receive_window), shift.min(14)),
            None => (0, 0),
        };
        let mss = agreed.mss;
        self.receiver.synchronise(mss);
        self.receiver.window();
    }

    /// The scale with which a window fits into 16 bits (RFC 7323 2.3).
    pub(super) fn scale_for(window: u32) -> u8 {
        (0..14)
            .find(|shift| u16::try_from(window >> shift).is_ok())
            .unwrap_or(14)
    }

    fn establish(&mut self, segment: &Segment) {
        let agreed = self.options;
        let copies = self.sender.counters.handshake_retransmissions;
        let rtt = (copies == 0).then(|| self.now.since(self.syn_sent_at));
        // The window of a SYN is never scaled (RFC 7323 2.2).
        let shift = if segment.flags.has(Flags::SYN) {
            0
        } else {
            agreed.scale_in
        };
        let window = u64::from(segment.window) << shift;
        let options = if agreed.timestamps { 12 } else { 0 };
        let now = self.now;
        self.sender.establish(
            now,
            agreed.mss,
            options,
            agreed.sack,
            window,
            rtt,
            &self.stream,
        );
        self.sender.counters.setup = Some(now.since(self.opened_at));
        self.timer = None;
        self.syn_due = false;
        self.state = State::Established;
        if self.close_wanted {
            self.sender.close();
            self.state = State::FinWait1;
        }
        self.report(Event::Connected);
    }

    fn in_connection(&mut self, segment: &Segment) {
        let flags = segment.flags;
        let seq = position(self.remote, segment.seq, self.receiver.next);
        let end = seq + u64::from(segment.sequence_length());
        if self.state == State::SynReceived && flags.has(Flags::SYN) && seq == 0 {
            if flags.has(Flags::ACK) && segment.ack == self.local.wrapping_add(1) {
                self.establish(segment); // both opened at once
                self.ack_due = true;
            } else {
                self.syn_due = true; // our SYN-ACK was lost
            }
            return;
        }
        // RFC 9293 3.10.7.4, first: the segment must overlap the window.
        if !self.receiver.accepts(seq, end) {
            if !flags.has(Flags::RST) {
                self.ack_due = true;
                self.sender.counters.duplicates_received += u64::from(end > seq);
                // Its ACK may be valid all the same (Linux accepts it, too).
                if flags.has(Flags::ACK) && !flags.has(Flags::SYN) && end <= self.receiver.next {
                    self.take_ack(segment, seq);
                    self.receiver.saw_duplicate();
                }
            }
            return;
        }
        if flags.has(Flags::RST) {
            // RFC 5961 3.2: only at the expected position; elsewhere it is challenged.
            if seq == self.receiver.next {
                match self.state {
                    State::TimeWait => {} // RFC 1337 3: ignored
                    // All data was received, and our FIN may have been.
                    State::Closing | State::LastAck => self.end(Event::Closed),
                    _ => self.end(Event::Reset),
                }
            } else {
                self.ack_due = true;
            }
            return;
        }
        if flags.has(Flags::SYN) {
            self.ack_due = true; // RFC 5961 4.2
            return;
        }
        if !flags.has(Flags::ACK) {
            return;
        }
        let ack = position(self.local, segment.ack, self.sender.una);
        if self.state == State::SynReceived {
            if ack != 1 {
                self.refuse(segment);
                return;
            }
            self.establish(segment);
        }
        if !self.take_ack(segment, seq) {
            return;
        }
        self.take_data(segment, seq);
    }

    /// Handles the ACK of a segment. Returns whether its data may be processed.
    fn take_ack(&mut self, segment: &Segment, seq: u64) -> bool {
        let ack = position(self.local, segment.ack, self.sender.una);
        if ack > self.sender.nxt {
            self.ack_due = true; // it acknowledges what was never sent
            return false;
        }
        let agreed = &mut self.options;
        let mut echoed = None;
        if let Some((value, echo)) = segment.options.timestamps.filter(|_| agreed.timestamps) {
            // RFC 7323 4.3: echo the segment that advances the window, not one behind a hole.
            if seq <= self.receiver.next {
                agreed.echo = value;
            }
            // A timestamp that was never sent wraps to a large difference.
            let passed = self.sender.clock(self.now).wrapping_sub(echo);
            let sane = echo != 0 && passed < 1 << 30;
            echoed = sane.then(|| Duration::from_millis(u64::from(passed.max(1))));
        }
        if ack < self.sender.una {
            return true; // an old one: its data may be new
        }
        let window = u64::from(segment.window) << agreed.scale_in;
        let mut sack = [(0, 0); SACK_BLOCKS_MAX];
        let mut blocks = 0;
        if agreed.sack {
            for &(low, high) in segment.options.sack.as_slice() {
                let low = position(self.local, low, self.sender.una);
                let high = position(self.local, high, self.sender.una);
                if low < high && high <= self.sender.nxt && low > ack {
                    sack[blocks] = (low, high);
                    blocks += 1;
                }
            }
        }
        let flags = segment.flags;
        let bare = segment.payload.is_empty() && !flags.has(Flags::FIN) && !flags.has(Flags::SYN);
        self.sender.handle_ack(&AckInput {
            now: self.now,
            ack,
            window,
            bare,
            sack: &sack[..blocks],
            echoed,
            congestion_echo: agreed.ecn && flags.has(Flags::ECE),
        });
        if self.want_writable && self.sender.room() > 0 {
            self.want_writable = false;
            self.report(Event::Writable);
        }
        if self.sender.fin_acknowledged() {
            match self.state {
                State::FinWait1 => self.state = State::FinWait2,
                State::Closing => self.enter_time_wait(),
                State::LastAck => {
                    self.end(Event::Closed);
                    return false;
                }
                _ => {}
            }
        }
        true
    }

    fn take_data(&mut self, segment: &Segment, seq: u64) {
        let flags = segment.flags;
        let agreed = &mut self.options;
        if agreed.ecn {
            // RFC 3168 6.1.3: echo until the peer confirms its reaction.
            if flags.has(Flags::CWR) {
                agreed.congestion_seen = false;
            }
            if segment.ecn == Ecn::Experienced {
                agreed.congestion_seen = true;
                self.ack_due = true;
            }
        }
        let (before, was_finished) = (self.receiver.readable(), self.receiver.finished());
        let expected = self.receiver.next;
        let due = self.receiver.receive(
            self.now,
            seq,
            segment.payload.clone(),
            flags.has(Flags::FIN),
            self.sender.estimator.srtt(),
            self.sender.estimator.rto(),
        );
        self.ack_due |= due == Due::Now;
        let counters = &mut self.sender.counters;
        if !segment.payload.is_empty() {
            counters.out_of_order += u64::from(seq > expected);
            counters.duplicates_received += u64::from(seq < expected);
        }
        if self.receiver.readable() > before {
            self.report(Event::Readable);
        }
        if self.receiver.finished() && !was_finished {
            self.report(Event::PeerClosed);
            match self.state {
                State::Established => {
                    self.state = State::CloseWait;
                    if self.settings.fin_acked_alone {
                        self.answer = Some(self.bare(Flags::ACK));
                    }
                }
                State::FinWait1 => self.state = State::Closing,
                State::FinWait2 => self.enter_time_wait(),
                _ => {}
            }
        }
    }

    fn enter_time_wait(&mut self) {
        self.state = State::TimeWait;
        self.timer = Some(self.now + self.settings.time_wait);
        self.report(Event::Closed);
    }

    /// Handles all timers that are due.
    pub(super) fn timeouts(&mut self) {
        if self.timer.is_some_and(|timer| timer <= self.now) {
            self.timer = None;
            match self.state {
                State::SynSent | State::SynReceived => self.repeat_handshake(),
                State::TimeWait => self.state = State::Closed,
                _ => {}
            }
        }
        if !self.is_synchronised() {
            return;
        }
        if self.sender.handle_timeout(self.now) == TimedOut::GaveUp {
            self.end(Event::TimedOut);
            return;
        }
        let rto = self.sender.estimator.rto();
        self.ack_due |= self.receiver.handle_timeout(self.now, rto);
    }

    fn repeat_handshake(&mut self) {
        let most = match self.state {
            State::SynSent => self.settings.syn_retries,
            _ => self.settings.synack_retries,
        };
        if self.sender.counters.handshake_retransmissions >= most {
            self.end(Event::TimedOut);
            return;
        }
        self.sender.estimator.back_off();
        self.syn_due = true;
    }
}
