//! The one task that owns a transport and its engine: a UDP socket, or connections.
//!
//! It keeps the engine's law: after every input it drains [`Endpoint::poll`] until that says
//! `Wait`; only what comes in while a crowd of observers is told something has its turn between.
//! Applications talk to it through two queues: commands, bounded, whose senders wait; and
//! notes, of which every request and every handler under way has at most a few out, so that the
//! limits on those bound them too. Nothing an application does can block it: handlers run in
//! tasks of their own, and only fixed content is answered in here.

mod alarm;
mod core;
mod datagrams;
pub(crate) mod dtls;
mod ears;
mod handshake_work;
#[cfg(feature = "metrics")]
mod published;
#[cfg(not(feature = "metrics"))]
#[path = "unpublished.rs"]
mod published;
mod requests;
mod serving;
mod shared;
mod sources;
mod spans;
pub(crate) mod streams;
mod updates;
mod views;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use carob_cc::TransmissionParameters;
use carob_cc::controller::Gauge;
use carob_cc::time::Instant;
use carob_proto::codec::Scheme;
use carob_proto::congestion::Choice;
use carob_proto::endpoint::{Config, Endpoint, IncomingId, Snapshot, Subject, Tracing, Usage};
use carob_proto::keyed_hash::KeyedState;
use carob_proto::message::Response;
use carob_proto::shares::Source;
use futures_util::future::try_join_all;
use hashbrown::HashMap;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::{Clock, Entropy};
use crate::descriptors;
use crate::dtls::PeerIdentity;
use crate::error::OpenError;
use crate::server::{Notifier, Router};
use crate::settings::Settings;
use crate::socket::{Group, Socket};

use alarm::Alarm;
use core::{Core, Out};
use datagrams::Datagrams;
use dtls::Secured;
use ears::Ears;
use published::Published;
pub(crate) use requests::{
    Failed, NewGathering, NewRequest, Observing, Ping, Received, ReplyTo, Why,
};
use serving::Serving;
pub(crate) use serving::{PartOf, UploadKey};
use spans::Spans;
use streams::Streams;
pub(crate) use updates::{Heard, Updates};

/// Commands waiting for the driver; at the limit, senders wait.
const COMMANDS: usize = 1_024;
/// Batches taken from the transport before commands and timers have their turn.
const BATCHES_A_TURN: usize = 8;
/// Commands, and notes, taken before the transport has its turn.
const COMMANDS_A_TURN: usize = 256;

/// A peer with its own controller and parameters.
pub(crate) type PeerSettings = (SocketAddr, Option<Choice>, Option<TransmissionParameters>);

/// What applications ask for; senders wait while [`COMMANDS`] are waiting.
pub(crate) enum Command {
    Request(Box<NewRequest>),
    Gather(Box<NewGathering>),
    Ping(Ping),
    SetPeer(Box<PeerSettings>),
    Gauges(
        SocketAddr,
        oneshot::Sender<Option<Vec<(&'static str, Gauge)>>>,
    ),
    Snapshot(SocketAddr, oneshot::Sender<Option<Snapshot>>),
    Identity(SocketAddr, oneshot::Sender<Option<Arc<PeerIdentity>>>),
    Peers(oneshot::Sender<Vec<SocketAddr>>),
    Usage(oneshot::Sender<Usage>),
    ShutDown {
        limit: Duration,
        done: oneshot::Sender<Finish>,
    },
}

/// What requests and handlers under way have to say.
pub(crate) enum Note {
    /// Nobody waits for this request any more. At most one for a request.
    Cancel(u64),
    /// An observation is to be given back. At most one for a request.
    StopObserving(u64),
    /// More of a request's body. At most one for each `Starved`.
    Supply {
        ticket: u64,
        bytes: Bytes,
        last: bool,
    },
    /// A part of a response's body was taken. At most as many as there were parts.
    ReadOn(u64),
    /// The answer to a request. One for each.
    Respond(IncomingId, Response),
    /// A request that was taken for an observer's is not. At most one for each, before its answer.
    Unobserve(IncomingId),
    /// Something observable has changed. One at a time for each notifier.
    Changed(Notifier, usize),
    /// What the observers of a view are to be told. One for each call of its handler.
    View(Subject, Response),
    /// A handler has ended, called for a request of this source. One for each.
    HandlerDone(Source, Option<UploadKey>),
}

/// How an endpoint ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// Everything under way was finished.
    Complete,
    /// Time ran out: these were cut off.
    CutOff {
        /// Requests received and not answered, their handlers still running.
        handlers: usize,
        /// Requests of ours without a response.
        requests: usize,
        /// Messages of ours without an acknowledgement.
        exchanges: usize,
    },
}

