//! A custom congestion controller: timers of twice the longest round-trip time so far.
//!
//! `cargo run -p carob --example custom_controller -- coap://127.0.0.1/count`, with
//! `cargo run -p carob --example counter -- 127.0.0.1:5683` in another terminal, sends ten requests and
//! prints the RTO. It illustrates the interface and is not a controller to use.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use carob::{Client, Config, CongestionControl};
use carob_cc::contract::{Breach, Lcg, Trial};
use carob_cc::controller::{Controller, Gauge, Timer};
use carob_cc::evidence::{Answered, Expired, Start};
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};

/// Controller with an RTO of twice the longest round-trip time of exchanges without retransmission.
#[derive(Debug)]
struct SlowestSoFar {
    slowest: Option<Duration>,
}

impl SlowestSoFar {
    /// Minimum RTO.
    const SHORTEST: Duration = Duration::from_millis(50);

    /// Maximum RTO.
    const LONGEST: Duration = Duration::from_secs(60);

    fn rto(&self) -> Option<Duration> {
        self.slowest
            .map(|slowest| slowest.times(2).clamp(Self::SHORTEST, Self::LONGEST))
    }
}

impl Controller for SlowestSoFar {
    fn first_timeout(&mut self, start: &Start<'_>, _: &mut dyn Random) -> Timer {
        self.rto().unwrap_or(start.parameters.ack_timeout).into()
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        expired.timeout.times(2).into()
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        // Karn's rule: a retransmitted message gives no sample.
        if answered.transmissions.len() == 1 {
            self.slowest = self.slowest.max(Some(answered.since_original()));
        }
    }

    fn gauges(&self, _: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        if let Some(rto) = self.rto() {
            visit("rto", Gauge::Time(rto));
        }
    }
}

/// Runs 100,000 random steps of the contract suite.
fn keeps_the_contract() -> Result<(), Breach> {
    let fresh = || SlowestSoFar { slowest: None };
    let mut trial = Trial::new(fresh(), fresh(), false);
    let mut random = Lcg(1);
    (0..100_000).try_for_each(|_| trial.step(&mut random))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let uri = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "coap://localhost/hello".into());
    keeps_the_contract()?;
    let choice =
        CongestionControl::Custom(Arc::new(|_peer| Box::new(SlowestSoFar { slowest: None })));
    let client = Client::builder()
        .config(Config::new().controller(choice))
        .open()?;
    for _ in 0..10 {
        let reply = client.get(&uri).await?;
        let readings = client.gauges(reply.peer).await.unwrap_or_default();
        println!("{} after {:?}; {readings:?}", reply.code, reply.after);
    }
    Ok(())
}
