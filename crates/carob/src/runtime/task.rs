//! The task that owns a transport and its engine.
//!
//! After every input it drains the engine until that waits; only input that arrives during a large
//! fan-out is processed in between. Applications cannot block it: handlers run in separate tasks,
//! and only fixed content is served here.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use carob_proto::codec::Scheme;
use carob_proto::endpoint::{Config as EngineConfig, Endpoint, Tracing};
use tokio::sync::{mpsc, watch};

use super::alarm::Alarm;
use super::core::Core;
use super::messages::{Command, Ended, Handle, RequestControl};
use super::metrics::{Load, MetricsPublisher};
use super::service::MakeService;
use super::spans::Spans;
use super::spans::Taps;
use crate::clock::{Clock, Entropy};
use crate::config::Config;
use crate::error::OpenError;
use crate::transport::capture::Capture;
use crate::transport::{Engine as _, Transport, yield_to_peers};

/// Queued commands; at the limit, senders wait.
pub(super) const COMMANDS: usize = 1_024;
/// Batches received from the transport per turn.
const BATCHES_A_TURN: usize = 8;
/// Commands, controls and completions processed per turn, of each.
const COMMANDS_A_TURN: usize = 256;

/// Starts the task of a transport on the current runtime.
pub(super) fn start<T: Transport + 'static>(
    mut engine: EngineConfig,
    config: &Config,
    serve: Option<&dyn MakeService>,
    (scheme, local): (Scheme, SocketAddr),
    transport: impl FnOnce(u64) -> T,
) -> Result<Arc<Handle>, OpenError> {
    let mut entropy = Entropy::from_system().map_err(OpenError::Entropy)?;
    let seed = entropy.next_u64();
    let spans = Spans::if_enabled(seed);
    if spans.is_some() && engine.trace == Tracing::Off {
        // Spans are made of these events.
        engine.trace = Tracing::Exchanges;
    }
    let controller = engine.controller.name();
    let mut endpoint = Endpoint::new(engine, entropy);
    for (peer, own) in &config.peers {
        let own = config.of_peer(own);
        endpoint.set_peer(*peer, own.controller, own.parameters);
    }
    let (commands, command_queue) = mpsc::channel(COMMANDS);
    // Unbounded, because a request that is dropped cannot wait; the requests there are
    // bound it.
    let (control, control_queue) = mpsc::unbounded_channel();
    let service = serve.map(|serve| serve.make(&mut endpoint, scheme, local, seed));
    let taps = Taps {
        on_trace: config.on_trace.clone(),
        spans,
    };
    let capture = Capture::new(config.on_datagram.clone(), local, scheme, seed);
    let (ending, ended) = watch::channel(None);
    let clock = Clock::start(config.time_source);
    let task = Task {
        ending,
        metrics: MetricsPublisher::new(scheme.name(), controller),
        core: Core::new(clock, endpoint, service, (taps, capture), seed),
        transport: transport(seed),
        commands: command_queue,
        control: control_queue,
        local,
    };
    // All descriptors are open before the endpoint is announced.
    let alarm = Alarm::new(clock);
    tokio::spawn(task.run(alarm));
    Ok(Arc::new(Handle {
        commands,
        control,
        next_ticket: AtomicU64::new(0),
        local,
        ended,
    }))
}

struct Task<T> {
    ending: watch::Sender<Ended>,
    metrics: MetricsPublisher,
    core: Core,
    transport: T,
    commands: mpsc::Receiver<Command>,
    control: mpsc::UnboundedReceiver<RequestControl>,
    local: SocketAddr,
}

/// The input that a task waited for.
enum Input {
    Transport,
    Completion,
    Control(RequestControl),
    Command(Command),
    Timer,
    /// All handles were dropped.
    Abandoned,
}

impl<T: Transport> Task<T> {
    async fn run(mut self, alarm: Alarm) {
        let ended = self.serve(alarm).await;
        if let Err(error) = &ended {
            tracing::error!(%error, local = %self.local, "the socket is unusable");
        }
        self.publish();
        // Shared, because several may wait for the end, and an `io::Error` cannot be cloned.
        self.ending.send_replace(Some(ended.map_err(Arc::new)));
    }

