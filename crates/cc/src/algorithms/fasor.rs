//! FASOR: two timers, and a state machine that selects their order.
//!
//! FastRTO follows unambiguous round trips. SlowRTO is one and a half times the total time of an
//! ambiguous exchange, so that it outlasts any queue. While answers are unambiguous, exchanges
//! begin with FastRTO (FAST). After an ambiguous answer they probe with FastRTO and then wait for
//! SlowRTO (fast-slow-fast); after two in a row they begin with SlowRTO (slow-fast). The wait is
//! long enough for a transmission's answer to arrive before the next transmission, which drains the
//! queue and makes the next round trip unambiguous. So timers may shrink within an exchange.
//!
//! | mode | T_0 | T_1 | T_2 | T_3 |
//! |---|---|---|---|---|
//! | FAST | F | 2F | 4F | 8F |
//! | fast-slow-fast | F | max(S, 2F) | 2F | 4F |
//! | slow-fast | S | F | 2F | 4F |
//!
//! `fasor-option` and `fasor-token` number transmissions on the wire: every answer whose
//! transmission is known is then a sample, and the series begins no lower than the last one.
//! draft-ietf-core-fasor-02; `docs/algorithms.md#fasor-family`.

use crate::controller::{Controller, CopyTagging, Gauge, Timer};
use crate::evidence::{
    Abandoned, Answer, Answered, ExchangeState, Expired, Kind, Matched, PacketState, Reason,
    SendCandidate, Sent, Start,
};
use crate::parameters::TransmissionParameters;
use crate::random::{Random, uniform};
use crate::ratio::Ratio;
use crate::registry::{Family, Profile, Suggested};
use crate::time::{Duration, Instant};

variants! {
    /// Deviation after the first sample R (`docs/algorithms.md#fasor`).
    pub enum FirstDeviation {
        /// R/8, as in the draft's text.
        Text = "text",
        /// R/2 counted once, as in its pseudocode.
        Pseudocode = "pseudocode",
    }
}

variants! {
    /// FastRTO that SlowRTO is compared with (`docs/algorithms.md#fasor`).
    pub enum ComparedWith {
        /// The dithered one of the exchange.
        Dithered = "dithered",
        /// The one it was drawn from.
        Undithered = "undithered",
    }
}

variants! {
    /// Effect of a failed exchange on the mode.
    pub enum OnFail {
        /// None.
        Hold = "hold",
        /// The same as of an ambiguous answer.
        Degrade = "degrade",
    }
}

variants! {
    /// Effect of an answer to a known retransmission on the mode.
    pub enum MatchedMode {
        /// The sample is unambiguous: FAST.
        Fast = "fast",
        /// A retransmission occurred: one step down.
        Degrade = "degrade",
    }
}

