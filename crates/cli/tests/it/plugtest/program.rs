//! A program on a peer's library that runs clients and servers on command; the commands are in README.md in
//! `interop/`. One process per peer serves the whole run and exits when its stdin is closed.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    process::{ChildStdin, Stdio},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout,
};

use crate::installed::Peer;
use crate::interop::clients;

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
