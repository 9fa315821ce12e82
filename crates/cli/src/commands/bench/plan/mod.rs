//! The load by the command line; impossible combinations are refused with a remedy.

mod combinations;
mod target;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carob::Code;
use carob_bench::{Arrivals, Mode, PORT_MESSAGES_MAX, Pace, Plan};
use carob_proto::codec::Uri;
use carob_proto::congestion::CongestionControl;
use carob_proto::message::Request;

use crate::args::bench::{BenchArgs, Method};
use crate::args::controller;
use crate::failure::{Failure, Kind};

/// Default for the largest number of outstanding requests in the open loop.
const OPEN_LOOP_OUTSTANDING: u32 = 1_024;
/// Default number of source ports.
const PORTS: u32 = 16;
/// Most requests outstanding: the limit of an endpoint's tables.
const OUTSTANDING_MAX: u32 = 65_536;
/// Source ports at most at a time: a machine has not many more.
const PORTS_MAX: u32 = 20_000;
/// The longest body that is sent: what blocks of 1024 bytes can number (RFC 7959 2.2).
const BODY_MAX: usize = 1 << 30;
/// The longest body of a request that is no upload, which must fit one message.
const PAYLOAD_MAX: usize = 1_024;

fn wrong(what: impl std::fmt::Display, remedy: &str) -> Failure {
    Failure::new(Kind::Usage, what).hint(remedy)
}

/// The plan of a command line.
pub(super) fn of(args: &BenchArgs) -> Result<Plan, Failure> {
    combinations::check(args)?;
    let mode = args.mode;
    let open = args.rate.is_some();
    let ports = within(args.ports.unwrap_or(PORTS), PORTS_MAX, "--ports")?;
    let default = if open {
        OPEN_LOOP_OUTSTANDING.max(ports)
    } else {
        ports
    };
    let outstanding = args.outstanding.unwrap_or(default);
    let outstanding = within(outstanding, OUTSTANDING_MAX, "--outstanding")?;
    if outstanding < ports {
        return Err(wrong(
            format_args!("{outstanding} requests outstanding cannot be spread over {ports} ports"),
            "use no more --ports than --outstanding",
        ));
    }
    let threads = within(args.threads, ports, "--threads")
        .map_err(|failure| failure.hint("every thread needs a port of its own (--ports)"))?;
    if args.requests == Some(0) {
        return Err(wrong(
            "--requests: 0 measures nothing",
            "ask for at least 1",
        ));
    }
    let port_messages = within(args.port_messages, PORT_MESSAGES_MAX, "--port-messages")?;
    let share = outstanding.div_ceil(ports) as u16;
    let request = request(args)?;
    let target = target::resolve(&args.uri, &args.psk, &args.tls).map(Arc::new)?;
    let seconds = if mode.moves_bodies() { 60 } else { 10 };
    let counted = args.requests.is_some();
    let choice = match &args.cc {
        Some(name) => controller(name)?,
        None => CongestionControl::default(),
    };
    let plan = Plan {
        mode,
        request: request.to(&target.uri),
        confirmable: !args.non,
        pace: match args.rate {
            None => Pace::Closed,
            Some(rate) => Pace::Open {
                rate,
                arrivals: args.arrivals.unwrap_or(Arrivals::Constant),
                seed: args.seed,
            },
        },
        target,
        outstanding: outstanding as usize,
        ports: ports as usize,
        threads: threads as usize,
        warm_up: args
            .warm_up
            .unwrap_or(Duration::from_secs(u64::from(!counted))),
        duration: args
            .duration
            .or((!counted).then_some(Duration::from_secs(10))),
        requests: args.requests,
        timeout: args.timeout.unwrap_or(Duration::from_secs(seconds)),
        controller: choice.name().to_owned(),
        choice,
        nstart: args.nstart.unwrap_or(share).max(1),
        block_size: args.block_size,
        token_length: args.token_length,
        port_messages,
    };
    Ok(plan)
}

/// A count of at least 1 and at most `most`.
fn within(count: u32, most: u32, option: &str) -> Result<u32, Failure> {
    if (1..=most).contains(&count) {
        return Ok(count);
    }
    Err(wrong(
        format_args!("{option}: {count} is not possible"),
        &format!("choose from 1 to {most}"),
    ))
}

