//! Specification and record of a server with a service time.

use carob_cc::time::{Duration, Instant};

use crate::distribution::TimeDistribution;

/// The maximum receive queue of a server, in datagrams.
pub const SERVER_QUEUE_MAX: u32 = 65_536;

/// Service time of the server, a single machine for all clients of a run. Datagrams only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// Service time of each datagram, drawn on the stream `"server/service"`. Others wait
    /// meanwhile. Zero disables the queue, unless there are pauses: the server responds at once.
    pub service: TimeDistribution,
    /// Receive queue in datagrams, the one in service excluded; 1 to [`SERVER_QUEUE_MAX`]. Further
    /// ones are dropped. With separate responses, requests that wait for the application; further
    /// ones are answered with 5.03.
    pub queue: u32,
    /// Service time of retransmissions of requests it has served.
    pub copies: Copies,
    /// The part of the server that takes the service time.
    pub works: Works,
    /// Times in which no work is done, as of garbage collection; none by default.
    pub pauses: Option<PauseSchedule>,
}

/// The part of the server that takes the service time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Works {
    /// The endpoint: a datagram reaches it when its service is complete, so that responses are
    /// piggybacked.
    #[default]
    Endpoint,
    /// The application: the endpoint acknowledges a request when its response takes longer than
    /// `empty_ack_delay`, and the response is separate (RFC 7252 5.2.2).
    Application,
}

/// Pauses of a server. Work that meets one continues after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PauseSchedule {
    /// Beginning of the first.
    pub first: Duration,
    /// Time between the beginnings of two pauses, longer than a pause; zero for a single
    /// one.
    pub interval: Duration,
    /// Length of each.
    pub lasts: Duration,
}

impl PauseSchedule {
    /// The pause that began last at `now`, and the beginning of the next one.
    fn around(&self, now: Instant) -> (Option<Instant>, Option<Instant>) {
        let first = Instant::ZERO + self.first;
        if now < first {
            return (None, Some(first));
        }
        let number = now.since(first).as_micros();
        match number.checked_div(self.interval.as_micros()) {
            None => (Some(first), None),
            Some(number) => {
                let begin = first + self.interval.times(number);
                (Some(begin), Some(begin + self.interval))
            }
        }
    }

    /// Completion of work that begins at `from` and takes this long without pauses.
    fn completion(&self, from: Instant, takes: Duration) -> Instant {
        let (mut at, mut left) = (from, takes);
        loop {
            let (last, next) = self.around(at);
            at = last.map_or(at, |begin| at.max(begin + self.lasts));
            let Some(next) = next.filter(|next| next.since(at) < left) else {
                return at + left;
            };
            left = left.saturating_sub(next.since(at));
            at = next;
        }
    }
}

impl ServerSpec {
    /// The default receive queue, in datagrams.
    pub const QUEUE: u32 = 50;

    /// Returns whether requests ever wait.
    pub fn is_used(&self) -> bool {
        !self.service.is_zero() || self.pauses.is_some()
    }

    /// Completion of work that begins at `from` and takes this long without pauses.
    pub(crate) fn completion(&self, from: Instant, takes: Duration) -> Instant {
        let without = from + takes;
        self.pauses
            .map_or(without, |pauses| pauses.completion(from, takes))
    }
}

impl Default for ServerSpec {
    fn default() -> Self {
        Self {
            service: TimeDistribution::default(),
            queue: Self::QUEUE,
            copies: Copies::default(),
            works: Works::default(),
            pauses: None,
        }
    }
}

/// Service time of retransmissions of a served request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    /// The same as of the request.
    #[default]
    Cost,
    /// Zero: the server recognises them at once. They occupy the queue.
    Free,
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServerRecord {
    /// Datagrams served.
    pub handled: u64,
    /// Requests that were retransmissions of requests served before.
    pub repeated: u64,
    /// Datagrams dropped at a full receive queue.
    pub dropped: u64,
    /// The longest receive queue, in datagrams.
    pub queue_peak: u32,
    /// Total service time.
    pub busy: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completions(pauses: PauseSchedule, work: &[(u64, u64)]) -> Vec<u64> {
        let spec = ServerSpec {
            pauses: Some(pauses),
            ..ServerSpec::default()
        };
        let s = Duration::from_secs;
        let one = |&(from, takes): &(u64, u64)| {
            let from = Instant::ZERO + s(from);
            spec.completion(from, s(takes)).as_micros() / 1_000_000
        };
        work.iter().map(one).collect()
    }

    #[test]
    fn server_work_is_suspended_in_pauses() {
        let s = Duration::from_secs;
        let mut pauses = PauseSchedule {
            first: s(10),
            interval: Duration::ZERO,
            lasts: s(5),
        };
        let work = [
            (0, 3),
            (0, 10),
            (8, 3),
            (10, 0),
            (14, 1),
            (15, 1),
            (100, 100),
        ];
        assert_eq!(completions(pauses, &work), [3, 10, 16, 15, 16, 16, 200]);
        pauses.interval = s(20);
        // 25 s of work from 0: 10 s, then 15 s from 15 to 30, and no pause is needed at its end.
        let work = [(0, 25), (0, 26), (29, 30), (30, 1)];
        assert_eq!(completions(pauses, &work), [30, 36, 69, 36]);
    }
}
