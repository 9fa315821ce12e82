//! A search whose runs its caller makes: on the threads of this process, or in the workers of a page.
//!
//! The search is an `async` function that waits at a [`Desk`] for its runs, so that its stages read in their order.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

use serde::{Deserialize, Serialize};

use super::configuration::{Configuration, TCP, Timers, Transfer, controllers_of};
use super::judge::RunSummary;
use super::neighbourhood::{Near, neighbourhood};
use super::runs::{NEVER, Stage, idle, make};
use super::search::Search;
use super::{Answer, CompareError, Progress, Question};

/// Runs of one configuration with consecutive seeds. A caller may divide it by its seeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// Place of the link in the neighbourhood; none for the link asked about.
    pub(super) near: Option<usize>,
    pub(super) with_harm: bool,
    pub(super) controller: String,
    pub(super) block: u16,
    pub(super) timers: Timers,
    #[serde(default)]
    pub(super) transfer: Transfer,
    /// The first seed.
    pub first: u64,
    /// Number of seeds.
    pub count: u64,
}

/// The result of a run, as bytes that only the same version reads.
pub type RunBytes = Vec<u8>;

/// Runs of a stage that a search waits for.
#[derive(Clone, Debug)]
pub(super) struct RunBatch {
    /// Place of the link in the neighbourhood; none for the link asked about.
    pub(super) near: Option<usize>,
    pub(super) with_harm: bool,
    pub(super) seeds: Vec<u64>,
    pub(super) configurations: Vec<Configuration>,
}

impl RunBatch {
    /// Number of summaries.
    fn len(&self) -> usize {
        self.configurations.len() * self.seeds.len()
    }

    fn requests(&self) -> Vec<RunRequest> {
        // Seeds have gaps where those without a loss are left out; a request is a range.
        let parts: Vec<&[u64]> = self.seeds.chunk_by(|a, b| a + 1 == *b).collect();
        let of = |(one, seeds): (&Configuration, &[u64])| RunRequest {
            near: self.near,
            with_harm: self.with_harm,
            controller: one.controller.to_owned(),
            block: one.block,
            timers: one.timers,
            transfer: one.transfer,
            first: seeds[0],
            count: seeds.len() as u64,
        };
        let pairs = self.configurations.iter();
        let pairs = pairs.flat_map(|one| parts.iter().map(move |seeds| (one, *seeds)));
        pairs.map(of).collect()
    }
}

/// Exchange between a search and its caller: runs requested, and their summaries.
#[derive(Debug, Default)]
pub(super) struct Desk {
    batch: RefCell<Option<RunBatch>>,
    made: RefCell<Option<Vec<Vec<RunSummary>>>>,
    /// The answer by the runs made so far.
    so_far: RefCell<Option<Answer>>,
}

impl Desk {
    /// Summaries of the runs, by configuration.
    pub(super) async fn make(&self, batch: RunBatch) -> Vec<Vec<RunSummary>> {
        self.batch.replace(Some(batch));
        poll_fn(|_| match self.made.take() {
            Some(made) => Poll::Ready(made),
            None => Poll::Pending,
        })
        .await
    }

    /// Keeps the answer by the runs made so far.
    pub(super) fn keep(&self, answer: Answer) {
        self.so_far.replace(Some(answer));
    }
}

/// The next need of a search.
#[derive(Debug)]
pub enum Step {
    /// The results of these runs, by [`ResumableSearch::add`].
    Runs(Vec<RunRequest>),
    /// Nothing: this is its answer.
    Answer(Box<Answer>),
}

/// The search for the answer to a question, which makes no runs itself.
///
/// ```
/// use carob_lab::compare::{Link, Question, Step, Traffic};
///
/// let link = Link::built_in("umts").unwrap();
/// let question = Question::new(link, Traffic::named("command").unwrap());
/// let (mut search, maker) = (question.search(), question.run_maker());
/// let answer = loop {
///     match search.step() {
///         Step::Answer(answer) => break answer,
///         Step::Runs(requests) => {
///             // Here each request may go to another machine.
///             let results = requests.iter().map(|request| maker.make(request));
///             let results: Vec<_> = results.collect::<Result<_, _>>()?;
///             for (at, result) in results.concat().iter().enumerate() {
///                 search.add(at, result)?;
///             }
///         }
///     }
/// };
/// assert!(answer.recommended().cost.value <= 1.0);
/// # Ok::<(), carob_lab::compare::CompareError>(())
/// ```
pub struct ResumableSearch {
    desk: Rc<Desk>,
    search: Pin<Box<dyn Future<Output = Answer>>>,
    /// Runs that it waits for, and their summaries so far, by configuration and seed.
    batch: Option<RunBatch>,
    made: Vec<Option<RunSummary>>,
}

impl std::fmt::Debug for ResumableSearch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = self.made.iter().filter(|made| made.is_none()).count();
        f.debug_struct("ResumableSearch")
            .field("waiting", &waiting)
            .finish_non_exhaustive()
    }
}