    async fn serve(&mut self, mut alarm: Alarm) -> io::Result<()> {
        loop {
            self.transport.flush(&mut self.core).await?;
            if self.core.has_ended(self.transport.outbound()) {
                return self.end().await;
            }
            if self.core.more {
                self.process_inputs().await?;
                continue;
            }
            let due = self.core.deadline.into_iter().chain(self.core.ends_at());
            let due = due.chain(self.transport.deadline());
            if let Some(at) = due.chain(self.metrics.due()).min() {
                alarm.set(at);
            }
            match self.wait(&mut alarm).await? {
                Input::Transport | Input::Timer => {}
                Input::Completion => {
                    let now = self.core.clock.now();
                    self.core.complete_next(self.transport.outbound(), now);
                }
                Input::Control(control) => {
                    let now = self.core.clock.now();
                    self.core.control(self.transport.outbound(), now, control);
                }
                Input::Command(command) => {
                    let now = self.core.clock.now();
                    self.core.command(self.transport.outbound(), now, command);
                }
                Input::Abandoned => return self.end().await,
            }
            self.process_inputs().await?;
        }
    }

    /// Sends the last messages of open sessions.
    async fn end(&mut self) -> io::Result<()> {
        self.transport.close();
        self.transport.flush(&mut self.core).await
    }

    async fn wait(&mut self, alarm: &mut Alarm) -> io::Result<Input> {
        let Self {
            core,
            transport,
            commands,
            control,
            ..
        } = self;
        let service = &mut core.service;
        Ok(tokio::select! {
            // In this order: input frees the buffers of the system, completions free handlers.
            // Timers are looked at after every input, too.
            biased;
            ready = transport.ready() => ready.map(|()| Input::Transport)?,
            () = poll_fn(|context| match service {
                Some(service) => service.poll_completion(context),
                None => std::task::Poll::Pending,
            }) => Input::Completion,
            control = control.recv() => control.map_or(Input::Abandoned, Input::Control),
            command = commands.recv() => command.map_or(Input::Abandoned, Input::Command),
            () = alarm.expired() => Input::Timer,
        })
    }

    /// Processes a bounded number of each kind of input.
    async fn process_inputs(&mut self) -> io::Result<()> {
        // Bounded, so that a flood of datagrams does not keep timers and commands waiting.
        for _ in 0..BATCHES_A_TURN {
            let more = self.transport.receive(&mut self.core);
            self.transport.flush(&mut self.core).await?;
            if self.core.has_begun_handlers() {
                // Handlers that need not wait finish before more is received. Otherwise all
                // requests of a turn would run at once and exceed the limit.
                yield_to_peers().await;
                self.take_completions();
                self.transport.flush(&mut self.core).await?;
            }
            if !more {
                break;
            }
        }
        self.take_completions();
        let now = self.core.clock.now();
        for _ in 0..COMMANDS_A_TURN {
            if self.core.must_flush(self.transport.outbound()) {
                break;
            }
            let Ok(command) = self.commands.try_recv() else {
                break;
            };
            self.core.command(self.transport.outbound(), now, command);
        }
        self.core.on_timer(self.transport.outbound(), now);
        self.transport.on_timer(&mut self.core, now);
        if self.metrics.pass(now) {
            self.publish();
        }
        Ok(())
    }

    /// Processes completions of handlers and controls of requests.
    fn take_completions(&mut self) {
        let now = self.core.clock.now();
        for _ in 0..COMMANDS_A_TURN {
            if self.core.must_flush(self.transport.outbound())
                || !self.core.complete_next(self.transport.outbound(), now)
            {
                break;
            }
        }
        for _ in 0..COMMANDS_A_TURN {
            if self.core.must_flush(self.transport.outbound()) {
                break;
            }
            let Ok(control) = self.control.try_recv() else {
                break;
            };
            self.core.control(self.transport.outbound(), now, control);
        }
    }

    fn publish(&mut self) {
        let service = self.core.service.as_ref();
        let (handlers, handlers_limit) = service.map_or((0, 0), |service| service.load());
        let completions = service.map_or(0, |service| service.completions());
        let load = Load {
            handlers,
            handlers_limit,
            commands: self.commands.len(),
            notes: self.control.len() + completions,
            transport: self.transport.counts(),
        };
        self.metrics.publish(&self.core.endpoint, &load);
    }
}
