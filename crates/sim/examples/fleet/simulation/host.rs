//! A host of a fleet: an endpoint with its application's state.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use carob_cc::registry::entries;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{BlockSize, Code};
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::{
    Config, Endpoint, IncomingId, Limits, NotificationQueue, RequestId, Subject,
};

use super::bodies::State;
use super::clock::HostClock;
use super::ledger::Number;
use super::spec::FleetSpec;
use carob_sim::queue::Alarm;
use carob_sim::random::Stream;

/// The port of servers and proxies.
pub(super) const PORT: u16 = 5683;
/// One host in this many is in each group.
const GROUPS: u32 = 8;
/// Receive buffer of a host's socket in datagrams, while its process does not run.
pub(super) const SOCKET_DATAGRAMS: usize = 32;
/// Resources of each kind at each server.
pub(super) const RESOURCES: u32 = 4;

/// The role of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
    Proxy,
}

/// The reason why a host does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Its process is stopped; datagrams are buffered.
    Stalled,
    /// The host is suspended since this time; datagrams are lost.
    Suspended(Instant),
}

/// The purpose of a client's request.
#[derive(Debug)]
pub(super) enum Purpose {
    /// Reading a state of a resource.
    Read { server: u32, resource: u32 },
    /// Execution, with a response that names the request.
    Execute,
    /// Execution without interest in a response (RFC 7967).
    NoResponse,
    /// Storing a representation.
    Store,
    /// A ping.
    Ping,
    /// Execution by the members of a group.
    Group,
    /// A request that is sometimes rejected (4.29 or 5.03).
    Busy,
    /// An observation of a resource, with the last received state.
    Observe {
        server: u32,
        resource: u32,
        newest: Option<State>,
    },
}

/// An outstanding request.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) id: RequestId,
    pub(super) number: Number,
    pub(super) purpose: Purpose,
    /// Its time on the host's clock, and the total suspension of the host before.
    pub(super) since: (Instant, Duration),
    /// The code of a streamed response.
    pub(super) head: Option<Code>,
    /// The received part of a streamed body.
    pub(super) parts: Vec<u8>,
    /// The unsent part of a streamed body.
    pub(super) supplies: VecDeque<Bytes>,
    /// The application has cancelled the observation.
    pub(super) ending: bool,
}

impl PendingRequest {
    /// The observed resource and its last state, if the registration has succeeded.
    pub(super) fn observes(&self) -> Option<(u32, u32, State)> {
        match self.purpose {
            Purpose::Observe {
                server,
                resource,
                newest: Some(newest),
            } => Some((server, resource, newest)),
            _ => None,
        }
    }
}

/// An endpoint with its application's state and its host's faults.
pub(super) struct Host {
    pub(super) role: Role,
    pub(super) config: Config,
    pub(super) end: Endpoint,
    pub(super) address: SocketAddr,
    /// Restarts so far.
    pub(super) epoch: u32,
    pub(super) clock: HostClock,
    ppm: i32,
    pub(super) alarm: Alarm,
    /// Consecutive immediate wake-ups.
    pub(super) spins: u32,
    pub(super) pause: Option<Pause>,
    /// Total suspension so far, on its clock.
    pub(super) suspended: Duration,
    /// Datagrams buffered while it is stalled.
    pub(super) waiting: VecDeque<super::network::Flight>,
    pub(super) cut: bool,
    /// Random stream for the application's actions and the host's faults.
    pub(super) stream: Stream,
    pub(super) pending: Vec<PendingRequest>,
    /// Versions of the observable resources, and of those read in blocks.
    pub(super) versions: [u32; RESOURCES as usize],
    /// Max-Age of its observable states, in seconds.
    pub(super) max_age: u32,
    /// A proxy's forwarded requests, with the client's request each.
    pub(super) forwarded: Vec<(RequestId, IncomingId)>,
    /// The group whose requests it answers.
    pub(super) group: u32,
}

/// The address of a host. Half of the clients, and every server, are at addresses to which other
/// hosts apply an amplification limit.
fn address_of(index: u32, role: Role) -> Ipv4Addr {
    let [_, a, b, c] = index.to_be_bytes();
    match role {
        Role::Client if index.is_multiple_of(2) => Ipv4Addr::new(10, a, b, c),
        _ => Ipv4Addr::new(11, a, b, c),
    }
}

/// The host with an address, if any.
pub(super) fn index_of(address: IpAddr) -> Option<u32> {
    let IpAddr::V4(address) = address else {
        return None;
    };
    let [net, a, b, c] = address.octets();
    matches!(net, 10 | 11).then(|| u32::from_be_bytes([0, a, b, c]))
}

/// The address of a group.
pub(super) fn group_address(group: u32) -> SocketAddr {
    SocketAddr::from(([239, 0, 0, group as u8], PORT))
}

/// The group with an address.
pub(super) fn group_of(address: IpAddr) -> Option<u32> {
    match address {
        IpAddr::V4(address) if address.is_multicast() => Some(u32::from(address.octets()[3])),
        _ => None,
    }
}

