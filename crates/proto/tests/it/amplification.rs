//! RFC 7252 11.3, RFC 9175 2.4: a spoofed source address causes at most three times as many bytes to the victim. Each
//! attack runs with and without the limit.

use std::net::SocketAddr;

use crate::net::wire::{self, view};
use crate::net::{Net, Stream, config, get, path_of, pattern, post, seconds};
use bytes::Bytes;
use carob_cc::random::Random as _;
use carob_cc::time::{Duration, Instant};
use carob_proto::Response;
use carob_proto::codec::{Code, MessageView, OptionNumber, Type};
use carob_proto::endpoint::{Config, Endpoint, Event, IncomingId, Output, RequestConfig, Subject};
use carob_proto::message::Payload;
use carob_proto::prefix::AmplificationLimit;

fn victim() -> SocketAddr {
    "192.0.2.66:5683".parse().unwrap()
}

/// A server and its transmissions.
struct Target {
    now: Instant,
    server: Endpoint,
    /// Time between a request and its response.
    delay: Duration,
    pending: Vec<(Instant, IncomingId)>,
    executed: usize,
    received: usize,
    sent: Vec<(SocketAddr, Vec<u8>)>,
}

const STATE: Subject = Subject(1);

impl Target {
    fn new(limit: AmplificationLimit) -> Self {
        let config = config(|config| config.amplification_limit = limit);
        Self::with(config)
    }

    fn with(config: Config) -> Self {
        Self {
            now: Instant::ZERO + seconds(1_000),
            server: Endpoint::new(config, Stream(2)),
            delay: Duration::ZERO,
            pending: Vec::new(),
            executed: 0,
            received: 0,
            sent: Vec::new(),
        }
    }

    fn answer(&mut self, id: IncomingId) {
        let Some(incoming) = self.server.incoming(id) else {
            return;
        };
        let (path, code) = (path_of(&incoming.message), incoming.message.code());
        let response = match path.as_str() {
            "missing" => Response::diagnostic(Code::NOT_FOUND, &"not here ".repeat(20)),
            "small" => Response::new(Code::CONTENT).with_payload("small"),
            _ if code.is_safe() => Response::new(Code::CONTENT).with_payload(pattern(5_000)),
            _ => Response::new(Code::CHANGED).with_payload(pattern(5_000)),
        };
        self.executed += 1;
        self.server.respond(self.now, id, &response);
    }

    fn take(&mut self, from: SocketAddr, bytes: &[u8]) {
        self.received += bytes.len();
        self.server.handle_datagram(self.now, from, bytes);
        self.drain();
    }

    fn drain(&mut self) -> Option<Instant> {
        loop {
            match self.server.poll() {
                Output::Transmit { to, bytes } => self.sent.push((to, bytes.to_vec())),
                Output::Event(Event::Request(id)) => {
                    self.server.observe(self.now, id, STATE);
                    if self.delay.is_zero() {
                        self.answer(id);
                    } else {
                        self.pending.push((self.now + self.delay, id));
                    }
                }
                Output::Wait(at) => return at,
                _ => {}
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let due = self.drain();
            let due = due
                .into_iter()
                .chain(self.pending.iter().map(|p| p.0))
                .min();
            let Some(due) = due.filter(|due| *due <= end) else {
                break;
            };
            self.now = due.max(self.now);
            let (ready, later) = self.pending.drain(..).partition(|p| p.0 <= due);
            self.pending = later;
            let ready: Vec<(Instant, IncomingId)> = ready;
            for (_, id) in ready {
                self.answer(id);
            }
            self.server.handle_timeout(self.now);
        }
        self.now = end;
    }

    /// Bytes sent per 100 bytes received.
    fn amplification(&self) -> usize {
        let sent: usize = self.sent.iter().map(|(_, bytes)| bytes.len()).sum();
        sent * 100 / self.received
    }

    fn codes(&self) -> Vec<Code> {
        let code = |(_, bytes): &(_, Vec<u8>)| view(bytes).code();
        self.sent.iter().map(code).collect()
    }

    fn last(&self) -> MessageView<'_> {
        view(&self.sent.last().unwrap().1)
    }
}

/// Runs an attack with and without the limit; returns the limited target.
fn attack(make: impl Fn(&mut Target)) -> Target {
    let mut open = Target::new(AmplificationLimit::everywhere(false));
    make(&mut open);
    let most = 3 * 100;
    assert!(
        open.amplification() > most,
        "it is no attack: {}",
        open.amplification()
    );
    let mut limited = Target::new(AmplificationLimit::default());
    make(&mut limited);
    assert!(
        limited.amplification() <= most,
        "{}",
        limited.amplification()
    );
    limited
}

