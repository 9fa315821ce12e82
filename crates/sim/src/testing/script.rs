//! Scripted exchanges: one client and one server across a link, one step after the other.
//!
//! A [run](crate::engine) measures how long flows take; a script records every protocol event of
//! both endpoints, in order. The same script can be played over real sockets, and its events must
//! be the same except for times.
//!
//! It is an application of the [engine](crate::engine) on a link that drops the datagrams
//! listed in the script.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{Code, MessageView, OptionNumber};
use carob_proto::endpoint::{
    Config, Endpoint, Event, IncomingId, RequestConfig, RequestId, Subject, Tracing,
};
use carob_proto::message::Payload;
use carob_proto::trace::Trace;
use carob_proto::{Request, Response};

use crate::address::address;
use crate::engine::application::{Application, Applications, Timer};
use crate::engine::network::{Fate, Network, Offer, Placement};
use crate::engine::{Engine, Host, Role, Tag};
use crate::link::LinkSpec;
use crate::net::link::{self, Arrival, LinkNetwork};
use crate::random::Stream;
use crate::spec::{
    ClientGroup, LinkNetworkSpec, NetworkSpec, Recording, Requests, RunRecord, RunSpec, Workload,
};

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
        /// True for datagrams of the client, false for the server's.
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

const CLIENT: u32 = 0;
const SERVER: u32 = 1;
/// The timer of the next step.
const NEXT: u8 = 0;
/// The timer of a delayed response.
const ANSWER: u8 = 1;
/// No datagram of an endpoint is fragmented.
const MTU_BYTES: u32 = 65_535;

/// Plays a script.
pub fn play(script: &Script) -> Played {
    let spec = run_spec(script);
    let mut config = script.config.clone();
    config.trace = Tracing::Everything;
    let network = ScriptedLink {
        link: LinkNetwork::new(&network(script), script.seed),
        to_lose: [0; 2],
    };
    let mut engine = Engine::new(&spec, network);
    for (label, role, placement) in [
        (
            "client/endpoint",
            Role::Client { server: SERVER },
            Placement::Client(0),
        ),
        ("server/endpoint", Role::Server, Placement::Server),
    ] {
        let endpoint = Endpoint::new(config.clone(), Stream::new(script.seed, label));
        let place = engine.network.place(placement);
        let host = Host::new(Box::new(endpoint), 0, role, place);
        engine.hosts.push(host);
    }
    let outcomes = Rc::new(RefCell::new(Vec::new()));
    let mut applications: Applications<ScriptedLink> = vec![Box::new(Director {
        steps: script.steps.iter().cloned().collect(),
        is_next_set: false,
        flying: 0,
        resources: BTreeMap::new(),
        subjects: Vec::new(),
        observations: Vec::new(),
        slow: script.slow,
        delayed: VecDeque::new(),
        outcomes: Rc::clone(&outcomes),
    })];
    engine.start(&mut applications);
    let executed = engine.execute(&mut applications);
    let complete = executed.is_ok() && engine.running == 0;
    let log = engine.record(applications, 0).log;
    let of_host = |number| {
        let own = log.iter().filter(|(host, _)| *host == number);
        own.map(|(_, trace)| *trace).collect()
    };
    Played {
        client: of_host(CLIENT),
        server: of_host(SERVER),
        outcomes: outcomes.take(),
        complete,
    }
}

/// The run that a script is.
fn run_spec(script: &Script) -> RunSpec {
    let measured = ClientGroup {
        transmission: script.config.parameters,
        ..ClientGroup::new(1, Workload::Requests(Requests::default()))
    };
    let network = NetworkSpec::Link(network(script));
    let mut spec = RunSpec::new(script.seed, network, measured, script.time_limit);
    spec.record.log = Recording::LOG_MAX;
    spec
}

fn network(script: &Script) -> LinkNetworkSpec {
    LinkNetworkSpec {
        header_bytes: 0,
        ..LinkNetworkSpec::new(script.link.clone(), MTU_BYTES)
    }
}

fn path_of(message: &MessageView<'_>) -> String {
    let segments: Vec<_> = message
        .values(OptionNumber::URI_PATH)
        .map(String::from_utf8_lossy)
        .collect();
    segments.join("/")
}

/// A link that loses datagrams by the script, before they use it.
struct ScriptedLink {
    link: LinkNetwork,
    /// Datagrams still to be lost, by sender.
    to_lose: [u32; 2],
}

impl Network for ScriptedLink {
    type Event = Arrival;

    fn packet_bytes(&self, payload: u32) -> u32 {
        self.link.packet_bytes(payload)
    }

    fn place(&self, host: Placement) -> u32 {
        self.link.place(host)
    }

    fn send(engine: &mut Engine<'_, Self>, datagram: u32) -> Option<Offer> {
        let from = engine.datagrams[datagram].from as usize;
        let to_lose = &mut engine.network.to_lose[from];
        if *to_lose > 0 {
            *to_lose -= 1;
            return Some(Offer::lost_before(engine.now));
        }
        Some(link::send_over(engine, datagram, |network| {
            &mut network.link
        }))
    }

    fn handle(_: &mut Engine<'_, Self>, event: Arrival) -> Option<u32> {
        Some(event.datagram)
    }

    fn into_record(self, now: Instant, record: &mut RunRecord) {
        self.link.into_record(now, record);
    }
}

/// The application of both hosts: takes one step after the other.
struct Director {
    steps: VecDeque<Step>,
    /// True if the timer of the next step is set.
    is_next_set: bool,
    /// Datagrams that will arrive.
    flying: u32,
    resources: BTreeMap<String, Bytes>,
    /// The numbers of observed paths.
    subjects: Vec<String>,
    observations: Vec<(String, RequestId)>,
    slow: Duration,
    /// Requests with a delayed response, in order.
    delayed: VecDeque<IncomingId>,
    outcomes: Rc<RefCell<Vec<String>>>,
}

