//! The one task that owns the socket and the engine.
//!
//! It keeps the engine's law: after every input it drains [`Endpoint::poll`] until that says
//! `Wait`; only what comes in while a crowd of observers is told something has its turn between.
//! Applications talk to it through two queues: commands, bounded, whose senders wait; and
//! notes, of which every request and every handler under way has at most a few out, so that the
//! limits on those bound them too. Nothing an application does can block it: handlers run in
//! tasks of their own, and only fixed content is answered in here.

mod ears;
mod requests;
mod serving;
mod shared;
mod sources;
mod spans;
mod updates;
mod views;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use carob_cc::TransmissionParameters;
use carob_cc::controller::Gauge;
use carob_cc::time::Instant;
use carob_proto::congestion::Choice;
use carob_proto::endpoint::{
    Endpoint, Event, Failure, IncomingId, Output, Snapshot, Subject, Tracing, Usage,
};
use carob_proto::message::Response;
use tokio::sync::{mpsc, oneshot};

use crate::clock::{Clock, Entropy};
use crate::error::OpenError;
use crate::server::{Notifier, Router};
use crate::settings::Settings;
use crate::socket::{BATCH, Outbox, Socket, Unreachable};

use ears::Ears;
use requests::Requests;
pub(crate) use requests::{Failed, NewRequest, Observing, Ping, Received, ReplyTo, Why};
use serving::{Answer, Serving};
pub(crate) use serving::{PartOf, UploadKey};
use sources::Sources;
use spans::Spans;
pub(crate) use updates::{Heard, Updates};

/// Commands waiting for the driver; at the limit, senders wait.
const COMMANDS: usize = 1_024;
/// Batches of datagrams taken before commands and timers have their turn.
const BATCHES_A_TURN: usize = 8;
/// Datagrams put in the outbox before they are sent and what has come in has its turn: what a
/// crowd acknowledges would otherwise overflow the socket's buffer.
const DATAGRAMS_A_TURN: usize = BATCH;
/// Commands, and notes, taken before datagrams have their turn.
const COMMANDS_A_TURN: usize = 256;

/// A peer with its own controller and parameters.
pub(crate) type PeerSettings = (SocketAddr, Option<Choice>, Option<TransmissionParameters>);