/// A message with a token of two bytes and encoded options.
fn message(first: u8, code: Code, id: u16, options: &[u8]) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    let mut bytes = vec![first | 2, code.0, high, low, 0xaa, 0xbb];
    bytes.extend_from_slice(options);
    bytes
}

fn con(code: Code, id: u16, options: &[u8]) -> Vec<u8> {
    message(0x40, code, id, options)
}

fn non(code: Code, id: u16, options: &[u8]) -> Vec<u8> {
    message(0x50, code, id, options)
}

#[test]
fn spoofed_get_of_a_large_resource() {
    for kind in [con, non] {
        let limited = attack(|target| target.take(victim(), &kind(Code::GET, 1, b"\xb1x")));
        assert_eq!(limited.codes(), [Code::UNAUTHORIZED]);
        assert!(limited.last().option(OptionNumber::ECHO).is_some());
    }
}

#[test]
fn spoofed_requests_for_blocks() {
    attack(|target| {
        for id in 0..100 {
            // Block2 with each block number, size 1024.
            let number = (id % 5) as u8;
            let options = [0xb1, b'x', 0xc1, number << 4 | 6];
            target.take(victim(), &con(Code::GET, id, &options));
        }
    });
}

#[test]
fn small_block_is_within_the_amplification_limit() {
    // 16 bytes of payload.
    let mut target = Target::new(AmplificationLimit::default());
    target.take(victim(), &con(Code::GET, 1, &[0xb1, b'x', 0xc1, 0x00]));
    assert!(target.amplification() <= 300);
    // A longer request permits a longer response, so clients without Echo can request small blocks.
    let mut options = vec![0xb1, b'x', 0x4d, 17];
    options.extend_from_slice(&[b'q'; 30]);
    options.extend_from_slice(&[0x81, 0x00]);
    target.take(victim(), &con(Code::GET, 2, &options));
    assert_eq!(target.last().code(), Code::CONTENT);
    assert_eq!(target.last().payload(), &pattern(16)[..]);
}

#[test]
fn a_forged_registration_brings_no_notifications() {
    let limited = attack(|target| {
        // Registers with Observe 0.
        target.take(victim(), &con(Code::GET, 1, b"\x60\x55small"));
        for second in 0..100_u64 {
            target.run_for(seconds(5));
            let state = Response::new(Code::CONTENT).with_payload(format!("state {second}"));
            target
                .server
                .notify(target.now, STATE, &state, second % 10 == 0)
                .unwrap();
            target.drain();
        }
    });
    assert_eq!(limited.codes(), [Code::UNAUTHORIZED]);
    assert_eq!(limited.server.usage().observers, 0);
}

#[test]
fn spoofed_duplicates_of_one_request() {
    attack(|target| {
        for _ in 0..100 {
            target.take(victim(), &con(Code::GET, 1, b"\xb1x"));
        }
    });
    // A long request, retransmitted as short messages with the same Message ID.
    let limited = attack(|target| {
        let mut long = con(Code::POST, 1, b"\xb1x\xff");
        long.extend_from_slice(&[0; 300]);
        target.take(victim(), &long);
        for _ in 0..400 {
            target.take(victim(), &con(Code::GET, 1, &[]));
        }
    });
    assert_eq!(limited.executed, 1);
}

#[test]
fn spoofed_request_with_separate_response() {
    for kind in [con, non] {
        let make = |target: &mut Target| {
            target.delay = seconds(1);
            for id in 0..10 {
                target.take(victim(), &kind(Code::GET, id, b"\xb1x"));
                // The limit permits one transmission, not five.
                let small = con(Code::GET, 100 + id, b"\xb5small");
                target.take(victim(), &small);
            }
            target.run_for(seconds(2_000));
        };
        let limited = attack(make);
        assert!(limited.server.is_idle());
    }
    let copies = |limit| {
        let mut target = Target::new(limit);
        target.delay = seconds(1);
        target.take(victim(), &con(Code::GET, 1, b"\xb5small"));
        target.run_for(seconds(200));
        target
            .codes()
            .iter()
            .filter(|code| **code == Code::CONTENT)
            .count()
    };
    assert_eq!(copies(AmplificationLimit::everywhere(false)), 5);
    assert_eq!(
        copies(AmplificationLimit::default()),
        2,
        "three times 36 bytes"
    );
}