/// A request that has no resource yet.
struct Template(Request);

impl Template {
    fn to(self, uri: &Uri) -> Request {
        let mut request = self.0;
        request.options = uri.options().clone();
        request
    }
}

fn request(args: &BenchArgs) -> Result<Template, Failure> {
    let code = match (args.mode, args.method) {
        (Mode::Get | Mode::Block, _) => Code::GET,
        (Mode::Post, _) | (Mode::Upload, Some(Method::Post)) => Code::POST,
        (Mode::Upload, Some(Method::Put) | None) => Code::PUT,
    };
    let mut request = Request::new(code);
    let length = args
        .payload
        .as_ref()
        .map_or(args.bytes, |text| Some(text.len()));
    let (most, remedy) = match args.mode {
        Mode::Upload => (BODY_MAX, "blocks of 1024 bytes cannot number more"),
        _ => (PAYLOAD_MAX, "send longer bodies with --mode upload"),
    };
    if length.is_some_and(|length| length > most) {
        return Err(wrong(
            format_args!("a body of more than {most} bytes cannot be sent"),
            remedy,
        ));
    }
    request.payload = match (&args.payload, args.bytes) {
        (Some(text), _) => Bytes::copy_from_slice(text.as_bytes()),
        // Every byte is its own offset, so that a mistake in the order of blocks can be seen.
        (None, Some(length)) => (0..length).map(|offset| offset as u8).collect(),
        (None, None) => Bytes::new(),
    };
    Ok(Template(request))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    /// The plan of a command line.
    fn plan(words: &str) -> Result<Plan, Failure> {
        let words = format!("bench coap://127.0.0.1/hello {words}");
        let line = Line::try_parse_from(words.split_whitespace()).expect("known options");
        of(&line.args)
    }

    fn refusal(words: &str) -> String {
        let failure = plan(words).expect_err(words);
        assert_eq!(failure.kind, Kind::Usage, "{words}");
        assert!(failure.hint.is_some(), "{words}: no remedy");
        failure.message
    }

    #[test]
    fn default_is_one_request_per_port_as_by_nstart() {
        let plan = plan("").expect("possible");
        assert_eq!((plan.outstanding, plan.ports, plan.nstart), (16, 16, 1));
        assert_eq!(plan.duration, Some(Duration::from_secs(10)));
        assert_eq!(plan.warm_up, Duration::from_secs(1));
        assert_eq!(plan.request.code, Code::GET);
    }

    #[test]
    fn nstart_lets_each_port_have_its_share() {
        let nstart = |words| plan(words).expect("possible").nstart;
        assert_eq!(nstart("--outstanding 64 --ports 16"), 4);
        assert_eq!(nstart("--outstanding 65 --ports 16"), 5);
        assert_eq!(nstart("--rate 100/s"), 64);
        assert_eq!(nstart("--mode block"), 1);
        assert_eq!(nstart("--mode block --nstart 8"), 8);
    }

    #[test]
    fn requests_option_replaces_durations() {
        let plan = plan("--requests 5").expect("possible");
        assert_eq!((plan.duration, plan.warm_up), (None, Duration::ZERO));
    }

    #[test]
    fn the_controllers_suggestions_reach_the_engine() {
        let plan = plan("--cc cocoa-03").expect("known");
        let suggested = carob_cc::registry::find("cocoa-03")
            .expect("known")
            .suggested;
        let parameters = plan.config().parameters;
        assert_eq!(parameters.rto_max, suggested.rto_max);
        assert!(parameters.rto_max.is_some(), "the source has a cap");
    }

    #[test]
    fn impossible_combinations_are_refused_with_a_remedy() {
        for words in [
            "--bytes 5",
            "--mode upload",
            "--mode get --method put",
            "--mode block --rate 5/s",
            "--mode block --outstanding 5",
            "--nstart 2",
            "--block-size 64",
            "--outstanding 3 --ports 4",
            "--outstanding 0",
            "--ports 0",
            "--ports 2 --threads 3",
            "--requests 0",
            "--port-messages 65000",
            "--mode post --bytes 2000",
        ] {
            refusal(words);
        }
    }
}
