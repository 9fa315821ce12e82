//! The simulator's runs with real sockets: the same [`RunSpec`] in, a [`RunRecord`] out.
//!
//! Clients and servers are `carob`'s own, over its UDP sockets or over the kernel's TCP, each in
//! its namespace; the link between them is the run's, with the run's losses. All runs execute at
//! once, in real time. TCP settings that the kernel does not offer keep the kernel's values; see
//! [`Emulator::settings`].

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use carob::server::{Request, Resource, fixed};
use carob::{BlockSize, Client, Code, Config as EndpointConfig, Payload, Response, Server};
use carob_cc::time::{Duration as Span, Instant as Moment};
use carob_proto::codec::BASE_TOKEN_LENGTH;
use carob_proto::trace::{Trace, TraceEvent};
use carob_sim::histogram::Histogram;
use carob_sim::link::DeviceRecord;
use carob_sim::random::Stream;
use carob_sim::server_queue::ServerWorker;
use carob_sim::spec::{
    AfterFailure, Faults, FlowRecord, LinkNetworkSpec, NetworkSpec, RunRecord, RunSpec,
    ServerRecord, Transport, Until, Workload,
};
use carob_sim::tcp::TcpSettings;
use carob_sim::tcp::settings::Algorithm;

use crate::emulator::OF_RUN;
use crate::flow::TcpInfo;
use crate::realtime;
use crate::report::Setting;
use crate::{Config, EmulatedLink, Emulator, Error, Lateness, LinkConfig, Side};

/// The servers' port.
const PORT: u16 = 5683;
/// Threads that run clients and servers; the links have another one.
const THREADS: usize = 2;

/// Options of runs.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Time limit of flows; the run's own limit if that is shorter.
    pub limit: Option<Duration>,
    /// A pcapng file for the packets at both ends of all links.
    pub capture: Option<PathBuf>,
}

/// The results of runs.
#[derive(Debug)]
pub struct Emulated {
    /// One for each specification, in order. Times are microseconds since the common beginning;
    /// there is no trace.
    pub records: Vec<RunRecord>,
    /// Lateness of packets.
    pub lateness: Lateness,
    /// Every kernel setting, as requested and as it was.
    pub settings: Vec<Setting>,
}

/// The kernel's congestion module for the model's algorithm.
pub const fn congestion_module(settings: &TcpSettings) -> &'static str {
    match settings.congestion {
        Algorithm::NewReno => "reno",
        Algorithm::Cubic => "cubic",
        Algorithm::Bbr1 => "bbr",
        // Not in mainline Linux, whose `bbr` is version 1: a kernel without it refuses the run.
        Algorithm::Bbr3 => "bbr3",
    }
}

