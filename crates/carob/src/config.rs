//! Configuration of an endpoint and of single peers.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carob_cc::TransmissionParameters;
use carob_cc::registry::UnknownController;
use carob_proto::codec::{BlockSize, OptionNumber};
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::{Config as EngineConfig, Leisure, StreamConfig, Tracing};
use carob_proto::prefix::Prefix;
use carob_proto::trace::Trace;

use crate::clock::TimeSource;
use crate::transport::capture::{Datagram, OnDatagram};
#[cfg(feature = "dtls")]
use crate::transport::dtls::ClientDtls;
use crate::transport::handshake::{FailedHandshake, OnHandshakeFailed};
use crate::transport::limits::SessionLimits;
use crate::transport::socket::{Group, RECEIVE_BUFFER, ToGroups, canonical};
use crate::transport::tcp::{BorrowedSocket, MakeSocket, OnSocket};
#[cfg(any(feature = "dtls", feature = "tls"))]
use crate::transport::tls::ClientTls;

/// Receives protocol events.
pub(crate) type OnTrace = Arc<Mutex<dyn FnMut(&Trace) + Send>>;

/// Controller and transmission parameters of one peer. Omitted settings are the endpoint's.
///
/// ```
/// use carob::{Config, PeerConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let peer = "192.0.2.1:5683".parse()?;
/// let slow = PeerConfig::new().controller_named("cocoa-plus")?;
/// let config = Config::new().peer(peer, slow);
/// # let _ = config;
/// # Ok(())
/// # }
/// ```
///
/// [`Config::peer`] applies it from the start, [`Client::set_peer`](crate::Client::set_peer) to a
/// running client.
#[derive(Clone, Debug, Default)]
pub struct PeerConfig {
    pub(crate) controller: Option<CongestionControl>,
    pub(crate) parameters: Option<TransmissionParameters>,
}

impl PeerConfig {
    /// Creates a configuration that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the congestion controller.
    pub fn controller(mut self, controller: CongestionControl) -> Self {
        self.controller = Some(controller);
        self
    }

    /// Sets the congestion controller by its name in the registry ([`carob_cc::registry`]), such as
    /// `cocoa-plus`.
    ///
    /// # Errors
    ///
    /// [`UnknownController`]; its text suggests similar names.
    pub fn controller_named(self, name: &str) -> Result<Self, UnknownController<'_>> {
        Ok(self.controller(CongestionControl::named(name)?))
    }

    /// Sets the transmission parameters (RFC 7252 section 4.8). Default: the endpoint's, or if
    /// it has none, RFC 7252's with the changes that the controller suggests.
    pub fn parameters(mut self, parameters: TransmissionParameters) -> Self {
        self.parameters = Some(parameters);
        self
    }

    /// Changes some of the transmission parameters set before, or else of RFC 7252's with
    /// the changes that the controller suggests. Call it after a controller is set.
    ///
    /// ```
    /// use carob::PeerConfig;
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let satellite = PeerConfig::new()
    ///     .controller_named("carob")?
    ///     .adjust_parameters(|parameters| parameters.ack_timeout = Duration::from_secs(4).into());
    /// # let _ = satellite;
    /// # Ok(())
    /// # }
    /// ```
    pub fn adjust_parameters(self, change: impl FnOnce(&mut TransmissionParameters)) -> Self {
        let mut parameters = (self.parameters).unwrap_or_else(|| {
            suggested(self.controller.as_ref(), TransmissionParameters::DEFAULT)
        });
        change(&mut parameters);
        self.parameters(parameters)
    }
}

/// The parameters with the changes that the controller suggests, if there are any.
fn suggested(
    controller: Option<&CongestionControl>,
    parameters: TransmissionParameters,
) -> TransmissionParameters {
    match controller {
        Some(CongestionControl::Registered(entry)) => entry.suggested.apply(parameters),
        _ => parameters,
    }
}

