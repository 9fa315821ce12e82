//! Parameters and controllers per endpoint, per peer and per request, custom controllers, and one congestion budget for all
//! observers of a server.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use carob::server::{Notifier, Request, get};
use carob::{Config, CongestionControl, PeerConfig, Prefix, Server, TransmissionParameters};
use carob_cc::controller::{Controller, Gauge, Timer};
use carob_cc::evidence::{Expired, Start};
use carob_cc::random::Random;
use carob_proto::trace::TraceEvent;

use crate::common::{client, client_with, impatient, limited, resources, send, silent_peer, start};

/// Time until a client gives up on a silent peer.
async fn patience(client: &carob::Client, peer: SocketAddr) -> Duration {
    let began = Instant::now();
    let request = client
        .get(format!("coap://{peer}/"))
        .timeout(Duration::from_secs(1));
    limited(request.send()).await.unwrap_err();
    began.elapsed()
}

const SHORT: Duration = Duration::from_millis(800);

#[tokio::test]
async fn peer_parameters_override_those_of_the_endpoint() {
    let ((_one, patient), (_two, hurried)) = (silent_peer(), silent_peer());
    let client =
        client_with(Config::new().peer(hurried, PeerConfig::new().parameters(impatient())));
    assert!(patience(&client, hurried).await < SHORT);
    assert!(patience(&client, patient).await > SHORT);
    client
        .set_peer(patient, PeerConfig::new().parameters(impatient()))
        .await
        .unwrap();
    assert!(patience(&client, patient).await < SHORT);
}

/// Number of transmissions of a request until the client gives up.
async fn transmissions(config: Config, peer: SocketAddr, set: Option<PeerConfig>) -> usize {
    let sent = Arc::new(AtomicU32::new(0));
    let counted = sent.clone();
    let client = client_with(config.on_trace(move |trace| {
        if matches!(trace.event, TraceEvent::Sent { .. }) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    }));
    if let Some(own) = set {
        client.set_peer(peer, own).await.unwrap();
    }
    let request = client.get(format!("coap://{peer}/"));
    assert!(limited(request.send()).await.unwrap_err().is_timeout());
    sent.load(Ordering::Relaxed) as usize
}

/// A controller that suggests MAX_RETRANSMIT 3.
fn three_retransmissions() -> PeerConfig {
    (PeerConfig::new().controller_named("cocoa-004-as-run")).expect("it is registered")
}

#[tokio::test]
async fn suggested_parameters_of_a_peer_controller_apply() {
    let (_socket, peer) = silent_peer();
    let short = carob_cc::time::Duration::from_millis(5);
    let quick = Config::new().engine(|engine| engine.parameters.ack_timeout = short);
    assert_eq!(transmissions(quick.clone(), peer, None).await, 5);
    let from_start = quick.clone().peer(peer, three_retransmissions());
    assert_eq!(transmissions(from_start, peer, None).await, 4);
    let set = Some(three_retransmissions());
    assert_eq!(transmissions(quick, peer, set).await, 4);

    // Explicit parameters override suggestions: those of the endpoint, and those of the peer.
    let set = Some(three_retransmissions());
    let explicit = Config::new().parameters(impatient());
    assert_eq!(transmissions(explicit, peer, set).await, 3);
    let adjusted = three_retransmissions().adjust_parameters(|parameters| {
        assert_eq!(parameters.max_retransmit, 3);
        parameters.ack_timeout = short;
        parameters.max_retransmit = 1;
    });
    assert_eq!(transmissions(Config::new(), peer, Some(adjusted)).await, 2);
}

#[tokio::test]
async fn request_parameters_override_all_others() {
    let (_peer, address) = silent_peer();
    let mut patient = TransmissionParameters::DEFAULT;
    patient.ack_timeout = carob_cc::time::Duration::from_secs(60);
    let client = client_with(Config::new().parameters(patient));
    let began = Instant::now();
    let request = client
        .get(format!("coap://{address}/"))
        .parameters(impatient());
    assert!(limited(request.send()).await.unwrap_err().is_timeout());
    assert!(began.elapsed() < SHORT);
}

#[tokio::test]
async fn a_controller_learns_and_can_be_read() {
    let (server, uri) = start(resources()).await;
    let client = client_with(Config::new().controller_named("cocoa-03").unwrap());
    assert!(
        client.gauges(server.local_address()).await.is_none(),
        "not known yet"
    );
    for _ in 0..5 {
        send(client.get(format!("{uri}/hello"))).await;
    }
    let gauges = client.gauges(server.local_address()).await.unwrap();
    let (name, rto) = gauges[0];
    assert_eq!(name, "rto");
    let Gauge::Time(rto) = rto else {
        panic!("the RTO is a time")
    };
    assert!(
        rto < carob_cc::time::Duration::from_secs(1),
        "2 s at first, less by now: {rto}"
    );
}

/// A controller that counts calls for the initial timeout.
#[derive(Debug)]
struct Counting(Arc<AtomicU32>);

impl Controller for Counting {
    fn first_timeout(&mut self, start: &Start<'_>, _: &mut dyn Random) -> Timer {
        self.0.fetch_add(1, Ordering::Relaxed);
        start.parameters.ack_timeout.into()
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        expired.timeout.into()
    }
}

