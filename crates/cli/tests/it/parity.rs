//! The same script in the simulator and over real sockets yields the same protocol events.
//!
//! Times, addresses and the values of Message IDs differ and are not compared; equality of IDs within an endpoint is.
//! A relay between the real sockets drops the same datagrams as the simulator.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use carob::client::{Observation, Update};
use carob::server::{Notifier, Request, Resource};
use carob::{Client, Code, Config, Payload, Response, Server, TransmissionParameters};
use carob_cc::time::Duration as Micros;
use carob_proto::trace::Trace;
use carob_sim::link::{DirectionSpec, LinkSpec};
use carob_sim::testing::script::{Script, Step, play};

use crate::interop::path::{Faults, Path};
use crate::interop::wire::Side;

const SLOW: Duration = Duration::from_millis(400);

/// Timeouts short enough for a test and long compared with loopback round trips.
fn parameters() -> TransmissionParameters {
    let mut parameters = TransmissionParameters::DEFAULT;
    parameters.ack_timeout = Micros::from_millis(700);
    parameters
}

/// A trace reduced to comparable events.
fn comparable(traces: &[Trace]) -> Vec<String> {
    let mut ids = BTreeMap::new();
    let line = |trace: &Trace| {
        let text = trace.json().to_string();
        let mut event: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(&text).expect("a line of the log is a JSON object");
        for by_nature in ["at_us", "peer", "timeout_us", "since_original_us", "rto_us"] {
            event.remove(by_nature);
        }
        if let Some(id) = event.get_mut("id") {
            let next = ids.len();
            *id = (*ids.entry(id.as_u64()).or_insert(next)).into();
        }
        serde_json::to_string(&event).expect("it was JSON before")
    };
    traces.iter().map(line).collect()
}

type Log = Arc<Mutex<Vec<Trace>>>;

fn logging(log: &Log) -> Config {
    let log = Arc::clone(log);
    Config::new()
        .parameters(parameters())
        .on_every_trace(move |trace| log.lock().expect("no test panics with it").push(*trace))
}

/// The server application; responds like the simulator's.
#[derive(Clone, Default)]
struct App {
    resources: Arc<Mutex<BTreeMap<String, Bytes>>>,
    told: Notifier,
    confirmed: Notifier,
}

impl App {
    fn set(&self, path: &str, state: Bytes) {
        let mut resources = self.resources.lock().expect("no handler panics with it");
        resources.insert(path.to_owned(), state);
    }

    fn answer(&self, request: &Request) -> Response {
        let path = path_of(request);
        let mut resources = self.resources.lock().expect("no handler panics with it");
        let mut response = Response::new(Code::CHANGED);
        match request.method() {
            Code::GET | Code::FETCH => match resources.get(&path) {
                Some(state) => {
                    response.code = Code::CONTENT;
                    response.payload = Payload::Whole(state.clone());
                }
                None => response.code = Code::NOT_FOUND,
            },
            Code::PUT => {
                resources.insert(path, request.payload().clone());
            }
            Code::DELETE => {
                resources.remove(&path);
                response.code = Code::DELETED;
            }
            _ => response.payload = Payload::Whole(request.payload().clone()),
        }
        response
    }

    fn resource(&self, notifier: &Notifier) -> Resource {
        let handler = || {
            let app = self.clone();
            move |request: Request| {
                let app = app.clone();
                async move {
                    if path_of(&request).starts_with("slow") {
                        tokio::time::sleep(SLOW).await;
                    }
                    app.answer(&request)
                }
            }
        };
        Resource::new()
            .get(handler())
            .put(handler())
            .post(handler())
            .delete(handler())
            .on(Code::FETCH, handler())
            .observable(notifier)
    }
}

fn path_of(request: &Request) -> String {
    let segments: Vec<_> = request.segments().map(String::from_utf8_lossy).collect();
    segments.join("/")
}