/// Configuration of an endpoint: of a client, of a server, or of one side of a proxy.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::server::fixed;
/// use carob::{BlockSize, Client, Config, Server};
///
/// let config = Config::new()
///     .controller_named("carob")?
///     .block_size(BlockSize::from_bytes_at_most(512).unwrap())
///     .limit("peers", 100)?;
/// let server = Server::builder()
///     .bind("127.0.0.1:0")
///     .config(config.clone())
///     .resource("/hello", fixed("hello"))
///     .start()
///     .await?;
/// let client = Client::builder().config(config).open()?;
/// let reply = client.get(format!("coap://{}/hello", server.local_address())).await?;
/// assert_eq!(reply.text(), Some("hello"));
/// # Ok(())
/// # }
/// ```
///
/// Transmission parameters of a request take precedence over those of its peer, and these over
/// the endpoint's.
///
/// | group | methods |
/// |---|---|
/// | congestion control | [`controller_named`](Self::controller_named), [`parameters`](Self::parameters), [`peer`](Self::peer), [`aggregate`](Self::aggregate) |
/// | messages | [`block_size`](Self::block_size), [`token_length`](Self::token_length), [`leisure`](Self::leisure) |
/// | limits | [`limit`](Self::limit), [`sessions`](Self::sessions), [`limit_amplification`](Self::limit_amplification) |
/// | security | [`dtls`](#method.dtls), [`tls`](#method.tls) |
/// | sockets | [`receive_buffer`](Self::receive_buffer), [`connections`](Self::connections), [`connect_timeout`](Self::connect_timeout) |
/// | observation | [`on_trace`](Self::on_trace), [`on_datagram`](Self::on_datagram), [`on_handshake_failed`](Self::on_handshake_failed) |
///
/// [`dtls`](#method.dtls) and [`tls`](#method.tls) need the features of the same name.
#[derive(Clone)]
pub struct Config {
    pub(crate) engine: EngineConfig,
    pub(crate) parameters: Option<TransmissionParameters>,
    pub(crate) peers: Vec<(SocketAddr, PeerConfig)>,
    pub(crate) receive_buffer: usize,
    pub(crate) groups: Vec<Group>,
    pub(crate) to_groups: ToGroups,
    pub(crate) on_trace: Option<OnTrace>,
    pub(crate) on_datagram: Option<OnDatagram>,
    pub(crate) reliable: StreamConfig,
    #[cfg(any(feature = "dtls", feature = "tls"))]
    pub(crate) tls: ClientTls,
    #[cfg(feature = "dtls")]
    pub(crate) dtls: ClientDtls,
    pub(crate) on_handshake_failed: Option<OnHandshakeFailed>,
    pub(crate) sessions: SessionLimits,
    /// Explicit limit on handlers, which overrides the server's.
    pub(crate) handlers: Option<usize>,
    pub(crate) connect_timeout: Duration,
    pub(crate) time_source: TimeSource,
    pub(crate) make_socket: Option<MakeSocket>,
    pub(crate) on_socket: Option<OnSocket>,
    /// Endpoints of the server that accept connections, among which file descriptors are shared.
    pub(crate) listeners: usize,
}

/// Default of [`Config::connect_timeout`]: 30 s.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