/// The way to a driver.
#[derive(Debug)]
pub(crate) struct Handle {
    commands: mpsc::Sender<Command>,
    pub(crate) notes: mpsc::UnboundedSender<Note>,
    next_ticket: AtomicU64,
    local: SocketAddr,
    ended: watch::Receiver<Ended>,
}

/// The end of a driver; `None` while it runs.
type Ended = Option<Result<(), Arc<io::Error>>>;

/// Waits until a driver has ended. Error: the one that ended it.
async fn until_ended(mut ended: watch::Receiver<Ended>) -> io::Result<()> {
    match ended.wait_for(Option::is_some).await.as_deref() {
        Ok(Some(Err(error))) => Err(match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.kind(), Arc::clone(error)),
        }),
        Ok(_) => Ok(()),
        Err(_) => Err(io::Error::other("the driver of a socket panicked")),
    }
}

/// Waits until all of these drivers have ended, or one of them with an error.
pub(crate) async fn all_ended(handles: Vec<Arc<Handle>>) -> io::Result<()> {
    let ended: Vec<_> = handles.iter().map(|handle| handle.ended.clone()).collect();
    drop(handles);
    try_join_all(ended.into_iter().map(until_ended)).await?;
    Ok(())
}

impl Handle {
    pub(crate) fn ticket(&self) -> u64 {
        self.next_ticket.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Hands a command over; false if the driver has stopped.
    pub(crate) async fn command(&self, command: Command) -> bool {
        self.commands.send(command).await.is_ok()
    }

    /// Asks a question; nothing if the driver has stopped.
    pub(crate) async fn ask<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.commands.send(ask(sender)).await.ok()?;
        receiver.await.ok()
    }
}

/// How messages come and go.
trait Transport: Send {
    /// What takes what the engine sends.
    fn out(&mut self) -> &mut impl Out;
    /// Waits until there is something to receive. It may be dropped and called again.
    fn ready(&mut self) -> impl Future<Output = io::Result<()>> + Send;
    /// Takes one batch of what has come; whether there may be more.
    fn receive(&mut self, core: &mut Core) -> bool;
    /// Sends what there is to send.
    fn flush(&mut self, core: &mut Core) -> impl Future<Output = io::Result<()>> + Send;
    /// When it has something to do by itself.
    fn deadline(&self) -> Option<Instant> {
        None
    }
    /// Does it.
    fn pass(&mut self, _core: &mut Core, _now: Instant) {}
    /// Puts its last words where they are sent from.
    fn end(&mut self) {}
    /// What it has done, and holds.
    fn counts(&self) -> TransportCounts;
}

/// What is published of a driver besides its engine.
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nobody is told"))]
#[derive(Clone, Copy, Debug)]
struct Load {
    handlers: usize,
    handlers_limit: usize,
    commands: usize,
    notes: usize,
    transport: TransportCounts,
}

/// What a transport has done so far, and holds now.
#[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nobody is told"))]
#[derive(Clone, Copy, Debug)]
enum TransportCounts {
    /// Datagrams.
    Datagrams {
        /// Those that the system dropped because there was no room for them.
        dropped: u64,
    },
    /// Datagrams that are secured.
    Secured {
        dropped: u64,
        sessions: usize,
        handshakes: usize,
        /// Handshakes that led to a session, and those that did not.
        done: u64,
        failed: u64,
        /// Clients that were asked to show where they are.
        cookies: u64,
        /// Handshakes that were not begun because there were too many.
        refused: u64,
        /// The limits on sessions and handshakes.
        limits: (usize, usize),
    },
    /// Connections.
    Streams {
        accepted: u64,
        refused: u64,
        made: u64,
        failed: u64,
    },
}