#[test]
fn post_with_large_response_runs_and_response_is_cut() {
    let limited = attack(|target| target.take(victim(), &con(Code::POST, 1, b"\xb1x")));
    assert_eq!(limited.executed, 1);
    assert_eq!(
        limited.last().code(),
        Code::CHANGED,
        "not 4.01: it was done"
    );
    let mut target = Target::new(AmplificationLimit::default());
    let mut long = con(Code::POST, 1, b"\xb1x\xff");
    long.extend_from_slice(&[0; 30]);
    target.take(victim(), &long);
    // The first block is as large as the limit permits, with the size for the rest.
    let block = target.last().uint_option(OptionNumber::BLOCK2).unwrap();
    assert_eq!(
        (block >> 4, block & 0xf),
        (0, 0x8 | 2),
        "the first block of 64 bytes"
    );
    assert_eq!(target.last().payload(), &pattern(64)[..]);
}

#[test]
fn error_omits_its_diagnostic_payload_at_the_limit() {
    let limited = attack(|target| target.take(victim(), &con(Code::GET, 1, b"\xb7missing")));
    assert_eq!(limited.codes(), [Code::NOT_FOUND]);
    assert!(limited.last().payload().is_empty());
    // The same for errors by the engine: 4.02 for an unknown option of one byte.
    let limited = Target::new(AmplificationLimit::default());
    let mut refused = limited;
    refused.take(victim(), &[0x40, 0x01, 0, 1, 0xd0, 0xff - 5]);
    assert!(refused.amplification() <= 300);
    assert_eq!(refused.codes(), [Code::BAD_OPTION]);
}

#[test]
fn shortest_request_gets_a_code_only() {
    let mut target = Target::new(AmplificationLimit::default());
    target.take(victim(), &[0x40, 0x01, 0, 1]);
    assert_eq!(
        target.sent,
        [(victim(), vec![0x60, Code::UNAUTHORIZED.0, 0, 1])]
    );
}

#[test]
fn arbitrary_requests_stay_within_the_amplification_limit() {
    let mut random = Stream(5);
    let corpus: Vec<Vec<u8>> = [
        con(Code::GET, 1, b"\xb1x"),
        non(Code::GET, 2, b"\xb5small"),
        con(Code::POST, 3, b"\xb1x\xff0123456789"),
        con(Code::PUT, 4, &[0xb1, b'x', 0xd1, 3, 0x08, 0xff, 1, 2]),
        con(Code::FETCH, 5, b"\xb1x\xc1\x06\xffquery"),
        con(Code::GET, 6, b"\x60\x51x"),
        vec![0x40, 0, 0, 7],
        vec![0x7f, 0, 0, 8],
        con(Code::CONTENT, 9, b"\xffunasked"),
        con(Code::GET, 10, b"\xb1x\xd3\xe4\x00\x01\x02"),
        con(Code::DELETE, 11, b"\xb1x\xd1\xea\x02"),
    ]
    .into();
    let mut target = Target::new(AmplificationLimit::default());
    target.delay = Duration::from_millis(120);
    for turn in 0..20_000 {
        let mut bytes = corpus[random.below(corpus.len() as u32) as usize].clone();
        if random.below(3) == 0 {
            let at = random.below(bytes.len() as u32) as usize;
            bytes[at] = random.next_u32() as u8;
        }
        if random.below(2) == 0 {
            bytes[2..4].copy_from_slice(&random.next_u32().to_be_bytes()[..2]);
        }
        if random.below(10) == 0 {
            bytes.truncate(random.below(bytes.len() as u32) as usize);
        }
        if !bytes.is_empty() {
            target.take(victim(), &bytes);
        }
        if turn % 10 == 0 {
            target.run_for(Duration::from_millis(u64::from(random.below(300))));
        }
        assert!(
            target.received == 0 || target.amplification() <= 300,
            "turn {turn}"
        );
    }
    target.run_for(seconds(2_000));
    assert!(target.amplification() <= 300);
}

/// A request with the Echo value of the last challenge.
fn with_echo(target: &Target, id: u16) -> Vec<u8> {
    let mut options = b"\xb1x\xd8\xe4".to_vec();
    options.extend_from_slice(target.last().option(OptionNumber::ECHO).unwrap());
    con(Code::GET, id, &options)
}

