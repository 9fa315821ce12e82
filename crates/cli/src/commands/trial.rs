//! `carob try`: controllers beside each other on a real server, by interleaved and paired requests.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use carob::{Client, Reply};
use carob_lab::compare::seconds;
use carob_lab::paired::PairedRatio;
use carob_lab::statistics::Statistics;
use carob_lab::text::{Emphasis, TextTable};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::time::sleep_until;

use super::client;
use super::lab::output::{self, quoted, say, say_table, suggest};
use crate::args::{ChoiceArgs, NetworkArgs, TrialTraffic, TryArgs, WatchArgs};
use crate::failure::{Failure, Kind, Outcome};
use crate::monitor::Monitor;
use crate::printer;

/// Pairs after which the result is examined, doubled each time.
const FIRST_LOOK: usize = 10;
/// Share by which a controller has to be better to be recommended, and the time in seconds.
const GAIN_MIN: f64 = 0.1;
const GAIN_SECONDS: f64 = 0.005;
/// Controllers at most.
const CONTROLLERS_MAX: usize = 8;
/// Payload of telemetry.
const PAYLOAD_BYTES: usize = 64;

impl TrialTraffic {
    fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Telemetry => "telemetry",
            Self::Firmware => "firmware",
        }
    }

    fn pairs(self) -> u32 {
        match self {
            Self::Firmware => 20,
            Self::Command | Self::Telemetry => 100,
        }
    }
}

/// The request.
struct Subject {
    uri: String,
    traffic: TrialTraffic,
    deadline: Option<Duration>,
}

/// A controller with its endpoint and measurements.
struct Candidate {
    name: String,
    client: Client,
    times: Vec<f64>,
    failed: usize,
    retransmissions: u64,
}

/// The result for one controller.
#[derive(Debug, Serialize)]
struct Measured {
    controller: String,
    requests: usize,
    failed: usize,
    retransmissions: u64,
    /// Seconds to the whole response, or until a failed request was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_s: Option<Statistics>,
    /// Its mean relative to the first controller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<PairedRatio>,
}

/// The result of a trial.
#[derive(Debug, Serialize)]
struct Trial<'a> {
    uri: &'a str,
    traffic: TrialTraffic,
    pairs: usize,
    is_settled: bool,
    recommended: &'a str,
    controllers: &'a [Measured],
}

/// Runs the trial; Ctrl-C ends it with the result so far.
pub(super) async fn run(args: TryArgs) -> Result<Outcome, Failure> {
    check(&args)?;
    let pairs = args.pairs.unwrap_or(args.traffic.pairs()) as usize;
    if !begin(&args, pairs)? {
        return Ok(Outcome::Interrupted);
    }
    let subject = Subject {
        uri: args.uri.clone(),
        traffic: args.traffic,
        deadline: args.deadline,
    };
    let (interval, within) = (args.interval, args.within);
    let (json, prefix) = (args.json, args.output.clone());
    let capture = PathBuf::from(format!("{prefix}.pcapng"));
    let watch = WatchArgs {
        pcap: Some(capture.clone()),
        ..WatchArgs::default()
    };
    let monitor = Monitor::open(&watch)?;
    let mut candidates = open(args, &monitor)?;
    for candidate in &mut candidates {
        first(candidate, &subject, &monitor).await?;
    }
    let looks = looks(pairs, candidates.len());
    let bar = progress(pairs);
    let end = Instant::now() + within;
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let mut is_settled = false;
    'trial: for pair in 0..pairs {
        for place in 0..candidates.len() {
            // Each is first as often as the others.
            let place = (place + pair) % candidates.len();
            let next = Instant::now() + interval;
            if Instant::now() >= end {
                break 'trial;
            }
            tokio::select! {
                () = measure(&mut candidates[place], &subject, &monitor) => {}
                _ = &mut interrupted => break 'trial,
            }
            tokio::select! {
                () = sleep_until(next.into()) => {}
                _ = &mut interrupted => break 'trial,
            }
        }
        bar.inc(1);
        if looks.at.contains(&(pair + 1)) && is_clear(&candidates, &looks) {
            is_settled = true;
            break;
        }
    }
    bar.finish_and_clear();
    drop(monitor);
    let measured = results(&candidates, &looks);
    let trial = Trial {
        uri: &subject.uri,
        traffic: subject.traffic,
        pairs: complete_pairs(&candidates),
        is_settled,
        recommended: recommended(&measured),
        controllers: &measured,
    };
    if json {
        printer::json(&trial);
    } else {
        show(&trial, within);
    }
    write_link(&capture, &prefix, &trial, json);
    Ok(Outcome::Done)
}

