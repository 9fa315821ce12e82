//! The contract suite for all registered controllers: 2^22 random steps each, 2^32 with
//! `cargo xtask long contract`.

use carob_cc::TransmissionParameters;
use carob_cc::contract::{Breach, Lcg, Trial};
use carob_cc::controller::{Controller, Timer};
use carob_cc::evidence::{Expired, Start};
use carob_cc::random::Random;
use carob_cc::ratio::Ratio;
use carob_cc::registry::{Entry, entries};
use carob_cc::time::Duration;

/// Steps of one trial, which has new controllers.
const TRIAL: u32 = 1 << 14;
/// Trials per controller: 2^8 with 2^14 steps each make 2^22.
const TRIALS: u64 = 1 << 8;

/// Transmission parameters of trial `seed`: suggested, default, and unusual ones.
fn parameters(entry: &Entry, seed: u64) -> TransmissionParameters {
    let mut parameters = TransmissionParameters::DEFAULT;
    match seed % 4 {
        0 | 1 => parameters = entry.suggested.apply(parameters),
        2 => {
            parameters.max_retransmit = TransmissionParameters::MAX_RETRANSMIT_LIMIT;
            parameters.rto_max = None;
        }
        _ => {
            parameters.ack_timeout = Duration::from_millis(1 + 997 * (seed % 50));
            parameters.ack_random_factor = Ratio::new(5, 4);
            parameters.max_retransmit = (seed % 7) as u8;
            parameters.rto_max = Some(Duration::from_millis(100 * (1 + seed % 600)));
            parameters.nstart = 1 + (seed % 5) as u16;
        }
    }
    parameters
}

fn trial(entry: &Entry, seed: u64) -> u64 {
    let trial = if seed % 4 < 2 {
        Trial::new(entry.build(), entry.build(), entry.shrinks)
    } else {
        Trial::alone(entry.build(), entry.shrinks)
    };
    let mut trial = trial.with_parameters(parameters(entry, seed / 2));
    let mut random = Lcg(seed);
    for step in 0..TRIAL {
        if let Err(breach) = trial.step(&mut random) {
            panic!(
                "{}, trial {seed}, step {step}: {breach}\n{trial:#?}",
                entry.name
            );
        }
    }
    trial.digest()
}

#[test]
fn slow_every_controller_satisfies_the_contract() {
    let all: Vec<Entry> = entries().collect();
    std::thread::scope(|scope| {
        for half in [0, 1] {
            let mine = all.iter().skip(half).step_by(2);
            scope.spawn(move || {
                for entry in mine {
                    let first = trial(entry, 0);
                    for seed in 1..TRIALS {
                        trial(entry, seed);
                    }
                    // A different digest would show state outside the controllers, such as statics.
                    assert_eq!(trial(entry, 0), first, "{}", entry.name);
                }
            });
        }
    });
}

/// A controller with selectable violations of the contract.
#[derive(Debug, Default)]
struct FaultyController {
    /// Timers of zero.
    zero: bool,
    /// Retransmission timers shorter than the ones before.
    shrink: bool,
    /// Decisions that depend on the absolute time, so that equal scripts at another time differ.
    dated: bool,
}

impl Controller for FaultyController {
    fn first_timeout(&mut self, start: &Start<'_>, _: &mut dyn Random) -> Timer {
        let seconds = match start.now.as_micros() {
            _ if self.zero => 0,
            late if self.dated && late > 900_000_000 => 3,
            _ => 2,
        };
        Duration::from_secs(seconds).into()
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        if self.shrink {
            expired.timeout.half().into()
        } else {
            expired.timeout.times(2).into()
        }
    }
}

fn breach(build: impl Fn() -> FaultyController) -> Option<Breach> {
    let mut trial = Trial::new(build(), build(), false);
    let mut random = Lcg(1);
    (0..TRIAL).find_map(|_| trial.step(&mut random).err())
}

#[test]
fn contract_violations_are_detected() {
    let faulty = FaultyController::default;
    assert_eq!(breach(faulty), None);
    let zero = breach(|| FaultyController {
        zero: true,
        ..faulty()
    });
    assert_eq!(zero, Some(Breach::NoTimer));
    let shrink = breach(|| FaultyController {
        shrink: true,
        ..faulty()
    });
    assert!(matches!(shrink, Some(Breach::Shrank { .. })), "{shrink:?}");
    let dated = breach(|| FaultyController {
        dated: true,
        ..faulty()
    });
    assert!(matches!(dated, Some(Breach::Differs { .. })), "{dated:?}");
}