/// Opens the socket and starts its driver on the current runtime.
pub(crate) fn start(
    bind: Option<SocketAddr>,
    settings: &Settings,
    serve: Option<(Arc<Router>, usize)>,
) -> Result<Arc<Handle>, OpenError> {
    start_on(socket_at(bind, settings)?, settings, serve)
}

/// Opens sockets that share an address and port, and starts the driver of each.
pub(crate) fn start_together(
    address: SocketAddr,
    count: usize,
    settings: &Settings,
    serve: (&Arc<Router>, usize),
) -> Result<Vec<Arc<Handle>>, OpenError> {
    let sockets = Socket::open_together(address, settings.receive_buffer, count)
        .map_err(|source| OpenError::Bind { address, source })?;
    // What is sent to a group comes to all of them.
    let mut others = settings.clone();
    others.groups.clear();
    let settings = std::iter::once(settings).chain(std::iter::repeat(&others));
    sockets
        .into_iter()
        .zip(settings)
        .map(|(socket, settings)| {
            let (router, handlers) = serve;
            start_on(socket, settings, Some((Arc::clone(router), handlers)))
        })
        .collect()
}

fn socket_at(bind: Option<SocketAddr>, settings: &Settings) -> Result<Socket, OpenError> {
    match bind {
        Some(address) => Socket::open(address, settings.receive_buffer)
            .map_err(|source| OpenError::Bind { address, source }),
        None => Socket::open_any(settings.receive_buffer).map_err(|source| OpenError::Bind {
            address: (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
            source,
        }),
    }
}

/// Starts the driver of a socket that is there.
pub(crate) fn start_on(
    socket: Socket,
    settings: &Settings,
    serve: Option<(Arc<Router>, usize)>,
) -> Result<Arc<Handle>, OpenError> {
    let local = socket.local();
    // A client's endpoint is in no group, even if its server is.
    let joined: &[Group] = if serve.is_some() {
        &settings.groups
    } else {
        &[]
    };
    socket
        .set_groups(joined, &settings.to_groups)
        .map_err(|source| OpenError::Groups {
            address: local,
            source,
        })?;
    let groups = joined.iter().map(Group::address).collect();
    let mut config = settings.finished_config();
    config.groups = true;
    run(config, settings, serve, (Scheme::Coap, local), |seed| {
        Datagrams::new(socket, groups, seed)
    })
}

/// Starts the driver of a UDP socket whose datagrams are secured; with `server`, for those who come,
/// too.
pub(crate) fn start_secured(
    bind: Option<SocketAddr>,
    settings: &Settings,
    server: Option<dtls::Server>,
    serve: Option<(Arc<Router>, usize)>,
) -> Result<Arc<Handle>, OpenError> {
    let socket = socket_at(bind, settings)?;
    let local = socket.local();
    let mut config = settings.finished_config();
    config.secured = true;
    run(config, settings, serve, (Scheme::Coaps, local), |seed| {
        Secured::new(socket, settings, server, seed)
    })
}

/// Starts the driver of connections, with those who come to `listener` and those it makes itself.
pub(crate) fn start_streams(
    kind: streams::Kind,
    listener: Option<streams::Listener>,
    settings: &Settings,
    serve: Option<(Arc<Router>, usize)>,
) -> Result<Arc<Handle>, OpenError> {
    let mut settings = settings.clone();
    // A client's own connections get half of what there is: its program needs others.
    let endpoints = listener.as_ref().map_or(2, |_| settings.listeners);
    if let Some(share) =
        descriptors::share(endpoints, listener.is_some() && kind != streams::Kind::Tcp)
    {
        let connections = &mut settings.config.limits.connections;
        if *connections > share.connections {
            tracing::debug!(
                connections = share.connections,
                "fewer, as RLIMIT_NOFILE has it"
            );
        }
        *connections = share.connections.min(*connections);
        settings.closing = Some(share.closing);
        let handshakes = &mut settings.sessions.handshakes;
        *handshakes = share.handshakes.min(*handshakes);
    }
    let settings = &settings;
    let mut config = settings.finished_config();
    let mut reliable = settings.reliable.clone();
    reliable.framing = kind.framing();
    config.reliable = Some(reliable);
    let any = (std::net::Ipv6Addr::UNSPECIFIED, 0).into();
    let local = listener.as_ref().map_or(any, streams::Listener::local);
    run(config, settings, serve, (kind.scheme(), local), |seed| {
        Streams::new(kind, listener, settings, seed)
    })
}

/// Stops several endpoints at once; what the worst of them says.
pub(crate) async fn shut_down_all(handles: Vec<Arc<Handle>>, limit: Duration) -> Finish {
    let mut asked = Vec::with_capacity(handles.len());
    for handle in handles {
        let (done, ended) = oneshot::channel();
        if handle.command(Command::ShutDown { limit, done }).await {
            asked.push(ended);
        }
    }
    let mut finish = Finish::Complete;
    for ended in asked {
        let ended = ended.await.unwrap_or(Finish::Complete);
        finish = match (finish, ended) {
            (Finish::Complete, ended) => ended,
            (finish, Finish::Complete) => finish,
            (
                Finish::CutOff {
                    handlers: a,
                    requests: b,
                    exchanges: c,
                },
                Finish::CutOff {
                    handlers,
                    requests,
                    exchanges,
                },
            ) => Finish::CutOff {
                handlers: a + handlers,
                requests: b + requests,
                exchanges: c + exchanges,
            },
        };
    }
    finish
}

fn run<T: Transport + 'static>(
    mut config: Config,
    settings: &Settings,
    serve: Option<(Arc<Router>, usize)>,
    (scheme, local): (Scheme, SocketAddr),
    transport: impl FnOnce(u64) -> T,
) -> Result<Arc<Handle>, OpenError> {
    let mut entropy = Entropy::from_system().map_err(OpenError::Entropy)?;
    let seed = entropy.next_u64();
    let spans = Spans::if_wanted(seed);
    if spans.is_some() && config.trace == Tracing::Off {
        config.trace = Tracing::Exchanges;
    }
    let controller = config.controller.name();
    let mut endpoint = Endpoint::new(config, entropy);
    for (peer, controller, parameters) in &settings.peers {
        endpoint.set_peer(*peer, controller.clone(), *parameters);
    }
    let (commands, command_queue) = mpsc::channel(COMMANDS);
    let (notes, note_queue) = mpsc::unbounded_channel();
    let serving = serve.map(|(router, handlers)| {
        if router.has_uploads() {
            endpoint.deliver_by(router.delivery());
        }
        Serving::new(router, handlers, notes.clone(), (scheme, local), seed)
    });
    let ears = Ears {
        trace: settings.on_trace.clone(),
        datagram: settings.on_datagram.clone(),
        spans,
        local,
        scheme,
        pieces: HashMap::with_hasher(KeyedState::with_seed(seed)),
    };
    let (ending, ended) = watch::channel(None);
    let driver = Driver {
        ending,
        published: Published::new(scheme.name(), controller),
        core: Core::new(
            Clock::start(settings.time_source),
            endpoint,
            serving,
            ears,
            seed,
        ),
        transport: transport(seed),
        commands: command_queue,
        notes: note_queue,
        local,
    };
    tokio::spawn(driver.run());
    Ok(Arc::new(Handle {
        commands,
        notes,
        next_ticket: AtomicU64::new(0),
        local,
        ended,
    }))
}