#[test]
fn echo_validates_the_address_for_an_hour() {
    let mut target = Target::new(AmplificationLimit::default());
    target.take(victim(), &con(Code::GET, 1, b"\xb1x"));
    let answer = with_echo(&target, 2);
    target.take(victim(), &answer);
    assert_eq!(target.last().payload(), &pattern(1_024)[..]);
    target.take(victim(), &con(Code::GET, 3, b"\xb1x"));
    assert_eq!(target.last().payload().len(), 1_024);
    assert_eq!(target.server.usage().validated, 1);
    // Validation covers one port only.
    let other = SocketAddr::new(victim().ip(), 1);
    target.take(other, &con(Code::GET, 4, b"\xb1x"));
    assert_eq!(target.last().code(), Code::UNAUTHORIZED);
    target.take(other, &answer);
    assert_eq!(
        target.last().code(),
        Code::UNAUTHORIZED,
        "the value is not its own"
    );
    // Validation expires after an hour.
    target.run_for(seconds(3_601));
    target.take(victim(), &con(Code::GET, 5, b"\xb1x"));
    assert_eq!(target.last().code(), Code::UNAUTHORIZED);
}

#[test]
fn guessed_echo_values_are_refused() {
    let mut target = Target::new(AmplificationLimit::default());
    let mut random = Stream(9);
    target.take(victim(), &con(Code::GET, 0, b"\xb1x"));
    for n in 0..50_000_u32 {
        let mut options = b"\xb1x\xd8\xe4".to_vec();
        options.extend_from_slice(&random.next_u32().to_be_bytes());
        options.extend_from_slice(&random.next_u32().to_be_bytes());
        target.take(victim(), &con(Code::GET, n as u16, &options));
    }
    assert_eq!(target.server.usage().validated, 0);
}

#[test]
fn handshake_validates_and_full_table_costs_a_round_trip() {
    let mut target = Target::with(config(|config| config.limits.validated = 2));
    let source = |port| SocketAddr::new(victim().ip(), port);
    for port in 1..=3 {
        target.server.validate(target.now, source(port));
    }
    assert_eq!(target.server.usage().validated, 2);
    let codes = [3, 2, 1].map(|port| {
        target.take(source(port), &con(Code::GET, port, b"\xb1x"));
        target.last().code()
    });
    assert_eq!(codes, [Code::CONTENT, Code::CONTENT, Code::UNAUTHORIZED]);
}

#[test]
fn local_sources_are_not_limited_and_take_no_entry() {
    for near in [
        "127.0.0.1:5683",
        "[::1]:5683",
        "[fe80::1]:5683",
        "10.0.0.1:5683",
    ] {
        let mut target = Target::new(AmplificationLimit::default());
        let near = near.parse().unwrap();
        target.take(near, &con(Code::GET, 1, b"\xb1x"));
        assert_eq!(target.last().code(), Code::CONTENT);
        assert_eq!(target.server.usage().validated, 0);
    }
    let mut limit = AmplificationLimit::default();
    limit.set("127.0.0.0/8".parse().unwrap(), true);
    let mut target = Target::new(limit);
    target.take(
        "127.0.0.1:5683".parse().unwrap(),
        &con(Code::GET, 1, b"\xb1x"),
    );
    assert_eq!(target.last().code(), Code::UNAUTHORIZED);
}

#[test]
fn response_with_extended_token_validates_the_address() {
    for (length, answer) in [(8, Code::CONTENT), (2, Code::UNAUTHORIZED)] {
        let mut target = Target::with(config(|config| config.token_length = u16::from(length)));
        let asked = target
            .server
            .request(target.now, victim(), get("x"), RequestConfig::default());
        asked.unwrap();
        target.drain();
        let request = target.last();
        let (id, token) = (request.message_id().0.to_be_bytes(), request.token());
        let mut bytes = vec![0x60 | length, Code::CONTENT.0, id[0], id[1]];
        bytes.extend_from_slice(token.as_slice());
        target.take(victim(), &bytes);
        target.take(victim(), &con(Code::GET, 1, b"\xb1x"));
        assert_eq!(target.last().code(), answer, "a token of {length} bytes");
    }
}

#[test]
fn own_requests_are_not_limited() {
    let mut target = Target::new(AmplificationLimit::default());
    let request = post("x", pattern(900));
    let asked = (target.server).request(target.now, victim(), request, RequestConfig::default());
    asked.unwrap();
    target.run_for(seconds(100));
    assert_eq!(target.sent.len(), 5);
}