/// Limits of a few entries for every table, so that each is sometimes full.
fn tight(limits: &mut Limits) {
    limits.peers = 16;
    limits.requests = 6;
    limits.queue = 3;
    limits.incoming = 4;
    limits.dedup_idempotent = 16;
    limits.dedup_non_idempotent = 32;
    limits.uploads = 2;
    limits.upload_bytes = 16 << 10;
    limits.all_upload_bytes = 12 << 10;
    limits.bodies = 2;
    limits.body_bytes = 16 << 10;
    limits.download_bytes = 8 << 10;
    limits.blocks_in_flight = 2;
    limits.observers = 8;
    limits.observers_of_peer = 2;
    limits.notifications_of_peer = 2;
    limits.notifications = 4;
    limits.validated = 8;
    limits.pauses = 2;
    limits.delayed_responses = 2;
    limits.multicast_responses = 2;
}

fn config_of(spec: &FleetSpec, index: u32, stream: &mut Stream) -> Config {
    let mut config = Config::default();
    // Every registered controller, one after the other.
    let all = entries().count() as u32;
    if let Some(entry) = entries().nth((index % all) as usize) {
        config.controller = CongestionControl::Registered(entry);
        // With its suggested cap on timers, as drivers apply it; MAX_RETRANSMIT is the same for all
        // (RFC 7252 4.8.1).
        config.parameters.rto_max = entry.suggested.rto_max;
    }
    let draw = stream.next_u64();
    let bit = |n: u32| draw >> n & 1 == 1;
    config.token_length = if bit(0) { 8 } else { 6 };
    config.block_size = match draw >> 1 & 3 {
        0 => BlockSize::MAX,
        1 => BlockSize::MIN.max(BlockSize::from_bytes_at_most(256).unwrap_or(BlockSize::MIN)),
        2 => BlockSize::from_bytes_at_most(512).unwrap_or(BlockSize::MAX),
        _ => BlockSize::from_bytes_at_most(1_024).unwrap_or(BlockSize::MAX),
    };
    config.negotiate_early = bit(3);
    config.parameters.nstart = if bit(4) { 1 } else { 4 };
    config.groups = bit(5) && bit(6);
    config.unconfirmed_max = if bit(7) { 4 } else { 32 };
    if bit(8) && bit(9) && bit(10) {
        config.notification_queue = NotificationQueue::Queue;
    }
    config.leisure = carob_proto::endpoint::Leisure::Default;
    if spec.tight {
        tight(&mut config.limits);
    }
    config
}

impl Host {
    pub(super) fn new(spec: &FleetSpec, index: u32, role: Role) -> Self {
        let mut stream = Stream::indexed(spec.seed, "fleet/host", index);
        let mut config = config_of(spec, index, &mut stream);
        config.forwards = role == Role::Proxy;
        let ppm = (stream.next_u64() % 401) as i32 - 200;
        let max_age = 60 + (stream.next_u64() % 540) as u32;
        let port = if role == Role::Client { 40_000 } else { PORT };
        Self {
            role,
            end: endpoint(spec, index, 0, &config),
            config,
            address: (address_of(index, role), port).into(),
            epoch: 0,
            clock: HostClock::start(Instant::ZERO, ppm),
            ppm,
            alarm: Alarm::default(),
            spins: 0,
            pause: None,
            suspended: Duration::ZERO,
            waiting: VecDeque::new(),
            cut: false,
            stream,
            pending: Vec::new(),
            versions: [0; RESOURCES as usize],
            max_age,
            forwarded: Vec::new(),
            group: index % GROUPS,
        }
    }

    /// Restarts the process: it loses all state, and may get another port.
    pub(super) fn restart(&mut self, spec: &FleetSpec, index: u32, now: Instant) {
        self.epoch += 1;
        self.end = endpoint(spec, index, self.epoch, &self.config);
        self.clock = HostClock::start(now, self.ppm);
        (self.alarm, self.spins, self.pause) = (Alarm::default(), 0, None);
        self.waiting.clear();
        self.pending.clear();
        self.forwarded.clear();
        self.versions = [0; RESOURCES as usize];
        if self.role == Role::Client && self.stream.next_u64().is_multiple_of(2) {
            self.address.set_port(40_000 + (self.epoch % 20_000) as u16);
        }
    }

    /// The host's clock at a time.
    pub(super) fn own(&self, now: Instant) -> Instant {
        self.clock.at(now)
    }

    /// A draw below `n`.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        (((self.stream.next_u64() >> 32) * u64::from(n)) >> 32) as u32
    }

    /// An exponentially distributed time with this mean.
    pub(super) fn after(&mut self, mean: Duration) -> Duration {
        self.stream.exponential(mean)
    }

    /// The state of one of its resources.
    pub(super) fn state(&self, server: u32, resource: u32) -> State {
        State {
            server,
            resource,
            epoch: self.epoch,
            version: self.versions[resource as usize],
        }
    }
}

/// The subject of a resource at its server's endpoint.
pub(super) fn subject(resource: u32) -> Subject {
    Subject(u64::from(resource))
}

fn endpoint(spec: &FleetSpec, index: u32, epoch: u32, config: &Config) -> Endpoint {
    // A label for each life, so that no draw of one life shifts the next.
    let label = format!("fleet/endpoint/{epoch}");
    Endpoint::new(config.clone(), Stream::indexed(spec.seed, &label, index))
}
