//! Child processes with time limits, killed with the test.

use std::{
    fs::{self, File},
    net::{TcpListener, UdpSocket},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::{Duration, Instant},
};

pub(crate) use crate::program::Scratch;

const POLL: Duration = Duration::from_millis(10);

impl Scratch {
    /// Writes a self-signed certificate for a host and its key; returns their paths as arguments.
    pub(crate) fn certified(&self, name: &str, host: &str) -> [String; 2] {
        let made = rcgen::generate_simple_self_signed(vec![host.to_owned()]).unwrap();
        let key = made.signing_key.serialize_pem();
        [(".pem", made.cert.pem()), (".key", key)]
            .map(|(end, text)| self.with(&format!("{name}{end}"), text))
    }
}

/// A background process, killed on drop.
pub(crate) struct Running {
    child: Child,
    output: PathBuf,
}

impl Running {
    /// Starts a command with stdout and stderr redirected to files: a full pipe would block it.
    pub(crate) fn start(command: &mut Command, scratch: &Scratch, name: &str) -> Self {
        let output = scratch.path(&format!("{name}.out"));
        let stdout = File::create(&output).expect("the scratch folder is writable");
        let stderr = File::create(output.with_extension("err")).expect("as above");
        let child = command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { child, output }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        let path = self.output.with_extension("err");
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    /// All output, for failure messages.
    pub(crate) fn output(&self) -> String {
        format!(
            "stdout: {}\nstderr: {}",
            tail(&self.stdout()),
            tail(&self.stderr())
        )
    }

    /// Waits until `ready` holds, at most `limit`.
    pub(crate) fn wait_until(&mut self, limit: Duration, mut ready: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + limit;
        while !ready(self) {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("ended before it was ready: {status}\n{}", self.output());
            }
            assert!(
                Instant::now() < deadline,
                "not ready after {limit:?}\n{}",
                self.output()
            );
            thread::sleep(POLL);
        }
    }

    /// Waits for the process to exit, at most `limit`.
    pub(crate) fn finish(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status,
                Ok(None) => {}
                Err(error) => panic!("cannot wait for a child: {error}"),
            }
            assert!(
                Instant::now() < deadline,
                "still running after {limit:?}\n{}",
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

fn tail(text: &str) -> String {
    const CHARACTERS_MAX: usize = 2000;
    let skip = text.chars().count().saturating_sub(CHARACTERS_MAX);
    text.chars().skip(skip).collect()
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
