//! Start of endpoints: sockets and tasks.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use carob_proto::codec::Scheme;
use carob_proto::tables::quota::QuotaPolicy;

use super::messages::Handle;
use super::service::MakeService;
use super::task;
use crate::config::Config;
use crate::descriptors;
use crate::error::OpenError;
#[cfg(feature = "dtls")]
use crate::transport::dtls::{self, DtlsLayer, DtlsOptions};
use crate::transport::socket::{Group, Socket};
use crate::transport::tcp::{Listener, StreamKind, StreamOptions, StreamTransport};
use crate::transport::udp::{DatagramTransport, Plain};

/// Opens a UDP socket and starts its task on the current runtime.
pub(crate) fn start(
    bind: Option<SocketAddr>,
    config: &Config,
    serve: Option<&dyn MakeService>,
) -> Result<Arc<Handle>, OpenError> {
    start_on(socket_at(bind, config)?, config, serve)
}

/// Opens sockets that share an address and port, and starts the task of each.
pub(crate) fn start_together(
    address: SocketAddr,
    count: usize,
    config: &Config,
    serve: &dyn MakeService,
) -> Result<Vec<Arc<Handle>>, OpenError> {
    let sockets = Socket::open_together(address, config.receive_buffer, count)
        .map_err(|source| OpenError::Bind { address, source })?;
    // Each of the sockets would receive multicast requests.
    let mut others = config.clone();
    others.groups.clear();
    let configs = std::iter::once(config).chain(std::iter::repeat(&others));
    sockets
        .into_iter()
        .zip(configs)
        .map(|(socket, config)| start_on(socket, config, Some(serve)))
        .collect()
}

fn socket_at(bind: Option<SocketAddr>, config: &Config) -> Result<Socket, OpenError> {
    match bind {
        Some(address) => Socket::open(address, config.receive_buffer)
            .map_err(|source| OpenError::Bind { address, source }),
        None => Socket::open_any(config.receive_buffer).map_err(|source| OpenError::Bind {
            address: (Ipv6Addr::UNSPECIFIED, 0).into(),
            source,
        }),
    }
}

/// Starts the task of an open UDP socket.
pub(crate) fn start_on(
    socket: Socket,
    config: &Config,
    serve: Option<&dyn MakeService>,
) -> Result<Arc<Handle>, OpenError> {
    let local = socket.local();
    // A client's endpoint joins no groups, even if its server does.
    let joined: &[Group] = if serve.is_some() { &config.groups } else { &[] };
    socket
        .set_groups(joined, &config.to_groups)
        .map_err(|source| OpenError::Groups {
            address: local,
            source,
        })?;
    let groups = joined.iter().map(Group::address).collect();
    let mut engine = config.engine_config();
    engine.groups = true;
    task::start(engine, config, serve, (Scheme::Coap, local), |seed| {
        DatagramTransport::new(socket, Plain::new(groups, seed))
    })
}

/// Opens a UDP socket for DTLS and starts its task; with `server`, sessions are accepted, too.
#[cfg(feature = "dtls")]
pub(crate) fn start_secured(
    bind: Option<SocketAddr>,
    config: &Config,
    server: Option<dtls::Server>,
    serve: Option<&dyn MakeService>,
) -> Result<Arc<Handle>, OpenError> {
    let socket = socket_at(bind, config)?;
    let local = socket.local();
    let mut engine = config.engine_config();
    engine.secured = true;
    let options = DtlsOptions {
        limits: config.sessions,
        sources: config.engine.limits.sources,
        dtls: config.dtls.clone(),
        tls: config.tls.clone(),
        server,
        on_failed: config.on_handshake_failed.clone(),
    };
    task::start(engine, config, serve, (Scheme::Coaps, local), |seed| {
        DatagramTransport::new(socket, DtlsLayer::new(options, seed))
    })
}

/// Starts the task of connections: those accepted by `listener`, and outgoing ones.
pub(crate) fn start_streams(
    kind: StreamKind,
    listener: Option<Listener>,
    config: &Config,
    serve: Option<&dyn MakeService>,
) -> Result<Arc<Handle>, OpenError> {
    let mut engine = config.engine_config();
    let mut sessions = config.sessions;
    let mut closing = None;
    // Outgoing connections get half of the descriptors, because the program needs others.
    let endpoints = listener.as_ref().map_or(2, |_| config.listeners);
    let handshakes = listener.is_some() && kind != StreamKind::Tcp;
    if let Some(share) = descriptors::share(endpoints, handshakes) {
        let connections = &mut engine.limits.connections;
        if *connections > share.connections {
            tracing::debug!(
                connections = share.connections,
                "fewer, as RLIMIT_NOFILE has it"
            );
        }
        *connections = share.connections.min(*connections);
        closing = Some(share.closing);
        sessions.handshakes = share.handshakes.min(sessions.handshakes);
    }
    let options = StreamOptions {
        kind,
        make_socket: config.make_socket.clone(),
        on_socket: config.on_socket.clone(),
        connect_timeout: config.connect_timeout,
        max_message: config.reliable.max_message_size as usize,
        #[cfg(feature = "tls")]
        tls: config.tls.clone(),
        sessions,
        quota_policy: QuotaPolicy::from(&engine.limits),
        sources: engine.limits.sources,
        unsent_bytes: engine.limits.unsent_bytes,
        on_failed: config.on_handshake_failed.clone(),
        closing,
    };
    let mut reliable = config.reliable.clone();
    // The transport decides the framing, whatever is configured.
    reliable.framing = kind.framing();
    engine.reliable = Some(reliable);
    let any = (Ipv6Addr::UNSPECIFIED, 0).into();
    let local = listener.as_ref().map_or(any, Listener::local);
    task::start(engine, config, serve, (kind.scheme(), local), |seed| {
        StreamTransport::new(&options, listener, seed)
    })
}

/// Starts a task whose transport fails once `fails` delivers the error.
#[cfg(test)]
pub(crate) fn start_failing(fails: tokio::sync::oneshot::Receiver<std::io::Error>) -> Arc<Handle> {
    use std::io;

    use carob_cc::time::Instant;
    use carob_proto::endpoint::Config as EngineConfig;

    use crate::transport::capture::Capture;
    use crate::transport::{Engine, Outbound, Transport, TransportCounts};

    struct Failing(tokio::sync::oneshot::Receiver<io::Error>, Silent);
    struct Silent;
    impl Outbound for Silent {
        fn is_full(&self) -> bool {
            false
        }
        fn transmit(&mut self, _: &mut Capture, _: Instant, _: SocketAddr, _: &[u8]) {}
    }
    impl Transport for Failing {
        fn outbound(&mut self) -> &mut impl Outbound {
            &mut self.1
        }
        async fn ready(&mut self) -> io::Result<()> {
            Err((&mut self.0).await.expect("it is sent"))
        }
        fn receive(&mut self, _: &mut impl Engine) -> bool {
            false
        }
        async fn flush(&mut self, _: &mut impl Engine) -> io::Result<()> {
            Ok(())
        }
        fn counts(&self) -> TransportCounts {
            TransportCounts::Datagrams { dropped: 0 }
        }
    }
    let local = (std::net::Ipv4Addr::LOCALHOST, 5683).into();
    let place = (Scheme::Coap, local);
    let config = Config::new();
    task::start(EngineConfig::default(), &config, None, place, |_| {
        Failing(fails, Silent)
    })
    .expect("the system has entropy")
}