/// What applications ask for; senders wait while [`COMMANDS`] are waiting.
pub(crate) enum Command {
    Request(Box<NewRequest>),
    Ping(Ping),
    SetPeer(Box<PeerSettings>),
    Gauges(
        SocketAddr,
        oneshot::Sender<Option<Vec<(&'static str, Gauge)>>>,
    ),
    Snapshot(SocketAddr, oneshot::Sender<Option<Snapshot>>),
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
    /// Something observable has changed. One at a time for each notifier.
    Changed(Notifier, usize),
    /// What the observers of a view are to be told. One for each call of its handler.
    View(Subject, Response),
    /// A handler has ended. One for each.
    HandlerDone(Option<UploadKey>),
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

/// Opens the socket and starts the driver on the current runtime.
pub(crate) fn start(
    bind: Option<SocketAddr>,
    settings: Settings,
    serve: Option<(Router, usize)>,
) -> Result<Arc<Handle>, OpenError> {
    let socket = match bind {
        Some(address) => Socket::open(address, settings.receive_buffer)
            .map_err(|source| OpenError::Bind { address, source })?,
        None => Socket::open_any(settings.receive_buffer).map_err(|source| OpenError::Bind {
            address: (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
            source,
        })?,
    };
    let mut entropy = Entropy::from_system().map_err(OpenError::Entropy)?;
    let seed = entropy.next_u64();
    let spans = Spans::if_wanted();
    let mut config = settings.finished_config();
    if spans.is_some() && config.trace == Tracing::Off {
        config.trace = Tracing::Exchanges;
    }
    let mut endpoint = Endpoint::new(config, entropy);
    for (peer, controller, parameters) in settings.peers {
        endpoint.set_peer(peer, controller, parameters);
    }
    let (commands, command_queue) = mpsc::channel(COMMANDS);
    let (notes, note_queue) = mpsc::unbounded_channel();
    let serving = serve.map(|(router, handlers)| {
        let router = Arc::new(router);
        if router.has_uploads() {
            endpoint.deliver_by(router.delivery());
        }
        Serving::new(router, handlers, notes.clone(), seed)
    });
    let local = socket.local();
    let driver = Driver {
        clock: Clock::start(),
        endpoint,
        socket,
        outbox: Outbox::default(),
        sources: Sources::new(seed),
        unreachable: Vec::new(),
        commands: command_queue,
        notes: note_queue,
        requests: Requests::default(),
        serving,
        ears: Ears {
            trace: settings.on_trace,
            datagram: settings.on_datagram,
            spans,
            local,
        },
        deadline: None,
        more: false,
        ending: None,
    };
    tokio::spawn(driver.run());
    Ok(Arc::new(Handle {
        commands,
        notes,
        next_ticket: AtomicU64::new(0),
        local,
    }))
}

/// A shutdown under way.
struct Ending {
    at: Instant,
    done: Vec<oneshot::Sender<Finish>>,
}

struct Driver {
    clock: Clock,
    endpoint: Endpoint,
    socket: Socket,
    outbox: Outbox,
    sources: Sources,
    unreachable: Vec<Unreachable>,
    commands: mpsc::Receiver<Command>,
    notes: mpsc::UnboundedReceiver<Note>,
    requests: Requests,
    serving: Option<Serving>,
    ears: Ears,
    /// When the engine wants to be called.
    deadline: Option<Instant>,
    /// The engine has more to say than one turn takes.
    more: bool,
    ending: Option<Ending>,
}

impl Driver {
    async fn run(mut self) {
        if let Err(error) = self.serve().await {
            tracing::error!(%error, local = %self.socket.local(), "the socket is unusable");
        }
    }

    async fn serve(&mut self) -> io::Result<()> {
        let sleep = tokio::time::sleep_until(self.clock.at(Instant::ZERO));
        tokio::pin!(sleep);
        // When `sleep` ends. It is moved forward only: a wake-up too many costs less than moving
        // the timer for every datagram.
        let mut armed: Option<Instant> = None;
        loop {
            self.flush().await?;
            if self.has_ended() {
                return Ok(());
            }
            if self.more {
                self.take_turn().await?;
                continue;
            }
            let ending = self.ending.as_ref().map(|ending| ending.at);
            if let Some(at) = self.deadline.into_iter().chain(ending).min()
                && armed.is_none_or(|armed| at < armed)
            {
                sleep.as_mut().reset(self.clock.at(at));
                armed = Some(at);
            }
            let command = tokio::select! {
                biased;
                ready = self.socket.ready() => {
                    if ready? {
                        self.socket.errors(&mut self.unreachable);
                    }
                    None
                }
                note = self.notes.recv() => {
                    let now = self.clock.now();
                    if let Some(note) = note {
                        self.take_note(now, note);
                    }
                    None
                }
                command = self.commands.recv() => match command {
                    Some(command) => Some(command),
                    // Every handle is gone: nobody can ask for anything any more.
                    None => return Ok(()),
                },
                () = &mut sleep, if armed.is_some() => {
                    armed = None;
                    None
                }
            };
            if let Some(command) = command {
                self.take_command(self.clock.now(), command);
            }
            self.take_turn().await?;
        }
    }

    /// Gives each kind of input its share.
    async fn take_turn(&mut self) -> io::Result<()> {
        for _ in 0..BATCHES_A_TURN {
            let more = self.receive();
            self.flush().await?;
            if !more {
                break;
            }
        }
        let now = self.clock.now();
        for _ in 0..COMMANDS_A_TURN {
            let Ok(note) = self.notes.try_recv() else {
                break;
            };
            self.take_note(now, note);
        }
        for _ in 0..COMMANDS_A_TURN {
            let Ok(command) = self.commands.try_recv() else {
                break;
            };
            self.take_command(now, command);
        }
        if self.deadline.is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
            self.drain(now);
        } else if self.more {
            self.drain(now);
        }
        Ok(())
    }

    /// Takes one batch of datagrams; whether there may be more.
    fn receive(&mut self) -> bool {
        let now = self.clock.now();
        let Self {
            socket,
            endpoint,
            outbox,
            sources,
            requests,
            serving,
            ears,
            deadline,
            more,
            ..
        } = self;
        let received = socket.receive(|from, destination, bytes| {
            ears.comes(now, from, destination, bytes);
            endpoint.handle_datagram(now, from, bytes);
            sources.hear(from, destination);
            let drained = drain(endpoint, outbox, sources, requests, serving, ears, now);
            drained.note(deadline, more);
        });
        self.sources.hear_nobody();
        received.unwrap_or_else(|error| {
            tracing::debug!(%error, "nothing received");
            self.socket.errors(&mut self.unreachable);
            true
        })
    }

    /// Sends what there is to send. While the system has no room for it, nothing else happens:
    /// what cannot be answered need not be read.
    async fn flush(&mut self) -> io::Result<()> {
        loop {
            while let Err(error) = self.socket.send(&mut self.outbox, &mut self.unreachable) {
                debug_assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                self.socket.writable().await?;
            }
            let Some(Unreachable {
                peer,
                error,
                quoted,
            }) = self.unreachable.pop()
            else {
                return Ok(());
            };
            // Only who saw a message of ours can quote it (RFC 7252 4.2).
            if quoted.is_some_and(|quoted| !self.endpoint.is_under_way(peer, quoted.as_slice())) {
                continue;
            }
            let now = self.clock.now();
            self.requests.os_error = Some(error);
            self.endpoint.handle_unreachable(now, peer);
            self.drain(now);
            self.requests.os_error = None;
        }
    }

    fn drain(&mut self, now: Instant) {
        let Self {
            endpoint,
            outbox,
            sources,
            requests,
            serving,
            ears,
            deadline,
            more,
            ..
        } = self;
        let drained = drain(endpoint, outbox, sources, requests, serving, ears, now);
        drained.note(deadline, more);
    }

    fn take_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Request(request) if self.ending.is_none() => {
                self.requests.begin(&mut self.endpoint, now, *request);
            }
            Command::Ping(ping) if self.ending.is_none() => {
                self.requests.ping(&mut self.endpoint, now, ping);
            }
            Command::Request(request) => request.refuse(Why::Failure(Failure::ShutDown)),
            Command::Ping(ping) => ping.refuse(Why::Failure(Failure::ShutDown)),
            Command::SetPeer(settings) => {
                let (peer, controller, parameters) = *settings;
                self.endpoint.set_peer(peer, controller, parameters);
            }
            Command::Gauges(peer, reply) => {
                let mut gauges = Vec::new();
                let known = self
                    .endpoint
                    .gauges(now, peer, &mut |name, gauge| gauges.push((name, gauge)));
                // Who asked may have gone, here and below; then nobody needs the answer.
                let _ = reply.send(known.then_some(gauges));
            }
            Command::Snapshot(peer, reply) => {
                let _ = reply.send(self.endpoint.snapshot(now, peer));
            }
            Command::Peers(reply) => {
                let _ = reply.send(self.endpoint.peers().collect());
            }
            Command::Usage(reply) => {
                let _ = reply.send(self.endpoint.usage());
            }
            Command::ShutDown { limit, done } => {
                if let Some(serving) = &mut self.serving {
                    serving.stop();
                }
                self.requests.end_observations(&mut self.endpoint, now);
                let at = now + limit.into();
                let ending = self.ending.get_or_insert(Ending {
                    at,
                    done: Vec::new(),
                });
                ending.at = ending.at.min(at);
                ending.done.push(done);
            }
        }
        self.drain(now);
    }

