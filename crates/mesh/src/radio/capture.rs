//! Radio capture: a frame survives weaker signals that overlap it.
//!
//! The model is the one of ns-3's lr-wpan (`LrWpanPhy`, `LrWpanInterferenceHelper`,
//! `LrWpanErrorModel`). A receiver locks on the first frame that begins while it receives none, and
//! stays with it to its end. The powers of all other signals add up to its interference. A frame is
//! judged in pieces of constant interference, by one of two rules:
//!
//! - A threshold of the signal-to-interference ratio in each piece, as transceivers specify it
//!   (CC2420: co-channel rejection of 3 dB). Below it a receiver does not lock on a frame either.
//! - The bit error ratio of O-QPSK at 2.4 GHz (IEEE 802.15.4-2006, E.4.1.8).
//!
//! ns-3 applies the second when a signal begins and at the end of the frame. A signal that ends before is
//! not interference in the time since the last beginning (`LrWpanPhy::EndRx` removes it unjudged), so that
//! frames survive the rests of older ones. The rule [`CaptureRule::Ns3`] does the same, for comparison.
//!
//! Thermal noise is not part of it: the delivery ratio of a link has it already.
//!
//! The power of a signal is its margin over the receiver's sensitivity: by log-distance path loss with
//! exponent 3 from positions, or by the delivery ratio of a table of links, as the look-alikes of
//! testbeds derive ratios from margins. Ratios near 1 have all the same margin of about 21 dB.

use carob_cc::time::Instant;
use carob_sim_core::random::{Probability, Stream};

use super::links::{Ground, Links};
use crate::Node;
use crate::spec::{CaptureRule, Delivery, RadioSpec};
use crate::topology::margin_of;

/// Exponent of the path loss.
const EXPONENT: f64 = 3.0;
/// Bounds of a margin in dB, so that sums of powers fit 64 bits.
const MARGINS: (f64, f64) = (-20.0, 80.0);
/// Powers are multiples of this part of the sensitivity. Whole numbers, so that a signal's end takes
/// away exactly what its beginning added.
const UNIT: f64 = 1_048_576.0;
/// Ratio in dB below which ns-3 does not try to receive a frame.
const LOCK_MIN: f64 = -5.0;
/// Resolution of a probability of survival.
const PER_BILLION: f64 = 1e9;
/// Time of a bit in microseconds.
const BIT_TIME: f64 = 4.0;

/// The frame that a node is receiving, and the signals around it.
#[derive(Clone, Copy, Debug, Default)]
struct Reception {
    /// Power of all signals present.
    present: u64,
    /// Power of the locked frame; 0 without one.
    locked: u64,
    /// Logarithm of the probability that all bits until `since` were right.
    right: f64,
    since: Instant,
}

/// Powers of all links, and receptions of all nodes.
#[derive(Clone, Debug)]
pub(super) struct Capture {
    rule: CaptureRule,
    /// The least ratio at which a receiver locks on a frame.
    ratio: f64,
    /// Powers in the order of the links.
    powers: Vec<u64>,
    receptions: Vec<Reception>,
    stream: Stream,
}

impl Capture {
    /// The capture of a radio; none if overlapping frames destroy each other. Draws are on the stream
    /// `"mesh/radio/capture"`.
    pub(super) fn new(
        ground: &Ground<'_>,
        links: &Links,
        radio: &RadioSpec,
        seed: u64,
    ) -> Option<Box<Self>> {
        let rule = radio.capture?;
        let by_table = matches!(radio.delivery, Delivery::Table);
        let range = f64::from(radio.range_mm);
        let mut powers = Vec::new();
        for from in 0..links.nodes() as Node {
            for link in links.receivers(from).iter().chain(links.disturbed(from)) {
                let margin = if by_table {
                    margin_of(link.delivery)
                } else {
                    let [a, b] = [from, link.to].map(|node| ground.positions[usize::from(node)]);
                    // At least 1 m, the reference distance of log-distance path loss.
                    let distance = libm::sqrt(super::links::squared(a, b) as f64).max(1_000.0);
                    10.0 * EXPONENT * libm::log10(range / distance)
                };
                powers.push(power(margin));
            }
        }
        let ratio = match rule {
            CaptureRule::Threshold(hundredths) => decibels(f64::from(hundredths) / 100.0),
            CaptureRule::Ieee802154 | CaptureRule::Ns3 => decibels(LOCK_MIN),
        };
        Some(Box::new(Self {
            rule,
            ratio,
            powers,
            receptions: vec![Reception::default(); links.nodes()],
            stream: Stream::new(seed, "mesh/radio/capture"),
        }))
    }

