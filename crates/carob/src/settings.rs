//! What an endpoint is told before it starts.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carob_cc::profile::UnknownProfile;
use carob_cc::registry::UnknownController;
use carob_cc::{TransmissionParameters, TransmissionProfile};
use carob_proto::codec::{BlockSize, OptionNumber, Scheme};
use carob_proto::congestion::Choice;
use carob_proto::endpoint::{Config, Leisure, Reliable, Tracing};
use carob_proto::prefix::Prefix;
use carob_proto::trace::Trace;
use socket2::SockRef;

use crate::clock::TimeSource;
use crate::driver::PeerSettings;
use crate::driver::streams::{MakeSocket, OnSocket};
use crate::dtls::{ClientDtls, SessionLimits};
use crate::socket::{Group, RECEIVE_BUFFER, ToGroups};
use crate::tls::ClientTls;

/// Hears protocol events.
pub(crate) type OnTrace = Arc<Mutex<dyn FnMut(&Trace) + Send>>;

/// Sees datagrams.
pub(crate) type OnDatagram = Arc<Mutex<dyn FnMut(&Datagram<'_>) + Send>>;

/// A message on its way in or out, as [`Settings::on_datagram`] sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Datagram<'a> {
    /// When, since the endpoint was opened; on the same clock as [`Trace::at`].
    pub at: Duration,
    /// Whether it comes in.
    pub incoming: bool,
    /// The address of ours, as far as it is known.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// The CoAP message, well-formed or not. One that goes over a connection has the header of a
    /// NON with Message ID 0 in the place of its own (RFC 8323 3.2).
    pub bytes: &'a [u8],
    /// How it travels.
    pub scheme: Scheme,
}

/// Settings of an endpoint, be it a client's or a server's.
///
/// Parameters come from three places, the nearest first: the request, the peer, the endpoint.
#[derive(Clone)]
pub struct Settings {
    pub(crate) config: Config,
    pub(crate) parameters: Option<TransmissionParameters>,
    pub(crate) peers: Vec<PeerSettings>,
    pub(crate) receive_buffer: usize,
    pub(crate) groups: Vec<Group>,
    pub(crate) to_groups: ToGroups,
    pub(crate) on_trace: Option<OnTrace>,
    pub(crate) on_datagram: Option<OnDatagram>,
    pub(crate) reliable: Reliable,
    pub(crate) tls: ClientTls,
    pub(crate) dtls: ClientDtls,
    pub(crate) sessions: SessionLimits,
    /// Set if the user's word goes before the server's own.
    pub(crate) handlers: Option<usize>,
    pub(crate) connect_timeout: Duration,
    pub(crate) time_source: TimeSource,
    pub(crate) make_socket: Option<MakeSocket>,
    pub(crate) on_socket: Option<OnSocket>,
    /// Endpoints of the server that accept connections, among which file descriptors are shared.
    pub(crate) listeners: usize,
    /// Closed connections that may still have something to write, where descriptors limit them.
    pub(crate) closing: Option<usize>,
}

/// How long a connection may take to be made unless
/// [`Settings::connect_timeout`] says otherwise.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