impl ResumableSearch {
    pub(super) fn new(question: &Question) -> Self {
        let desk = Rc::new(Desk::default());
        let (asked, of) = (question.clone(), desk.clone());
        Self {
            desk,
            search: Box::pin(async move { Search::new(&asked, &of).answer().await }),
            batch: None,
            made: Vec::new(),
        }
    }

    /// Goes on with the results added. The requests of the last step are repeated while some of their results are
    /// missing.
    ///
    /// # Panics
    ///
    /// After the answer.
    pub fn step(&mut self) -> Step {
        if let Some(batch) = &self.batch {
            if self.made.iter().any(Option::is_none) {
                return Step::Runs(batch.requests());
            }
            let mut all = std::mem::take(&mut self.made).into_iter().flatten();
            let seeds = batch.seeds.len();
            let by_configuration = batch.configurations.iter();
            let made = by_configuration.map(|_| all.by_ref().take(seeds).collect());
            self.desk.made.replace(Some(made.collect()));
            self.batch = None;
        }
        // Nothing wakes the search but the next step.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(answer) = self.search.as_mut().poll(&mut context) {
            return Step::Answer(Box::new(answer));
        }
        self.batch = self.desk.batch.take();
        let batch = self.batch.as_ref();
        self.made = vec![None; batch.map_or(0, RunBatch::len)];
        Step::Runs(batch.map_or(Vec::new(), RunBatch::requests))
    }

    /// The answer by the runs made so far, from the first stage on. Its [`unchecked`](Answer::unchecked) names the
    /// links nearby on which the configurations have not run.
    pub fn so_far(&self) -> Option<Answer> {
        self.desk.so_far.borrow().clone()
    }

    /// Runs that it waits for, as a stage of a link.
    pub(super) fn batch(&self) -> Option<&RunBatch> {
        self.batch.as_ref()
    }

    /// Adds the summaries of all runs that it waits for, by configuration.
    pub(super) fn add_all(&mut self, made: Vec<Vec<RunSummary>>) {
        self.made = made.into_iter().flatten().map(Some).collect();
    }

    /// Adds the result of a run. Its place counts the runs of all requests of the last step, in their order.
    ///
    /// # Errors
    ///
    /// A place beyond these runs, or bytes that are no result.
    pub fn add(&mut self, place: usize, result: &[u8]) -> Result<(), CompareError> {
        let remedy = "give the results of RunRequests of the last step, made by the same version";
        let known = self.made.len();
        let slot = self.made.get_mut(place);
        let slot = slot.ok_or_else(|| {
            CompareError::of(format_args!("run {place} of {known} is unknown"), remedy)
        })?;
        let summary: Result<RunSummary, _> = postcard::from_bytes(result);
        let what = || format!("run {place} has {} B that are no result", result.len());
        *slot = Some(summary.map_err(|_| CompareError::of(what(), remedy))?);
        Ok(())
    }
}

/// Maker of the runs that a search of a question requests.
#[derive(Debug)]
pub struct RunMaker {
    question: Question,
    near: Vec<Near>,
}

impl RunMaker {
    pub(super) fn new(question: &Question) -> Self {
        Self {
            question: question.clone(),
            near: neighbourhood(&question.link, &question.traffic),
        }
    }

    /// Makes runs. The results are in the order of their seeds.
    ///
    /// # Errors
    ///
    /// A request of another question, and a link or a traffic that cannot be simulated.
    pub fn make(&self, request: &RunRequest) -> Result<Vec<RunBytes>, CompareError> {
        let unknown = |what: &str| {
            let remedy = "take requests from a search of the same question and version";
            CompareError::of(format_args!("a request names no known {what}"), remedy)
        };
        let controllers = controllers_of(self.question.registry).into_iter();
        let mut controllers = controllers.chain([TCP]);
        let controller = controllers.find(|name| *name == request.controller);
        let configuration = Configuration {
            controller: controller.ok_or_else(|| unknown("controller"))?,
            block: request.block,
            timers: request.timers,
            transfer: request.transfer,
        };
        if request.near.is_some_and(|near| near >= self.near.len()) {
            return Err(unknown("link"));
        }
        let batch = RunBatch {
            near: request.near,
            with_harm: request.with_harm,
            seeds: (request.first..request.first.saturating_add(request.count)).collect(),
            configurations: vec![configuration],
        };
        let made = self.make_all(&batch, &|_| {}, &NEVER)?;
        let packed = made.iter().flatten().map(postcard::to_stdvec);
        Ok(packed
            .map(|bytes| bytes.expect("every length is known"))
            .collect())
    }

    /// Makes the runs of a stage on the threads of the current rayon pool.
    pub(super) fn make_all(
        &self,
        batch: &RunBatch,
        progress: &(dyn Fn(Progress) + Sync),
        is_stopped: &AtomicBool,
    ) -> Result<Vec<Vec<RunSummary>>, CompareError> {
        let near = batch.near.and_then(|place| self.near.get(place));
        let stage = Stage {
            seeds: batch.seeds.clone(),
            with_harm: batch.with_harm,
            is_stopped,
            ..idle(&self.question, near)
        };
        make(&stage, &batch.configurations, progress)
    }
}
