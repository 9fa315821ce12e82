//! How the server is at a moment: its memory, its CPU time, and what it says of itself.

use std::{
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;

/// How long the server has to tell its metrics.
const PATIENCE: Duration = Duration::from_secs(10);

/// Gauges of what must be gone when nobody asks any more.
pub(super) const EMPTIED: [&str; 9] = [
    "carob_requests_in_progress",
    "carob_handlers",
    "carob_exchanges_in_progress",
    "carob_observers",
    "carob_notifications_waiting",
    "carob_uploads",
    "carob_upload_bytes",
    "carob_bodies",
    "carob_queue_length",
];

/// A look at server and load.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// Since the load began.
    pub(super) seconds: f64,
    /// What the server has allocated and touched (RssAnon), in KiB: without its program, whose pages come and
    /// go with what else the machine does.
    pub(super) rss: u64,
    /// The server's CPU time, in seconds.
    pub(super) cpu: f64,
    /// Answers that the load has had.
    pub(super) answered: u64,
    /// The server's metrics, as it prints them: name with labels, and value.
    pub(super) metrics: Vec<(String, f64)>,
}

impl Sample {
    /// Looks now; `told` is what the load has said.
    pub(super) fn take(id: u32, port: u16, told: &Value) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{id}/status"))
            .context("the server is gone; did it panic?")?;
        let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
        Ok(Self {
            seconds: told["seconds"].as_f64().unwrap_or(0.0),
            rss: resident(&status).context("no RssAnon in /proc")?,
            cpu: cpu(&stat).context("no times in /proc")?,
            answered: told["answered"].as_u64().unwrap_or(0),
            metrics: metrics(port)?,
        })
    }

    /// All values of a metric whose labels have all of `labels`, together.
    pub(super) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let of = self.metrics.iter().filter(|(key, _)| {
            let (of, rest) = key.split_once('{').unwrap_or((key, ""));
            of == name && labels.iter().all(|label| rest.contains(label))
        });
        of.map(|(_, value)| value).sum()
    }

    /// Nothing is under way or kept for anybody.
    pub(super) fn is_empty(&self) -> bool {
        self.left().is_none()
    }

    /// What is not empty.
    pub(super) fn left(&self) -> Option<String> {
        let mut text = String::new();
        for name in EMPTIED {
            let value = self.sum(name, &[]);
            if value != 0.0 {
                let _ = write!(text, "{name} {value} "); // a String takes every write
            }
        }
        (!text.is_empty()).then(|| text.trim_end().to_owned())
    }

    /// In a line, for whoever watches.
    pub(super) fn line(&self) -> String {
        format!(
            "{:>6.0} s  {:>11} answers  {:>6.1} MiB  {:>7.1} s of CPU",
            self.seconds,
            self.answered,
            self.rss as f64 / 1_024.0,
            self.cpu,
        )
    }
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("RssAnon"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// User and system time; the clock has 100 ticks a second wherever Linux runs (USER_HZ).
fn cpu(stat: &str) -> Option<f64> {
    // The name in parentheses may have spaces.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}

fn metrics(port: u16) -> Result<Vec<(String, f64)>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream
        .read_to_string(&mut text)
        .context("the server's metrics did not come")?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<(String, f64)> {
    text.lines()
        .filter(|line| line.starts_with("carob_"))
        .filter_map(|line| {
            let (key, value) = line.rsplit_once(' ')?;
            Some((key.to_owned(), value.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_metrics_are_read_as_they_are_written() {
        let stat = "17 (a (b) c) S 1 17 17 0 -1 4194560 5 0 0 0 250 50 0 0 20 0 3 0 99";
        assert_eq!(cpu(stat), Some(3.0));
        assert_eq!(
            resident("VmRSS:\t  9 kB\nRssAnon:\t  4096 kB\n"),
            Some(4_096)
        );
        let text = "HTTP/1.1 200 OK\r\n\r\n# TYPE carob_exchanges_total counter\n\
            carob_exchanges_total{scheme=\"coap\",kind=\"request\",outcome=\"answered\"} 5\n\
            carob_exchanges_total{scheme=\"coap\",kind=\"notification\",outcome=\"answered\"} 7\n\
            carob_handlers{scheme=\"coap\"} 2\n";
        let mut sample = Sample {
            metrics: parse(text),
            ..Sample::default()
        };
        let exchanges = |labels: &[&str]| sample.sum("carob_exchanges_total", labels);
        assert_eq!(exchanges(&[]) as u64, 12);
        assert_eq!(exchanges(&["kind=\"notification\""]) as u64, 7);
        assert_eq!(sample.left().as_deref(), Some("carob_handlers 2"));
        sample.metrics.pop();
        assert!(sample.is_empty());
    }
}
