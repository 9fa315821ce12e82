//! `carob ping`: is a CoAP endpoint there?

use super::client;
use crate::args::PingArgs;
use crate::failure::{Failure, Kind, Outcome};
use crate::printer;

/// Pings once and shows the round-trip time.
pub(crate) async fn run(args: PingArgs) -> Result<Outcome, Failure> {
    let exchange = args.exchange;
    let client = client(&exchange, |settings| settings)?;
    let asked = async { Ok(client.ping(&exchange.uri).await?) };
    let outcome = match exchange.deadline {
        Some(deadline) => tokio::time::timeout(deadline, asked)
            .await
            .unwrap_or_else(|_| {
                let seconds = deadline.as_secs_f64();
                let text = format!("{} did not answer within {seconds:.1} s", exchange.uri);
                Err(Failure::new(Kind::NoAnswer, text).hint("allow more time with --deadline"))
            }),
        None => asked.await,
    };
    match outcome {
        Ok(round_trip) => {
            printer::pong(&exchange.uri, round_trip, exchange.json);
            Ok(Outcome::Done)
        }
        Err(failure) => {
            if exchange.json {
                printer::failure_json(&failure);
            }
            Err(failure)
        }
    }
}
