//! One exchange as it was captured, and which transmission each reply answers.

use carob_codec::{BlockValue, Type};

use super::controllers::Replay;
use crate::limits::TRANSMISSIONS_MAX;

/// Largest cost of a second-best assignment, as a factor of the round-trip time, at which the
/// best one is still called uncertain.
const UNCERTAIN_WITHIN: f64 = 0.262_364; // ln 1.3
/// Logarithm of the factor between the round trip of the best assignment and the recent one from which
/// on no time decides: a late response, or the response to a retransmission that was late, too.
const UNCERTAIN_BEYOND: f64 = 1.098_612; // ln 3

/// The first reply of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyKind {
    /// An ACK with the response.
    Piggybacked,
    /// An empty ACK.
    Empty,
    Reset,
    /// A separate response, before any ACK.
    Separate,
}

/// An exchange that may still get transmissions and replies.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) kind: Type,
    pub(super) is_request: bool,
    pub(super) is_notification: bool,
    pub(super) fingerprint: u64,
    pub(super) token: u64,
    pub(super) resource: u64,
    /// Times of transmissions and replies, in microseconds.
    pub(super) copies: Vec<u64>,
    pub(super) replies: Vec<u64>,
    /// Transmissions and replies beyond the limit.
    pub(super) further: [u32; 2],
    pub(super) reply_kind: Option<ReplyKind>,
    /// Recent round trip at the first reply, in microseconds.
    pub(super) typical: Option<f64>,
    /// Time of the response's first transmission.
    pub(super) response_at: Option<u64>,
    pub(super) packet_bytes: u32,
    pub(super) payload_bytes: u32,
    pub(super) reply_packet_bytes: u32,
    pub(super) block1: Option<BlockValue>,
    /// True if no other exchange was outstanding in the capture when it began.
    pub(super) is_alone: bool,
    pub(super) replay: Option<Replay>,
    pub(super) last_us: u64,
    /// Time under which it waits for a reply: its latest transmission.
    pub(super) waits_since: u64,
    /// Number in the order of beginning.
    pub(super) serial: u64,
}

/// Transmissions that replies answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    /// For each reply the transmission, in ascending order.
    pub(super) answered: Vec<usize>,
    /// False if another assignment with another first transmission is nearly as likely.
    pub(super) is_certain: bool,
}

impl Exchange {
    pub(super) fn transmissions(&self) -> usize {
        self.copies.len() + self.further[0] as usize
    }

    pub(super) fn add_copy(&mut self, at: u64) {
        add(&mut self.copies, &mut self.further[0], at);
        self.last_us = self.last_us.max(at);
    }

    pub(super) fn add_reply(&mut self, at: u64) {
        add(&mut self.replies, &mut self.further[1], at);
        self.last_us = self.last_us.max(at);
    }

    /// Returns the round-trip time, if one transmission alone can have been answered.
    pub(super) fn exact_round_trip(&self) -> Option<u64> {
        let [copy] = self.copies[..] else { return None };
        let reply = self.replies.first()?;
        (self.reply_kind != Some(ReplyKind::Separate) || self.kind == Type::NonConfirmable)
            .then(|| reply.saturating_sub(copy))
    }
}

fn add(times: &mut Vec<u64>, further: &mut u32, at: u64) {
    if times.len() < TRANSMISSIONS_MAX {
        times.push(at);
    } else {
        *further = further.saturating_add(1);
    }
}

