//! Child processes: in the foreground, for their output, or killed with this tool.

use std::{
    env,
    net::UdpSocket,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// The cargo that started this tool, without the variables of its package.
///
/// Build scripts watch some of them: `ring` and all that needs it would be compiled again after each change between
/// `cargo xtask test` and `cargo test`.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let of_package =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(of_package) {
            command.env_remove(&name);
        }
    }
    command
}

/// Finds a program on the search path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

/// Runs a command with this tool's own streams. Returns true if it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", line(command)))?;
    Ok(status.success())
}

/// Runs a command that must succeed, with this tool's own streams.
pub(crate) fn must(command: &mut Command) -> Result<()> {
    if !succeeds(command)? {
        bail!("{} failed", line(command));
    }
    Ok(())
}

/// Runs a command that must succeed and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", line(command)))?;
    if !output.status.success() {
        bail!("{} failed: {}", line(command), output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("{} printed non-UTF-8 text", line(command)))
}

/// The command line, for messages.
pub(crate) fn line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|argument| argument.to_string_lossy().into_owned()),
    );
    format!("`{}`", words.join(" "))
}

/// A line of /proc/PID/status about memory, such as VmRSS, in KiB.
pub(crate) fn memory(id: u32, name: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number
        .and_then(|number| number.parse().ok())
        .context("no such line in /proc")
}

/// CPU time of a process, in seconds.
pub(crate) fn cpu_seconds(id: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    cpu(&stat, OWN_TIMES).context("no times in /proc")
}

/// CPU time of ended children and their children, in seconds.
pub(crate) fn cpu_seconds_of_children() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    cpu(&stat, TIMES_OF_CHILDREN).context("no times in /proc")
}

/// Fields of `/proc/PID/stat` between the name and utime, and between it and cutime.
const OWN_TIMES: usize = 11;
const TIMES_OF_CHILDREN: usize = 13;

/// User and system time; the clock has 100 ticks a second wherever Linux runs (USER_HZ).
fn cpu(stat: &str, skipped: usize) -> Option<f64> {
    // The name in parentheses may have spaces.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(skipped);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}

/// A server this tool started; it is killed when the value goes.
pub(crate) struct Server {
    name: String,
    child: Child,
}

impl Server {
    /// Starts a command without input and output.
    pub(crate) fn start(name: &str, command: &mut Command) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {name}: {}", line(command)))?;
        Ok(Self {
            name: name.to_owned(),
            child,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the server answers `probe` on `port`, for at most five seconds.
    ///
    /// # Errors
    /// When the server ended or stayed silent.
    pub(crate) fn wait_for_answer(&mut self, port: u16, probe: &[u8]) -> Result<Vec<u8>> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(("127.0.0.1", port))?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut buffer = [0; 2048];
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended before it answered: {status}", self.name);
            }
            // A refused send or a silent server look the same here: not ready yet.
            if socket.send(probe).is_ok()
                && let Ok(length) = socket.recv(&mut buffer)
            {
                return Ok(buffer[..length].to_vec());
            }
            thread::sleep(Duration::from_millis(20));
        }
        bail!("{} did not answer on port {port} within 5 s", self.name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing is left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_s_times_are_read_as_the_system_writes_them() {
        let stat = "17 (a (b) c) S 1 17 17 0 -1 4194560 5 0 0 0 250 50 0 0 20 0 3 0 99";
        assert_eq!(cpu(stat, OWN_TIMES), Some(3.0));
        assert_eq!(cpu(stat, TIMES_OF_CHILDREN), Some(0.0));
        let own = cpu_seconds(std::process::id()).unwrap();
        assert!((0.0..1e6).contains(&own));
    }
}