impl Default for Settings {
    fn default() -> Self {
        Self {
            config: Config::default(),
            parameters: None,
            peers: Vec::new(),
            receive_buffer: RECEIVE_BUFFER,
            groups: Vec::new(),
            to_groups: ToGroups::default(),
            on_trace: None,
            on_datagram: None,
            reliable: {
                let mut reliable = Reliable::default();
                // Stacks in wide use send none over some transports or in some versions
                // (docs/interoperability.md), and nothing is lost by hearing them.
                reliable.csm_required = false;
                reliable
            },
            tls: ClientTls::default(),
            dtls: ClientDtls::default(),
            sessions: SessionLimits::default(),
            handlers: None,
            connect_timeout: CONNECT_TIMEOUT,
            time_source: TimeSource::default(),
            make_socket: None,
            on_socket: None,
            listeners: 0,
            closing: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("config", &self.config)
            .field("parameters", &self.parameters)
            .field("peers", &self.peers)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// The defaults: RFC 7252's controller and parameters, blocks of 1024 bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The controller of every peer that is not given its own.
    pub fn controller(mut self, choice: Choice) -> Self {
        self.config.controller = choice;
        self
    }

    /// The same, by its name in the registry.
    pub fn controller_named(self, name: &str) -> Result<Self, UnknownController<'_>> {
        Choice::named(name).map(|choice| self.controller(choice))
    }

    /// The transmission parameters of every peer that is not given its own.
    ///
    /// Without them they are RFC 7252's defaults with what the controller's profile suggests.
    pub fn parameters(mut self, parameters: TransmissionParameters) -> Self {
        self.parameters = Some(parameters);
        self
    }

    /// Changes single transmission parameters of every peer that is not given its own. The others stay
    /// those set before, or RFC 7252's defaults with what the controller suggests; so the controller or
    /// profile is set first.
    ///
    /// A DTLS handshake may take as long as a request.
    pub fn adjust_parameters(self, change: impl FnOnce(&mut TransmissionParameters)) -> Self {
        let mut parameters = self.transmission_parameters();
        change(&mut parameters);
        self.with_handshakes(parameters).parameters(parameters)
    }

    /// The transmission parameters of every peer that is not given its own.
    pub fn transmission_parameters(&self) -> TransmissionParameters {
        self.parameters
            .unwrap_or_else(|| match &self.config.controller {
                Choice::Registered(entry) => entry.suggested.apply(self.config.parameters),
                _ => self.config.parameters,
            })
    }

    /// Handshakes that may take as long as a request.
    fn with_handshakes(mut self, parameters: TransmissionParameters) -> Self {
        let handshake = &mut self.sessions.handshake_time;
        *handshake = (*handshake).max(parameters.max_transmit_wait().into());
        self
    }

    /// What a profile has for every peer that is not given its own: controller, parameters and the
    /// largest block, which is asked for in the first request already (RFC 7959 2.4). A DTLS handshake
    /// may take as long as a request. What is set after this goes over it.
    ///
    /// Handshakes need no timer of their own: the peer's controller times them, from ACK_TIMEOUT on.
    pub fn profile(mut self, profile: TransmissionProfile) -> Self {
        let parameters = profile.parameters();
        let bytes = usize::from(profile.block_bytes());
        self.config.controller = Choice::Registered(profile.controller());
        self.config.block_size = BlockSize::from_bytes_at_most(bytes).unwrap_or(BlockSize::MIN);
        self.config.negotiate_early = true;
        self.with_handshakes(parameters).parameters(parameters)
    }

    /// The same, by its name.
    pub fn profile_named(self, name: &str) -> Result<Self, UnknownProfile> {
        name.parse().map(|profile| self.profile(profile))
    }

    /// One peer's own profile: its controller and parameters. Blocks are the endpoint's.
    pub fn peer_profile(self, peer: SocketAddr, profile: TransmissionProfile) -> Self {
        let controller = Choice::Registered(profile.controller());
        self.peer(peer, Some(controller), Some(profile.parameters()))
    }

    /// One peer's own controller and parameters, where given.
    pub fn peer(
        mut self,
        peer: SocketAddr,
        controller: Option<Choice>,
        parameters: Option<TransmissionParameters>,
    ) -> Self {
        self.peers.push((peer, controller, parameters));
        self
    }

    /// The largest block to send or ask for. Default 1024 bytes.
    pub fn block_size(mut self, size: BlockSize) -> Self {
        self.config.block_size = size;
        self
    }

    /// The length of request tokens in bytes, 0 to 1024. Default 8.
    ///
    /// Those of more than 8 bytes (RFC 8974) go to peers that take them, which is found out: see
    /// [`Config::token_length`]. Other requests have tokens of 8 bytes.
    pub fn token_length(mut self, bytes: u16) -> Self {
        self.config.token_length = bytes;
        self
    }

    /// The number of the option that tells the copies of a request apart, for controllers that want
    /// to know which was answered, and for the servers that echo it
    /// (draft-ietf-core-fasor-02 4.4). Default 65052.
    ///
    /// It must be one that [can count](carob_proto::endpoint::can_count_retransmissions); any
    /// other, 0 say, is neither sent nor echoed.
    pub fn retransmission_count_option(mut self, number: OptionNumber) -> Self {
        self.config.retransmission_count_option = number;
        self
    }

    /// Whether sources with this prefix are held to three times the bytes of their datagrams until
    /// they have shown that they are where they say they are (RFC 7252 11.3, RFC 9175 2.4). Of
    /// several prefixes that an address has, the longest counts.
    ///
    /// By default global addresses are, loopback, link-local and private ones are not. What a
    /// response beyond that becomes, [`Config::amplification_limit`] says.
    pub fn amplification_limit(mut self, prefix: Prefix, on: bool) -> Self {
        self.config.amplification_limit.set(prefix, on);
        self
    }

    /// All peers whose addresses begin with this share one budget, in front of their controllers:
    /// their datagrams leave one by one, at a rate that follows the round-trip times and losses of all
    /// of them ([`carob_cc::aggregate`], a choice of this project). For peers behind one slow link. Of
    /// several prefixes that an address has, the longest counts; beyond
    /// [`AGGREGATES_MAX`](carob_proto::endpoint::AGGREGATES_MAX) they are ignored.
    ///
    /// It governs what this endpoint sends of its own: requests, notifications and separate
    /// responses; not piggybacked responses, and not connections.
    pub fn aggregate(mut self, behind: Prefix) -> Self {
        self.config.aggregates.push(behind);
        self
    }

    /// Whether several peers share a budget.
    pub(crate) fn has_aggregates(&self) -> bool {
        !self.config.aggregates.is_empty()
    }

    /// Changes any other setting of the engine: limits, early negotiation, the delay of empty ACKs.
    pub fn engine(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// The socket's receive buffer to ask the system for, in bytes. Default 4 MiB.
    ///
    /// A system's own default holds some 200 small datagrams; a burst of more is lost.
    pub fn receive_buffer(mut self, bytes: usize) -> Self {
        self.receive_buffer = bytes;
        self
    }

    /// Messages to groups leave by this interface, given by name or number. Default: the system's
    /// choice, which is that of the default route.
    pub fn group_interface(mut self, interface: impl Into<String>) -> Self {
        self.to_groups.interface = Some(interface.into());
        self
    }

    /// How many networks messages to groups may cross, ours included. Default: the system's, usually
    /// 1, so that no router hands them on.
    pub fn group_hops(mut self, hops: u8) -> Self {
        self.to_groups.hops = Some(hops);
        self
    }

    /// Who else is in a group that we are asked in, and so how long we wait before we answer
    /// (RFC 7252 8.2). Default: a random time up to DEFAULT_LEISURE, 5 s.
    pub fn leisure(mut self, leisure: Leisure) -> Self {
        self.config.leisure = leisure;
        self
    }

    /// Hears what becomes of exchanges: copies sent, answers, failures, duplicates. It must not
    /// block.
    pub fn on_trace(mut self, hear: impl FnMut(&Trace) + Send + 'static) -> Self {
        self.config.trace = Tracing::Exchanges;
        self.on_trace = Some(Arc::new(Mutex::new(hear)));
        self
    }

    /// Hears every protocol event: what [`on_trace`](Self::on_trace) hears, and each message that
    /// arrives or is sent in answer. It must not block.
    pub fn on_every_trace(mut self, hear: impl FnMut(&Trace) + Send + 'static) -> Self {
        self = self.on_trace(hear);
        self.config.trace = Tracing::Everything;
        self
    }

    /// Changes what is done with connections, over TCP, TLS and WebSocket: message sizes, the
    /// CSM, when they are closed (RFC 8323).
    ///
    /// Other than the engine's own defaults, these take a peer that sends no CSM for one that has
    /// nothing to say in it; `csm_required` aborts the connection, as RFC 8323 5.3 has it.
    pub fn connections(mut self, change: impl FnOnce(&mut Reliable)) -> Self {
        change(&mut self.reliable);
        self
    }

    /// How long a connection, with the handshakes of TLS and WebSocket, may take to be made.
    /// Default [`CONNECT_TIMEOUT`].
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Whom we trust over TLS, and who we are. Default: whom the system trusts, and nobody.
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = tls;
        self
    }

    /// How we prove who we are over DTLS, and whom we believe. Default: by certificates, as
    /// [`tls`](Self::tls) has them.
    pub fn dtls(mut self, dtls: ClientDtls) -> Self {
        self.dtls = dtls;
        self
    }

    /// How many DTLS sessions there may be, and for how long.
    pub fn sessions(mut self, limits: SessionLimits) -> Self {
        self.sessions = limits;
        self
    }

    /// What time is read from, that of the endpoint and that of its client's cache. Default: the
    /// system's clock that goes on in suspension.
    pub fn time_source(mut self, source: TimeSource) -> Self {
        self.time_source = source;
        self
    }

    /// Makes the sockets of our own connections like this, not yet connected: with options of their
    /// own, say, or in another network namespace. Both families must be served as asked.
    pub fn make_tcp_socket(
        mut self,
        make: impl Fn(SocketAddr) -> std::io::Result<std::net::TcpStream> + Send + Sync + 'static,
    ) -> Self {
        self.make_socket = Some(Arc::new(make));
        self
    }

    /// Sees the socket of each TCP connection, made or accepted, before anything is said on it: to
    /// set its options, say, or to read later how it fares from a copy of it.
    pub fn on_tcp_socket(
        mut self,
        see: impl Fn(SocketAddr, SockRef<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_socket = Some(Arc::new(see));
        self
    }

    /// Sees every datagram, and every message over a connection, for captures. It must not block.
    pub fn on_datagram(mut self, see: impl FnMut(&Datagram<'_>) + Send + 'static) -> Self {
        self.on_datagram = Some(Arc::new(Mutex::new(see)));
        self
    }

    /// The engine's settings, with the parameters in place.
    pub(crate) fn finished_config(&self) -> Config {
        let mut config = self.config.clone();
        config.parameters = self.transmission_parameters();
        config
    }
}
