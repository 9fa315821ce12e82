//! Scripted exchanges: one client and one server across a link, one step after the other.
//!
//! A [run](crate::engine) measures how long flows take; a script records every protocol event of
//! both endpoints, in order. The same script can be played over real sockets, and its events must
//! be the same except for times.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv6Addr, SocketAddr};

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{Code, MessageView, OptionNumber};
use carob_proto::endpoint::{
    Config, Endpoint, Event, IncomingId, Output, RequestConfig, RequestId, Subject, Tracing,
};
use carob_proto::message::Payload;
use carob_proto::trace::Trace;
use carob_proto::{Request, Response};

use crate::link::{Link, LinkSpec, Verdict};
use crate::queue::EventQueue;
use crate::random::Stream;

/// A step. The next one begins when this one is complete and nothing is outstanding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The client sends a request.
    Request {
        /// Its method.
        method: Code,
        /// Its path, such as `a/b`.
        path: String,
        /// Its body.
        payload: Vec<u8>,
        /// True for CON, false for NON.
        confirmable: bool,
    },
    /// The client observes a path.
    Observe {
        /// The path.
        path: String,
    },
    /// A resource of the server changes, and its observers are notified.
    Change {
        /// Its path.
        path: String,
        /// The new state.
        payload: Vec<u8>,
        /// True for CON notifications.
        confirmable: bool,
    },
    /// The client drops its observation of a path silently.
    Forget {
        /// The path.
        path: String,
    },
    /// The client cancels its observation of a path.
    Stop {
        /// The path.
        path: String,
    },
    /// The client pings the server.
    Ping,
    /// The next datagrams of one end are lost.
    Lose {
        /// True for those of the client, false for those of the server.
        from_client: bool,
        /// The number of datagrams.
        datagrams: u32,
    },
}

/// A script with its network and settings.
#[derive(Clone, Debug)]
pub struct Script {
    /// The steps.
    pub steps: Vec<Step>,
    /// The seed all streams derive from.
    pub seed: u64,
    /// The link between client and server.
    pub link: LinkSpec,
    /// The settings of both endpoints; the script sets the trace level.
    pub config: Config,
    /// Delay of responses to paths that begin with `slow`.
    pub slow: Duration,
    /// Time limit of the script.
    pub time_limit: Duration,
}

/// The results of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// The client's protocol events.
    pub client: Vec<Trace>,
    /// The server's protocol events.
    pub server: Vec<Trace>,
    /// Events of the client's application in text: `2.05 5 bytes`, `state 5 bytes`, `pong`, or the
    /// text of a failure.
    pub outcomes: Vec<String>,
    /// True if every step was complete within the time limit.
    pub complete: bool,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

#[derive(Debug)]
enum ScriptEvent {
    Arrival { to: usize, bytes: Vec<u8> },
    Wake { host: usize },
    Answer { id: IncomingId },
}

struct Stage {
    now: Instant,
    queue: EventQueue<ScriptEvent>,
    hosts: [Endpoint; 2],
    link: Link,
    /// Datagrams still to be lost, of either end.
    to_lose: [u32; 2],
    flying: u32,
    resources: BTreeMap<String, Bytes>,
    /// The numbers of observed paths.
    subjects: Vec<String>,
    observations: Vec<(String, RequestId)>,
    slow: Duration,
    played: Played,
}

/// Plays a script.
pub fn play(script: &Script) -> Played {
    let mut config = script.config.clone();
    config.trace = Tracing::Everything;
    let endpoint = |label| Endpoint::new(config.clone(), Stream::new(script.seed, label));
    let mut stage = Stage {
        now: Instant::ZERO,
        queue: EventQueue::default(),
        hosts: [endpoint("client/endpoint"), endpoint("server/endpoint")],
        link: Link::new(&script.link, script.seed, "link"),
        to_lose: [0; 2],
        flying: 0,
        resources: BTreeMap::new(),
        subjects: Vec::new(),
        observations: Vec::new(),
        slow: script.slow,
        played: Played::default(),
    };
    let mut steps: VecDeque<Step> = script.steps.iter().cloned().collect();
    let end = Instant::ZERO + script.time_limit;
    loop {
        if stage.is_quiet() {
            let Some(step) = steps.pop_front() else {
                stage.played.complete = true;
                return stage.played;
            };
            stage.begin(step);
            stage.drain(CLIENT);
            stage.drain(SERVER);
            continue;
        }
        let Some((now, event)) = stage.queue.pop_until(end) else {
            return stage.played;
        };
        stage.now = now;
        stage.handle(event);
    }
}

/// The address of a host.
fn address(host: usize) -> SocketAddr {
    let last = host as u16 + 1;
    (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last), 5683).into()
}

