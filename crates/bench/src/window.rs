//! The time that is measured: after the warm-up, until the end.

use std::sync::Arc;
use std::time::Duration;

use super::counters::{Counters, Ending, Traffic};
use super::cpu;
use super::pace::Intentions;
use super::plan::Plan;
use super::ports::Now;
use super::worker::Control;

/// The results of a thread.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Requests that were meant to leave within the measured time.
    pub(super) measured: Counters,
    /// Those before.
    pub(super) warm_up: Counters,
    /// Messages from the beginning of the measured time to the end.
    pub(super) traffic: Traffic,
    pub(super) warm_up_traffic: Traffic,
    pub(super) rates: Rates,
    pub(super) intentions: Option<Intentions>,
    /// Requests under way when everything was stopped.
    pub(super) unfinished: u64,
    /// Times that a body differed from the one before and had another ETag.
    pub(super) changed: u64,
    /// A body needed more messages than a source port has Message IDs.
    pub(super) ids_ran_out: bool,
    /// The server never answered anything.
    pub(super) dead: bool,
    /// The cipher suite of the sessions.
    pub(super) suite: Option<&'static str>,
    /// Why a session was last not made.
    pub(super) no_session: Option<String>,
}

impl Outcome {
    /// Puts the outcomes of two threads together.
    pub(super) fn add(&mut self, other: Self) {
        self.measured.add(&other.measured);
        self.warm_up.add(&other.warm_up);
        self.traffic.add(other.traffic);
        self.warm_up_traffic.add(other.warm_up_traffic);
        self.rates.add(other.rates);
        if let Some(more) = other.intentions {
            self.intentions.get_or_insert_default().add(more);
        }
        self.unfinished += other.unfinished;
        self.changed += other.changed;
        self.ids_ran_out |= other.ids_ran_out;
        self.dead |= other.dead;
        self.suite = self.suite.or(other.suite);
        self.no_session = self.no_session.take().or(other.no_session);
    }

    /// Counts the warm-up, too, if the server never answered anything.
    pub(super) fn settle(&mut self) {
        if self.dead {
            self.measured.add(&core::mem::take(&mut self.warm_up));
            self.traffic.add(core::mem::take(&mut self.warm_up_traffic));
        }
    }
}

/// Events within the measured time, whenever their requests had begun.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) seconds: f64,
    /// Requests that ended, and those among them that succeeded.
    pub(super) finished: u64,
    pub(super) answered: u64,
    /// Bytes of bodies.
    pub(super) bytes: u64,
    /// CPU time of the threads, and the largest share of a core that one of them used.
    pub(super) cpu: Option<Duration>,
    pub(super) share: f64,
    /// CPU time of the server, and the requests of all threads that ended meanwhile.
    pub(super) server: Option<(Duration, u64)>,
}

impl Rates {
    fn add(&mut self, other: Self) {
        self.seconds = self.seconds.max(other.seconds);
        self.finished += other.finished;
        self.answered += other.answered;
        self.bytes += other.bytes;
        self.share = self.share.max(other.share);
        self.server = self.server.or(other.server);
        self.cpu = match (self.cpu, other.cpu) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
    }
}

/// Looks at the server's process at the edges of the measured time.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) pid: u32,
    pub(super) control: Arc<Control>,
}

/// An edge of the measured time, with the CPU time at that moment.
#[derive(Clone, Copy, Debug)]
struct Edge {
    nanos: u64,
    cpu: Option<Duration>,
    /// The server's, and the requests of all threads that had ended.
    server: Option<(Duration, u64)>,
}

impl Edge {
    fn at(now: Now, probe: Option<&Probe>) -> Self {
        let look = |probe: &Probe| {
            let (finished, _) = probe.control.progress();
            Some((cpu::of_process(probe.pid)?, finished))
        };
        Self {
            nanos: now.nanos,
            cpu: cpu::of_this_thread(),
            server: probe.and_then(look),
        }
    }
}

/// The measured time of one thread.
#[derive(Debug)]
pub(super) struct Window {
    start: u64,
    end: u64,
    began: Option<Edge>,
    ended: Option<Edge>,
    counts: Rates,
    finished_in_all: u64,
    errors_in_all: u64,
    probe: Option<Probe>,
    /// Messages of the warm-up.
    before: Traffic,
}

impl Window {
    /// The measured time of a plan that begins with the warm-up at `from`, in nanoseconds.
    pub(super) fn new(plan: &Plan, from: u64) -> Self {
        let start = from.saturating_add(plan.warm_up.as_nanos() as u64);
        let length = plan.duration.map_or(u64::MAX, |d| d.as_nanos() as u64);
        Self {
            start,
            end: start.saturating_add(length),
            began: None,
            ended: None,
            counts: Rates::default(),
            finished_in_all: 0,
            errors_in_all: 0,
            probe: None,
            before: Traffic::default(),
        }
    }