/// Executes all runs at once. `progress` is called with (flows complete, of all), from any thread.
///
/// # Errors
///
/// If links cannot be emulated here, if the specifications differ in what namespaces have in common
/// (MTU, the initial window and timeout of TCP), or if the run is [refused](Error::Refused).
pub fn run(
    specs: &[RunSpec],
    options: &Options,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<Emulated, Error> {
    let emulator = Emulator::start(&config(specs, options)?)?;
    let settings = emulator.settings().to_vec();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .on_thread_start(realtime::enter_as_host)
        .enable_all()
        .build()
        .map_err(|error| Error::system("start threads", error, "are there too many already?"))?;
    let groups = specs.iter().map(|spec| &spec.measured);
    let all = groups.map(|group| group.clients as usize).sum();
    let done = AtomicUsize::new(0);
    let hear = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
    let flows = runtime.block_on(flows(&emulator, specs, options, &hear))?;
    // None of our packets is in flight any more when the links end.
    runtime.shutdown_timeout(Duration::from_secs(1));
    let outcome = emulator.finish()?;
    let records = flows.into_iter().zip(outcome.links).map(|(run, link)| {
        let ended = run.flows.iter().map(|flow| flow.ended).max();
        let all_kept = run.response_times.len() <= RunRecord::RESPONSE_TIMES_MAX;
        RunRecord {
            flows: run.flows,
            responses: run.responses,
            response_times: if all_kept {
                run.response_times
            } else {
                Vec::new()
            },
            devices: run.devices,
            server: run.server,
            link,
            ended: ended.unwrap_or_default(),
            ..RunRecord::default()
        }
    });
    Ok(Emulated {
        records: records.collect(),
        lateness: outcome.lateness,
        settings,
    })
}

/// The emulator's configuration for all runs together.
fn config(specs: &[RunSpec], options: &Options) -> Result<Config, Error> {
    let differ = |what: &str| Error::Configuration {
        what: what.to_owned(),
        why: "the runs of one emulation must have it in common".into(),
    };
    let groups = specs.iter().map(|spec| &spec.measured);
    let mut over_tcp = groups.filter_map(|group| match &group.transport {
        Transport::Connections(settings) => Some(settings),
        Transport::Datagrams => None,
    });
    let tcp = over_tcp.next();
    let networks = specs.iter().map(emulated_link);
    let networks = networks.collect::<Result<Vec<_>, _>>()?;
    let links = specs.iter().zip(&networks);
    let links = links.map(|(spec, network)| LinkConfig::of_run(spec, network));
    let links = links.collect();
    // Without SACK the scenario describes the thesis's hosts; else the kernel's own settings are nearest.
    let mut config = match tcp {
        Some(settings) if settings.sack => Config::system(links),
        _ => Config::thesis(links),
    };
    config.capture.clone_from(&options.capture);
    if let Some(first) = networks.first() {
        config.mtu_bytes = first.mtu_bytes;
        if (networks.iter()).any(|network| network.mtu_bytes != first.mtu_bytes) {
            return Err(differ("the MTU"));
        }
    }
    if let Some(first) = tcp {
        config.initial_window = first.initial_window;
        config.initial_timeout = Some(Duration::from_micros(first.rto_initial.as_micros()));
        for other in over_tcp {
            if other.sack != first.sack {
                return Err(differ("SACK"));
            }
            if other.initial_window != first.initial_window {
                return Err(differ("TCP's initial window"));
            }
            if other.rto_initial != first.rto_initial {
                return Err(differ("TCP's initial timeout"));
            }
        }
    }
    Ok(config)
}

/// The link of a run.
///
/// # Errors
///
/// Features that only the simulator has.
fn emulated_link(spec: &RunSpec) -> Result<&LinkNetworkSpec, Error> {
    let refuse = |what: &str, why: &'static str| {
        Err(Error::Configuration {
            what: what.to_owned(),
            why: why.into(),
        })
    };
    if spec.faults != Faults::default() {
        let why = "faults happen in the simulator only; link.changes has outages for both";
        return refuse("faults", why);
    }
    let NetworkSpec::Link(network) = &spec.network else {
        let why = "wireless networks have no link to emulate; they are of the simulator only";
        return refuse("workload.kind", why);
    };
    if network.device.has_windows() && spec.measured.transport != Transport::Datagrams {
        return refuse("link.receive_delay", "receive windows are of datagrams");
    }
    if spec.server.is_used() && spec.measured.transport != Transport::Datagrams {
        return refuse("server.service", "the receive queue is of datagrams");
    }
    if !matches!(spec.measured.workload, Workload::Requests(_)) {
        let why = "notifications run in the simulator only";
        return refuse("workload.kind", why);
    }
    let requests = spec.measured.workload.requests();
    if requests.after_failure != AfterFailure::Stop {
        let why = "clients go on after a failure in the simulator only";
        return refuse("workload.after_failure", why);
    }
    if requests.periodic.is_some() {
        let why = "periodic requests run in the simulator only";
        return refuse("workload.request_period", why);
    }
    if !requests.poll.is_zero() {
        return refuse("workload.poll", "clients sleep in the simulator only");
    }
    Ok(network)
}

/// The results of a run, apart from its link.
#[derive(Debug, Default)]
struct EndedRun {
    flows: Vec<FlowRecord>,
    /// Read when the last flow ends.
    devices: Vec<DeviceRecord>,
    /// Read at the same time.
    server: Option<ServerRecord>,
    responses: Histogram,
    response_times: Vec<Span>,
}

/// The result of a client, which lives on.
struct EndedFlow {
    flow: FlowRecord,
    /// Times from request to response.
    times: Vec<Span>,
    client: Client,
}