/// Lets the tasks run that wait for this worker. `tokio::task::yield_now` would leave the driver to it,
/// too, until all of them have: one that blocks its worker would block the driver. So another may take it.
async fn let_others_run() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

struct Driver<T> {
    ending: watch::Sender<Ended>,
    published: Published,
    core: Core,
    transport: T,
    commands: mpsc::Receiver<Command>,
    notes: mpsc::UnboundedReceiver<Note>,
    local: SocketAddr,
}

impl<T: Transport> Driver<T> {
    async fn run(mut self) {
        let ended = self.serve().await;
        if let Err(error) = &ended {
            tracing::error!(%error, local = %self.local, "the socket is unusable");
        }
        self.publish();
        self.ending.send_replace(Some(ended.map_err(Arc::new)));
    }

    async fn serve(&mut self) -> io::Result<()> {
        let mut alarm = Alarm::new(self.core.clock);
        loop {
            self.transport.flush(&mut self.core).await?;
            if self.core.has_ended(self.transport.out()) {
                self.transport.end();
                return self.transport.flush(&mut self.core).await;
            }
            if self.core.more {
                self.take_turn().await?;
                continue;
            }
            let ending = self.core.ends_at();
            let own = self.transport.deadline();
            let all = self.core.deadline.into_iter().chain(ending).chain(own);
            let all = all.chain(self.published.due());
            if let Some(at) = all.min() {
                alarm.set(at);
            }
            let command = tokio::select! {
                biased;
                ready = self.transport.ready() => {
                    ready?;
                    None
                }
                note = self.notes.recv() => {
                    let Some(note) = note else {
                        // As below; it would be heard of here again and again.
                        self.transport.end();
                        return self.transport.flush(&mut self.core).await;
                    };
                    let now = self.core.clock.now();
                    self.core.take_note(self.transport.out(), now, note);
                    None
                }
                command = self.commands.recv() => {
                    if command.is_none() {
                        // Every handle is gone: nobody can ask for anything any more.
                        self.transport.end();
                        return self.transport.flush(&mut self.core).await;
                    }
                    command
                }
                () = alarm.gone_off() => None,
            };
            if let Some(command) = command {
                let now = self.core.clock.now();
                self.core.take_command(self.transport.out(), now, command);
            }
            self.take_turn().await?;
        }
    }