type Stage<'a> = Engine<'a, ScriptedLink>;

fn endpoint<'a>(engine: &'a mut Stage<'_>, host: u32) -> &'a mut Endpoint {
    &mut engine.hosts[host as usize].endpoint
}

impl Director {
    /// Returns whether nothing is outstanding: no exchange, no request, no datagram.
    fn is_quiet(&self, engine: &Stage<'_>) -> bool {
        let idle = |host: &Host| {
            let usage = host.endpoint.usage();
            let lasting = usage.observations;
            usage.requests == lasting && usage.exchanges == 0 && usage.incoming == 0
        };
        self.flying == 0 && engine.hosts.iter().all(idle)
    }

    fn outcome(&self, text: String) {
        self.outcomes.borrow_mut().push(text);
    }

    fn begin(&mut self, engine: &mut Stage<'_>, step: Step) {
        let now = engine.now;
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
                self.send_request(engine, &path, request, sending);
            }
            Step::Observe { path } => {
                let mut sending = RequestConfig::default();
                sending.observe = true;
                if let Some(id) = self.send_request(engine, &path, Request::get(), sending) {
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
                let server = endpoint(engine, SERVER);
                let notified = server.notify(now, subject, &response, confirmable);
                debug_assert!(notified.is_ok(), "a state without options fits a message");
            }
            Step::Forget { path } => {
                if let Some(id) = self.take_observation(&path) {
                    endpoint(engine, CLIENT).cancel(now, id);
                }
            }
            Step::Stop { path } => {
                if let Some(id) = self.take_observation(&path) {
                    endpoint(engine, CLIENT).stop_observing(now, id);
                }
            }
            Step::Ping => {
                if let Err(error) = endpoint(engine, CLIENT).ping(now, address(SERVER, 0)) {
                    self.outcome(error.to_string());
                }
            }
            Step::Lose {
                from_client,
                datagrams,
            } => {
                let from = if from_client { CLIENT } else { SERVER };
                engine.network.to_lose[from as usize] += datagrams;
            }
        }
    }

    fn send_request(
        &mut self,
        engine: &mut Stage<'_>,
        path: &str,
        request: Request,
        sending: RequestConfig,
    ) -> Option<RequestId> {
        let now = engine.now;
        let sent = request.with_path(path).map_err(|error| error.to_string());
        let sent = sent.and_then(|request| {
            endpoint(engine, CLIENT)
                .request(now, address(SERVER, 0), request, sending)
                .map_err(|error| error.to_string())
        });
        sent.map_err(|error| self.outcome(error)).ok()
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

    /// Accepts a request at the server.
    fn take(&mut self, engine: &mut Stage<'_>, id: IncomingId) {
        let now = engine.now;
        let Some(incoming) = endpoint(engine, SERVER).incoming(id) else {
            return;
        };
        let path = path_of(&incoming.message);
        let is_slow = path.starts_with("slow") && !self.slow.is_zero();
        let subject = self.subject(path);
        endpoint(engine, SERVER).observe(now, id, subject);
        if is_slow {
            self.delayed.push_back(id);
            engine.set_timer(0, now + self.slow, Timer::of(ANSWER, SERVER));
        } else {
            self.answer(engine, id);
        }
    }

    /// Responds: GET and FETCH read, PUT writes, DELETE deletes, every other method is an echo.
    fn answer(&mut self, engine: &mut Stage<'_>, id: IncomingId) {
        let now = engine.now;
        let server = endpoint(engine, SERVER);
        let Some(incoming) = server.incoming(id) else {
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
        server.respond(now, id, &response);
    }
}

impl Application<ScriptedLink> for Director {
    fn start(&mut self, engine: &mut Stage<'_>) {
        // The run ends without flows; the script counts as one until its last step is complete.
        engine.running = 1;
        self.is_next_set = true;
        engine.set_timer(0, Instant::ZERO, Timer::of(NEXT, CLIENT));
    }

    fn on_timer(&mut self, engine: &mut Stage<'_>, timer: Timer) {
        if timer.kind == ANSWER {
            if let Some(id) = self.delayed.pop_front() {
                self.answer(engine, id);
            }
            return engine.drain(self, SERVER);
        }
        self.is_next_set = false;
        if !self.is_quiet(engine) {
            return;
        }
        match self.steps.pop_front() {
            Some(step) => {
                self.begin(engine, step);
                engine.drain(self, CLIENT);
                engine.drain(self, SERVER);
            }
            None => engine.running = 0,
        }
    }

    fn on_event(&mut self, engine: &mut Stage<'_>, _: u32, event: Event) {
        let text = match event {
            Event::Request(id) => return self.take(engine, id),
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
        self.outcome(text);
    }

    fn tag(&mut self, _: Instant, _: u32, _: u32, _: &[u8], _: Tag) -> Tag {
        Tag::NONE
    }

    fn on_idle(&mut self, engine: &mut Stage<'_>, host: u32) -> bool {
        if !self.is_next_set && self.is_quiet(engine) {
            self.is_next_set = true;
            engine.set_timer(0, engine.now, Timer::of(NEXT, host));
        }
        false
    }

    fn on_offered(&mut self, _: &mut Stage<'_>, _: u32, offer: &Offer) {
        self.flying += u32::from(offer.fate == Fate::Arrives);
    }

    fn on_received(&mut self, _: Instant, _: u32, _: Tag, _: usize) {
        self.flying -= 1;
    }

    fn into_record(self: Box<Self>, _: &mut Stage<'_>, _: &mut RunRecord) {}
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
    fn lost_messages_are_retransmitted() {
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