fn check(args: &TryArgs) -> Result<(), Failure> {
    let wrong = |text: String| Err(Failure::new(Kind::Usage, text));
    if args.cc.len() < 2 || args.cc.len() > CONTROLLERS_MAX {
        return wrong(format!(
            "--cc takes 2 to {CONTROLLERS_MAX} controllers, as in --cc default,carob"
        ));
    }
    let is_twice = |(place, name)| args.cc[..place].contains(name);
    if let Some((_, name)) = args.cc.iter().enumerate().find(|one| is_twice(*one)) {
        return wrong(format!("--cc names {name} twice"));
    }
    Ok(())
}

/// Describes the trial, and asks for confirmation on a terminal. Returns false for a no.
fn begin(args: &TryArgs, pairs: usize) -> Result<bool, Failure> {
    let rate = 60.0 / args.interval.as_secs_f64().max(0.001);
    let what = match args.traffic {
        TrialTraffic::Command => "GET",
        TrialTraffic::Telemetry => "POST of 64 B",
        TrialTraffic::Firmware => "GET of a large resource",
    };
    let count = (pairs + 1) * args.cc.len();
    let output = &args.output;
    let link = if cfg!(feature = "analyze") {
        format!(" and {output}.toml")
    } else {
        String::new()
    };
    printer::remark(&format!(
        "{what} {}: at most {count} requests, one and then {pairs} with each of {}; at most {rate:.0} a minute, \
         one at a time, for at most {:.0} s. Writes {output}.pcapng{link}.",
        args.uri,
        args.cc.join(", "),
        args.within.as_secs_f64(),
    ));
    if args.yes || !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(true);
    }
    let failed = |error| Failure::new(Kind::Usage, format_args!("cannot ask: {error}"));
    io::stderr().write_all(b"Begin? [Y/n] ").map_err(failed)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    let answer = answer.trim();
    Ok(answer.is_empty() || answer.eq_ignore_ascii_case("y") || answer.eq_ignore_ascii_case("yes"))
}

/// An endpoint for each controller.
fn open(args: TryArgs, monitor: &Monitor) -> Result<Vec<Candidate>, Failure> {
    let mut network = NetworkArgs {
        choice: ChoiceArgs::default(),
        transmission: args.transmission,
        deadline: args.deadline,
        #[cfg(any(feature = "dtls", feature = "tls"))]
        tls: args.tls,
        #[cfg(feature = "dtls")]
        psk: args.psk,
    };
    super::check_keys(&network, None, std::slice::from_ref(&args.uri))?;
    let mut candidates = Vec::new();
    for name in args.cc {
        network.choice.cc = Some(name.clone());
        candidates.push(Candidate {
            name,
            client: client(&network, monitor, |settings| settings)?,
            times: Vec::new(),
            failed: 0,
            retransmissions: 0,
        });
    }
    Ok(candidates)
}

async fn request(candidate: &Candidate, subject: &Subject) -> Result<Reply, carob::Error> {
    let client = &candidate.client;
    let mut request = match subject.traffic {
        TrialTraffic::Telemetry => client.post(&subject.uri).body(vec![b'.'; PAYLOAD_BYTES]),
        TrialTraffic::Command | TrialTraffic::Firmware => client.get(&subject.uri),
    };
    if let Some(deadline) = subject.deadline {
        request = request.timeout(deadline);
    }
    request.await
}

/// One request that does not count: it resolves the name, connects, and shows that the server answers.
async fn first(
    candidate: &mut Candidate,
    subject: &Subject,
    monitor: &Monitor,
) -> Result<(), Failure> {
    let uri = &subject.uri;
    monitor.reset_tally();
    let reply = request(candidate, subject).await;
    monitor.end_wait();
    let reply = reply.map_err(|e| Failure::of_request(e, uri, monitor.counters().of_last))?;
    if reply.code.is_success() {
        return Ok(());
    }
    let text = format!("{uri}: the server answered {:?}", reply.code);
    Err(Failure::new(Kind::Refused, text)
        .hint("a trial needs a resource that answers with success"))
}

async fn measure(candidate: &mut Candidate, subject: &Subject, monitor: &Monitor) {
    monitor.reset_tally();
    let began = Instant::now();
    let reply = request(candidate, subject).await;
    let took = began.elapsed();
    monitor.end_wait();
    let answered = reply.is_ok_and(|reply| reply.code.is_success());
    candidate.failed += usize::from(!answered);
    candidate.times.push(took.as_secs_f64());
    candidate.retransmissions += u64::from(monitor.counters().retransmissions);
}