fn path_of(message: &MessageView<'_>) -> String {
    let segments: Vec<_> = message
        .values(OptionNumber::URI_PATH)
        .map(String::from_utf8_lossy)
        .collect();
    segments.join("/")
}

impl Stage {
    /// Returns whether nothing is outstanding: no exchange, no request, no datagram.
    fn is_quiet(&self) -> bool {
        let idle = |host: &Endpoint| {
            let usage = host.usage();
            let lasting = usage.observations;
            usage.requests == lasting && usage.exchanges == 0 && usage.incoming == 0
        };
        self.flying == 0 && self.hosts.iter().all(idle)
    }

    fn begin(&mut self, step: Step) {
        let (now, server) = (self.now, address(SERVER));
        match step {
            Step::Request {
                method,
                path,
                payload,
                confirmable,
            } => {
                let mut sending = RequestConfig::default();
                sending.confirmable = confirmable;
                let request = Request::new(method).with_payload(payload);
                self.send_request(&path, request, sending);
            }
            Step::Observe { path } => {
                let mut sending = RequestConfig::default();
                sending.observe = true;
                if let Some(id) = self.send_request(&path, Request::get(), sending) {
                    self.observations.push((path, id));
                }
            }
            Step::Change {
                path,
                payload,
                confirmable,
            } => {
                let payload = Bytes::from(payload);
                self.resources.insert(path.clone(), payload.clone());
                let mut response = Response::new(Code::CONTENT);
                response.payload = Payload::Whole(payload);
                let subject = self.subject(path);
                let notified = self.hosts[SERVER].notify(now, subject, &response, confirmable);
                debug_assert!(notified.is_ok(), "a state without options fits a message");
            }
            Step::Forget { path } => {
                if let Some(id) = self.take_observation(&path) {
                    self.hosts[CLIENT].cancel(now, id);
                }
            }
            Step::Stop { path } => {
                if let Some(id) = self.take_observation(&path) {
                    self.hosts[CLIENT].stop_observing(now, id);
                }
            }
            Step::Ping => {
                if let Err(error) = self.hosts[CLIENT].ping(now, server) {
                    self.played.outcomes.push(error.to_string());
                }
            }
            Step::Lose {
                from_client,
                datagrams,
            } => self.to_lose[if from_client { CLIENT } else { SERVER }] += datagrams,
        }
    }

    fn send_request(
        &mut self,
        path: &str,
        request: Request,
        sending: RequestConfig,
    ) -> Option<RequestId> {
        let sent = request.with_path(path).map_err(|error| error.to_string());
        let sent = sent.and_then(|request| {
            self.hosts[CLIENT]
                .request(self.now, address(SERVER), request, sending)
                .map_err(|error| error.to_string())
        });
        sent.map_err(|error| self.played.outcomes.push(error)).ok()
    }

    fn subject(&mut self, path: String) -> Subject {
        let place = self.subjects.iter().position(|known| *known == path);
        let place = place.unwrap_or_else(|| {
            self.subjects.push(path);
            self.subjects.len() - 1
        });
        Subject(place as u64)
    }

    fn take_observation(&mut self, path: &str) -> Option<RequestId> {
        let place = self.observations.iter().position(|(at, _)| at == path)?;
        Some(self.observations.swap_remove(place).1)
    }

    fn handle(&mut self, event: ScriptEvent) {
        match event {
            ScriptEvent::Arrival { to, bytes } => {
                self.flying -= 1;
                self.hosts[to].handle_datagram(self.now, address(1 - to), &bytes);
                self.drain(to);
            }
            ScriptEvent::Wake { host } => {
                self.hosts[host].handle_timeout(self.now);
                self.drain(host);
            }
            ScriptEvent::Answer { id } => {
                self.answer(id);
                self.drain(SERVER);
            }
        }
    }

    fn drain(&mut self, host: usize) {
        loop {
            match self.hosts[host].poll() {
                Output::Transmit { bytes, .. } => {
                    let bytes = bytes.to_vec();
                    self.offer(host, bytes);
                }
                Output::Event(Event::Trace(trace)) => {
                    let log = match host {
                        CLIENT => &mut self.played.client,
                        _ => &mut self.played.server,
                    };
                    log.push(trace);
                }
                Output::Event(Event::Request(id)) => self.take(id),
                Output::Event(event) => self.record(event),
                Output::Wait(at) => {
                    if let Some(at) = at {
                        self.queue
                            .push(at.max(self.now), ScriptEvent::Wake { host });
                    }
                    return;
                }
                _ => {}
            }
        }
    }