/// Runs every flow of every run; they are in the order of the specifications.
async fn flows(
    emulator: &Emulator,
    specs: &[RunSpec],
    options: &Options,
    done: &(impl Fn() + Sync),
) -> Result<Vec<EndedRun>, Error> {
    let mut servers = Vec::with_capacity(specs.len());
    let mut ready = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        let link = emulator.link(index);
        let (server, connections) = serve(link, spec).await?;
        servers.push(server);
        for number in 0..spec.measured.clients {
            ready.push((index, ReadyClient::new(link, spec, number, &connections)?));
        }
    }
    // Everything is ready: now time begins, also that of the links. Many take seconds to set up.
    for (index, spec) in specs.iter().enumerate() {
        emulator.link(index).restart(spec.seed, OF_RUN)?;
    }
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for (place, (index, ready)) in ready.into_iter().enumerate() {
        let spec_limit = Duration::from_micros(specs[index].time_limit.as_micros());
        let limit = options
            .limit
            .map_or(spec_limit, |limit| limit.min(spec_limit));
        tasks.spawn(async move { (place, index, ready.run(began, limit).await) });
    }
    let mut runs: Vec<EndedRun> = specs.iter().map(|_| EndedRun::default()).collect();
    let mut left: Vec<u32> = specs.iter().map(|spec| spec.measured.clients).collect();
    let mut ended = Vec::new();
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            next = tasks.join_next() => match next {
                Some(Ok(flow)) => {
                    let index = flow.1;
                    ended.push(flow);
                    left[index] -= 1;
                    if left[index] == 0 {
                        runs[index].devices = emulator.link(index).devices()?;
                        runs[index].server = emulator.link(index).server()?;
                    }
                    done();
                }
                Some(Err(error)) => {
                    let action = "run a client";
                    return Err(Error::system(action, std::io::Error::other(error), "a bug"));
                }
                None => break,
            },
            // If the links have ended, finishing returns the reason.
            _ = tick.tick() => if !emulator.is_running() { break },
        }
    }
    ended.sort_by_key(|(place, ..)| *place);
    // Clients and servers live until all flows are complete: late acknowledgements and
    // retransmissions affect other flows.
    let mut clients = Vec::new();
    for (_, index, ended) in ended {
        let run = &mut runs[index];
        run.flows.push(ended.flow);
        for time in &ended.times {
            run.responses.add(*time);
        }
        run.response_times.extend(ended.times);
        clients.push(ended.client);
    }
    drop((clients, servers));
    Ok(runs)
}

/// The kernel's sockets of a server's connections, by the address of the client.
type Connections = Arc<Mutex<Vec<(SocketAddr, TcpStream)>>>;

fn body_bytes(spec: &RunSpec) -> usize {
    spec.measured.workload.requests().response_bytes as usize
}

fn path(spec: &RunSpec) -> &str {
    &spec.measured.workload.requests().path
}

/// The settings of both ends of a run.
fn settings(spec: &RunSpec) -> EndpointConfig {
    let requests = spec.measured.workload.requests();
    let size = BlockSize::from_bytes_at_most(usize::from(requests.block_bytes));
    let token = requests.token_bytes;
    let settings = EndpointConfig::new()
        .controller(spec.measured.controller.choice())
        .parameters(spec.measured.transmission)
        .block_size(size.unwrap_or(BlockSize::MAX))
        .engine(|config| {
            config.token_length = token.into();
            // As in the simulator, whose CSMs are compared with these.
            config.limits.token_bytes = BASE_TOKEN_LENGTH;
        });
    let message = u32::try_from(body_bytes(spec))
        .unwrap_or(u32::MAX)
        .saturating_add(1_024);
    let limit = spec.time_limit;
    settings.connections(|reliable| {
        reliable.max_message_size = reliable.max_message_size.max(message);
        reliable.largest_message = reliable.largest_message.max(message);
        reliable.csm_wait = limit;
        reliable.response_timeout = limit;
        reliable.probe_after = None;
        reliable.idle = None;
    })
}