#[test]
fn honest_client_downloads_and_observes_with_limit() {
    let mut net = Net::new(
        Config::default(),
        config(|config| config.amplification_limit = AmplificationLimit::everywhere(true)),
    );
    let large = pattern(50_000);
    net.app.resources.insert("large".into(), large.clone());
    net.send_for(get("large"), seconds(10));
    assert_eq!(net.response().unwrap().bytes(), &large);
    net.app.delay = seconds(1);
    net.send(post("echo", Bytes::from(vec![7; 3_000])));
    net.run_for(seconds(30));
    let codes: Vec<_> = net
        .responses()
        .iter()
        .map(|response| response.code)
        .collect();
    assert_eq!(codes, [Code::CONTENT, Code::CHANGED]);
    assert_eq!(net.responses()[1].bytes().len(), 3_000);
    assert_eq!(net.server.usage().validated, 1);
    let refusal = |bytes: &&&[u8]| {
        let message = view(bytes);
        (message.kind(), message.code()) == (Type::Acknowledgement, Code::UNAUTHORIZED)
    };
    assert_eq!(net.sent_by_server().iter().filter(refusal).count(), 1);
    assert!(matches!(net.responses()[0].payload, Payload::Whole(_)));
}

/// A NON or CON GET of /large with Q-Block2 for a whole set, padded with an elective option.
fn set_of_blocks(kind: Type, size: usize, padding: usize) -> Vec<u8> {
    let first = wire::con(Code::GET, 7).kind(kind).token(&[]).path("large");
    let set = first.block(OptionNumber::Q_BLOCK2, (0, true, size));
    match padding {
        0 => set.bytes(),
        _ => set.option(65_000, &vec![0; padding]).bytes(),
    }
}

#[test]
fn blocks_of_a_set_share_three_times_the_bytes_of_the_request() {
    for (size, padding) in [(16, 120), (16, 200), (128, 600), (64, 1_000), (1_024, 0)] {
        for kind in [Type::Confirmable, Type::NonConfirmable] {
            for delay in [Duration::ZERO, seconds(1)] {
                let mut target = Target::new(AmplificationLimit::default());
                target.delay = delay;
                target.take(victim(), &set_of_blocks(kind, size, padding));
                target.run_for(seconds(1_500));
                let factor = target.amplification();
                assert!(
                    factor <= 300,
                    "{size} B, {padding} B, {kind:?}: {factor} % in {} messages",
                    target.sent.len()
                );
                assert!(!target.sent.is_empty());
            }
        }
    }
}

#[test]
fn a_set_of_blocks_is_challenged_where_no_limit_holds() {
    let neighbour: SocketAddr = "10.0.0.66:5683".parse().unwrap();
    for kind in [Type::Confirmable, Type::NonConfirmable] {
        let mut target = Target::new(AmplificationLimit::default());
        target.take(neighbour, &set_of_blocks(kind, 1_024, 0));
        target.run_for(seconds(1_500));
        assert_eq!(target.codes()[0], Code::UNAUTHORIZED);
        assert!(target.amplification() <= 300, "{kind:?}");
    }
    // A single block is one message, as with Block2.
    let mut target = Target::new(AmplificationLimit::default());
    let mut bytes = set_of_blocks(Type::Confirmable, 1_024, 0);
    *bytes.last_mut().unwrap() = 0x06;
    target.take(neighbour, &bytes);
    assert_eq!(target.codes(), [Code::CONTENT]);
}

/// A block of 16 bytes of a body of 32 kB with Q-Block1.
fn block_of_body(number: u32, id: u16) -> Vec<u8> {
    let put = wire::non(Code::PUT, id)
        .token(&[])
        .path("x")
        .payload(&[0; 16]);
    let block = put.block(OptionNumber::Q_BLOCK1, (number, true, 16));
    let sized = block.uint(OptionNumber::SIZE1, 32_000);
    sized.option(OptionNumber::REQUEST_TAG.0, b"t").bytes()
}

#[test]
fn reports_of_missing_blocks_keep_the_limit_for_any_prefix() {
    let neighbour: SocketAddr = "10.0.0.66:5683".parse().unwrap();
    let mut target = Target::new(AmplificationLimit::default());
    let mut id = 0;
    for number in (0..2_000).step_by(2) {
        id += 1;
        target.take(neighbour, &block_of_body(number, id));
    }
    let (received, sent) = (target.received, target.sent.len());
    for _ in 0..10 {
        id += 1;
        target.take(neighbour, &block_of_body(0, id));
    }
    let reports = &target.sent[sent..];
    assert_eq!(reports.len(), 10);
    for (_, bytes) in reports {
        let report = view(bytes);
        assert_eq!(report.code(), Code::REQUEST_ENTITY_INCOMPLETE);
        assert!(!report.payload().is_empty(), "the report lists no block");
    }
    let bytes: usize = reports.iter().map(|(_, bytes)| bytes.len()).sum();
    let repeated = target.received - received;
    assert!(bytes <= 3 * repeated, "{bytes} B for {repeated} B");
    target.run_for(seconds(1_500));
    assert!(target.amplification() <= 300, "{}", target.amplification());
}
