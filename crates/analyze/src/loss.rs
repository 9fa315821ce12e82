//! Losses: of round trips, and by direction where the place of the capture shows them.

use std::fmt;

use serde::Serialize;

use crate::place::Place;
use crate::summary::{Pair, receiver_retransmissions, sees};
use crate::tracker::conversation::Flow;

/// Smallest number of losses with a meaningful clustering.
const LOSSES_MIN: u64 = 12;
/// Standard deviations above independence at which losses are called bursty.
const DEVIATIONS: f64 = 2.58;
/// Share of consecutive Message IDs above which a gap counts as a loss, in percent.
const CONSECUTIVE_PERCENT: u64 = 80;

/// How a loss was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LossBasis {
    /// Packets were counted at both ends.
    BothEnds,
    /// Retransmissions that arrived although a reply had been sent.
    RepeatedRequests,
    /// Gaps in consecutive Message IDs.
    MessageIds,
    /// Half of the loss of round trips: both directions are assumed to lose alike.
    RoundTrips,
}

impl fmt::Display for LossBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BothEnds => "counted at both ends",
            Self::RepeatedRequests => "messages repeated although a reply had been sent",
            Self::MessageIds => "gaps in the Message IDs",
            Self::RoundTrips => "from the loss of round trips, if both directions lose alike",
        })
    }
}

/// A share of packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// Share that was lost, 0 to 1.
    pub share: f64,
    /// Packets on which it rests.
    pub packets: u64,
    /// How it was found.
    pub basis: LossBasis,
}

impl Loss {
    fn of(lost: u64, packets: u64, basis: LossBasis) -> Option<Self> {
        (packets > 0).then(|| Self {
            share: lost as f64 / packets as f64,
            packets,
            basis,
        })
    }
}

/// Losses of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Losses {
    /// Share of CON transmissions without a reply, seen at their senders.
    pub round_trip: Option<f64>,
    /// CON transmissions on which it rests.
    pub transmissions: u64,
    /// Packets lost from clients to servers.
    pub to_server: Option<Loss>,
    /// Packets lost from servers to clients.
    pub to_client: Option<Loss>,
    /// Mean length of a run of losses in packets, 1 for independent losses; `None` where there are
    /// too few.
    pub burst: Option<f64>,
}

/// Sums over all pairs.
#[derive(Default)]
struct Sums {
    judged: u64,
    lost: u64,
    transitions: [[u64; 2]; 2],
    /// Sent and received by direction: to servers, to clients.
    both_ends: [[u64; 2]; 2],
    /// Replies sent, and replies lost.
    replies: [[u64; 2]; 2],
    /// Message IDs that follow each other, and those left out.
    ids: [[u64; 2]; 2],
}

impl Losses {
    pub(crate) fn of(pairs: &[Pair<'_>]) -> Self {
        let mut sums = Sums::default();
        for pair in pairs {
            sums.add(pair);
        }
        sums.losses()
    }
}

impl Sums {
    fn add(&mut self, pair: &Pair<'_>) {
        for is_client in [true, false] {
            for view in pair.best(is_client) {
                let flow = view.flow(is_client);
                match sees(view.place, is_client) {
                    (true, _) => self.add_sender(flow),
                    (_, true) => self.add_receiver(flow, is_client),
                    _ => {}
                }
            }
        }
        self.add_both_ends(pair);
    }

    fn add_sender(&mut self, flow: &Flow) {
        self.judged += flow.counts.judged;
        self.lost += flow.counts.lost;
        for (sum, new) in self.transitions.iter_mut().zip(&flow.transitions) {
            for (sum, new) in sum.iter_mut().zip(new) {
                *sum += new;
            }
        }
    }

    fn add_receiver(&mut self, flow: &Flow, is_client: bool) {
        // Replies go the other way.
        if let Some((needed, _)) = receiver_retransmissions(flow) {
            let [sent, lost] = &mut self.replies[usize::from(is_client)];
            *sent += flow.counts.replies;
            *lost += needed;
        }
        self.add_ids(flow, usize::from(!is_client));
    }

    /// Gaps of Message IDs, where few messages are retransmitted.
    fn add_ids(&mut self, flow: &Flow, direction: usize) {
        let counts = &flow.counts;
        let all = counts.ids_consecutive + counts.ids_missing + counts.ids_elsewhere;
        let is_consecutive = counts.ids_consecutive * 100 > all * CONSECUTIVE_PERCENT;
        if is_consecutive && counts.confirmable * 10 < all {
            let [seen, missing] = &mut self.ids[direction];
            *seen += counts.ids_consecutive;
            *missing += counts.ids_missing;
        }
    }

    /// Counts at both ends, where packets have a direction at either.
    fn add_both_ends(&mut self, pair: &Pair<'_>) {
        let at = |place: Place| {
            let mut views = pair.views.iter();
            views.find(|view| view.place == place)
        };
        let (Some(client), Some(server)) = (at(Place::Client), at(Place::Server)) else {
            return;
        };
        let side = client.client;
        let sent = [
            client.conversation.messages[side],
            server.conversation.messages[1 - side],
        ];
        let received = [
            server.conversation.messages[side],
            client.conversation.messages[1 - side],
        ];
        for (direction, (sent, received)) in sent.into_iter().zip(received).enumerate() {
            self.both_ends[direction][0] += sent;
            self.both_ends[direction][1] += received;
        }
    }

