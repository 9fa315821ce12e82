//! Scoreboard of segments sent and not acknowledged: lost, retransmitted, or received (SACK).
//!
//! Counts are in segments, as in Linux. Without SACK, duplicate ACKs represent segments received
//! beyond the first outstanding one (`sacked` counts them, no segment is flagged).

use std::collections::VecDeque;

use carob_cc::time::Instant;

/// The delivery state when a segment was sent, for delivery rates (as in Linux's `tcp_rate.c`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacketState {
    /// Segments delivered so far.
    pub(super) delivered: u64,
    /// Time of the last delivery.
    pub(super) delivered_at: Instant,
    /// Transmission time of the segment delivered last: the send interval begins there.
    pub(super) first_sent_at: Instant,
    /// True if the application had no more data.
    pub(super) app_limited: bool,
    /// Segments in flight, this one included.
    pub(super) in_flight: u32,
    /// Losses marked since the beginning.
    pub(super) losses: u64,
}

/// A segment marked lost, with the losses marked since the beginning, its own included.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkedLoss {
    pub(super) sent: Sent,
    pub(super) losses: u64,
}

/// One segment, `[start, end)`; a FIN takes the last position.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    clippy::struct_field_names,
    reason = "marks are independent of each other; `sent_at` is what it is"
)]
pub(super) struct Sent {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Time of the last transmission.
    pub(super) sent_at: Instant,
    pub(super) packet_state: PacketState,
    /// Transmissions, saturating.
    pub(super) copies: u8,
    /// Marked lost; a retransmission may be in flight.
    pub(super) lost: bool,
    /// A retransmission after the loss mark is in flight.
    pub(super) resent: bool,
    /// Received by the peer (SACK).
    pub(super) sacked: bool,
    pub(super) fin: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    segments: VecDeque<Sent>,
    /// Segments acknowledged before the first in `segments`.
    popped: u64,
    /// No segment before this one, counted from the connection's first, waits for retransmission.
    resend_from: u64,
    /// No segment before this one is unmarked although SACK proves it lost.
    lost_below: u64,
    pub(super) sacked: u32,
    pub(super) lost: u32,
    pub(super) resent: u32,
    /// Losses marked since the beginning.
    pub(super) losses: u64,
    /// The number of outstanding segments when duplicates exceeded it: Linux takes this for
    /// reordering.
    pub(super) unexplained: Option<u32>,
    /// Losses that the congestion module has not handled; `None` if it handles none.
    pub(super) marked: Option<Vec<MarkedLoss>>,
}

/// The effect of a cumulative acknowledgment on the board.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AcknowledgedSegments {
    pub(super) segments: u32,
    /// Those not known received before.
    pub(super) delivered: u32,
    /// Transmission times of the first segment sent once, and of the last.
    pub(super) first_sent_at: Option<Instant>,
    pub(super) last_sent_at: Option<Instant>,
    /// True if one of them was retransmitted.
    pub(super) repeated: bool,
}