/// Starts the server of a run.
async fn serve(link: EmulatedLink<'_>, spec: &RunSpec) -> Result<(Server, Connections), Error> {
    let connections = Connections::default();
    let kept = Arc::clone(&connections);
    let settings = settings(spec).on_tcp_socket(move |peer, socket| {
        if let Ok(copy) = socket.try_clone_to_owned() {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push((peer, copy.into()));
        }
    });
    let body: Vec<u8> = (0..body_bytes(spec)).map(|i| i as u8).collect();
    let mut response = Response::new(Code::CONTENT);
    response.payload = Payload::Fixed(body.into());
    let builder = Server::builder().config(settings);
    let builder = match &spec.measured.transport {
        Transport::Datagrams => builder.socket(link.udp(Side::Server, PORT)?),
        Transport::Connections(settings) => {
            let listener = link.listen(PORT, congestion_module(settings))?;
            builder.without_datagrams().listener(listener)
        }
    };
    let path = format!("/{}", path(spec));
    let resource = match ServerWorker::new(&spec.server, spec.seed, 0) {
        None => fixed(response),
        Some(worker) => worked(worker, response),
    };
    let server = builder.resource(&path, resource).start().await;
    let server = server.map_err(|error| {
        Error::system(
            "start a server",
            std::io::Error::other(error),
            "is its path valid?",
        )
    })?;
    Ok((server, connections))
}

/// A resource whose application works on one request after the other. Requests beyond its queue are
/// answered with 5.03.
fn worked(worker: ServerWorker<()>, response: Response) -> Resource {
    let (worker, began) = (Mutex::new(worker), Instant::now());
    let worker = Arc::new(worker);
    carob::server::get(move |_: Request| {
        let (worker, response) = (Arc::clone(&worker), response.clone());
        let now = Moment::from_micros(micros(began.elapsed()));
        let at = lock(&worker).accept(now, ());
        async move {
            let Some(at) = at else {
                return Response::new(Code::SERVICE_UNAVAILABLE);
            };
            tokio::time::sleep_until((began + Duration::from_micros(at.as_micros())).into()).await;
            lock(&worker).complete();
            response
        }
    })
}

/// The events of a client's endpoint, with times.
#[derive(Debug, Default)]
struct EndpointEvents {
    /// Time at which the connection was established.
    connected: Option<Instant>,
    /// Time of the first request.
    sent: Option<Instant>,
    exchanges: u32,
    transmissions: u64,
    retransmissions: u64,
    failed: u32,
    copies: Vec<u8>,
    /// First timers of exchanges.
    timers: Vec<Span>,
}

impl EndpointEvents {
    fn record(&mut self, trace: &Trace) {
        let now = Instant::now();
        match trace.event {
            TraceEvent::Connected => self.connected = Some(now),
            TraceEvent::Sent {
                retransmissions,
                timeout,
                ..
            } => {
                self.sent.get_or_insert(now);
                self.transmissions += 1;
                if retransmissions > 0 {
                    self.retransmissions += 1;
                } else {
                    self.exchanges += 1;
                    self.timers.extend(timeout);
                }
            }
            TraceEvent::Answered {
                retransmissions, ..
            } => self.copies.push(retransmissions.saturating_add(1)),
            TraceEvent::Abandoned { .. } => self.failed += 1,
            _ => {}
        }
    }
}

/// A connected client before its first request.
struct ReadyClient {
    client: Client,
    uri: String,
    requests: u32,
    wait: Duration,
    /// The source port of its TCP connection.
    port: Option<u16>,
    events: Arc<Mutex<EndpointEvents>>,
    connections: Connections,
}

