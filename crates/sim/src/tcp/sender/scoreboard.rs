//! Segments sent and not acknowledged: which are lost, sent again, or known received.
//!
//! Counts are of segments, as Linux keeps them. Without SACK, duplicate ACKs stand for segments
//! received beyond the first outstanding one (`sacked` counts them, no segment is flagged).

use std::collections::VecDeque;

use carob_cc::time::Instant;

/// What was known when a segment was sent, for delivery rates (as Linux's `tcp_rate.c` has it).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamp {
    /// Segments delivered by then.
    pub(super) delivered: u64,
    /// When the last of them was.
    pub(super) delivered_at: Instant,
    /// When the segment was sent whose delivery that was: the send interval begins there.
    pub(super) first_sent_at: Instant,
    /// The application had nothing more to send.
    pub(super) app_limited: bool,
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
    /// When its last copy was sent.
    pub(super) sent_at: Instant,
    pub(super) stamp: Stamp,
    /// Copies sent, saturating.
    pub(super) copies: u8,
    /// Deemed lost; a copy may be under way again.
    pub(super) lost: bool,
    /// A copy sent after it was deemed lost is under way.
    pub(super) resent: bool,
    /// The peer has it (SACK).
    pub(super) sacked: bool,
    pub(super) fin: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    segments: VecDeque<Sent>,
    /// Segments acknowledged before the first in `segments`.
    popped: u64,
    /// No segment before this one, counted from the connection's first, waits for its copy.
    resend_from: u64,
    /// No segment before this one is unmarked although SACK proves it lost.
    lost_below: u64,
    pub(super) sacked: u32,
    pub(super) lost: u32,
    pub(super) resent: u32,
    /// Losses marked since the beginning.
    pub(super) losses: u64,
    /// More duplicates came than segments outstanding can explain, so many of which there were:
    /// Linux takes it for reordering.
    pub(super) unexplained: Option<u32>,
}

/// What a cumulative acknowledgment took from the board.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    pub(super) segments: u32,
    /// Of those, not known received before.
    pub(super) news: u32,
    /// The first one sent once, and the last.
    pub(super) first_sent_at: Option<Instant>,
    pub(super) last_sent_at: Option<Instant>,
    /// One of them was sent more than once.
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

    /// Segments on the way by the best knowledge (RFC 6675 4 "pipe").
    pub(super) fn pipe(&self) -> u32 {
        (self.len() + self.resent).saturating_sub(self.sacked + self.lost)
    }

    pub(super) fn push(&mut self, sent: Sent) {
        self.segments.push_back(sent);
    }

    /// Takes what lies before `una`; `each` sees every segment whose delivery is news.
    pub(super) fn acknowledge(&mut self, una: u64, mut each: impl FnMut(&Sent)) -> Taken {
        let mut taken = Taken::default();
        while let Some(&first) = self.segments.front() {
            if first.end > una {
                break;
            }
            self.segments.pop_front();
            self.popped += 1;
            taken.segments += 1;
            self.lost -= u32::from(first.lost);
            self.resent -= u32::from(first.resent);
            if first.copies > 1 {
                taken.repeated = true;
            } else if !first.sacked {
                taken.first_sent_at.get_or_insert(first.sent_at);
                taken.last_sent_at = Some(first.sent_at);
            }
            if first.sacked {
                self.sacked -= 1;
            } else {
                taken.news += 1;
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

    /// Deems the first segment lost, if it is not already.
    pub(super) fn mark_first(&mut self) {
        if self.first().is_some_and(|first| !first.lost) {
            self.mark(0);
        }
    }

    /// Deems the first lost even if a copy is under way, for its timer ran out.
    pub(super) fn mark_first_again(&mut self) {
        self.mark(0);
    }

    /// Deems all lost whose last copy left no later than `until`, and the first.
    pub(super) fn mark_all(&mut self, until: Instant) {
        for index in 0..self.segments.len() {
            if index == 0 || self.segments[index].sent_at <= until {
                self.mark(index);
            }
        }
    }

    /// The next segment to send again.
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

    /// Duplicate ACKs say that so many more were received; returns how many are believed.
    ///
    /// At least the first is missing, and those deemed lost are, so no more than the rest can
    /// have been (Linux `tcp_limit_reno_sacked`).
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

    /// Without SACK, an ACK of `acked` segments fills one hole; the rest were counted as
    /// duplicates. Returns how many deliveries are news.
    pub(super) fn undo_duplicates(&mut self, acked: u32) -> u32 {
        let news = acked.saturating_sub(self.sacked).max(1);
        self.sacked = self.sacked.saturating_sub(acked - 1);
        let holes = self.lost.max(1).min(self.len());
        let most = self.len() - holes;
        if self.sacked > most {
            self.unexplained = Some(self.len() + acked);
            self.sacked = most;
        }
        news
    }

    /// Takes in one SACK block; `each` sees every segment whose delivery is news.
    pub(super) fn sack(&mut self, start: u64, end: u64, mut each: impl FnMut(&Sent)) -> u32 {
        let mut news = 0;
        let from = self.segments.partition_point(|sent| sent.start < start);
        for sent in self.segments.range_mut(from..) {
            if sent.end > end {
                break;
            }
            if sent.sacked {
                continue;
            }
            each(sent);
            news += 1;
            sent.sacked = true;
            self.sacked += 1;
            // Received: neither lost nor under way.
            self.lost -= u32::from(core::mem::take(&mut sent.lost));
            self.resent -= u32::from(core::mem::take(&mut sent.resent));
        }
        news
    }

    /// Marks what RFC 6675 4 "IsLost" finds: `threshold` segments beyond it were received.
    /// Copies sent again are not judged; if they are lost, the timer finds out.
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
                stamp: Stamp::default(),
                copies: 1,
                lost: false,
                resent: false,
                sacked: false,
                fin: false,
            });
        }
        board
    }

    /// Counts as the segments have them; duplicates stand for no segment.
    fn agrees(board: &Scoreboard) {
        let count = |f: fn(&Sent) -> bool| board.segments.iter().filter(|s| f(s)).count() as u32;
        assert_eq!(board.lost, count(|s| s.lost));
        assert_eq!(board.resent, count(|s| s.resent));
    }

    #[test]
    fn rfc_6675_4_a_segment_is_lost_when_three_beyond_it_were_received() {
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
    fn duplicates_never_stand_for_more_than_can_have_been_received() {
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
