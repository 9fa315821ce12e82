//! Queue disciplines of a link in scenarios.

use carob_cc::time::Duration;
use carob_sim::link::{CoDelSpec, Discipline};
use carob_sim::spec::RunSpec;

use super::cell::Cell;
use super::error::ScenarioError;
use super::impossible;

/// RFC 8289 4.3.
const CODEL_TARGET: Duration = Duration::from_millis(5);

keys! {
    /// Keys of queue disciplines.
    pub(super) KEYS;

    "link.queue", Word(&["drop-tail", "codel", "fq-codel"]), "drop-tail",
        "What is dropped or marked before the buffers are full: nothing, as CoDel (RFC 8289) says, or CoDel with a queue for each client (FQ-CoDel, RFC 8290; over UDP).";
    "link.ecn", Word(&["off", "on"]), "off",
        "Whether `codel` marks packets of connections that agreed on it (`tcp.ecn`) instead of dropping them (RFC 3168).";
    "link.codel_target", Time, -,
        "Standing wait that is too long for CoDel; by default 5 ms, or the time of a packet of `link.mtu` on the line if that is longer (RFC 8289 4.4).";
    "link.codel_interval", Time, "100 ms",
        "How long it must have been so; a typical round-trip time (RFC 8289 4.3).";
}

/// Checks that the queues of a run are possible.
pub(super) fn check(cell: &Cell, spec: &RunSpec) -> Result<(), ScenarioError> {
    let is_fair = cell.text("link.queue")? == "fq-codel";
    if is_fair && spec.has_connections() {
        let why = "link.queue fq-codel has flows of datagrams, and an algorithm over TCP was asked \
                   for; leave that out, or use codel";
        return Err(impossible(cell.place("link.queue"), why));
    }
    Ok(())
}

impl Cell {
    /// Queue discipline of a buffer before a line of `rate_bps`.
    pub(super) fn discipline(&self, mtu: u64, rate_bps: u64) -> Result<Discipline, ScenarioError> {
        let ecn = self.get("link.ecn")?;
        Ok(match self.text("link.queue")? {
            "codel" => Discipline::CoDel(self.codel(mtu, rate_bps, ecn)?),
            "fq-codel" => Discipline::FqCoDel(self.codel(mtu, rate_bps, false)?),
            _ => Discipline::DropTail,
        })
    }

    fn codel(&self, mtu: u64, rate_bps: u64, ecn: bool) -> Result<CoDelSpec, ScenarioError> {
        let path = "link.codel_target";
        let target = if self.has(path) {
            self.get(path)?
        } else {
            let packet = u128::from(mtu) * 8_000_000 / u128::from(rate_bps.max(1));
            let micros = u64::try_from(packet).unwrap_or(u64::MAX);
            CODEL_TARGET.max(Duration::from_micros(micros))
        };
        let path = "link.codel_interval";
        let interval: Duration = self.get(path)?;
        if interval.is_zero() {
            let why = "link.codel_interval is 0, so nothing would ever stand long enough";
            return Err(impossible(self.place(path), why));
        }
        Ok(CoDelSpec {
            target,
            interval,
            mtu_bytes: mtu as u32,
            ecn,
        })
    }
}

#[cfg(test)]
mod tests {
    use carob_sim::spec::RunRecord;

    use crate::testing::spec;

    fn record(cell: &str, set: &[&str]) -> RunRecord {
        let run = spec("stress/neighbour", cell, set).expect("valid");
        carob_sim::run(&run).expect("a run")
    }

    /// The time of the neighbour's exchanges in seconds.
    fn neighbour(record: &RunRecord) -> f64 {
        let flow = &record.others[0];
        flow.ended.since(flow.started).as_micros() as f64 / 1e6
    }

    #[test]
    fn a_sparse_neighbour_does_not_wait_in_queues_of_flows() {
        // Bursts of up to ten blocks (RFC 9177) of each of four clients.
        let set = ["loss=0 %", "buffer=64 kB", "clients=4", "q_block=non"];
        let fifo = record("neighbour-down-16", &set);
        let fair = record(
            "neighbour-down-16",
            &[&set[..], &["link.queue=fq-codel"]].concat(),
        );
        let [fifo, sparse] = [&fifo, &fair].map(neighbour);
        assert!(sparse < 0.8 * fifo, "{sparse} {fifo}");
        // 60 exchanges: a round trip of 0.32 s, and at most one packet of 0.15 s of each client before.
        assert!(sparse < 60.0 * (0.32 + 4.5 * 0.15), "{sparse}");
        let [down, up] = [fair.link.down, fair.link.up];
        assert!(down.dropped_early > 0, "{down:?}");
        for one in [down, up] {
            let known = one.dropped_full + one.dropped_early + one.lost + one.delivered;
            assert_eq!(one.offered, known, "{one:?}");
        }
    }

    #[test]
    fn queues_of_flows_lose_nothing_of_a_single_client() {
        let plain = record("neighbour-alone", &["loss=0 %"]);
        let fair = record("neighbour-alone", &["loss=0 %", "link.queue=fq-codel"]);
        let time = |record: &RunRecord| record.flows[0].ended.as_micros() as f64 / 1e6;
        assert!(
            (time(&fair) / time(&plain) - 1.0).abs() < 0.02,
            "{}",
            time(&fair)
        );
        assert_eq!(plain.flows[0].packets, fair.flows[0].packets);
        assert_eq!(fair.link.down.lost, 0);
    }

    #[test]
    fn queues_of_flows_are_refused_over_tcp() {
        let set = ["link.queue=fq-codel", "run.algorithms=tcp-newreno"];
        let error = spec("carob/default", "default-none", &set).expect_err("over TCP");
        assert!(error.contains("fq-codel has flows of datagrams"), "{error}");
    }
}
