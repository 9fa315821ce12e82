//! The server's state at a moment: memory, CPU time, and metrics.

use std::{fmt::Write as _, fs};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{metrics::Metrics, process};

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
    /// Memory that the server has allocated and touched (RssAnon), in KiB: without its program,
    /// whose pages come and go with the machine's other load.
    pub(super) rss: u64,
    /// The server's CPU time, in seconds.
    pub(super) cpu: f64,
    /// Answers that the load has had.
    pub(super) answered: u64,
    pub(super) metrics: Metrics,
}

impl Sample {
    /// Looks now; `told` is what the load has said.
    pub(super) fn take(id: u32, port: u16, told: &Value) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{id}/status"))
            .context("the server is gone; did it panic?")?;
        Ok(Self {
            seconds: told["seconds"].as_f64().unwrap_or(0.0),
            rss: resident(&status).context("no RssAnon in /proc")?,
            cpu: process::cpu_seconds(id)?,
            answered: told["answered"].as_u64().unwrap_or(0),
            metrics: Metrics::read(port)?,
        })
    }

    /// All values of a metric whose labels have all of `labels`, together.
    pub(super) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        self.metrics.sum(name, labels)
    }

    /// Nothing is in progress or kept for a client.
    pub(super) fn is_empty(&self) -> bool {
        self.left().is_none()
    }

    /// Tables that are not empty.
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

    /// One line of progress.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_metrics_are_read_as_they_are_written() {
        assert_eq!(
            resident("VmRSS:\t  9 kB\nRssAnon:\t  4096 kB\n"),
            Some(4_096)
        );
        let full = Sample {
            metrics: Metrics::parse("carob_handlers{scheme=\"coap\"} 2\n"),
            ..Sample::default()
        };
        assert_eq!(full.left().as_deref(), Some("carob_handlers 2"));
        assert!(Sample::default().is_empty());
    }
}