constants! {
    /// Constants of FASOR.
    pub struct FasorConstants {
        /// gain of the smoothed round-trip time
        alpha: Ratio,
        /// gain of its deviation
        beta: Ratio,
        /// deviations added to the estimate
        k: u8,
        /// the deviation after the first sample
        first_deviation: FirstDeviation,
        /// SlowRTO as a multiple of the total time of an ambiguous exchange
        slow_factor: Ratio,
        /// FastRTO that, doubled, SlowRTO is compared with
        slow_against: ComparedWith,
        /// effect of a failed exchange on the mode
        fasor_on_fail: OnFail,
        /// how transmissions are distinguished
        counting: CopyTagging,
        /// the mode after an answer to a known retransmission
        fasor_matched_mode: MatchedMode,
        /// whether a series begins no lower than the last sample
        base_on_sample: bool,
        /// time between NON notifications before the first measurement
        non_interval: Duration,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Fast,
    FastSlowFast,
    SlowFast,
}

impl Mode {
    fn worse(self) -> Self {
        match self {
            Self::Fast => Self::FastSlowFast,
            Self::FastSlowFast | Self::SlowFast => Self::SlowFast,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::FastSlowFast => "fast-slow-fast",
            Self::SlowFast => "slow-fast",
        }
    }
}

/// FASOR's state for one peer; times in microseconds.
#[derive(Debug)]
pub struct Fasor {
    constants: &'static FasorConstants,
    /// The earliest time of the next notification in a NON message.
    non_until: Instant,
    /// 0 before the first measurement.
    srtt: u32,
    rttvar: u32,
    fast: u32,
    /// 0 until an exchange was ambiguous.
    slow: u32,
    /// The last exchange's sample; 0 if it gave none.
    last: u32,
    mode: Mode,
}

/// FASOR's state of an exchange: its mode and the dithered start of its series.
#[derive(Clone, Copy)]
struct Series {
    mode: Mode,
    fast: Duration,
}

impl From<Series> for ExchangeState {
    fn from(series: Series) -> Self {
        let mode = match series.mode {
            Mode::Fast => 0,
            Mode::FastSlowFast => 1,
            Mode::SlowFast => 2,
        };
        // 62 bits of microseconds last longer than any timer: 146,000 years.
        Self(series.fast.as_micros() << 2 | mode)
    }
}

impl From<ExchangeState> for Series {
    fn from(state: ExchangeState) -> Self {
        Self {
            mode: match state.0 & 3 {
                0 => Mode::Fast,
                1 => Mode::FastSlowFast,
                _ => Mode::SlowFast,
            },
            fast: Duration::from_micros(state.0 >> 2),
        }
    }
}

fn micros(micros: u32) -> Duration {
    Duration::from_micros(u64::from(micros))
}

impl Fasor {
    /// The dithered start of a series: from RTO + SRTT/4 to RTO + SRTT.
    fn dithered(&self, start: &Start<'_>, random: &mut dyn Random) -> Duration {
        let (rto, srtt) = if self.srtt == 0 {
            // The round trip that would give the initial RTO: SRTT + 4 x SRTT/2.
            let initial = start.parameters.ack_timeout;
            (initial, initial.scale(Ratio::new(1, 3)))
        } else {
            // With gains of 1/8 and 1/4 and four deviations FastRTO is never below the latest
            // sample, so this binds only with other constants.
            let base = if self.constants.base_on_sample {
                self.fast.max(self.last)
            } else {
                self.fast
            };
            (micros(base), micros(self.srtt))
        };
        uniform(random, rto + srtt.scale(Ratio::new(1, 4)), rto + srtt)
    }

    fn update(&mut self, sample: u32) {
        let constants = self.constants;
        let k = u32::from(constants.k);
        let margin = if self.srtt == 0 {
            self.srtt = sample;
            match constants.first_deviation {
                FirstDeviation::Text => {
                    // R/2K, of which K are added: together R/2, whatever K rounds off.
                    self.rttvar = sample.saturating_add(k) / (2 * k.max(1));
                    sample.div_ceil(2)
                }
                FirstDeviation::Pseudocode => {
                    self.rttvar = sample / 2;
                    self.rttvar
                }
            }
        } else {
            self.rttvar = constants
                .beta
                .blend(self.rttvar, self.srtt.abs_diff(sample));
            self.srtt = constants.alpha.blend(self.srtt, sample);
            self.rttvar.saturating_mul(k)
        };
        self.fast = self.srtt.saturating_add(margin);
        self.last = sample;
    }
}

const fn profile(
    name: &'static str,
    about: &'static str,
    source: &'static str,
    project_choice: Option<&'static str>,
    counting: CopyTagging,
    base_on_sample: bool,
) -> Profile<FasorConstants> {
    Profile {
        name,
        about,
        source,
        project_choice,
        constants: FasorConstants {
            alpha: Ratio::new(1, 8),
            beta: Ratio::new(1, 4),
            k: 4,
            first_deviation: FirstDeviation::Text,
            slow_factor: Ratio::new(3, 2),
            slow_against: ComparedWith::Dithered,
            fasor_on_fail: OnFail::Hold,
            counting,
            fasor_matched_mode: MatchedMode::Fast,
            base_on_sample,
            non_interval: Duration::from_secs(3),
        },
        suggested: Suggested {
            max_retransmit: None,
            rto_max: Some(Duration::from_secs(60)),
        },
    }
}

impl Family for Fasor {
    type Constants = FasorConstants;
    const PROFILES: &'static [Profile<FasorConstants>] = &[
        profile(
            "fasor",
            "FASOR: a fast RTO, and a slow RTO that drains queues after ambiguous replies",
            "draft-ietf-core-fasor-02; docs/algorithms.md#fasor",
            None,
            CopyTagging::Off,
            false,
        ),
        profile(
            "fasor-option",
            "FASOR with retransmission counts in an option",
            "draft-ietf-core-fasor-02; docs/algorithms.md#fasor-option",
            None,
            CopyTagging::EveryCopy,
            true,
        ),
        profile(
            "fasor-token",
            "FASOR with retransmission counts in the token",
            "draft-ietf-core-fasor-02; docs/algorithms.md#fasor-token",
            Some(
                "the draft gives no encoding: the last byte of the token is the retransmission \
                 count, and the other bytes identify the request",
            ),
            CopyTagging::Token,
            true,
        ),
    ];
    const SHRINKS: bool = true;

    fn new(constants: &'static FasorConstants) -> Self {
        Self {
            constants,
            non_until: Instant::ZERO,
            srtt: 0,
            rttvar: 0,
            fast: 0,
            slow: 0,
            last: 0,
            mode: Mode::Fast,
        }
    }
}