/// Assigns replies to transmissions as a sender sees them.
///
/// As many replies as transmissions answer one each, in order. Fewer replies are assigned, in order
/// and each to another transmission, so that the logarithms of the round-trip times are nearest to
/// that of `typical`, the recent round trip of this peer. `floor` is the shortest unambiguous round
/// trip: a reply that comes sooner than half of it after a transmission does not answer it.
/// `None` if nothing was answered, or if no round trip is known to compare with.
pub(super) fn assign(
    copies: &[u64],
    replies: &[u64],
    typical: Option<f64>,
    floor: Option<u64>,
) -> Option<Assignment> {
    if copies.is_empty() || replies.is_empty() {
        return None;
    }
    if replies.len() >= copies.len() {
        return Some(Assignment {
            answered: (0..copies.len()).collect(),
            is_certain: true,
        });
    }
    let typical = typical?.max(1.0).ln();
    let least = floor.unwrap_or(0) / 2;
    let cost = |copy: usize, reply: usize| {
        let Some(time) = replies[reply].checked_sub(copies[copy]) else {
            return f64::INFINITY;
        };
        if time < least {
            return f64::INFINITY;
        }
        ((time.max(1) as f64).ln() - typical).abs()
    };
    // The best cost of the replies from `reply` on, if the first of them answers transmission
    // `copy` or a later one.
    let (n, r) = (copies.len(), replies.len());
    let mut best = vec![vec![f64::INFINITY; n + 1]; r + 1];
    best[r].fill(0.0);
    for reply in (0..r).rev() {
        for copy in (0..n).rev() {
            let this = cost(copy, reply) + best[reply + 1][copy + 1];
            best[reply][copy] = this.min(best[reply][copy + 1]);
        }
    }
    let mut answered = Vec::with_capacity(r);
    let mut from = 0;
    for reply in 0..r {
        let pick = (from..n).find(|copy| {
            let this = cost(*copy, reply) + best[reply + 1][*copy + 1];
            this.is_finite() && this <= best[reply][from]
        })?;
        answered.push(pick);
        from = pick + 1;
    }
    let first = *answered.first()?;
    let others = (0..n).filter(|copy| *copy != first);
    let second = others
        .map(|copy| cost(copy, 0) + best[1][copy + 1])
        .fold(f64::INFINITY, f64::min);
    let is_usual = cost(first, 0) < UNCERTAIN_BEYOND || second.is_infinite();
    Some(Assignment {
        is_certain: is_usual && second - best[0][0] > UNCERTAIN_WITHIN,
        answered,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(copies: &[u64], replies: &[u64], typical: u64) -> Option<Vec<usize>> {
        assign(copies, replies, Some(typical as f64), Some(typical / 2)).map(|a| a.answered)
    }

    #[test]
    fn replies_go_to_the_transmissions_of_a_usual_round_trip() {
        // Each transmission was answered.
        assert_eq!(
            answered(&[0, 2_000], &[2_500, 4_500], 2_500),
            Some(vec![0, 1])
        );
        // The first one was lost.
        assert_eq!(answered(&[0, 2_000], &[2_100], 100), Some(vec![1]));
        // The reply comes too soon after the second one.
        assert_eq!(answered(&[0, 2_000], &[2_100], 1_900), Some(vec![0]));
        assert_eq!(
            answered(&[0, 2_000, 6_000], &[4_100, 8_050], 2_000),
            Some(vec![1, 2])
        );
        assert_eq!(
            answered(&[0, 2_000, 6_000], &[2_050, 4_000], 2_000),
            Some(vec![0, 1])
        );
        assert_eq!(answered(&[0], &[], 100), None);
        assert_eq!(assign(&[0, 2_000], &[2_100], None, None), None);
    }

    #[test]
    fn an_assignment_without_a_clear_winner_is_uncertain() {
        let certain = |copies: &[u64], replies: &[u64]| {
            assign(copies, replies, Some(1_000.0), None).is_some_and(|a| a.is_certain)
        };
        assert!(certain(&[0, 2_000], &[3_000]));
        // 1.41 s after the first, 0.71 s after the second: both 41 % off.
        assert!(!certain(&[0, 707], &[1_414]));
        // Neither 2.73 s nor 0.53 s is like the usual 62 ms.
        let usual = |copies: &[u64], replies: &[u64]| {
            assign(copies, replies, Some(62.0), Some(60)).is_some_and(|a| a.is_certain)
        };
        assert!(!usual(&[0, 2_200], &[2_730]));
        assert!(usual(&[0, 2_200], &[2_262]));
        // The reply comes before the retransmission can have been answered.
        assert!(usual(&[0, 2_200], &[2_210]));
    }

    #[test]
    fn replies_before_their_transmission_are_no_replies_to_it() {
        assert_eq!(answered(&[5_000, 9_000], &[100], 1_000), None);
    }
}