impl Scoreboard {
    pub(super) fn len(&self) -> u32 {
        self.segments.len() as u32
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn first(&self) -> Option<&Sent> {
        self.segments.front()
    }

    /// Segments in flight by the best estimate (RFC 6675 4 "pipe").
    pub(super) fn pipe(&self) -> u32 {
        (self.len() + self.resent).saturating_sub(self.sacked + self.lost)
    }

    pub(super) fn push(&mut self, sent: Sent) {
        self.segments.push_back(sent);
    }

    /// Removes everything before `una`; `each` visits every newly delivered segment.
    pub(super) fn acknowledge(
        &mut self,
        una: u64,
        mut each: impl FnMut(&Sent),
    ) -> AcknowledgedSegments {
        let mut taken = AcknowledgedSegments::default();
        while let Some(&first) = self.segments.front() {
            if first.end > una {
                break;
            }
            self.segments.pop_front();
            self.popped += 1;
            taken.segments += 1;
            self.lost -= u32::from(first.lost);
            self.resent -= u32::from(first.resent);
            // No RTT from a retransmitted segment (Karn's algorithm, RFC 6298 3), nor from one that SACK
            // reported before: its ACK waited for a hole.
            if first.copies > 1 {
                taken.repeated = true;
            } else if !first.sacked {
                taken.first_sent_at.get_or_insert(first.sent_at);
                taken.last_sent_at = Some(first.sent_at);
            }
            if first.sacked {
                self.sacked -= 1;
            } else {
                taken.delivered += 1;
                each(&first);
            }
        }
        // A peer may acknowledge part of a segment, although ours never do.
        if let Some(first) = self.segments.front_mut() {
            first.start = first.start.max(una.min(first.end));
        }
        self.resend_from = self.resend_from.max(self.popped);
        self.lost_below = self.lost_below.max(self.popped);
        taken
    }

    fn mark(&mut self, index: usize) {
        let Some(sent) = self.segments.get_mut(index) else {
            return;
        };
        if sent.sacked {
            return;
        }
        if sent.lost && !sent.resent {
            return;
        }
        self.losses += 1;
        if let Some(marked) = &mut self.marked {
            let (sent, losses) = (*sent, self.losses);
            marked.push(MarkedLoss { sent, losses });
        }
        if sent.lost {
            sent.resent = false;
            self.resent -= 1;
        } else {
            sent.lost = true;
            self.lost += 1;
        }
        self.resend_from = self.resend_from.min(self.popped + index as u64);
    }

    #[cfg(test)]
    pub(super) fn sent_again_for_test(&mut self, index: usize, at: Instant) {
        self.segments[index].sent_at = at;
    }

    /// Marks the first segment lost, if it is not already.
    pub(super) fn mark_first(&mut self) {
        if self.first().is_some_and(|first| !first.lost) {
            self.mark(0);
        }
    }

    /// Marks the first segment lost even if a retransmission is in flight, because its timer
    /// expired.
    pub(super) fn mark_first_again(&mut self) {
        self.mark(0);
    }

    /// Marks all segments lost that were last sent no later than `until`, and the first.
    pub(super) fn mark_all(&mut self, until: Instant) {
        for index in 0..self.segments.len() {
            if index == 0 || self.segments[index].sent_at <= until {
                self.mark(index);
            }
        }
    }

    /// The next segment to retransmit.
    pub(super) fn next_lost(&mut self) -> Option<&mut Sent> {
        if self.lost == self.resent {
            return None;
        }
        let mut index = (self.resend_from - self.popped) as usize;
        while self
            .segments
            .get(index)
            .is_some_and(|s| !s.lost || s.resent || s.sacked)
        {
            index += 1;
        }
        self.resend_from = self.popped + index as u64;
        self.segments.get_mut(index)
    }

    /// Counts `count` more received segments from duplicate ACKs; returns the number believed.
    ///
    /// At least the first is missing, and so are those marked lost, so no more than the rest can
    /// have been received (Linux `tcp_limit_reno_sacked`).
    pub(super) fn duplicate(&mut self, count: u32) -> u32 {
        let holes = self.lost.max(1).min(self.len());
        let before = self.sacked;
        let most = self.len() - holes;
        if self.sacked + count > most {
            self.unexplained = Some(self.len());
        }
        self.sacked = (self.sacked + count).min(most);
        self.sacked.saturating_sub(before)
    }

    /// Without SACK, an ACK of `acked` segments fills one hole; duplicates had counted the rest.
    /// Returns the number of new deliveries.
    pub(super) fn undo_duplicates(&mut self, acked: u32) -> u32 {
        let delivered = acked.saturating_sub(self.sacked).max(1);
        self.sacked = self.sacked.saturating_sub(acked - 1);
        let holes = self.lost.max(1).min(self.len());
        let most = self.len() - holes;
        if self.sacked > most {
            self.unexplained = Some(self.len() + acked);
            self.sacked = most;
        }
        delivered
    }

    /// Handles one SACK block; `each` visits every newly delivered segment.
    pub(super) fn sack(&mut self, start: u64, end: u64, mut each: impl FnMut(&Sent)) -> u32 {
        let mut delivered = 0;
        let from = self.segments.partition_point(|sent| sent.start < start);
        for sent in self.segments.range_mut(from..) {
            if sent.end > end {
                break;
            }
            if sent.sacked {
                continue;
            }
            each(sent);
            delivered += 1;
            sent.sacked = true;
            self.sacked += 1;
            // Received: neither lost nor in flight.
            self.lost -= u32::from(core::mem::take(&mut sent.lost));
            self.resent -= u32::from(core::mem::take(&mut sent.resent));
        }
        delivered
    }

    /// Marks losses by RFC 6675 4 "IsLost": `threshold` segments beyond were received.
    /// Retransmissions are not judged; the timer detects their loss.
    pub(super) fn mark_by_sack(&mut self, threshold: u32) {
        let mut beyond = 0;
        let low = (self.lost_below - self.popped) as usize;
        for index in (low..self.segments.len()).rev() {
            beyond += u32::from(self.segments[index].sacked);
            if beyond == threshold {
                for below in low..index {
                    let sent = &self.segments[below];
                    if !sent.sacked && !sent.lost {
                        self.mark(below);
                    }
                }
                self.lost_below = self.popped + index as u64;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(count: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        for k in 0..count {
            board.push(Sent {
                start: 1 + 10 * k,
                end: 11 + 10 * k,
                sent_at: Instant::from_micros(k),
                packet_state: PacketState::default(),
                copies: 1,
                lost: false,
                resent: false,
                sacked: false,
                fin: false,
            });
        }
        board
    }

    /// Counts by the flags of segments, without duplicate ACKs.
    fn agrees(board: &Scoreboard) {
        let count = |f: fn(&Sent) -> bool| board.segments.iter().filter(|s| f(s)).count() as u32;
        assert_eq!(board.lost, count(|s| s.lost));
        assert_eq!(board.resent, count(|s| s.resent));
    }

    #[test]
    fn rfc_6675_4_segment_is_lost_after_three_later_ones() {
        let mut b = board(10);
        b.sack(21, 41, |_| ());
        b.mark_by_sack(3);
        assert_eq!((b.lost, b.sacked), (0, 2));
        b.sack(61, 71, |_| ());
        b.mark_by_sack(3);
        // Segments 0 and 1 have three received beyond them; 4 and 5 have one.
        assert_eq!((b.lost, b.sacked, b.pipe()), (2, 3, 5));
        b.sack(71, 91, |_| ());
        b.mark_by_sack(3);
        assert_eq!((b.lost, b.sacked, b.pipe()), (4, 5, 1));
        agrees(&b);
    }

    #[test]
    fn lost_segments_are_sent_again_once_and_in_order() {
        let mut b = board(5);
        b.mark_all(Instant::FAR_FUTURE);
        assert_eq!(b.pipe(), 0);
        for k in 0..5 {
            let sent = b.next_lost().expect("one more");
            assert_eq!(sent.start, 1 + 10 * k);
            sent.resent = true;
            b.resent += 1;
        }
        assert!(b.next_lost().is_none());
        assert_eq!(b.pipe(), 5);
        b.mark_first_again();
        assert_eq!(b.next_lost().map(|sent| sent.start), Some(1));
        agrees(&b);
        b.acknowledge(31, |_| ());
        agrees(&b);
        assert_eq!((b.len(), b.lost, b.resent), (2, 2, 2));
    }

    #[test]
    fn duplicates_are_bounded_by_received_segments() {
        let mut b = board(4);
        assert_eq!(b.duplicate(9), 3);
        assert_eq!(b.pipe(), 1);
        // An ACK of two: one hole, and one that a duplicate had announced.
        b.acknowledge(21, |_| ());
        assert_eq!(b.undo_duplicates(2), 1);
        assert_eq!((b.sacked, b.pipe()), (1, 1));
    }

    #[test]
    fn recent_segments_can_be_spared() {
        let mut b = board(5);
        b.mark_all(Instant::from_micros(2));
        assert_eq!((b.lost, b.pipe()), (3, 2));
    }
}