    /// Adds the signal of a link. Returns whether its receiver can lock on it, if it receives nothing.
    pub(super) fn begin(&mut self, now: Instant, node: Node, link: usize) -> bool {
        self.judge(now, node);
        let (own, reception) = (self.powers[link], &mut self.receptions[usize::from(node)]);
        let others = reception.present;
        reception.present += own;
        own as f64 >= self.ratio * others as f64
    }

    /// Locks a node on the signal of a link.
    pub(super) fn lock(&mut self, now: Instant, node: Node, link: usize) {
        let reception = &mut self.receptions[usize::from(node)];
        reception.locked = self.powers[link];
        (reception.right, reception.since) = (0.0, now);
    }

    /// Gives up the frame that a node is receiving.
    pub(super) fn unlock(&mut self, node: Node) {
        self.receptions[usize::from(node)].locked = 0;
    }

    /// Removes the signal of a link. Returns whether it survived, if the node was locked on it.
    pub(super) fn end(&mut self, now: Instant, node: Node, link: usize, is_locked: bool) -> bool {
        if is_locked || self.rule != CaptureRule::Ns3 {
            self.judge(now, node);
        }
        let reception = &mut self.receptions[usize::from(node)];
        reception.present -= self.powers[link];
        if !is_locked {
            return false;
        }
        reception.locked = 0;
        let right = libm::exp(reception.right);
        let survives = Probability::of((right * PER_BILLION + 0.5) as u64, PER_BILLION as u64);
        // No draw for a certain outcome: a threshold rule uses no random numbers.
        right >= 1.0 || right > 0.0 && self.stream.happens(survives)
    }

    /// Judges the piece of the locked frame that ends now.
    fn judge(&mut self, now: Instant, node: Node) {
        let reception = &mut self.receptions[usize::from(node)];
        let time = now.since(reception.since);
        reception.since = now;
        let others = reception.present.saturating_sub(reception.locked);
        if reception.locked == 0 || others == 0 || time.is_zero() {
            return;
        }
        let ratio = reception.locked as f64 / others as f64;
        // Logarithms add up over the pieces; -infinity is a piece that no frame survives.
        reception.right += match self.rule {
            CaptureRule::Threshold(_) if ratio < self.ratio => f64::NEG_INFINITY,
            CaptureRule::Threshold(_) => 0.0,
            CaptureRule::Ieee802154 | CaptureRule::Ns3 => {
                time.as_micros() as f64 / BIT_TIME * libm::log1p(-bit_error_ratio(ratio))
            }
        };
    }
}

/// The ratio of decibels.
fn decibels(margin: f64) -> f64 {
    libm::pow(10.0, margin / 10.0)
}

fn power(margin: f64) -> u64 {
    (decibels(margin.clamp(MARGINS.0, MARGINS.1)) * UNIT + 0.5) as u64
}

/// Bit error ratio at a ratio of signal to interference (IEEE 802.15.4-2006, E.4.1.8).
fn bit_error_ratio(ratio: f64) -> f64 {
    let mut binomial = 16.0;
    let mut sum = 0.0;
    for k in 2..=16 {
        let k = f64::from(k);
        binomial *= (17.0 - k) / k;
        let sign = if k % 2.0 == 0.0 { 1.0 } else { -1.0 };
        sum += sign * binomial * libm::exp(20.0 * ratio * (1.0 / k - 1.0));
    }
    (8.0 / 15.0 / 16.0 * sum).clamp(0.0, 0.5)
}