/// `timeout`, cut at the cap: FASOR's holds for the first timer, too.
fn capped(timeout: Duration, parameters: &TransmissionParameters) -> Duration {
    parameters.rto_max.map_or(timeout, |cap| timeout.min(cap))
}

impl Controller for Fasor {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        let series = Series {
            mode: self.mode,
            fast: self.dithered(start, random),
        };
        let timeout = match series.mode {
            Mode::Fast | Mode::FastSlowFast => series.fast,
            Mode::SlowFast => micros(self.slow),
        };
        Timer {
            timeout: capped(timeout, start.parameters),
            state: series.into(),
        }
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        let series = Series::from(expired.state);
        let n = u32::from(expired.retransmissions) + 1; // index of T_n
        // MAX_RETRANSMIT is at most 30; the limit keeps the shift defined for any caller.
        let doubled = |times: u32| series.fast.times(1 << times.min(40));
        let timeout = match (series.mode, n) {
            (Mode::Fast, n) => doubled(n),
            (Mode::FastSlowFast, 1) => {
                let fast = match self.constants.slow_against {
                    ComparedWith::Undithered if self.fast > 0 => micros(self.fast),
                    ComparedWith::Undithered | ComparedWith::Dithered => series.fast,
                };
                micros(self.slow).max(fast.times(2))
            }
            (Mode::FastSlowFast | Mode::SlowFast, n) => doubled(n - 1),
        };
        Timer {
            timeout: capped(timeout, expired.parameters),
            state: expired.state,
        }
    }

    fn on_sent(&mut self, sent: &Sent<'_>, _: &mut dyn Random) -> PacketState {
        if sent.kind == Kind::Notification && !sent.confirmable {
            // One per round trip, if that is known (RFC 7641 4.5.1).
            let wait = match self.srtt {
                0 => self.constants.non_interval,
                srtt => micros(srtt),
            };
            self.non_until = sent.now + wait;
        }
        PacketState::default()
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        // A separate response after a lost ACK includes the time of the application.
        if !answered.confirmable || answered.answer == Answer::Separate {
            return;
        }
        let known = match answered.matched {
            Matched::Exact(_) => answered.round_trip(),
            Matched::Ambiguous { .. } => None,
        };
        let Some(round_trip) = known else {
            let took = answered.since_original();
            // Not smoothed: the wait has to outlast the queue that this exchange met.
            self.slow = took.scale(self.constants.slow_factor).as_micros_u32();
            self.mode = self.mode.worse();
            self.last = 0;
            return;
        };
        self.update(round_trip.as_micros_u32().max(1));
        let repeated = answered.retransmissions() > 0;
        self.mode = match self.constants.fasor_matched_mode {
            // Without a SlowRTO there is no lower step.
            MatchedMode::Degrade if repeated && self.slow > 0 => self.mode.worse(),
            MatchedMode::Degrade | MatchedMode::Fast => Mode::Fast,
        };
    }

    fn on_response(&mut self, response: &Answered<'_>) {
        // The token of a separate response names the transmission that the empty ACK left open.
        let tagged =
            self.constants.counting == CopyTagging::Token && response.retransmissions() > 0;
        if tagged && let Some(round_trip) = response.round_trip() {
            self.update(round_trip.as_micros_u32().max(1));
            if self.constants.fasor_matched_mode == MatchedMode::Fast {
                self.mode = Mode::Fast;
            }
        }
    }

    fn on_abandoned(&mut self, abandoned: &Abandoned<'_>) {
        self.last = 0;
        // The draft does not mention failed exchanges: by default they change neither mode nor timers.
        let failed = abandoned.reason == Reason::TimedOut;
        if failed && self.constants.fasor_on_fail == OnFail::Degrade && self.slow > 0 {
            self.mode = self.mode.worse();
        }
    }

    fn earliest_departure_time(&self, candidate: &SendCandidate<'_>) -> Instant {
        if candidate.kind == Kind::Notification && !candidate.confirmable {
            self.non_until.max(candidate.now)
        } else {
            candidate.now
        }
    }

    fn copy_tagging(&self) -> CopyTagging {
        self.constants.counting
    }

    fn gauges(&self, _: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        if self.srtt > 0 {
            visit("rto", Gauge::Time(micros(self.fast)));
            visit("srtt", Gauge::Time(micros(self.srtt)));
            visit("rttvar", Gauge::Time(micros(self.rttvar)));
        }
        if self.slow > 0 {
            visit("slow_rto", Gauge::Time(micros(self.slow)));
        }
        visit("mode", Gauge::State(self.mode.name()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Fixed;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_series_of_the_three_modes() {
        let parameters = TransmissionParameters::DEFAULT;
        let expected = [
            (Mode::Fast, [1, 2, 4, 8]),
            (Mode::FastSlowFast, [1, 5, 2, 4]),
            (Mode::SlowFast, [5, 1, 2, 4]),
        ];
        for (mode, seconds) in expected {
            let mut fasor = Fasor::new(&Fasor::PROFILES[0].constants);
            (fasor.slow, fasor.mode) = (5_000_000, mode);
            // F = 1 s: a FastRTO of 3/4 s, and a round trip of 1 s dithered at its low end.
            (fasor.srtt, fasor.fast) = (1_000_000, 750_000);
            let start = Start::new(Instant::ZERO, &parameters);
            let mut timer = fasor.first_timeout(&start, &mut Fixed::low());
            for (n, seconds) in (0_u8..).zip(seconds) {
                assert_eq!(timer.timeout, SECOND.times(seconds), "{mode:?}, T_{n}");
                let expired =
                    Expired::new(Instant::ZERO, &parameters, timer.state, n, timer.timeout);
                timer = fasor.next_timeout(&expired, &mut Fixed::low());
            }
        }
    }

    #[test]
    fn a_memo_reads_back() {
        for mode in [Mode::Fast, Mode::FastSlowFast, Mode::SlowFast] {
            let state = ExchangeState::from(Series { mode, fast: SECOND });
            let back = Series::from(state);
            assert_eq!((back.mode, back.fast), (mode, SECOND));
        }
    }
}
