//! A congestion controller of one's own: timers that follow the slowest answer seen so far.
//!
//! `cargo run --example custom_controller -- coap://HOST/PATH` asks ten times and shows how the
//! timer comes down. It is an illustration of the interface, not a controller to use.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use carob::{Choice, Client, Settings};
use carob_cc::contract::{Breach, Lcg, Trial};
use carob_cc::controller::{Controller, Gauge, Timer};
use carob_cc::evidence::{Answered, Expired, Start};
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};

/// Waits for twice the longest round trip of the exchanges without retransmission.
#[derive(Debug)]
struct SlowestSoFar {
    slowest: Option<Duration>,
}

impl SlowestSoFar {
    /// Never sooner than this, however fast the path.
    const SHORTEST: Duration = Duration::from_millis(50);

    /// Never later, whatever was once seen.
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
        // With one copy sent, it is clear which copy was answered (Karn's rule).
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

/// A hundred thousand random steps against what the engine relies on.
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
    let choice = Choice::Custom(Arc::new(|_peer| Box::new(SlowestSoFar { slowest: None })));
    let client = Client::builder()
        .settings(Settings::new().controller(choice))
        .open()?;
    for _ in 0..10 {
        let reply = client.get(&uri).await?;
        let readings = client.gauges(reply.peer).await.unwrap_or_default();
        println!("{} after {:?}; {readings:?}", reply.code, reply.after);
    }
    Ok(())
}