/// Pairs at which the result is examined, and the coverage of each interval: 95 % for all of them
/// together (Bonferroni).
struct Looks {
    at: Vec<usize>,
    coverage: f64,
}

fn looks(pairs: usize, controllers: usize) -> Looks {
    let mut at: Vec<usize> = std::iter::successors(Some(FIRST_LOOK), |at| Some(at * 2))
        .take_while(|at| *at < pairs)
        .collect();
    at.push(pairs);
    let intervals = at.len() * (controllers - 1);
    Looks {
        at,
        coverage: 1.0 - 0.05 / intervals as f64,
    }
}

/// Turns in which each controller has made its request.
fn complete_pairs(candidates: &[Candidate]) -> usize {
    let made = candidates.iter().map(|one| one.times.len());
    made.min().unwrap_or_default()
}

/// The other's times beside the first's; an incomplete last turn is left out.
fn ratio(first: &Candidate, other: &Candidate, looks: &Looks) -> Option<PairedRatio> {
    let times = first.times.iter().copied().zip(other.times.iter().copied());
    PairedRatio::of(&times.collect::<Vec<_>>(), looks.coverage)
}

/// Returns whether each controller is better or worse than the first beyond chance, or about equal.
fn is_clear(candidates: &[Candidate], looks: &Looks) -> bool {
    candidates[1..].iter().all(|other| {
        ratio(&candidates[0], other, looks).is_some_and(|ratio| {
            let is_equal = ratio.low > 1.0 - GAIN_MIN && ratio.high < 1.0 + GAIN_MIN;
            ratio.high < 1.0 || ratio.low > 1.0 || is_equal
        })
    })
}

fn results(candidates: &[Candidate], looks: &Looks) -> Vec<Measured> {
    let measured = candidates.iter().enumerate().map(|(place, one)| Measured {
        controller: one.name.clone(),
        requests: one.times.len(),
        failed: one.failed,
        retransmissions: one.retransmissions,
        time_s: Statistics::of(&one.times),
        ratio: (place > 0)
            .then(|| ratio(&candidates[0], one, looks))
            .flatten(),
    });
    measured.collect()
}

/// The best controller that fails no more often than the first and gains beyond chance, else the first.
fn recommended(measured: &[Measured]) -> &str {
    let share = |one: &Measured| one.failed as f64 / one.requests.max(1) as f64;
    let first = &measured[0];
    let before = first.time_s.map_or(0.0, |time| time.mean);
    let gains = |one: &&Measured| {
        one.ratio.is_some_and(|ratio| {
            let gain = (1.0 - ratio.value, (1.0 - ratio.value) * before);
            ratio.high < 1.0
                && gain.0 >= GAIN_MIN
                && gain.1 >= GAIN_SECONDS
                && share(one) <= share(first)
        })
    };
    let ratio = |one: &&Measured| one.ratio.map_or(f64::INFINITY, |ratio| ratio.value);
    let best = measured
        .iter()
        .filter(gains)
        .min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    &best.unwrap_or(first).controller
}

fn table(trial: &Trial<'_>) -> TextTable {
    let mut table = TextTable::new([
        "controller",
        ">answered",
        ">mean",
        ">median",
        ">p95",
        ">retransm.",
    ]);
    for one in trial.controllers {
        let time =
            |of: fn(&Statistics) -> f64| one.time_s.map_or("-".to_owned(), |t| seconds(of(&t)));
        table.add(vec![
            one.controller.clone(),
            format!("{} of {}", one.requests - one.failed, one.requests),
            time(|t| t.mean),
            time(|t| t.p50),
            time(|t| t.p95),
            one.retransmissions.to_string(),
        ]);
        if one.controller == trial.recommended {
            table.emphasise(0, Emphasis::Best);
        }
    }
    table
}

/// The ratio in words.
fn beside(one: &Measured, first: &str) -> Option<String> {
    let PairedRatio { value, low, high } = one.ratio?;
    let name = &one.controller;
    let text = if value <= 0.5 {
        format!("{name} is {:.1} times as fast as {first}", 1.0 / value)
    } else if value <= 1.0 {
        format!(
            "{name} takes {:.0} % less time than {first}",
            (1.0 - value) * 100.0
        )
    } else {
        format!(
            "{name} takes {:.0} % more time than {first}",
            (value - 1.0) * 100.0
        )
    };
    let chance = if high < 1.0 || low > 1.0 {
        ""
    } else {
        ", which may be chance"
    };
    Some(format!(
        "{text}: {value:.2} of its mean (95 % interval {low:.2} to {high:.2}){chance}."
    ))
}

