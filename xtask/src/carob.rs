//! The `carob` command with all features, and the metrics of its servers.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::{process, workspace::Workspace};

/// The package with everything in it, as arguments of cargo.
pub(crate) const FULL: [&str; 4] = ["--package", "carob-cli", "--features", "full"];

/// Builds the release profile.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let mut build = process::cargo();
    build.args(["build", "--release", "--quiet"]).args(FULL);
    process::must(build.current_dir(&workspace.root))
}

/// Timeout of a scrape.
const PATIENCE: Duration = Duration::from_secs(10);

/// Metrics as a server prints them: name with labels, and value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Vec<(String, f64)>);

impl Metrics {
    /// Scrapes the server at this port of loopback.
    pub(crate) fn read(port: u16) -> Result<Self> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream
            .read_to_string(&mut text)
            .context("the server's metrics did not come")?;
        Ok(Self::parse(&text))
    }

    pub(crate) fn parse(text: &str) -> Self {
        let of_carob = text.lines().filter(|line| line.starts_with("carob_"));
        let metrics = of_carob.filter_map(|line| {
            let (key, value) = line.rsplit_once(' ')?;
            Some((key.to_owned(), value.parse().ok()?))
        });
        Self(metrics.collect())
    }

    /// All values of a metric whose labels have all of `labels`, together.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let of = self.0.iter().filter(|(key, _)| {
            let (of, rest) = key.split_once('{').unwrap_or((key, ""));
            of == name && labels.iter().all(|label| rest.contains(label))
        });
        of.map(|(_, value)| value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_as_they_are_written() {
        let text = "HTTP/1.1 200 OK\r\n\r\n# TYPE carob_exchanges_total counter\n\
            carob_exchanges_total{scheme=\"coap\",kind=\"request\",outcome=\"answered\"} 5\n\
            carob_exchanges_total{scheme=\"coap\",kind=\"notification\",outcome=\"answered\"} 7\n\
            carob_handlers{scheme=\"coap\"} 2\n";
        let metrics = Metrics::parse(text);
        let exchanges = |labels: &[&str]| metrics.sum("carob_exchanges_total", labels) as u64;
        assert_eq!(exchanges(&[]), 12);
        assert_eq!(exchanges(&["kind=\"notification\""]), 7);
        assert_eq!(metrics.sum("carob_handlers", &[]) as u64, 2);
    }
}
