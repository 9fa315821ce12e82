//! Rounds: a POST, and the time until every observer was notified.

use std::io;
use std::time::Duration;

use carob_proto::endpoint::{Event, RequestConfig};
use carob_proto::message::Request;

use super::super::counters::{Ending, ErrorKind};
use super::super::ports::Now;
use super::{Observers, TURN};

/// Time between two rounds, in which what is late may come.
const GAP: Duration = Duration::from_millis(10);

/// A round: one POST and the notifications that follow.
#[derive(Debug, Default)]
pub(super) struct Round {
    number: u64,
    /// When the POST left; nanoseconds.
    pub(super) since: u64,
    /// Observers that have not been notified.
    left: usize,
    /// Observers that were lost before they were.
    lost: usize,
    /// When the last of the others was.
    complete: u64,
    /// The end of the POST.
    posted: Option<Ending>,
}

impl Round {
    /// Notes that an observer whose last round was `last` has been notified; whether this round
    /// had waited for it.
    pub(super) fn complete(&mut self, last: &mut u64, now: Now) -> bool {
        let waited = *last < self.number && self.left > 0;
        if waited {
            *last = self.number;
            self.left -= 1;
            self.complete = now.nanos;
        }
        waited
    }

    /// Notes that an observer whose last round was `last` will never be notified again.
    pub(super) fn lose(&mut self, last: u64) {
        if last < self.number && self.left > 0 {
            self.left -= 1;
            self.lost += 1;
        }
    }
}

impl Observers {
    /// Makes rounds until their number or the time is over.
    pub(super) fn rounds(&mut self, mut now: Now) -> io::Result<Now> {
        let Some(request) = self.trigger.clone() else {
            return Ok(now);
        };
        let mut left = self.plan.requests.unwrap_or(u64::MAX);
        while left > 0 && self.observing > 0 {
            self.window.pass(now, &mut self.ports.output.traffic);
            if self.window.is_over(now) || self.control.is_stopped() {
                break;
            }
            let measured = self.window.measures(now.nanos);
            left -= u64::from(measured);
            now = self.one_round(now, request.clone(), measured)?;
            let pause = now.nanos + GAP.as_nanos() as u64;
            while now.nanos < pause {
                now = self.turn(now, pause)?;
            }
        }
        Ok(now)
    }

    fn one_round(&mut self, mut now: Now, request: Request, measured: bool) -> io::Result<Now> {
        let limit = self.plan.timeout.as_nanos() as u64;
        self.round = Round {
            number: self.round.number + 1,
            since: now.nanos,
            left: self.observing,
            ..Round::default()
        };
        let mut sending = RequestConfig::default();
        sending.deadline = Some(self.plan.timeout.into());
        if let Err(error) = self.ports.request(now, self.trigger_key, request, sending) {
            return Err(io::Error::other(error));
        }
        let failed = |posted| !matches!(posted, None | Some(Ending::Answered { .. }));
        while (self.round.left > 0 || self.round.posted.is_none())
            && !failed(self.round.posted)
            && now.nanos < self.round.since + limit
        {
            if self.control.is_stopped() {
                self.outcome.unfinished += u64::from(measured);
                return Ok(now);
            }
            let until = (now.nanos + TURN.as_nanos() as u64).min(self.round.since + limit);
            now = self.turn(now, until)?;
        }
        let Round {
            since,
            left,
            lost,
            complete,
            posted,
            ..
        } = self.round;
        let ending = match posted {
            Some(Ending::Answered { .. }) if lost > 0 => Ending::Failed(ErrorKind::ObserverLost),
            Some(Ending::Answered { code, .. }) if left == 0 => Ending::Answered {
                code,
                after: complete.saturating_sub(since),
                bytes: 0,
            },
            Some(failed @ (Ending::Refused(_) | Ending::Failed(_))) => failed,
            _ => Ending::Failed(ErrorKind::Timeout),
        };
        if measured {
            self.outcome.measured.count(ending);
            self.notified.missed += (left + lost) as u64;
        } else {
            self.outcome.warm_up.count(ending);
        }
        Ok(now)
    }

    /// Takes the answer to the POST.
    pub(super) fn hear_trigger(&mut self, event: Event) {
        match event {
            Event::Response { response, .. } => {
                let code = response.code;
                self.round.posted = Some(if code.is_success() {
                    let (after, bytes) = (0, 0);
                    Ending::Answered { code, after, bytes }
                } else {
                    Ending::Refused(code)
                });
            }
            Event::Failed { failure, .. } => self.round.posted = Some(Ending::of(failure)),
            _ => {}
        }
    }
}
