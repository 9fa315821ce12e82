//! Comparison of configurations on one's own link: which controller, with which settings.
//!
//! [`Question::answer`] runs every controller fit for use with the parameters of RFC 7252, then block
//! size and timers with the best of them, then the best configurations with fresh seeds until
//! the recommendation is settled, and at last on links near the one asked about. Costs are
//! weighted geometric means of [`Component`]s beside default CoAP ([`Weights`]); intervals are by a
//! bootstrap over paired seeds.
//!
//! ```
//! use carob_lab::compare::{Link, Question, Traffic};
//!
//! let link = Link::built_in("lte-m").unwrap();
//! let question = Question::new(link, Traffic::named("command").unwrap());
//! let answer = question.answer(&|_| {})?;
//! assert!(answer.recommended().cost.value <= 1.0);
//! # Ok::<(), carob_lab::compare::CompareError>(())
//! ```

mod built_in;
mod candidates;
mod configuration;
mod gate;
pub mod hindsight;
mod judge;
mod link;
mod link_words;
mod mesh_links;
mod neighbourhood;
pub mod proof;
mod report;
mod resumable;
mod runs;
mod search;
mod traces;
mod traffic;
mod words;
mod written_link;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use carob_sim::registry::Registry;
use carob_sim::spec::RunSpec;
use serde::Serialize;

use crate::scenario::value::{Value, Values};
use crate::scenario::written;

pub use built_in::{BUILT_IN, BuiltInLink};
pub use configuration::{Configuration, LEFT_OUT, Timers, Transfer, controllers};
pub use gate::{Exclusion, Limit};
pub use judge::{Component, Cost, Measured, Weights};
pub use link::Link;
pub use mesh_links::MeshLinks;
pub use resumable::{ResumableSearch, RunBytes, RunMaker, RunRequest, Step};
pub use traces::{LinkTraces, NamedTrace};
pub use traffic::{BURST_MAX, SIZE_DEFAULT, SIZE_MAX, TRAFFIC, Traffic, TrafficKind};
pub use words::{digits, seconds};
pub use written_link::WrittenLink;

/// Why there is no comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareError {
    /// The mistake and its place.
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

impl CompareError {
    fn of(what: impl fmt::Display, remedy: &str) -> Self {
        Self {
            what: what.to_string(),
            remedy: remedy.to_owned(),
        }
    }
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for CompareError {}

/// The most devices of a comparison.
pub const CLIENTS_MAX: u32 = 1_000;
/// The most seeds of the last stage.
pub const SEEDS_MAX: u32 = 1_280;
/// A question: which configuration for this link and this traffic?
#[derive(Clone, Debug)]
pub struct Question {
    link: Link,
    traffic: Traffic,
    weights: Weights,
    first_seed: u64,
    registry: Registry,
}

/// Steps of an answer, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Number of further runs.
    Planned(usize),
    /// A run was made.
    Made,
}

/// A configuration with its results.
#[derive(Clone, Debug, Serialize)]
pub struct Ranked {
    /// The configuration.
    pub configuration: Configuration,
    /// The command that applies it, at the end that sends.
    pub command: String,
    /// Its values.
    pub measured: Measured,
    /// Its cost beside default CoAP.
    pub cost: Cost,
    /// Limits beside default CoAP that it exceeds, here and on links nearby; a recommendation exceeds none.
    pub excluded: Vec<Exclusion>,
}

/// A link near the one asked about where another configuration is better.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flip {
    /// What differs there, such as `loss 10 %`.
    pub at: String,
    /// The best configuration there.
    pub configuration: Configuration,
    /// Its cost there relative to the recommended one.
    pub cost: f64,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The link.
    pub link: Link,
    /// The traffic.
    pub traffic: Traffic,
    /// Weights of the components.
    pub weights: Weights,
    /// Default CoAP, then the configurations of the last stage, the cheapest first.
    pub ranked: Vec<Ranked>,
    /// Controllers under RFC 7252's parameters, the cheapest first, with their costs.
    pub controllers: Vec<(&'static str, f64)>,
    /// Place of the recommended configuration in `ranked`.
    pub recommended: usize,
    /// Place of a configuration that is better, but needs support at the peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_peer: Option<usize>,
    /// Links of the neighbourhood on which it was tried.
    pub neighbours: Vec<String>,
    /// Links of the neighbourhood that an interruption left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
    /// Where another one is better, the nearest first.
    pub flips: Vec<Flip>,
    /// Seeds of the last stage.
    pub seeds: u64,
    /// True if 95 % of resamples have the same recommendation.
    pub is_settled: bool,
    /// Runs made.
    pub runs: usize,
}

impl Answer {
    /// The recommended configuration.
    pub fn recommended(&self) -> &Ranked {
        &self.ranked[self.recommended]
    }

    /// False if it was interrupted: the recommendation may change.
    pub fn is_complete(&self) -> bool {
        self.unchecked.is_empty()
    }

    /// Default CoAP.
    pub fn default_coap(&self) -> &Ranked {
        &self.ranked[0]
    }