/// Waits until neither end has pending exchanges.
async fn quiet(client: &Client, server: &Client) {
    loop {
        let mut busy = false;
        for end in [client, server] {
            let usage = end.usage().await.expect("it runs");
            busy |= usage.requests != usage.observations || usage.exchanges + usage.incoming > 0;
        }
        if !busy {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Runs a script over real sockets; returns the events of client and server.
async fn perform(steps: &[Step]) -> (Vec<Trace>, Vec<Trace>) {
    let (client_log, server_log) = <(Log, Log)>::default();
    let app = App {
        confirmed: Notifier::confirmable(),
        ..App::default()
    };
    // One notifier per resource: the first sends CON, the second NON.
    let server = Server::builder()
        .bind("127.0.0.1:0")
        .config(logging(&server_log))
        .resource("/told", app.resource(&app.told))
        .fallback(app.resource(&app.confirmed))
        .start()
        .await
        .expect("the server starts");
    let path = Path::start(server.local_address().port(), Faults::default(), 1);
    let base = format!("coap://127.0.0.1:{}", path.port());
    let settings = logging(&client_log);
    let client = Client::builder().config(settings).open().expect("it opens");
    let ends = (client.clone(), server.client());
    let mut observations: BTreeMap<String, Observation> = BTreeMap::new();
    for step in steps {
        match step {
            Step::Request {
                method,
                path,
                payload,
                confirmable,
            } => {
                let request = client
                    .request(*method, format!("{base}/{path}"))
                    .body(payload.clone())
                    .confirmable(*confirmable);
                let _ = request.await; // how it ends is in the log
            }
            Step::Observe { path } => {
                let request = client.get(format!("{base}/{path}"));
                let mut observation = request.observe().await.expect("it is answered");
                let first = observation.next().await;
                assert!(matches!(first, Some(Ok(Update::State(_)))), "{first:?}");
                observations.insert(path.clone(), observation);
            }
            Step::Change { path, payload, .. } => {
                let state = Bytes::from(payload.clone());
                app.set(path, state);
                if path == "told" {
                    app.told.changed();
                } else {
                    let path = path.clone();
                    app.confirmed
                        .changed_for(move |request| path_of(request) == path);
                }
                // The handler runs first; only its response is an exchange.
                match observations.get_mut(path) {
                    Some(observation) => drop(observation.next().await),
                    None => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
            Step::Forget { path } => drop(observations.remove(path)),
            Step::Stop { path } => {
                let observation = observations.remove(path).expect("it is observed");
                observation.stop().await.expect("the server answers");
            }
            Step::Ping => drop(client.ping(&base).await),
            Step::Lose {
                from_client,
                datagrams,
            } => {
                let from = if *from_client {
                    Side::Client
                } else {
                    Side::Server
                };
                path.record()
                    .lose(*datagrams as usize, move |side, _| side == from);
            }
            other => panic!("{other:?} cannot be performed"),
        }
        quiet(&ends.0, &ends.1).await;
    }
    let take = |log: &Log| log.lock().expect("nobody panicked").clone();
    (take(&client_log), take(&server_log))
}

fn compare(steps: Vec<Step>) {
    let direction = DirectionSpec::new(100_000_000, 1_000_000);
    let mut config = carob_proto::endpoint::Config::default();
    config.parameters = parameters();
    let script = Script {
        steps,
        seed: 7,
        link: LinkSpec {
            down: direction.clone(),
            up: direction,
        },
        config,
        slow: Micros::from_millis(SLOW.as_millis() as u64),
        time_limit: Micros::from_secs(1_000),
    };
    let simulated = play(&script);
    assert!(simulated.complete, "{:?}", simulated.outcomes);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let limit = Duration::from_secs(60);
    let (client, server) = runtime
        .block_on(async { tokio::time::timeout(limit, perform(&script.steps)).await })
        .expect("the script ends in time");
    assert!(client.len() > script.steps.len(), "events were logged");
    for (end, simulated, real) in [
        ("client", &simulated.client, &client),
        ("server", &simulated.server, &server),
    ] {
        let (simulated, real) = (comparable(simulated), comparable(real));
        let differs = simulated.iter().zip(&real).position(|(a, b)| a != b);
        let place = differs.unwrap_or(simulated.len().min(real.len()));
        assert_eq!(
            simulated, real,
            "the {end}'s events differ from number {place} on"
        );
    }
}

fn request(method: Code, path: &str, bytes: usize, confirmable: bool) -> Step {
    Step::Request {
        method,
        path: path.into(),
        payload: (0..bytes).map(|n| n as u8).collect(),
        confirmable,
    }
}

fn get(path: &str) -> Step {
    request(Code::GET, path, 0, true)
}

fn change(path: &str, bytes: usize) -> Step {
    Step::Change {
        path: path.into(),
        payload: vec![b'x'; bytes],
        confirmable: path != "told",
    }
}

fn lose(from_client: bool, datagrams: u32) -> Step {
    Step::Lose {
        from_client,
        datagrams,
    }
}

#[test]
fn requests_of_every_kind_are_the_same() {
    compare(vec![
        get("nothing"),
        request(Code::PUT, "a/b", 20, true),
        get("a/b"),
        request(Code::GET, "a/b", 0, false),
        request(Code::POST, "a/b", 30, true),
        request(Code::FETCH, "a/b", 10, true),
        request(Code::DELETE, "a/b", 0, true),
        get("a/b"),
        get("slow"),
        request(Code::GET, "slow", 0, false),
        Step::Ping,
    ]);
}

#[test]
fn bodies_in_blocks_are_the_same() {
    compare(vec![
        request(Code::PUT, "large", 5_000, true),
        get("large"),
        request(Code::POST, "large", 3_000, true),
    ]);
}

#[test]
fn observations_are_the_same() {
    let path = |path: &str| path.to_owned();
    compare(vec![
        change("light", 3),
        change("told", 4),
        Step::Observe {
            path: path("light"),
        },
        Step::Observe { path: path("told") },
        change("light", 5),
        change("told", 6),
        change("light", 2_500),
        Step::Stop {
            path: path("light"),
        },
        change("light", 8),
        Step::Forget { path: path("told") },
        change("told", 9),
        change("told", 10),
    ]);
}

#[test]
fn slow_loss_and_retransmission_are_the_same() {
    let path = || "light".to_owned();
    compare(vec![
        lose(true, 1),
        get("x"),
        lose(false, 2),
        request(Code::POST, "x", 10, true),
        change("light", 3),
        Step::Observe { path: path() },
        lose(false, 1),
        change("light", 4),
        lose(true, 1),
        change("light", 5),
        Step::Stop { path: path() },
    ]);
}