    fn losses(&self) -> Losses {
        let round_trip = (self.judged > 0).then(|| self.lost as f64 / self.judged as f64);
        let direction = |which: usize| {
            let [sent, received] = self.both_ends[which];
            let [replies, lost] = self.replies[which];
            let [seen, missing] = self.ids[which];
            Loss::of(sent.saturating_sub(received), sent, LossBasis::BothEnds)
                .or_else(|| Loss::of(lost, replies, LossBasis::RepeatedRequests))
                .or_else(|| Loss::of(missing, seen + missing, LossBasis::MessageIds))
        };
        let [to_server, to_client] = [direction(0), direction(1)];
        let known = to_server.or(to_client).map(|loss| loss.share);
        // The other direction has the rest of the round trips.
        let rest = round_trip.map(|lost| match known {
            Some(known) if known < 1.0 => (1.0 - (1.0 - lost) / (1.0 - known)).max(0.0),
            _ => 1.0 - (1.0 - lost).sqrt(),
        });
        let inferred = rest.map(|share| Loss {
            share,
            packets: self.judged,
            basis: LossBasis::RoundTrips,
        });
        Losses {
            round_trip,
            transmissions: self.judged,
            to_server: to_server.or(inferred),
            to_client: to_client.or(inferred),
            burst: self.burst(),
        }
    }

    fn burst(&self) -> Option<f64> {
        if self.lost < LOSSES_MIN {
            return None;
        }
        let [_, [to_answered, to_lost]] = self.transitions;
        let (count, again) = ((to_answered + to_lost) as f64, to_lost as f64);
        let lost = self.lost as f64 / self.judged as f64;
        let expected = count * lost;
        let deviation = (expected * (1.0 - lost)).sqrt();
        if count < LOSSES_MIN as f64 || again <= expected + DEVIATIONS * deviation {
            return Some(1.0);
        }
        Some(burst_of(1.0 - (1.0 - lost).sqrt(), again / count))
    }
}

/// Mean run of losses of each direction, in packets, if a share `lost` of packets is lost in each
/// and a lost round trip follows a lost round trip with probability `again`.
///
/// A round trip is lost with its request or with its reply; if it is the request, the chain of the
/// other direction does not move.
fn burst_of(lost: f64, again: f64) -> f64 {
    let request = 1.0 / (2.0 - lost);
    let after_loss = |stay: f64| {
        let enter = lost * (1.0 - stay) / (1.0 - lost);
        request * (stay + (1.0 - stay) * lost) + (1.0 - request) * (enter + (1.0 - enter) * stay)
    };
    let (mut low, mut high) = (lost, 0.999);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if after_loss(middle) < again {
            low = middle;
        } else {
            high = middle;
        }
    }
    1.0 / (1.0 - low)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips over two independent chains of two states.
    fn simulated(lost: f64, burst: f64) -> Sums {
        let mut state = 1_u64;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let leave = 1.0 / burst;
        let enter = lost * leave / (1.0 - lost);
        let mut bad = [false; 2];
        let mut sums = Sums::default();
        let mut before = None;
        for _ in 0..200_000 {
            let mut is_lost = false;
            for chain in &mut bad {
                let chance = if *chain { 1.0 - leave } else { enter };
                *chain = if burst > 1.0 {
                    draw() < chance
                } else {
                    draw() < lost
                };
                if *chain {
                    is_lost = true;
                    break;
                }
            }
            sums.judged += 1;
            sums.lost += u64::from(is_lost);
            if let Some(before) = before.replace(is_lost) {
                sums.transitions[usize::from(before)][usize::from(is_lost)] += 1;
            }
        }
        sums
    }

    #[test]
    fn independent_losses_have_no_burst() {
        let losses = simulated(0.05, 1.0).losses();
        assert_eq!(losses.burst, Some(1.0));
        let each = losses.to_server.expect("round trips").share;
        assert!((each - 0.05).abs() < 0.003, "{each}");
    }

    #[test]
    fn bursts_are_measured() {
        for (lost, burst) in [(0.05, 2.0), (0.1, 4.0), (0.02, 8.0)] {
            let losses = simulated(lost, burst).losses();
            let found = losses.burst.expect("many losses");
            assert!((found / burst - 1.0).abs() < 0.15, "{burst}: {found}");
            let each = losses.to_client.expect("round trips").share;
            assert!((each / lost - 1.0).abs() < 0.15, "{lost}: {each}");
        }
    }

    #[test]
    fn known_loss_of_one_direction_gives_that_of_the_other() {
        let sums = Sums {
            judged: 1_000,
            lost: 145,
            replies: [[0, 0], [1_000, 50]],
            ..Sums::default()
        };
        let losses = sums.losses();
        assert_eq!(losses.to_client.map(|l| l.share), Some(0.05));
        let up = losses.to_server.expect("the rest").share;
        assert!((up - 0.1).abs() < 1e-9, "{up}");
    }
}