    /// Gives each kind of input its share.
    async fn take_turn(&mut self) -> io::Result<()> {
        for _ in 0..BATCHES_A_TURN {
            let more = self.transport.receive(&mut self.core);
            self.transport.flush(&mut self.core).await?;
            if self.core.has_begun_handlers() {
                // Those that need not wait for anything end before more is read. Else there would be
                // as many at once as requests in a turn, and the limit would refuse what takes no time.
                let_others_run().await;
                self.take_notes();
                self.transport.flush(&mut self.core).await?;
            }
            if !more {
                break;
            }
        }
        self.take_notes();
        let now = self.core.clock.now();
        for _ in 0..COMMANDS_A_TURN {
            if self.core.holds_back(self.transport.out()) {
                break;
            }
            let Ok(command) = self.commands.try_recv() else {
                break;
            };
            self.core.take_command(self.transport.out(), now, command);
        }
        self.core.pass(self.transport.out(), now);
        self.transport.pass(&mut self.core, now);
        if self.published.pass(now) {
            self.publish();
        }
        Ok(())
    }

    fn take_notes(&mut self) {
        let now = self.core.clock.now();
        for _ in 0..COMMANDS_A_TURN {
            if self.core.holds_back(self.transport.out()) {
                break;
            }
            let Ok(note) = self.notes.try_recv() else {
                break;
            };
            self.core.take_note(self.transport.out(), now, note);
        }
    }

    fn publish(&mut self) {
        let (handlers, handlers_limit) = self.core.serving.as_ref().map_or((0, 0), Serving::load);
        let load = Load {
            handlers,
            handlers_limit,
            commands: self.commands.len(),
            notes: self.notes.len(),
            transport: self.transport.counts(),
        };
        self.published.publish(&self.core.endpoint, &load);
    }
}

/// A driver whose transport fails once `fails` is told.
#[cfg(test)]
pub(crate) fn start_failing(fails: oneshot::Receiver<io::Error>) -> Arc<Handle> {
    struct Failing(oneshot::Receiver<io::Error>, Silent);
    struct Silent;
    impl Out for Silent {
        fn is_full(&self) -> bool {
            false
        }
        fn transmit(&mut self, _: &mut Ears, _: Instant, _: SocketAddr, _: &[u8]) {}
    }
    impl Transport for Failing {
        fn out(&mut self) -> &mut impl Out {
            &mut self.1
        }
        async fn ready(&mut self) -> io::Result<()> {
            Err((&mut self.0).await.expect("it is told"))
        }
        fn receive(&mut self, _: &mut Core) -> bool {
            false
        }
        async fn flush(&mut self, _: &mut Core) -> io::Result<()> {
            Ok(())
        }
        fn counts(&self) -> TransportCounts {
            TransportCounts::Datagrams { dropped: 0 }
        }
    }
    let local = (std::net::Ipv4Addr::LOCALHOST, 5683).into();
    let place = (Scheme::Coap, local);
    run(Config::default(), &Settings::new(), None, place, |_| {
        Failing(fails, Silent)
    })
    .expect("the system has entropy")
}