    fn take_note(&mut self, now: Instant, note: Note) {
        match note {
            Note::Cancel(ticket) => self.requests.cancel(&mut self.endpoint, now, ticket),
            Note::StopObserving(ticket) => {
                self.requests
                    .stop_observing(&mut self.endpoint, now, ticket);
            }
            Note::Supply {
                ticket,
                bytes,
                last,
            } => {
                if let Some(id) = self.requests.find(ticket) {
                    self.endpoint.supply(now, id, bytes, last);
                }
            }
            Note::ReadOn(ticket) => {
                if let Some(id) = self.requests.find(ticket) {
                    self.endpoint.read_on(now, id, 1);
                }
            }
            Note::Respond(id, response) => self.endpoint.respond(now, id, &response),
            Note::Changed(notifier, place) => {
                if let (Some(serving), Some(changes)) = (&mut self.serving, notifier.take(place)) {
                    serving.views.changed(&notifier, &changes);
                }
            }
            Note::View(subject, response) => {
                if let Some(serving) = &mut self.serving {
                    let endpoint = &mut self.endpoint;
                    serving.views.tell(endpoint, now, subject, &response);
                }
            }
            Note::HandlerDone(upload) => {
                if let Some(serving) = &mut self.serving {
                    serving.handler_done(upload);
                }
            }
        }
        self.drain(now);
    }

