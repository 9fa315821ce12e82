//! `carob ping`: is a CoAP endpoint there?

use std::time::Instant;

use super::{client, each};
use crate::args::PingArgs;
use crate::failure::{Failure, Kind, Outcome};
use crate::monitor::Monitor;
use crate::printer;

/// Pings each once and shows the round-trip time.
pub(crate) async fn run(args: PingArgs) -> Result<Outcome, Failure> {
    let PingArgs {
        hosts,
        show,
        network,
        watch,
    } = args;
    let uris: Vec<String> = hosts.iter().map(|host| super::with_scheme(host)).collect();
    super::check_keys(&network, None, &uris)?;
    let monitor = Monitor::open(&watch)?;
    let client = client(&network, &monitor, |settings| settings)?;
    let one = async |uri: &str| {
        monitor.reset_tally();
        let began = Instant::now();
        let asked = async {
            let ping = client.ping(uri).await;
            ping.map_err(|error| Failure::of_request(error, uri, monitor.counters().of_last))
        };
        let outcome = match network.deadline {
            Some(deadline) => tokio::time::timeout(deadline, asked)
                .await
                .unwrap_or_else(|_| {
                    let seconds = deadline.as_secs_f64();
                    let text = format!("{uri} did not answer within {seconds:.1} s");
                    let failure = Failure::new(Kind::NoAnswer, text);
                    let sent = match monitor.counters().of_last {
                        1 => "1 ping".to_owned(),
                        count => format!("{count} transmissions of the ping"),
                    };
                    Err(failure.hint(format_args!(
                        "{sent} went unanswered; -v shows each message, --deadline allows more time"
                    )))
                }),
            None => asked.await,
        };
        monitor.end_wait();
        let timing = if show.timing {
            Some(monitor.timing(&client, began.elapsed()).await)
        } else {
            None
        };
        let timing = timing.as_ref();
        match outcome {
            Ok(round_trip) if show.json => printer::pong_json(uri, round_trip, timing),
            Ok(round_trip) => printer::pong(uri, round_trip),
            Err(failure) => {
                if show.json {
                    printer::failure_json(uri, &failure, timing);
                }
                return Err(failure);
            }
        }
        if let Some(timing) = timing.filter(|_| !show.json) {
            printer::timing(timing);
        }
        Ok(Outcome::Done)
    };
    // The output names the URI.
    each(&uris, false, one).await
}