impl Default for Config {
    fn default() -> Self {
        Self {
            engine: EngineConfig::default(),
            parameters: None,
            peers: Vec::new(),
            receive_buffer: RECEIVE_BUFFER,
            groups: Vec::new(),
            to_groups: ToGroups::default(),
            on_trace: None,
            on_datagram: None,
            reliable: {
                let mut reliable = StreamConfig::default();
                // Stacks in wide use send none over some transports or in some versions
                // (docs/evidence/interoperability.md), and nothing is lost by hearing them.
                reliable.csm_required = false;
                reliable
            },
            #[cfg(any(feature = "dtls", feature = "tls"))]
            tls: ClientTls::default(),
            #[cfg(feature = "dtls")]
            dtls: ClientDtls::default(),
            on_handshake_failed: None,
            sessions: SessionLimits::default(),
            handlers: None,
            connect_timeout: CONNECT_TIMEOUT,
            time_source: TimeSource::default(),
            make_socket: None,
            on_socket: None,
            listeners: 0,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("config", &self.engine)
            .field("parameters", &self.parameters)
            .field("peers", &self.peers)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Returns the default configuration: controller and parameters of RFC 7252, blocks of 1024
    /// bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the congestion controller for all peers without their own. Default: `default`, as in
    /// RFC 7252.
    pub fn controller(mut self, choice: CongestionControl) -> Self {
        self.engine.controller = choice;
        self
    }

    /// Sets the congestion controller by its name, such as `cocoa-plus` or `fasor`.
    /// [`carob_cc::registry`] has the names, and `carob cc list` prints them.
    ///
    /// # Errors
    ///
    /// [`UnknownController`]; its text suggests similar names.
    pub fn controller_named(self, name: &str) -> Result<Self, UnknownController<'_>> {
        CongestionControl::named(name).map(|choice| self.controller(choice))
    }

    /// Sets the transmission parameters for all peers without their own (RFC 7252 section 4.8).
    /// Default: RFC 7252's, with the changes that the controller suggests.
    pub fn parameters(mut self, parameters: TransmissionParameters) -> Self {
        self.parameters = Some(parameters);
        self
    }

    /// Changes some of the [`transmission_parameters`](Self::transmission_parameters), for all
    /// peers without their own. Call it after a controller is set.
    ///
    /// If MAX_TRANSMIT_WAIT exceeds the limit on the duration of a DTLS handshake, that limit is
    /// raised to it.
    ///
    /// ```
    /// use carob::Config;
    /// use std::time::Duration;
    ///
    /// let config = Config::new().adjust_parameters(|parameters| {
    ///     parameters.ack_timeout = Duration::from_millis(500).into();
    ///     parameters.nstart = 4;
    /// });
    /// assert_eq!(config.transmission_parameters().max_retransmit, 4);
    /// ```
    pub fn adjust_parameters(self, change: impl FnOnce(&mut TransmissionParameters)) -> Self {
        let mut parameters = self.transmission_parameters();
        change(&mut parameters);
        self.with_handshakes(parameters).parameters(parameters)
    }

    /// Returns the transmission parameters for all peers without their own.
    pub fn transmission_parameters(&self) -> TransmissionParameters {
        self.parameters
            .unwrap_or_else(|| suggested(Some(&self.engine.controller), self.engine.parameters))
    }

    /// Returns the configuration of a peer with the parameters that its controller suggests, unless
    /// parameters are set for the peer or the endpoint.
    pub(crate) fn of_peer(&self, own: &PeerConfig) -> PeerConfig {
        let mut own = own.clone();
        if own.controller.is_some() && own.parameters.is_none() && self.parameters.is_none() {
            own.parameters = Some(suggested(own.controller.as_ref(), self.engine.parameters));
        }
        own
    }

    /// Raises the limit on the duration of a DTLS handshake to MAX_TRANSMIT_WAIT.
    fn with_handshakes(mut self, parameters: TransmissionParameters) -> Self {
        let handshake = &mut self.sessions.handshake_time;
        *handshake = (*handshake).max(parameters.max_transmit_wait().into());
        self
    }

    /// Sets the controller and the parameters of one peer.
    pub fn peer(mut self, peer: SocketAddr, config: PeerConfig) -> Self {
        self.peers.push((canonical(peer), config));
        self
    }

    /// Sets the largest block to send or to request (RFC 7959). Default: 1024 bytes.
    pub fn block_size(mut self, size: BlockSize) -> Self {
        self.engine.block_size = size;
        self
    }

    /// Sets the length of request tokens in bytes, 0 to 1024. Default: 8.
    ///
    /// Tokens longer than 8 bytes (RFC 8974) are used with peers that support them, which is
    /// detected ([`token_length`](EngineConfig::token_length)). Other requests have tokens of 8
    /// bytes.
    pub fn token_length(mut self, bytes: u16) -> Self {
        self.engine.token_length = bytes;
        self
    }

    /// Sets the number of the option that distinguishes the transmissions of a request, for
    /// controllers that use it and for servers that echo it (draft-ietf-core-fasor-02 section 4.4).
    /// Default: 65052.
    ///
    /// A number that [is not suitable](carob_proto::endpoint::can_count_retransmissions), such as
    /// 0, disables the option.
    pub fn retransmission_count_option(mut self, number: OptionNumber) -> Self {
        self.engine.retransmission_count_option = number;
        self
    }

    /// Applies the anti-amplification limit (RFC 7252 section 11.3, RFC 9175 section 2.4) to
    /// addresses with this prefix: an unvalidated address is sent at most three times the bytes
    /// that it sent. The longest matching prefix applies.
    ///
    /// Default: global addresses are limited; loopback, link-local and private ones are not.
    /// [`amplification_limit`](EngineConfig::amplification_limit) describes responses beyond the
    /// limit.
    pub fn limit_amplification(mut self, prefix: Prefix) -> Self {
        self.engine.amplification_limit.set(prefix, true);
        self
    }

    /// Exempts addresses with this prefix from the anti-amplification limit, for networks that
    /// filter forged source addresses. See [`limit_amplification`](Self::limit_amplification).
    pub fn exempt_from_amplification_limit(mut self, prefix: Prefix) -> Self {
        self.engine.amplification_limit.set(prefix, false);
        self
    }

    /// Groups all peers with this address prefix behind one bottleneck, for peers that share a slow
    /// link. *Non-standard.*
    ///
    /// In addition to the controller of each peer, the messages to the group leave one by one, at a
    /// rate that follows the round-trip times and losses of the whole group
    /// ([`carob_cc::bottleneck_group`]). The longest matching prefix applies. Prefixes beyond the first
    /// 64 are ignored.
    ///
    /// The rate applies to requests, notifications and separate responses, not to piggybacked
    /// responses and not to connections.
    pub fn aggregate(mut self, behind: Prefix) -> Self {
        self.engine.aggregates.push(behind);
        self
    }

    /// Returns whether several peers share a budget.
    pub(crate) fn has_aggregates(&self) -> bool {
        !self.engine.aggregates.is_empty()
    }

    /// Changes any setting of the protocol engine ([`EngineConfig`]), such as its limits, early
    /// block size negotiation, or the delay of empty ACKs.
    pub fn engine(mut self, change: impl FnOnce(&mut EngineConfig)) -> Self {
        change(&mut self.engine);
        self
    }

    /// Sets the receive buffer of UDP sockets to request from the system, in bytes. Default: 4 MiB.
    ///
    /// The default of a system holds about 200 small datagrams; further ones of a burst are lost.
    pub fn receive_buffer(mut self, bytes: usize) -> Self {
        self.receive_buffer = bytes;
        self
    }

    /// Sets the interface for outgoing multicast messages, by name or index. Default: the interface of the
    /// default route.
    pub fn group_interface(mut self, interface: impl Into<String>) -> Self {
        self.to_groups.interface = Some(interface.into());
        self
    }

    /// Sets the hop limit of outgoing multicast messages. Default: the system's, usually 1
    /// (the local network).
    pub fn group_hops(mut self, hops: u8) -> Self {
        self.to_groups.hops = Some(hops);
        self
    }

    /// Sets the leisure for multicast responses, from knowledge about the group (RFC 7252 section
    /// 8.2). Default: a random time up to DEFAULT_LEISURE, 5 s.
    pub fn leisure(mut self, leisure: Leisure) -> Self {
        self.engine.leisure = leisure;
        self
    }

    /// Sets a callback for the protocol events of exchanges: transmissions, responses, failures,
    /// duplicates. The callback runs in the endpoint's task and must not block.
    ///
    /// ```
    /// use carob::Config;
    ///
    /// let config = Config::new().on_trace(|event| println!("{event:?}"));
    /// # let _ = config;
    /// ```
    pub fn on_trace(mut self, hear: impl FnMut(&Trace) + Send + 'static) -> Self {
        self.engine.trace = Tracing::Exchanges;
        self.on_trace = Some(Arc::new(Mutex::new(hear)));
        self
    }

    /// Sets a callback for all protocol events: the events of [`on_trace`](Self::on_trace), and every
    /// message received or sent in response. It must not block.
    pub fn on_every_trace(mut self, hear: impl FnMut(&Trace) + Send + 'static) -> Self {
        self = self.on_trace(hear);
        self.engine.trace = Tracing::Everything;
        self
    }

    /// Changes the settings of TCP, TLS and WebSocket connections (RFC 8323): message sizes, CSM,
    /// idle time.
    ///
    /// Unlike the engine's default, a peer without a CSM is accepted; `csm_required` aborts its
    /// connection (RFC 8323 section 5.3).
    pub fn connections(mut self, change: impl FnOnce(&mut StreamConfig)) -> Self {
        change(&mut self.reliable);
        self
    }

    /// Sets the timeout for the establishment of a connection, TLS and WebSocket handshakes
    /// included. Default: [`CONNECT_TIMEOUT`].
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets the trust anchors and the client certificate for TLS and, unless [`dtls`](Self::dtls)
    /// is set, for DTLS. Default: the trust anchors of the system, no client certificate.
    #[cfg(any(feature = "dtls", feature = "tls"))]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = tls;
        self
    }

