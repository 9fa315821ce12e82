//! Servers with the plugtest resources: Carob's and the peers' programs.
//!
//! A program on a peer's library runs clients and servers on command; the commands are in README.md in `interop/`. One
//! process per peer serves the whole run and exits when its stdin is closed.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use carob::{BlockSize, Config};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

use super::bench::{SERVER_BLOCK, Setup};
use super::observed::Ticking;
use super::resources;
use crate::installed::Peer;
use crate::interop::clients;
use crate::interop::clients::Client as Who;
use crate::process::free_port;

/// Interval of changes; the plugtests suggest five seconds.
pub(crate) const TICK: Duration = Duration::from_millis(400);

/// Attempts to bind a port, and the pause in between.
const TRIES: u32 = 100;
const WAIT: Duration = Duration::from_millis(10);

/// A running server, stopped on drop.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    who: Who,
    setup: Setup,
    running: Option<Running>,
}

#[derive(Debug)]
enum Running {
    Ours(
        carob::Server,
        #[allow(dead_code, reason = "held so that it goes on")] Ticking,
    ),
    Theirs(Task),
}

impl Server {
    pub(crate) async fn start(who: Who, setup: Setup) -> Self {
        let mut server = Self {
            port: free_port(),
            who,
            setup,
            running: None,
        };
        // Another test may take the port before the peer's program binds it.
        for _ in 0..TRIES {
            if server.run().await {
                return server;
            }
            server.port = free_port();
        }
        panic!("every port that was free is taken");
    }

    /// Starts the server; returns false if its port is in use.
    async fn run(&mut self) -> bool {
        let port = self.port;
        let running = match self.who {
            Who::Carob => ours(port, self.setup).await,
            Who::Of(peer) => {
                let (ack, retransmissions) = self.setup.timers();
                let tick = TICK.as_millis();
                let command = format!("serve {port} {tick} {ack} {retransmissions}");
                let mut told = of(peer).tell(&command);
                if !told.is_ready().await {
                    return false;
                }
                Running::Theirs(told)
            }
        };
        self.running = Some(running);
        true
    }

    /// Replaces the server by a new one without state.
    pub(crate) async fn reboot(&mut self) {
        if let Some(Running::Theirs(mut told)) = self.running.take() {
            told.add("close");
            told.until("closed").await;
        }
        for _ in 0..TRIES {
            if self.run().await {
                return;
            }
            sleep(WAIT).await;
        }
        panic!("port {} does not become free", self.port);
    }

    /// Number of observers; known for Carob's server only.
    pub(crate) async fn observers(&self) -> Option<usize> {
        match &self.running {
            Some(Running::Ours(server, _)) => {
                let usage = server.client().usage().await;
                Some(usage.expect("the server runs").observers)
            }
            _ => None,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(Running::Theirs(told)) = &self.running {
            told.add("close");
        }
    }
}

/// Starts Carob's server. The port may still be in use by a server that has just stopped.
async fn ours(port: u16, setup: Setup) -> Running {
    let size = BlockSize::from_bytes_at_most(SERVER_BLOCK.into()).expect("a block size");
    for _ in 0..TRIES {
        let settings = Config::new()
            .block_size(size)
            .parameters(setup.parameters());
        let builder = carob::Server::builder()
            .bind(format!("127.0.0.1:{port}"))
            .config(settings);
        let (builder, ticking) = resources::all(builder, TICK);
        if let Ok(server) = builder.start().await {
            return Running::Ours(server, ticking);
        }
        sleep(WAIT).await;
    }
    panic!("port {port} does not become free");
}

/// Longest wait for a line of the program; includes the start of a Java VM.
const LIMIT: Duration = Duration::from_secs(60);

type Listeners = Arc<Mutex<BTreeMap<String, UnboundedSender<String>>>>;

#[derive(Debug)]
pub(crate) struct Program {
    input: Mutex<ChildStdin>,
    listeners: Listeners,
}

/// A command to the program, and its output.
#[derive(Debug)]
pub(crate) struct Task {
    program: &'static Program,
    tag: String,
    lines: UnboundedReceiver<String>,
}

/// The program of a peer, started on first use.
pub(crate) fn of(peer: Peer) -> &'static Program {
    static CALIFORNIUM: OnceLock<Program> = OnceLock::new();
    static AIOCOAP: OnceLock<Program> = OnceLock::new();
    let place = match peer {
        Peer::Californium => &CALIFORNIUM,
        Peer::Aiocoap => &AIOCOAP,
        _ => panic!("there is no plugtest program on {}", peer.name()),
    };
    place.get_or_init(|| Program::start(peer))
}

impl Program {
    fn start(peer: Peer) -> Self {
        let mut command = clients::program(peer, "plugtest");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let input = Mutex::new(child.stdin.take().expect("it is piped"));
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let listeners = Listeners::default();
        let told = Arc::clone(&listeners);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let (tag, text) = line.split_once(' ').unwrap_or((&line, ""));
                let listeners = told.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(listener) = listeners.get(tag) {
                    // The listener may have been dropped.
                    let _ = listener.send(text.to_owned());
                }
            }
            // Closes the channels, so that pending receivers end.
            told.lock().unwrap_or_else(PoisonError::into_inner).clear();
            let _ = child.wait();
        });
        Self { input, listeners }
    }

    /// Sends a command that starts a task.
    pub(crate) fn tell(&'static self, command: &str) -> Task {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let tag = format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let (sender, lines) = unbounded_channel();
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.insert(tag.clone(), sender);
        drop(listeners);
        let told = Task {
            program: self,
            tag,
            lines,
        };
        told.add(command);
        told
    }
}

impl Task {
    /// The task's identifier in commands.
    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// Sends another command for this task.
    pub(crate) fn add(&self, command: &str) {
        let input = self.program.input.lock();
        let mut input = input.unwrap_or_else(PoisonError::into_inner);
        writeln!(input, "{} {command}", self.tag).expect("the program reads its commands");
        input.flush().expect("as above");
    }

    /// The next line of output for this task.
    pub(crate) async fn hear(&mut self) -> String {
        let said = timeout(LIMIT, self.lines.recv()).await;
        said.expect("a line from the program in time")
            .expect("the program is still there")
    }

    /// Waits until a server is ready; returns false if its port is in use.
    pub(crate) async fn is_ready(&mut self) -> bool {
        loop {
            let said = self.hear().await;
            let taken = said.contains("in use");
            if said == "ready" || taken {
                return !taken;
            }
            assert!(!said.starts_with("failed"), "{said}");
        }
    }

    /// Waits for this line.
    pub(crate) async fn until(&mut self, wanted: &str) {
        loop {
            let said = self.hear().await;
            if said == wanted {
                return;
            }
            assert!(!said.starts_with("failed"), "{said}");
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let listeners = self.program.listeners.lock();
        let mut listeners = listeners.unwrap_or_else(PoisonError::into_inner);
        listeners.remove(&self.tag);
    }
}
