//! Congestion controller without the stack, for clients written in Python.

use std::sync::{Mutex, MutexGuard, PoisonError};

use carob_cc::TransmissionParameters;
use carob_cc::controller::{CopyTagging, Gauge, Timer};
use carob_cc::evidence::{
    Abandoned, Answer, Answered, Expired, LateAnswer, Lost, Matched, Reason, SendCandidate, Sent,
    Start, Transmission,
};
use carob_cc::time::{Duration, Instant};
use carob_lab::replay::Subject;
use carob_sim::random::Stream;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;

/// Default message size in bytes.
const MESSAGE_BYTES: u32 = 64;

/// Controller of one peer.
#[pyclass(frozen, module = "carob")]
pub(crate) struct Controller {
    name: &'static str,
    parameters: TransmissionParameters,
    state: Mutex<State>,
}

struct State {
    controller: Box<dyn carob_cc::Controller + Send>,
    random: Stream,
    /// Latest time passed so far. Earlier times are raised to it.
    now: Instant,
    last_received: Instant,
    running: u16,
}

/// One confirmable message and its transmissions.
#[pyclass(frozen, module = "carob")]
pub(crate) struct Exchange(Mutex<Progress>);

struct Progress {
    bytes: u32,
    timer: Timer,
    sent: Vec<Transmission>,
    answers: u8,
    end: Option<End>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Answered,
    Abandoned,
}

/// A lock that no panic can leave unusable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn instant(seconds: f64) -> PyResult<Instant> {
    let is_time = seconds.is_finite() && (0.0..1e12).contains(&seconds);
    if !is_time {
        let what = format!("now = {seconds}: expected seconds from 0 on, such as loop.time()");
        return Err(PyValueError::new_err(what));
    }
    Ok(Instant::from_micros((seconds * 1e6).round() as u64))
}

fn seconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e6
}

impl State {
    /// Time never decreases for a controller.
    fn at(&mut self, now: f64) -> PyResult<Instant> {
        self.now = self.now.max(instant(now)?);
        Ok(self.now)
    }
}

impl Progress {
    fn retransmissions(&self) -> u8 {
        u8::try_from(self.sent.len().saturating_sub(1)).unwrap_or(u8::MAX)
    }

    fn running(&self) -> PyResult<()> {
        match self.end {
            None => Ok(()),
            Some(_) => Err(PyValueError::new_err("the exchange has ended")),
        }
    }
}

#[pymethods]
impl Exchange {
    /// The running timer in seconds.
    #[getter]
    fn timeout(&self) -> f64 {
        seconds(lock(&self.0).timer.timeout)
    }

    #[getter]
    fn retransmissions(&self) -> u8 {
        lock(&self.0).retransmissions()
    }

    #[getter]
    fn ended(&self) -> bool {
        lock(&self.0).end.is_some()
    }

    fn __repr__(&self) -> String {
        let progress = lock(&self.0);
        let state = match progress.end {
            None => format!("timeout={:.3} s", seconds(progress.timer.timeout)),
            Some(End::Answered) => "answered".to_owned(),
            Some(End::Abandoned) => "abandoned".to_owned(),
        };
        format!(
            "Exchange({} retransmissions, {state})",
            progress.retransmissions()
        )
    }
}

#[pymethods]
impl Controller {
    /// Builds a controller by name, with settings such as `cc.k_weak=4` and `rto_max=60 s`.
    #[new]
    #[pyo3(signature = (name, settings=Vec::new(), seed=0))]
    fn new(name: &str, settings: Vec<String>, seed: u64) -> PyResult<Self> {
        let hint =
            "carob.controllers() has all controllers, `carob cc show NAME` the constants of one";
        if name.contains('*') || name == "all" {
            let what = format!("\"{name}\" is a pattern, where one controller is meant");
            return Err(errors::controller(what, hint));
        }
        let subjects = Subject::all(&[name.to_owned()], &settings);
        let subjects = subjects.map_err(|error| {
            let text = error
                .to_string()
                .replace("--algorithm ", "")
                .replace("--set ", "");
            errors::controller(text, hint)
        })?;
        let subject = subjects[0];
        let state = State {
            controller: subject.controller.build(),
            random: Stream::new(seed, "python"),
            now: Instant::ZERO,
            last_received: Instant::ZERO,
            running: 0,
        };
        Ok(Self {
            name: subject.controller.entry().name,
            parameters: subject.parameters,
            state: Mutex::new(state),
        })
    }