    /// The answer in words, a sentence or two each.
    pub fn words(&self) -> Vec<String> {
        words::words(self)
    }

    /// The subject of its percentiles, such as `responses`.
    pub fn percentiles_of(&self) -> &'static str {
        words::percentiles_of(self)
    }

    /// The answer as a page with figures and tables; `command` repeats it.
    pub fn report(&self, command: String) -> crate::report::Report {
        report::report(self, command)
    }
}

impl Question {
    /// A question with the weights of its traffic.
    pub fn new(link: Link, traffic: Traffic) -> Self {
        let mut weights = traffic.weights();
        // The ratio of a component that is not measured is 1, which would move every cost towards 1.
        if !Self::has_harm(&link, &traffic) {
            weights = weights.without(Component::Harm);
        }
        Self {
            link,
            traffic,
            weights,
            first_seed: 1,
            registry: Registry::BUILT_IN,
        }
    }

    /// The same with other weights.
    ///
    /// # Errors
    ///
    /// Weights that are negative, or all zero.
    pub fn weighted(mut self, changes: &[(Component, f64)]) -> Result<Self, CompareError> {
        if changes.is_empty() {
            return Ok(self);
        }
        let wrong = "weights must not be negative, and not all zero";
        let weights = self.weights.with(changes);
        self.weights =
            weights.ok_or_else(|| CompareError::of(wrong, "such as --weight time=60"))?;
        if !Self::has_harm(&self.link, &self.traffic) {
            self.weights = self.weights.without(Component::Harm);
        }
        Ok(self)
    }

    /// The same with other seeds.
    #[must_use]
    pub fn seeded(mut self, first_seed: u64) -> Self {
        self.first_seed = first_seed;
        self
    }

    /// The same with the controllers of a registry.
    #[must_use]
    pub fn registered(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Default CoAP with the parameters of RFC 7252, and the largest block that fits a packet.
    pub fn default_coap(&self) -> Configuration {
        Configuration::default_coap(candidates::largest_block(&self.link))
    }

    /// A scenario file of this link and traffic: controllers with the settings of a configuration, whose own
    /// controller does not count.
    pub fn scenario_text(
        &self,
        controllers: &[&str],
        settings: &Configuration,
        seeds: u64,
    ) -> String {
        let about = format!("{}; {}", self.link.about(), self.traffic.about());
        let mut values = runs::values(&self.link, &self.traffic, controllers, settings);
        self.link.traces.set_in(&mut values);
        values.insert("about".to_owned(), Value::Text(about));
        values.insert("run.seeds".to_owned(), Value::Whole(seeds));
        written(&values)
    }

    /// The run of default CoAP with other values of its scenario.
    pub(crate) fn spec(&self, overrides: &Values) -> Result<RunSpec, CompareError> {
        let stage = runs::Stage {
            overrides,
            ..runs::idle(self, None)
        };
        runs::spec(&stage, &self.default_coap(), false)
    }

    /// Whether a neighbour with default CoAP can share the network.
    fn has_harm(link: &Link, traffic: &Traffic) -> bool {
        !link.is_mesh && !traffic.is_observe() && traffic.kind != TrafficKind::Own
    }

    /// Answers it. Runs use all threads of the current rayon pool; the answer does not depend on their
    /// number.
    ///
    /// # Errors
    ///
    /// A link or a traffic that cannot be simulated.
    pub fn answer(&self, progress: &(dyn Fn(Progress) + Sync)) -> Result<Answer, CompareError> {
        self.answer_until(progress, &runs::NEVER)
    }

    /// Answers it with the runs made until `is_stopped` becomes true. [`Answer::unchecked`] names the links nearby
    /// on which the configurations have not run then.
    ///
    /// # Errors
    ///
    /// A link or a traffic that cannot be simulated, and an interruption before the first stage has ended.
    pub fn answer_until(
        &self,
        progress: &(dyn Fn(Progress) + Sync),
        is_stopped: &AtomicBool,
    ) -> Result<Answer, CompareError> {
        let (mut search, maker) = (self.search(), self.run_maker());
        loop {
            if let Step::Answer(answer) = search.step() {
                return Ok(*answer);
            }
            let batch = search.batch();
            let made = batch.map(|batch| maker.make_all(batch, progress, is_stopped));
            match made.transpose() {
                Ok(made) => search.add_all(made.unwrap_or_default()),
                Err(_) if is_stopped.load(Ordering::Relaxed) => {
                    let early = "interrupted before every controller had run";
                    let early = CompareError::of(
                        early,
                        "run the command again; fewer --clients take less time",
                    );
                    return search.so_far().ok_or(early);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The search for its answer, for a caller that has the runs made by a [`RunMaker`] or several. The answer is
    /// the same bits as [`answer`](Self::answer).
    pub fn search(&self) -> ResumableSearch {
        ResumableSearch::new(self)
    }

    /// The maker of the runs that its search requests.
    pub fn run_maker(&self) -> RunMaker {
        RunMaker::new(self)
    }
}

#[cfg(test)]
mod tests;
