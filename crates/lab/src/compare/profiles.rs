//! Transmission profiles judged by the cost of comparisons, on the links of their names.

use carob_cc::TransmissionProfile;

use super::candidates::largest_block;
use super::configuration::{BLOCKS, Configuration};
use super::judge::Cost;
use super::link::Link;
use super::runs::{costs_of, make, resampled, stage};
use super::traffic::Traffic;
use super::{CompareError, Progress, Question};

/// First seed of the runs that judge; a comparison uses lower seeds.
const SEEDS: u64 = 4_000_001;
/// Exchanges of the runs that judge.
const EXCHANGES: u64 = 1_000_000;

/// A profile beside default CoAP and the recommendation.
#[derive(Clone, Debug)]
pub struct JudgedProfile {
    /// The recommended configuration.
    pub recommended: Configuration,
    /// The configuration of the profile.
    pub configuration: Configuration,
    /// Cost of the profile beside default CoAP.
    pub cost: Cost,
    /// Cost of the recommendation beside default CoAP.
    pub recommended_cost: Cost,
    /// Cost of the profile beside the recommendation.
    pub ratio: Cost,
    /// Paired seeds.
    pub seeds: u64,
}

/// Judges a profile with fresh seeds.
///
/// # Errors
///
/// A link or a traffic that cannot be simulated.
pub fn judge(
    profile: TransmissionProfile,
    link: &Link,
    traffic: &Traffic,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<JudgedProfile, CompareError> {
    let question = Question::new(link.clone(), traffic.clone());
    let recommended = question.answer(progress)?.recommended().configuration;
    let block = largest_block(link);
    let configuration = Configuration::of_profile(profile, block);
    let judged = [
        Configuration::default_coap(block),
        configuration,
        recommended,
    ];
    let (costs, seeds) = costs(&question, &judged, progress)?;
    let pairs = costs[1].iter().zip(&costs[2]);
    let ratios: Vec<f64> = pairs.map(|(profile, best)| profile / best).collect();
    Ok(JudgedProfile {
        recommended,
        configuration,
        cost: Cost::of(&costs[1]),
        recommended_cost: Cost::of(&costs[2]),
        ratio: Cost::of(&ratios),
        seeds,
    })
}

/// Judges a profile with its own and other block sizes, and with its own controller and `carob`, beside
/// default CoAP on fresh seeds.
///
/// # Errors
///
/// A link or a traffic that cannot be simulated.
pub fn variants(
    profile: TransmissionProfile,
    link: &Link,
    traffic: &Traffic,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<(Configuration, Cost)>, CompareError> {
    let question = Question::new(link.clone(), traffic.clone());
    let largest = largest_block(link);
    let own = Configuration::of_profile(profile, largest);
    let mut judged = vec![Configuration::default_coap(largest)];
    for controller in [own.controller, "carob"] {
        let blocks = BLOCKS.iter().filter(|block| **block <= largest).take(3);
        judged.extend(blocks.map(|&block| Configuration {
            controller,
            block,
            ..own
        }));
    }
    let (costs, _) = costs(&question, &judged, progress)?;
    let pairs = judged.into_iter().zip(&costs).skip(1);
    Ok(pairs.map(|(one, costs)| (one, Cost::of(costs))).collect())
}

/// Costs of configurations beside the first one on fresh seeds, and the number of seeds.
fn costs(
    question: &Question,
    judged: &[Configuration],
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(Vec<Vec<f64>>, u64), CompareError> {
    let stage = stage(question, SEEDS, EXCHANGES, judged.len(), 10..160);
    let values = resampled(&make(&stage, judged, progress)?);
    let seeds = stage.seeds.len() as u64;
    Ok((costs_of(&values, &question.weights), seeds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nightly_a_profile_is_judged_with_its_own_settings() {
        let link = Link::built_in("lan").expect("built in");
        let traffic = Traffic::named("command").expect("known");
        let found = judge(TransmissionProfile::Lan, &link, &traffic, &|_| {}).expect("possible");
        assert_eq!(
            found.configuration.controller,
            TransmissionProfile::Lan.controller().name
        );
        assert!(found.ratio.low <= found.ratio.value && found.seeds >= 10);
        for profile in TransmissionProfile::ALL {
            let configuration = Configuration::of_profile(profile, 64);
            assert_eq!(configuration.timers.profile(), Some(profile));
            assert!(configuration.block <= 64);
        }
    }
}