    /// Looks at the server's process, too.
    pub(super) fn with_probe(mut self, probe: Option<Probe>) -> Self {
        self.probe = probe;
        self
    }

    /// Notices that the measured time has begun or ended.
    pub(super) fn pass(&mut self, now: Now, traffic: &mut Traffic) {
        if self.began.is_none() && now.nanos >= self.start {
            self.began = Some(Edge::at(now, self.probe.as_ref()));
            self.before = core::mem::take(traffic);
        }
        if now.nanos >= self.end {
            self.close(now);
        }
    }

    /// Ends the measured time, if it has not ended before.
    pub(super) fn close(&mut self, now: Now) {
        let probe = self.probe.as_ref();
        self.ended.get_or_insert_with(|| Edge::at(now, probe));
    }

    /// Returns true if a request scheduled for then is measured.
    pub(super) fn measures(&self, since: u64) -> bool {
        (self.start..self.end).contains(&since)
    }

    pub(super) fn is_over(&self, now: Now) -> bool {
        now.nanos >= self.end
    }

    /// The end, or now if that is earlier.
    pub(super) fn last(&self, now: Now) -> u64 {
        self.end.min(now.nanos)
    }

    pub(super) fn warm_up_traffic(&mut self) -> Traffic {
        core::mem::take(&mut self.before)
    }

    /// When there is something to notice; nanoseconds.
    pub(super) fn next_edge(&self) -> u64 {
        if self.began.is_none() {
            self.start
        } else if self.ended.is_none() {
            self.end
        } else {
            u64::MAX
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.began.is_some() && self.ended.is_none()
    }

    /// Counts a request that has ended.
    pub(super) fn note_end(&mut self, ending: Ending) {
        let answered = matches!(ending, Ending::Answered { .. });
        let answered = u64::from(answered);
        self.finished_in_all += 1;
        self.errors_in_all += 1 - answered;
        if self.is_running() {
            self.counts.finished += 1;
            self.counts.answered += answered;
        }
    }

    /// Counts bytes of a body that have arrived, or that are known to have.
    pub(super) fn note_bytes(&mut self, bytes: u64) {
        if self.is_running() {
            self.counts.bytes += bytes;
        }
    }

    /// Requests that have ended so far, and errors among them, the warm-up's included.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.finished_in_all, self.errors_in_all)
    }

    /// The events within the measured time, once it is [closed](Self::close).
    pub(super) fn rates(&self) -> Rates {
        let (Some(began), Some(ended)) = (self.began, self.ended) else {
            return Rates::default();
        };
        let seconds = ended.nanos.saturating_sub(began.nanos) as f64 / 1e9;
        let cpu = match (began.cpu, ended.cpu) {
            (Some(began), Some(ended)) => Some(ended.saturating_sub(began)),
            _ => None,
        };
        let server = match (began.server, ended.server) {
            (Some(began), Some(ended)) => Some((
                ended.0.saturating_sub(began.0),
                ended.1.saturating_sub(began.1),
            )),
            _ => None,
        };
        Rates {
            seconds,
            cpu,
            server,
            share: cpu.map_or(0.0, |cpu| cpu.as_secs_f64() / seconds.max(1e-9)),
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;
    use carob::Code;
    use carob_cc::time::Instant;

    /// Two seconds after a warm-up of one.
    fn measured() -> Plan {
        Plan {
            duration: Some(Duration::from_secs(2)),
            ..plan()
        }
    }

    fn at(seconds: u64) -> Now {
        let nanos = seconds * 1_000_000_000;
        let at = Instant::from_micros(nanos / 1_000);
        Now { nanos, at }
    }

    #[test]
    fn rate_counts_requests_that_end_within_the_measurement() {
        let plan = measured();
        let (mut window, mut traffic) = (Window::new(&plan, 0), Traffic::default());
        let answered = Ending::Answered {
            code: Code::CONTENT,
            after: 1,
            bytes: 0,
        };
        for second in 0..=4 {
            window.pass(at(second), &mut traffic);
            window.note_end(answered);
            window.note_bytes(10);
        }
        let rates = window.rates();
        assert_eq!((rates.answered, rates.bytes), (2, 20), "of seconds 1 and 2");
        assert!((rates.seconds - 2.0).abs() < 1e-9);
        assert_eq!(window.progress(), (5, 0));
    }

    #[test]
    fn warm_up_requests_are_excluded() {
        let plan = measured();
        let mut window = Window::new(&plan, 0);
        let mut traffic = Traffic {
            messages: 5,
            late: 1,
            ..Traffic::default()
        };
        window.pass(at(1), &mut traffic);
        assert_eq!((traffic.messages, traffic.late), (0, 0));
        assert_eq!(window.warm_up_traffic().messages, 5);
        let [before, first, last, after] = [0, 1, 2, 3].map(|s| window.measures(at(s).nanos));
        assert_eq!([before, first, last, after], [false, true, true, false]);
    }
}