fn show(trial: &Trial<'_>, within: Duration) {
    let first = &trial.controllers[0].controller;
    if trial.pairs < 2 {
        say("Too few requests for an answer; let it run longer.");
        return;
    }
    let sentence = if trial.recommended == first && !trial.is_settled {
        format!(
            "Stay with {first} for now: {} pairs do not show that another is at least 10 % and 5 ms better.",
            trial.pairs
        )
    } else if trial.recommended == first {
        format!("Stay with {first}: no other is at least 10 % and 5 ms better beyond chance.")
    } else {
        format!("Use {0}, at the client: --cc {0}.", trial.recommended)
    };
    printer::strong(&sentence);
    for text in trial.controllers[1..]
        .iter()
        .filter_map(|one| beside(one, first))
    {
        say(text);
    }
    let pairs = trial.pairs;
    if trial.is_settled {
        say(format_args!("{pairs} pairs of requests, settled."));
    } else {
        let limit = within.as_secs_f64();
        say(format_args!(
            "{pairs} pairs of requests, not settled: more narrow the interval (--pairs, and --within beyond {limit:.0} s)."
        ));
    }
    let mut controllers = trial.controllers.iter();
    let nothing_lost = controllers.all(|one| one.retransmissions == 0 && one.failed == 0);
    if nothing_lost && trial.traffic != TrialTraffic::Firmware {
        say(
            "No message was retransmitted. Without losses, controllers do not differ in such requests.",
        );
    }
    say("");
    say_table(&table(trial), 0);
    say(
        "\nTimes are until the whole response, or until a request was given up. p95: 95th percentile.\n",
    );
}

/// Fits the link to the capture and writes it; prints a note if the build or the capture does not allow it.
fn write_link(capture: &Path, prefix: &str, trial: &Trial<'_>, quiet: bool) {
    let link = format!("{prefix}.toml");
    #[cfg(feature = "analyze")]
    let written = super::analyze::fit(capture, Path::new(&link));
    #[cfg(not(feature = "analyze"))]
    let written: Result<(), Failure> = Err(crate::features::missing("`carob analyze`", "analyze"));
    if quiet {
        return;
    }
    say(format_args!("Capture: {}", capture.display()));
    match written {
        Ok(()) => {
            say(format_args!("Link: {link}\n\nNext:"));
            let compare = format!(
                "carob lab compare --link {} --traffic {}",
                quoted(&link),
                trial.traffic.name()
            );
            suggest([(&compare[..], "the simulator's answer for this link")]);
        }
        Err(failure) => say(format_args!("No link: {}", failure.message)),
    }
}

fn progress(pairs: usize) -> ProgressBar {
    let bar = output::progress(pairs);
    let style = ProgressStyle::with_template("{bar:40} {pos} of at most {len} pairs, {elapsed}");
    bar.set_style(style.expect("a valid template"));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(controller: &str, requests: usize, failed: usize, ratio: f64) -> Measured {
        let value = ratio;
        let ratio = PairedRatio {
            value,
            low: value * 0.95,
            high: value * 1.05,
        };
        Measured {
            controller: controller.to_owned(),
            requests,
            failed,
            retransmissions: 0,
            time_s: Statistics::of(&[value, value]),
            ratio: (controller != "default").then_some(ratio),
        }
    }

    #[test]
    fn a_controller_is_recommended_if_it_gains_and_fails_no_more() {
        let first = || measured("default", 40, 1, 1.0);
        let of = |others: Vec<Measured>| {
            let all: Vec<Measured> = std::iter::once(first()).chain(others).collect();
            recommended(&all).to_owned()
        };
        assert_eq!(of(vec![measured("carob", 40, 1, 0.5)]), "carob");
        assert_eq!(
            of(vec![measured("carob", 40, 2, 0.5)]),
            "default",
            "fails more"
        );
        assert_eq!(
            of(vec![measured("carob", 40, 1, 0.94)]),
            "default",
            "below 10 %"
        );
        let both = vec![measured("carob", 40, 1, 0.7), measured("fasor", 40, 0, 0.6)];
        assert_eq!(of(both), "fasor");
    }

    #[test]
    fn intervals_of_all_looks_hold_together() {
        let looks = looks(100, 3);
        assert_eq!(looks.at, [10, 20, 40, 80, 100]);
        assert!((looks.coverage - 0.995).abs() < 1e-12);
        assert_eq!(super::looks(5, 2).at, [5]);
    }
}
