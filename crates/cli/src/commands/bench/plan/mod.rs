//! The load by the command line; impossible combinations are refused with a remedy.

mod combinations;
mod target;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carob::{BlockSize, Code, TransmissionParameters, TransmissionProfile};
use carob_proto::codec::Uri;
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::{BodyMode, Config, RequestConfig, Tracing};
use carob_proto::message::Request;

use super::args::{Arrivals, BenchArgs, Method, Mode};
use crate::args::controller;
use crate::failure::{Failure, Kind};

pub(super) use target::Target;

/// Default for the largest number of outstanding requests in the open loop.
const OPEN_LOOP_OUTSTANDING: u32 = 1_024;
/// Default number of source ports.
const PORTS: u32 = 16;
/// Most requests outstanding: the limit of an endpoint's tables.
const OUTSTANDING_MAX: u32 = 65_536;
/// Source ports at most at a time: a machine has not many more.
const PORTS_MAX: u32 = 20_000;
/// The most messages from one source port: Message IDs that are free within EXCHANGE_LIFETIME.
pub(super) const PORT_MESSAGES_MAX: u32 = 64_000;
/// The longest body that is sent: what blocks of 1024 bytes can number (RFC 7959 2.2).
const BODY_MAX: usize = 1 << 30;
/// The longest body of a request that is no upload, which must fit one message.
const PAYLOAD_MAX: usize = 1_024;
/// Messages of the server's that a port remembers to know their repetitions. At it, the oldest is
/// forgotten, and its repetition counts as late.
const REMEMBERED: usize = 1_024;

/// When requests start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// When one before has ended.
    Closed,
    /// At scheduled times.
    Open {
        rate: f64,
        arrivals: Arrivals,
        seed: u64,
    },
}

/// The load as planned.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) mode: Mode,
    pub(super) target: Arc<Target>,
    pub(super) request: Request,
    pub(super) confirmable: bool,
    pub(super) pace: Pace,
    pub(super) outstanding: usize,
    pub(super) ports: usize,
    pub(super) threads: usize,
    pub(super) warm_up: Duration,
    /// Time measured; `None` to go by `requests` alone.
    pub(super) duration: Option<Duration>,
    pub(super) requests: Option<u64>,
    pub(super) timeout: Duration,
    pub(super) controller: String,
    pub(super) choice: CongestionControl,
    pub(super) profile: Option<TransmissionProfile>,
    pub(super) nstart: u16,
    pub(super) block_size: Option<BlockSize>,
    /// Bytes of the tokens of requests.
    pub(super) token_length: u16,
    pub(super) port_messages: u32,
}

fn wrong(what: impl std::fmt::Display, remedy: &str) -> Failure {
    Failure::new(Kind::Usage, what).hint(remedy)
}

impl Plan {
    pub(super) fn new(args: &BenchArgs) -> Result<Self, Failure> {
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
                format_args!(
                    "{outstanding} requests outstanding cannot be spread over {ports} ports"
                ),
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
        let target = Target::resolve(&args.uri, &args.psk, &args.tls).map(Arc::new)?;
        let seconds = if mode.moves_bodies() { 60 } else { 10 };
        let counted = args.requests.is_some();
        let choice = match (&args.cc, args.profile) {
            (Some(name), _) => controller(name)?,
            (None, Some(profile)) => CongestionControl::Registered(profile.controller()),
            (None, None) => CongestionControl::default(),
        };
        let moves_blocks = mode.moves_bodies();
        let of_profile = args
            .profile
            .filter(|_| moves_blocks)
            .and_then(|profile| BlockSize::from_bytes_at_most(usize::from(profile.block_bytes())));
        let plan = Self {
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
            profile: args.profile,
            nstart: args.nstart.unwrap_or(share).max(1),
            block_size: args.block_size.or(of_profile),
            token_length: args.token_length,
            port_messages,
        };
        Ok(plan)
    }

    /// The engine's settings for one source port.
    pub(super) fn config(&self) -> Config {
        let mut config = Config::default();
        let mut parameters = match (self.profile, &self.choice) {
            (Some(profile), _) => profile.parameters(),
            (None, CongestionControl::Registered(entry)) => {
                entry.suggested.apply(TransmissionParameters::DEFAULT)
            }
            (None, _) => TransmissionParameters::DEFAULT,
        };
        parameters.nstart = self.nstart;
        config.parameters = parameters;
        config.controller = self.choice.clone();
        config.token_length = self.token_length;
        config.trace = Tracing::Exchanges;
        config.limits.dedup_idempotent = REMEMBERED;
        config.limits.queue = config.limits.queue.max(self.outstanding);
        if let Some(size) = self.block_size {
            config.block_size = size;
            config.negotiate_early = self.mode == Mode::Block;
        }
        config
    }

    /// Configuration of each request.
    pub(super) fn sending(&self) -> RequestConfig {
        let mut sending = RequestConfig::default();
        sending.confirmable = self.confirmable;
        sending.deadline = Some(self.timeout.into());
        if self.mode == Mode::Block {
            // So that bodies of any size can be read.
            sending.response_body = BodyMode::Streamed;
        }
        sending
    }

    /// Returns true if anything goes through DTLS sessions.
    pub(super) fn is_secured(&self) -> bool {
        self.target.secure.is_some()
    }
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
pub(super) mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    /// The plan of a command line.
    pub(in super::super) fn plan(words: &str) -> Result<Plan, Failure> {
        let words = format!("bench coap://127.0.0.1/hello {words}");
        let line = Line::try_parse_from(words.split_whitespace()).expect("known options");
        Plan::new(&line.args)
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
        let of = |words| plan(words).expect("possible").nstart;
        assert_eq!(of("--outstanding 64 --ports 16"), 4);
        assert_eq!(of("--outstanding 65 --ports 16"), 5);
        assert_eq!(of("--rate 100/s"), 64);
        assert_eq!(of("--mode block"), 1);
        assert_eq!(of("--mode block --nstart 8"), 8);
    }

    #[test]
    fn a_number_of_requests_takes_the_place_of_the_times() {
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
    fn a_profile_reaches_the_engine_and_other_options_go_over_it() {
        let profile = TransmissionProfile::Thread;
        let config = plan("--profile thread").expect("known").config();
        assert_eq!(config.parameters, profile.parameters());
        assert_eq!(config.controller.name(), profile.controller().name);
        let words = "--profile thread --mode block --cc cocoa-03 --nstart 3";
        let config = plan(words).expect("known").config();
        assert_eq!(config.block_size.bytes(), 64);
        assert_eq!(config.controller.name(), "cocoa-03");
        assert_eq!(config.parameters.nstart, 3);
        assert_eq!(config.parameters.rto_max, profile.parameters().rto_max);
        let words = "--profile thread --mode block --block-size 128";
        let config = plan(words).expect("known").config();
        assert_eq!(config.block_size.bytes(), 128);
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