    /// Whether a shutdown is complete or its time is up; tells who waits for it.
    fn has_ended(&mut self) -> bool {
        let Some(ending) = &self.ending else {
            return false;
        };
        let now = self.clock.now();
        let handlers = self.serving.as_ref().map_or(0, Serving::active);
        let finish = if handlers == 0 && self.endpoint.is_idle() {
            Finish::Complete
        } else if ending.at <= now {
            let usage = self.endpoint.usage();
            let Usage {
                requests,
                exchanges,
                ..
            } = usage;
            Finish::CutOff {
                handlers,
                requests,
                exchanges: exchanges.saturating_sub(requests),
            }
        } else {
            return false;
        };
        self.endpoint.shut_down(now);
        self.drain(now);
        for done in self
            .ending
            .take()
            .into_iter()
            .flat_map(|ending| ending.done)
        {
            let _ = done.send(finish);
        }
        true
    }
}

/// What the engine says in the end.
enum Drained {
    /// It waits until then.
    Waits(Option<Instant>),
    /// It would go on; first comes what it has said so far.
    Goes,
}

impl Drained {
    fn note(self, deadline: &mut Option<Instant>, more: &mut bool) {
        match self {
            Self::Waits(until) => (*deadline, *more) = (until, false),
            Self::Goes => *more = true,
        }
    }
}

/// Does what the engine says until it waits, or has said enough for a turn.
fn drain(
    endpoint: &mut Endpoint,
    outbox: &mut Outbox,
    sources: &mut Sources,
    requests: &mut Requests,
    serving: &mut Option<Serving>,
    ears: &mut Ears,
    now: Instant,
) -> Drained {
    loop {
        if outbox.len() >= DATAGRAMS_A_TURN {
            return Drained::Goes;
        }
        match endpoint.poll() {
            Output::Transmit { to, bytes } => {
                let source = sources.of(to);
                ears.goes(now, to, source, bytes);
                outbox.push(to, source, bytes);
            }
            Output::Wait(until) => return Drained::Waits(until),
            Output::Event(Event::Request(id)) => match serving {
                Some(serving) => {
                    if serving.take(endpoint, now, id) == Answer::Later {
                        sources.remember();
                    }
                }
                None => endpoint.respond(now, id, &serving::NOT_FOUND),
            },
            Output::Event(Event::Unobserved(subject)) => {
                if let Some(serving) = serving {
                    serving.views.forget(subject);
                }
            }
            Output::Event(Event::Trace(trace)) => ears.trace(&trace),
            Output::Event(event) => requests.take(now, event),
            _ => debug_assert!(false, "an output unknown to this driver"),
        }
    }
}
