//! `carob observe`: the states of a resource as they come.

use std::future::pending;
use std::time::Duration;

use carob::client::{Observation, Update};
use carob::{Client, Error, Reply};

use super::request::select;
use super::stop::Stop;
use super::{client, messages};
use crate::args::ObserveArgs;
use crate::failure::{Failure, Kind, Outcome};
use crate::monitor::Monitor;
use crate::printer::{self, States};

/// Time for which the end of the observation is awaited.
const GOODBYE: Duration = Duration::from_secs(3);

/// Why an observation is over.
enum End {
    /// The requested number of states or time was reached, or the reader closed the pipe.
    Enough,
    Interrupted,
    /// The server's last word.
    Server(Reply),
}

/// Observes until it is enough.
pub(crate) async fn run(args: ObserveArgs) -> Result<Outcome, Failure> {
    let uris = std::slice::from_ref(&args.uri);
    super::check_keys(&args.network, args.message.proxy.as_deref(), uris)?;
    let monitor = Monitor::open(&args.watch)?;
    let client = client(&args.network, &monitor, |settings| {
        messages(settings, &args.message)
    })?;
    let request = client.get(&args.uri).confirmable(!args.message.non);
    let mut request = select(super::via(request, &args.message), &args.select);
    if let Some(deadline) = args.network.deadline {
        request = request.timeout(deadline);
    }
    let states = States::new(&args.uri, args.json, args.raw);
    let mut stop = Stop::listen()?;
    let began = tokio::time::Instant::now();
    let registered = tokio::select! {
        registered = request.observe() => registered,
        () = stop.asked() => return Ok(Outcome::Interrupted),
    };
    let mut observation = match registered {
        Ok(observation) => observation,
        Err(error) => return Err(failed(&args, &monitor, error)),
    };
    let enough = async {
        match args.time {
            Some(time) => tokio::time::sleep_until(began + time).await,
            None => pending().await,
        }
    };
    let end = tokio::select! {
        followed = follow(&client, &mut observation, &states, args.count) => {
            followed.map_err(|error| failed(&args, &monitor, error))?
        }
        () = enough => End::Enough,
        () = stop.asked() => End::Interrupted,
    };
    let skipped = observation.skipped();
    if skipped > 0 {
        printer::remark(&format!(
            "{skipped} states came faster than they could be shown"
        ));
    }
    let outcome = match end {
        End::Server(last) => return Ok(ended_by_server(&args, &states, &last)),
        End::Enough => Outcome::Done,
        End::Interrupted => Outcome::Interrupted,
    };
    // The reader may have closed the pipe, and nothing else depends on this.
    let _ = states.ended(None);
    let stopped = tokio::select! {
        stopped = tokio::time::timeout(GOODBYE, observation.stop()) => stopped.ok(),
        () = stop.asked() => None,
    };
    if !matches!(stopped, Some(Ok(_))) {
        printer::remark(
            "the server did not confirm the end; its next notification will be refused",
        );
    }
    Ok(outcome)
}

/// Prints notifications until the requested number or time, or until the server ends the observation.
async fn follow(
    client: &Client,
    observation: &mut Observation,
    states: &States<'_>,
    count: Option<u64>,
) -> Result<End, Error> {
    let mut seen = 0;
    loop {
        let Some(update) = observation.next().await else {
            return Err(Error::Closed);
        };
        let shown = match update? {
            Update::State(reply) => {
                seen += 1;
                let snapshot = client.snapshot(reply.peer).await;
                let round_trip = snapshot.and_then(|snapshot| snapshot.round_trip);
                states.state(&reply, round_trip.map(Into::into))
            }
            Update::Stale(why) => states.stale(why.map(Failure::from).as_ref()),
            Update::Ended(reply) => {
                // Of a resource that cannot be observed, this is its state all the same.
                let counts = reply.code.is_success() && count == Some(seen + 1);
                if counts && states.state(&reply, None).is_ok() {
                    return Ok(End::Enough);
                }
                return Ok(End::Server(reply));
            }
            _ => Ok(()),
        };
        // A write that fails means that the reader has closed the pipe.
        if shown.is_err() || count.is_some_and(|count| seen >= count) {
            return Ok(End::Enough);
        }
    }
}

/// The end that the server has put to it.
fn ended_by_server(args: &ObserveArgs, states: &States<'_>, last: &Reply) -> Outcome {
    let success = last.code.is_success();
    // Nothing is printed for a reader that has closed the pipe.
    if success && !args.json {
        let _ = states.state(last, None);
    }
    let _ = states.ended(Some(last));
    if !success {
        printer::refusal(&args.uri, last, last.bytes());
        return Outcome::Response(last.code);
    }
    let text = format!("{} is not observable, or no longer", args.uri);
    let failure = Failure::new(Kind::Refused, text);
    failure.hint("`carob get` reads it once").into()
}

fn failed(args: &ObserveArgs, monitor: &Monitor, error: Error) -> Failure {
    let peer = args.message.proxy.as_deref().unwrap_or(&args.uri);
    let failure = Failure::of_request(error, peer, monitor.counters().of_last);
    if args.json {
        printer::failure_json(&args.uri, &failure, None);
    }
    failure
}