impl ReadyClient {
    fn new(
        link: EmulatedLink<'_>,
        spec: &RunSpec,
        number: u32,
        connections: &Connections,
    ) -> Result<Self, Error> {
        let events = Arc::new(Mutex::new(EndpointEvents::default()));
        let sink = Arc::clone(&events);
        let mut settings = settings(spec)
            .on_trace(move |trace| lock(&sink).record(trace))
            .connect_timeout(Duration::from_micros(spec.time_limit.as_micros()));
        let (mut scheme, mut port) = ("coap", None);
        if let Transport::Connections(tcp) = &spec.measured.transport {
            scheme = "coap+tcp";
            let socket = link.client_tcp(congestion_module(tcp))?;
            let bound = socket.local_addr().ok().and_then(|own| own.as_socket());
            port = bound.map(|own| own.port());
            let socket = Mutex::new(Some(TcpStream::from(socket)));
            settings = settings.make_tcp_socket(move |_| {
                let once = lock(&socket).take();
                once.ok_or_else(|| std::io::Error::other("a flow has one connection"))
            });
        }
        let socket = link.udp(Side::Client, 0)?;
        let bound = socket.local_addr().ok().map(|own| own.port());
        if let Some(device) = port.or(bound) {
            link.add_device(device)?;
        }
        let client = Client::builder()
            .socket(socket)
            .config(settings)
            .open()
            .map_err(|error| {
                let remedy = "raise the number of open files (ulimit -n)";
                Error::system("open a client", std::io::Error::other(error), remedy)
            })?;
        let mut stream = Stream::indexed(spec.seed, "client/start", number);
        let wait = stream.uniform(spec.measured.start.low, spec.measured.start.high);
        let requests = spec.measured.workload.requests();
        let is_plain = requests.request_bytes == 0
            && requests.batches.is_none()
            && requests.parallel <= 1
            && spec.others.is_empty()
            && spec.until != Until::TimeLimit;
        if !is_plain {
            return Err(Error::Configuration {
                what: "the workload".into(),
                why: "clients of two kinds, runs of a fixed time, and clients that send bodies, \
                      start anew or ask several things at once are simulated only (carob lab run)"
                    .into(),
            });
        }
        let server = link.address(Side::Server);
        Ok(Self {
            client,
            uri: format!("{scheme}://{server}:{PORT}/{}", path(spec)),
            requests: requests.count,
            wait: Duration::from_micros(wait.as_micros()),
            port,
            events,
            connections: Arc::clone(connections),
        })
    }

    /// Sends the requests and returns the results; the client lives on.
    async fn run(self, began: Instant, limit: Duration) -> EndedFlow {
        tokio::time::sleep(self.wait).await;
        let asked = Instant::now();
        let (mut body_bytes, mut answered, mut unanswered) = (0, 0, 0);
        let mut times = Vec::new();
        let all = async {
            for _ in 0..self.requests {
                let requested = Instant::now();
                let reply = self.client.get(self.uri.as_str()).await;
                let Ok(reply) = reply else {
                    unanswered += 1;
                    return false;
                };
                body_bytes += reply.bytes().len() as u64;
                answered += 1;
                times.push(Span::from_micros(micros(requested.elapsed())));
            }
            true
        };
        let complete = tokio::time::timeout(limit, all).await.unwrap_or(false);
        // A trace event would give the time of the acknowledgement, which may precede the response.
        let ended = Instant::now();
        let events = std::mem::take(&mut *lock(&self.events));
        let since = |at: Instant| Moment::from_micros(micros(at.duration_since(began)));
        let mut flow = FlowRecord {
            started: since(events.sent.unwrap_or(asked)),
            finished: complete.then(|| since(ended)),
            ended: since(ended),
            setup: events
                .connected
                .map(|at| Span::from_micros(micros(at.duration_since(asked)))),
            answered,
            unanswered,
            body_bytes,
            exchanges: events.exchanges,
            failed: events.failed,
            transmissions: events.transmissions,
            retransmissions: events.retransmissions,
            timeouts: events.retransmissions + u64::from(events.failed),
            ..FlowRecord::default()
        };
        if self.port.is_some() {
            self.read_kernel(&mut flow);
        } else {
            for copies in events.copies {
                flow.count_exchange(copies);
                flow.answered_at_once += u32::from(copies == 1);
            }
            let mut timers = events.timers;
            timers.sort_unstable();
            flow.rto_median = timers.get(timers.len() / 2).copied();
        }
        EndedFlow {
            flow,
            times,
            client: self.client,
        }
    }

    /// Reads the server kernel's information about this client's connection, before it is lost.
    fn read_kernel(&self, flow: &mut FlowRecord) {
        // One link has one address at the client's side, so clients differ in their ports.
        let kept = lock(&self.connections);
        let ours = kept.iter().find(|(peer, _)| Some(peer.port()) == self.port);
        let Some(info) = ours.and_then(|(_, socket)| TcpInfo::read(socket).ok()) else {
            return;
        };
        let sent = u64::from(info.data_segments_out);
        let again = u64::from(info.retransmitted);
        flow.segments = Some(sent);
        flow.transmissions = sent;
        flow.retransmissions = again;
        flow.exchanges = u32::try_from(sent.saturating_sub(again)).unwrap_or(u32::MAX);
        flow.timeouts = info.timeouts.map_or(0, u64::from);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
