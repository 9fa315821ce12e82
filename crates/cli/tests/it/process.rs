//! Child processes with time limits, killed with the test.

use std::{
    io::Read,
    net::{TcpListener, UdpSocket},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::program::{Ran, Words, command};

pub(crate) use crate::program::Scratch;

/// Upper bound for any single wait, for busy machines.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(5);

impl Scratch {
    /// Writes a self-signed certificate for a host and its key; returns their paths as arguments.
    pub(crate) fn certified(&self, name: &str, host: &str) -> [String; 2] {
        let made = rcgen::generate_simple_self_signed(vec![host.to_owned()]).unwrap();
        let key = made.signing_key.serialize_pem();
        [(".pem", made.cert.pem()), (".key", key)]
            .map(|(end, text)| self.with(&format!("{name}{end}"), text))
    }
}

/// Polls until `found` returns something, at most `limit`.
#[track_caller]
pub(crate) fn until<T>(limit: Duration, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "no {what} after {limit:?}");
        thread::sleep(POLL);
    }
}

/// A stream of a process, read by a thread: a full pipe would block the process.
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Output {
    fn collect(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut chunk = [0; 4_096];
            while let Ok(length @ 1..) = from.read(&mut chunk) {
                let mut bytes = shared.lock().unwrap_or_else(PoisonError::into_inner);
                bytes.extend_from_slice(&chunk[..length]);
            }
        });
        Self { bytes, reader }
    }

    fn bytes(&self) -> Vec<u8> {
        let bytes = self.bytes.lock();
        bytes.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

/// A background process, killed on drop.
pub(crate) struct Running {
    child: Child,
    stdout: Output,
    stderr: Output,
    /// Bytes of stdout that [`Running::line`] has returned.
    taken: usize,
}

impl Running {
    /// Starts `carob`.
    #[track_caller]
    pub(crate) fn start(words: &(impl Words + ?Sized)) -> Self {
        Self::spawn(&mut command(words))
    }

    #[track_caller]
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdout = Output::collect(child.stdout.take().expect("it is piped"));
        let stderr = Output::collect(child.stderr.take().expect("it is piped"));
        Self {
            child,
            stdout,
            stderr,
            taken: 0,
        }
    }

    /// Runs a command to completion; panics unless it succeeds.
    #[track_caller]
    pub(crate) fn complete(command: &mut Command) -> Ran {
        let ran = Self::spawn(command).finish();
        assert_eq!(ran.code, Some(0), "{command:?}: {ran:?}");
        ran
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("it is taken once")
    }

    /// Sends a signal by name, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let kill = Command::new("kill").args(["-s", name, &id]).status();
        assert!(kill.unwrap().success());
    }

    pub(crate) fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// The output so far.
    fn output(&self) -> Ran {
        Ran {
            code: None,
            bytes: self.stdout.bytes(),
            stderr: self.stderr.text(),
        }
    }

    /// The next line of stdout without its line feed.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let is_last = self.stdout.reader.is_finished() || Instant::now() > deadline;
            let rest = self.stdout.bytes().split_off(self.taken);
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                self.taken += end + 1;
                return String::from_utf8_lossy(&rest[..end]).trim_end().to_owned();
            }
            assert!(!is_last, "no further line on stdout; {:?}", self.output());
            thread::sleep(POLL);
        }
    }

    /// Waits until `ready` holds, at most `limit`.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, limit: Duration, mut ready: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + limit;
        while !ready(self) {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("ended before it was ready: {status}\n{:?}", self.output());
            }
            let in_time = Instant::now() < deadline;
            assert!(in_time, "not ready after {limit:?}\n{:?}", self.output());
            thread::sleep(POLL);
        }
    }

    /// Waits for the process to exit.
    #[track_caller]
    pub(crate) fn finish(self) -> Ran {
        self.finish_within(LIMIT)
    }

    #[track_caller]
    pub(crate) fn finish_within(mut self, limit: Duration) -> Ran {
        let deadline = Instant::now() + limit;
        loop {
            let status = self.child.try_wait().expect("a child");
            let readers = [&self.stdout.reader, &self.stderr.reader];
            if let Some(status) = status
                && readers.iter().all(|reader| reader.is_finished())
            {
                return Ran {
                    code: status.code(),
                    ..self.output()
                };
            }
            let in_time = Instant::now() < deadline;
            assert!(
                in_time,
                "still running after {limit:?}\n{:?}",
                self.output()
            );
            thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A free port of 127.0.0.1 for UDP and TCP.
///
/// Taken below the kernel's ephemeral range, so that no client's source port takes it before the server binds it.
pub(crate) fn free_port() -> u16 {
    free_ports(1)
}

/// The first of `wanted` consecutive free ports.
pub(crate) fn free_ports(wanted: u16) -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 10_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 97) as u16 * 100;
    for _ in 0..COUNT {
        let port = FIRST + (start + NEXT.fetch_add(wanted, Ordering::Relaxed)) % COUNT;
        let is_free = |port| {
            UdpSocket::bind(("127.0.0.1", port)).is_ok()
                && TcpListener::bind(("127.0.0.1", port)).is_ok()
        };
        if (port..port + wanted).all(is_free) {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

/// Whether an endpoint replies to a CoAP ping (RFC 7252 4.3) on `port`.
///
/// The reply should be a Reset; go-coap sends an acknowledgement.
pub(crate) fn answers_ping(port: u16) -> bool {
    let ping = [0x40, 0x00, 0x13, 0x37];
    let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else {
        return false;
    };
    let mut buffer = [0; 16];
    socket.connect(("127.0.0.1", port)).is_ok()
        && socket
            .set_read_timeout(Some(Duration::from_millis(100)))
            .is_ok()
        && socket.send(&ping).is_ok()
        && matches!(socket.recv(&mut buffer), Ok(4) if matches!(buffer[0], 0x60 | 0x70) && buffer[2..4] == ping[2..4])
}