#[tokio::test]
async fn custom_controller_is_used() {
    let (_server, uri) = start(resources()).await;
    let asked = Arc::new(AtomicU32::new(0));
    let shared = asked.clone();
    let choice = CongestionControl::Custom(Arc::new(move |_| Box::new(Counting(shared.clone()))));
    let client = client_with(Config::new().controller(choice));
    for _ in 0..3 {
        send(client.get(format!("{uri}/hello"))).await;
    }
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn requests_per_host_obey_nstart_and_hosts_are_independent() {
    let (_server, uri) = start(resources()).await;
    let client = client();
    let began = Instant::now();
    let all: Vec<_> = (0..2)
        .map(|_| tokio::spawn(client.get(format!("{uri}/blocking")).send()))
        .collect();
    for request in all {
        limited(request).await.unwrap().unwrap();
    }
    assert!(
        began.elapsed() >= Duration::from_millis(180),
        "one after the other"
    );
}

/// Initial timeouts of a client's requests, by peer.
type Timers = Arc<Mutex<Vec<(SocketAddr, Duration)>>>;

fn noting(settings: Config) -> (Config, Timers) {
    let timers = Timers::default();
    let noted = timers.clone();
    let settings = settings.on_trace(move |trace| {
        if let TraceEvent::Sent {
            retransmissions: 0,
            timeout: Some(timeout),
            ..
        } = trace.event
        {
            noted.lock().unwrap().push((trace.peer, timeout.into()));
        }
    });
    (settings, timers)
}

#[tokio::test]
async fn parameters_apply_to_endpoint_or_peer() {
    let ((_one, slow), (_two, fast), (_three, mesh)) =
        (silent_peer(), silent_peer(), silent_peer());
    let ack_timeout = |seconds| {
        move |parameters: &mut TransmissionParameters| {
            parameters.ack_timeout = Duration::from_secs(seconds).into();
        }
    };
    let settings = Config::new().adjust_parameters(ack_timeout(9));
    let settings = settings.peer(fast, PeerConfig::new().adjust_parameters(ack_timeout(1)));
    let (settings, timers) = noting(settings);
    let client = client_with(settings);
    let of_mesh = PeerConfig::new().adjust_parameters(|_| {});
    client.set_peer(mesh, of_mesh).await.unwrap();
    for peer in [slow, fast, mesh] {
        let request = client.get(format!("coap://{peer}/"));
        let request = request.timeout(Duration::from_millis(50));
        limited(request.send()).await.unwrap_err();
    }
    let timers = timers.lock().unwrap();
    for ((peer, timer), (of, secs)) in timers.iter().zip([(slow, 9), (fast, 1), (mesh, 2)]) {
        assert_eq!(peer.port(), of.port());
        let least = Duration::from_secs(secs);
        assert!((least..=least * 3 / 2).contains(timer), "{timer:?}");
    }
    assert_eq!(timers.len(), 3);
}

/// Whether a message with this first byte is Confirmable; none for ACK and RST.
fn confirmable(first: u8) -> Option<bool> {
    match first >> 4 & 3 {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    }
}

/// Notifies 40 observers of a change; returns the number of CON notifications and the time between the first and the
/// last notification.
async fn notify_observers(settings: Config) -> (usize, Duration) {
    let confirmed = Arc::new(AtomicUsize::new(0));
    let left = Arc::new(Mutex::new(Vec::new()));
    let (count, times) = (Arc::clone(&confirmed), Arc::clone(&left));
    let changes = Notifier::new();
    let settings = settings.on_datagram(move |datagram| {
        if let (false, [first, code, ..]) = (datagram.incoming, datagram.bytes)
            && *code == 0x45
            && let Some(confirmable) = confirmable(*first)
        {
            times.lock().unwrap().push(Instant::now());
            count.fetch_add(usize::from(confirmable), Ordering::Relaxed);
        }
    });
    let resource = get(|_: Request| async { "state" }).observable(&changes);
    let builder = Server::builder()
        .bind("127.0.0.1:0")
        .config(settings)
        .resource("/state", resource);
    let (_server, uri) = start(builder).await;
    let mut observers = Vec::new();
    for _ in 0..40 {
        let client = client();
        let mut observation = client.get(format!("{uri}/state")).observe().await.unwrap();
        limited(observation.next()).await.unwrap().unwrap();
        observers.push((client, observation));
    }
    changes.changed();
    for (_, observation) in &mut observers {
        limited(observation.next()).await.unwrap().unwrap();
    }
    let left = left.lock().unwrap();
    assert_eq!(left.len(), 40);
    (
        confirmed.load(Ordering::Relaxed),
        *left.last().unwrap() - left[0],
    )
}

#[tokio::test]
async fn observers_of_one_budget_are_notified_one_by_one() {
    let (confirmed, _) = notify_observers(Config::new()).await;
    assert_eq!(confirmed, 0, "without a budget");
    let mut first = Config::new().aggregate(Prefix::ALL);
    // One notification's bytes take a second while the round-trip time is unknown.
    first = first.engine(|config| config.aggregate.initial_window = 64);
    let (confirmed, took) = notify_observers(first).await;
    assert_eq!(confirmed, 5, "one of eight");
    assert!(took > Duration::from_millis(100), "{took:?}");
    let elsewhere = Config::new().aggregate("192.0.2.0/24".parse().unwrap());
    assert_eq!(notify_observers(elsewhere).await.0, 0, "of other peers");
}