    /// Sets the client credentials for DTLS. Default: certificates as set by [`tls`](Self::tls).
    #[cfg(feature = "dtls")]
    pub fn dtls(mut self, dtls: ClientDtls) -> Self {
        self.dtls = dtls;
        self
    }

    /// Sets the limits on DTLS sessions and on handshakes.
    pub fn sessions(mut self, limits: SessionLimits) -> Self {
        self.sessions = limits;
        self
    }

    /// Sets the clock of the endpoint and of the client's cache. Default: [`TimeSource::System`].
    pub fn time_source(mut self, source: TimeSource) -> Self {
        self.time_source = source;
        self
    }

    /// Sets the function that creates the sockets of outgoing TCP connections, for example with
    /// socket options or in another network namespace. It gets the peer's address and returns an
    /// unconnected socket of its address family.
    pub fn make_tcp_socket(
        mut self,
        make: impl Fn(SocketAddr) -> std::io::Result<std::net::TcpStream> + Send + Sync + 'static,
    ) -> Self {
        self.make_socket = Some(Arc::new(make));
        self
    }

    /// Sets a callback for the socket of each TCP connection, outgoing or accepted. It runs with
    /// the peer's address before the first byte, for example to set socket options or to duplicate
    /// the socket for statistics.
    pub fn on_tcp_socket(
        mut self,
        see: impl Fn(SocketAddr, BorrowedSocket<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_socket = Some(Arc::new(see));
        self
    }

    /// Sets a callback for handshakes with clients that fail, of DTLS, TLS and WebSocket: a wrong key, an unknown
    /// identity, an untrusted certificate. It must not block.
    ///
    /// ```
    /// use carob::Config;
    ///
    /// let config = Config::new()
    ///     .on_handshake_failed(|failed| println!("{} {}", failed.peer, failed.reason));
    /// # let _ = config;
    /// ```
    pub fn on_handshake_failed(
        mut self,
        hear: impl Fn(&FailedHandshake<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_handshake_failed = Some(Arc::new(hear));
        self
    }

    /// Sets a callback for every datagram, and every message over a connection, for packet
    /// captures. It must not block.
    pub fn on_datagram(mut self, see: impl FnMut(&Datagram<'_>) + Send + 'static) -> Self {
        self.on_datagram = Some(Arc::new(Mutex::new(see)));
        self
    }

    /// The engine's settings, with the parameters in place.
    pub(crate) fn engine_config(&self) -> EngineConfig {
        let mut config = self.engine.clone();
        config.parameters = self.transmission_parameters();
        config
    }
}