    fn offer(&mut self, from: usize, bytes: Vec<u8>) {
        if self.to_lose[from] > 0 {
            self.to_lose[from] -= 1;
            return;
        }
        let direction = match from {
            CLIENT => &mut self.link.up,
            _ => &mut self.link.down,
        };
        if let Verdict::Deliver { at, .. } = direction.offer(self.now, bytes.len() as u32) {
            self.flying += 1;
            let to = 1 - from;
            self.queue.push(at, ScriptEvent::Arrival { to, bytes });
        }
    }

    /// Accepts a request at the server.
    fn take(&mut self, id: IncomingId) {
        let Some(incoming) = self.hosts[SERVER].incoming(id) else {
            return;
        };
        let path = path_of(&incoming.message);
        let wait = if path.starts_with("slow") {
            self.slow
        } else {
            Duration::ZERO
        };
        let subject = self.subject(path);
        self.hosts[SERVER].observe(self.now, id, subject);
        if wait.is_zero() {
            self.answer(id);
        } else {
            self.queue.push(self.now + wait, ScriptEvent::Answer { id });
        }
    }

    /// Responds: GET and FETCH read, PUT writes, DELETE deletes, every other method is an echo.
    fn answer(&mut self, id: IncomingId) {
        let Some(incoming) = self.hosts[SERVER].incoming(id) else {
            return;
        };
        let path = path_of(&incoming.message);
        let body = Bytes::copy_from_slice(incoming.body);
        let mut response = Response::new(Code::CHANGED);
        match incoming.message.code() {
            Code::GET | Code::FETCH => match self.resources.get(&path) {
                Some(state) => {
                    response.code = Code::CONTENT;
                    response.payload = Payload::Whole(state.clone());
                }
                None => response.code = Code::NOT_FOUND,
            },
            Code::PUT => {
                self.resources.insert(path, body);
            }
            Code::DELETE => {
                self.resources.remove(&path);
                response.code = Code::DELETED;
            }
            _ => response.payload = Payload::Whole(body),
        }
        self.hosts[SERVER].respond(self.now, id, &response);
    }

    /// Records an event of the client's application.
    fn record(&mut self, event: Event) {
        let words = match event {
            Event::Response { response, .. } => {
                format!("{} {} bytes", response.code, response.bytes().len())
            }
            Event::Notification { response, .. } => {
                format!("state {} bytes", response.bytes().len())
            }
            Event::Failed { failure, .. } => failure.to_string(),
            Event::Stale { .. } => "stale".to_owned(),
            Event::Pong(_) => "pong".to_owned(),
            _ => return,
        };
        self.played.outcomes.push(words);
    }
}

#[cfg(test)]
mod tests {
    use carob_proto::trace::TraceEvent;

    use super::*;
    use crate::link::DirectionSpec;

    fn script(steps: Vec<Step>) -> Script {
        let direction = DirectionSpec::new(1_000_000, 10_000);
        Script {
            steps,
            seed: 1,
            link: LinkSpec {
                down: direction.clone(),
                up: direction,
            },
            config: Config::default(),
            slow: Duration::from_millis(300),
            time_limit: Duration::from_secs(1_000),
        }
    }

    fn get(path: &str) -> Step {
        Step::Request {
            method: Code::GET,
            path: path.into(),
            payload: Vec::new(),
            confirmable: true,
        }
    }

    #[test]
    fn steps_are_done_one_after_the_other() {
        let change = |payload: &str| Step::Change {
            path: "light".into(),
            payload: payload.into(),
            confirmable: true,
        };
        let path = || "light".to_owned();
        let played = play(&script(vec![
            get("light"),
            change("off"),
            Step::Observe { path: path() },
            change("on!!"),
            Step::Stop { path: path() },
            change("nobody hears"),
            Step::Ping,
        ]));
        assert!(played.complete);
        let expected = [
            "4.04 0 bytes",
            "state 3 bytes",
            "state 4 bytes",
            "2.05 4 bytes",
            "pong",
        ];
        assert_eq!(played.outcomes, expected);
    }

    #[test]
    fn what_is_lost_is_sent_again() {
        let lose = Step::Lose {
            from_client: true,
            datagrams: 2,
        };
        let played = play(&script(vec![lose, get("x")]));
        let sent = played
            .client
            .iter()
            .filter(|trace| matches!(trace.event, TraceEvent::Sent { .. }));
        assert_eq!(sent.count(), 3);
        assert_eq!(played.outcomes, ["4.04 0 bytes"]);
    }

    #[test]
    fn the_same_script_plays_the_same() {
        let steps = vec![get("slow"), get("a"), Step::Ping];
        assert_eq!(play(&script(steps.clone())), play(&script(steps)));
    }
}