    #[getter]
    fn name(&self) -> &'static str {
        self.name
    }

    /// The overall RTO in seconds before dithering, where the controller keeps one.
    #[getter]
    fn rto(&self) -> Option<f64> {
        let state = lock(&self.state);
        state.controller.rto(state.now).map(seconds)
    }

    /// Earliest time, in seconds, at which a message may be sent.
    #[pyo3(signature = (now, size=MESSAGE_BYTES))]
    fn earliest_departure(&self, now: f64, size: u32) -> PyResult<f64> {
        let mut state = lock(&self.state);
        let at = state.at(now)?;
        let candidate = SendCandidate::new(at, &self.parameters, size);
        let departure = state.controller.earliest_departure_time(&candidate);
        Ok(now + seconds(departure.since(at)))
    }

    /// Number of exchanges that may be outstanding.
    fn window(&self, now: f64) -> PyResult<u16> {
        let mut state = lock(&self.state);
        let at = state.at(now)?;
        Ok(state
            .controller
            .window(at, &self.parameters)
            .exchanges
            .max(1))
    }

    /// Begins an exchange: a confirmable message of `size` bytes is sent now.
    #[pyo3(signature = (now, size=MESSAGE_BYTES))]
    fn begin(&self, now: f64, size: u32) -> PyResult<Exchange> {
        let mut state = lock(&self.state);
        let at = state.at(now)?;
        let State {
            controller,
            random,
            running,
            ..
        } = &mut *state;
        let start = Start::new(at, &self.parameters).with_running(*running);
        let timer = controller.first_timeout(&start, random);
        let sent = Sent::new(at, &self.parameters, size);
        let transmission = Transmission {
            at,
            state: controller.on_sent(&sent, random),
        };
        *running = running.saturating_add(1);
        Ok(Exchange(Mutex::new(Progress {
            bytes: size,
            timer,
            sent: vec![transmission],
            answers: 0,
            end: None,
        })))
    }

    /// Handles the expiry of the retransmission timer. Returns the next timer in seconds, for the
    /// retransmission that is due now; `None` after MAX_RETRANSMIT.
    fn expired(&self, exchange: &Exchange, now: f64) -> PyResult<Option<f64>> {
        let (mut state, mut progress) = (lock(&self.state), lock(&exchange.0));
        progress.running()?;
        let at = state.at(now)?;
        let parameters = &self.parameters;
        let last = progress.sent.last().copied().unwrap_or_default();
        let silent = state.last_received <= last.at;
        let State {
            controller,
            random,
            running,
            ..
        } = &mut *state;
        controller.on_lost(&Lost::new(at, last, progress.bytes, silent));
        let retransmissions = progress.retransmissions();
        let Timer {
            timeout,
            state: kept,
        } = progress.timer;
        if retransmissions >= parameters.max_retransmit {
            *running = running.saturating_sub(1);
            progress.end = Some(End::Abandoned);
            let reason = Reason::TimedOut;
            let end = Abandoned::new(at, parameters, kept, reason, retransmissions, timeout);
            controller.on_abandoned(&end);
            return Ok(None);
        }
        let expired = Expired::new(at, parameters, kept, retransmissions, timeout);
        let mut next = controller.next_timeout(&expired.with_silent(silent), random);
        if let Some(cap) = parameters.rto_max {
            next.timeout = next.timeout.min(cap.max(timeout));
        }
        let sent = Sent::new(at, parameters, progress.bytes);
        let sent = sent.with_retransmissions(retransmissions.saturating_add(1));
        let state = controller.on_sent(&sent, random);
        progress.sent.push(Transmission { at, state });
        progress.timer = next;
        Ok(Some(seconds(next.timeout)))
    }

    /// Handles an acknowledgement or response. `transmission` is the number of the acknowledged
    /// transmission, from 0, if the protocol identifies it.
    #[pyo3(signature = (exchange, now, transmission=None, size=MESSAGE_BYTES))]
    fn answered(
        &self,
        exchange: &Exchange,
        now: f64,
        transmission: Option<u8>,
        size: u32,
    ) -> PyResult<()> {
        let (mut state, mut progress) = (lock(&self.state), lock(&exchange.0));
        let at = state.at(now)?;
        state.last_received = at;
        progress.answers = progress.answers.saturating_add(1);
        let count = u8::try_from(progress.sent.len()).unwrap_or(u8::MAX);
        if let Some(end) = progress.end {
            let since = at.since(progress.sent[0].at);
            let late = LateAnswer::new(at, count, progress.answers, since);
            let late = late.with_abandoned(end == End::Abandoned);
            state.controller.on_late_answer(&late);
            return Ok(());
        }
        let matched = match transmission {
            Some(named) if named >= count => {
                let what = format!("transmission = {named}: there were {count}, counted from 0");
                return Err(PyValueError::new_err(what));
            }
            Some(named) => Matched::Exact(named),
            None if count == 1 => Matched::Exact(0),
            None => Matched::Ambiguous {
                earliest: 0,
                latest: count - 1,
            },
        };
        let Timer {
            timeout,
            state: kept,
        } = progress.timer;
        let answered = Answered::new(at, &self.parameters, kept, &progress.sent, timeout)
            .with_matched(matched)
            .with_answer(Answer::Piggybacked, size);
        state.controller.on_answered(&answered);
        state.running = state.running.saturating_sub(1);
        progress.end = Some(End::Answered);
        Ok(())
    }

    /// Handles the end of an exchange that the application cancels or the peer resets.
    #[pyo3(signature = (exchange, now, reset=false))]
    fn abandoned(&self, exchange: &Exchange, now: f64, reset: bool) -> PyResult<()> {
        let (mut state, mut progress) = (lock(&self.state), lock(&exchange.0));
        progress.running()?;
        let at = state.at(now)?;
        let reason = if reset {
            Reason::Reset
        } else {
            Reason::Cancelled
        };
        let Timer {
            timeout,
            state: kept,
        } = progress.timer;
        let sent = progress.retransmissions();
        let end = Abandoned::new(at, &self.parameters, kept, reason, sent, timeout);
        state.controller.on_abandoned(&end);
        state.running = state.running.saturating_sub(1);
        progress.end = Some(End::Abandoned);
        Ok(())
    }

    /// Mechanism that maps responses to transmissions: `off`, `every-copy`, `repeated-copies` or
    /// `token`.
    #[getter]
    fn tagging(&self) -> String {
        let tagging: CopyTagging = lock(&self.state).controller.copy_tagging();
        tagging.to_string()
    }

    /// Every gauge of the state, times in seconds.
    fn gauges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (all, state) = (PyDict::new(py), lock(&self.state));
        let mut set = Ok(());
        state.controller.gauges(state.now, &mut |name, gauge| {
            let added = match gauge {
                Gauge::Time(time) => all.set_item(name, seconds(time)),
                Gauge::Count(count) => all.set_item(name, count),
                Gauge::State(text) => all.set_item(name, text),
                _ => Ok(()),
            };
            if set.is_ok() {
                set = added;
            }
        });
        set.map(|()| all)
    }

    fn __repr__(&self) -> String {
        match self.rto() {
            Some(rto) => format!("Controller(\"{}\", rto={rto:.3} s)", self.name),
            None => format!("Controller(\"{}\")", self.name),
        }
    }
}
