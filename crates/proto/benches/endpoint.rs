//! Time of the engine alone per request answered: `cargo bench -p carob-proto --bench endpoint`.
//!
//! A confirmable GET with 14 bytes of message, answered at once with 32 bytes, piggybacked, from
//! 16 ports in turn, deduplication on; no socket, no copy into a kernel. The budget of 1.2 times a
//! bare loop (`docs/performance.md`) leaves the engine some 0.5 us. Then the time per notification:
//! 1,000 peers observe one resource and are notified of a change in NON messages.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock and prints"
)]

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Instant as Clock;

use bytes::Bytes;
use carob_cc::random::Fixed;
use carob_cc::time::{Duration, Instant};
use carob_proto::Response;
use carob_proto::codec::{Code, ContentFormat, MessageId, OptionNumber, Token, Type, Writer};
use carob_proto::endpoint::{Config, Endpoint, Event, Output, Subject};
use carob_proto::message::Payload;

const REQUESTS: u32 = 400_000;
const ROUNDS: usize = 7;

fn main() {
    requests();
    notifications();
}

fn requests() {
    let mut buffer = [0; 64];
    let token = Token::new(&[1, 2]).unwrap();
    let mut writer = Writer::new(
        &mut buffer,
        Type::Confirmable,
        Code::GET,
        MessageId(0),
        &token,
    )
    .unwrap();
    writer.option(OptionNumber::URI_PATH, b"hello").unwrap();
    let length = writer.finish();
    let mut response = Response::content(ContentFormat(0), Bytes::new());
    response.payload = Payload::Fixed(Bytes::from_static(b"Hello from a Carob server, 32 B.\n"));

    let mut endpoint = Endpoint::new(Config::default(), Fixed(7));
    let (mut now, mut n) = (Instant::ZERO, 0_u32);
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = Clock::now();
            for _ in 0..REQUESTS {
                n = n.wrapping_add(1);
                let request = &mut buffer[..length];
                request[2..4].copy_from_slice(&((n / 16) as u16).to_be_bytes());
                // A port is left for a fresh one before its Message IDs come round.
                let port = 10_000 + (n % 16) as u16 + 16 * ((n / 16 / 60_000) % 3_000) as u16;
                let from = SocketAddr::from(([127, 0, 0, 1], port));
                now += Duration::from_micros(3);
                endpoint.handle_datagram(now, from, request);
                loop {
                    match endpoint.poll() {
                        Output::Event(Event::Request(id)) => {
                            black_box(endpoint.incoming(id));
                            endpoint.respond(now, id, &response);
                        }
                        Output::Transmit { bytes, .. } => _ = black_box(bytes),
                        Output::Wait(_) => break,
                        _ => {}
                    }
                }
            }
            began.elapsed().as_secs_f64() * 1e9 / f64::from(REQUESTS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let (least, median, most) = (rounds[0], rounds[ROUNDS / 2], rounds[ROUNDS - 1]);
    println!("carob engine, one request answered: median {median:.0} ns ({least:.0} to {most:.0})");
}

/// A registration of GET /hello, as 14 + 1 bytes.
fn registration(buffer: &mut [u8]) -> usize {
    let token = Token::new(&[1, 2]).unwrap();
    let (kind, id) = (Type::Confirmable, MessageId(1));
    let mut writer = Writer::new(buffer, kind, Code::GET, id, &token).unwrap();
    writer.uint_option(OptionNumber::OBSERVE, 0).unwrap();
    writer.option(OptionNumber::URI_PATH, b"hello").unwrap();
    writer.finish()
}

fn notifications() {
    const OBSERVERS: u16 = 1_000;
    const CHANGES: u32 = 400;
    let mut buffer = [0; 64];
    let length = registration(&mut buffer);
    let mut config = Config::default();
    // The benchmark acknowledges no CON notification, so none must be sent to check for the
    // observer.
    config.unconfirmed_max = u16::MAX;
    let mut endpoint = Endpoint::new(config, Fixed(7));
    let mut now = Instant::ZERO;
    let response = Response::content(ContentFormat(0), Bytes::from_static(b"12345"));
    let subject = Subject(0);
    for port in 0..OBSERVERS {
        let from = SocketAddr::from(([127, 0, 0, 1], 10_000 + port));
        endpoint.handle_datagram(now, from, &buffer[..length]);
        while let Output::Event(Event::Request(id)) = endpoint.poll() {
            assert!(endpoint.observe(now, id, subject));
            endpoint.respond(now, id, &response);
        }
        while !matches!(endpoint.poll(), Output::Wait(_)) {}
    }
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = Clock::now();
            let mut told = 0;
            for _ in 0..CHANGES {
                // Slow enough for Message IDs not to run out.
                now += Duration::from_secs(1);
                endpoint.notify(now, subject, &response, false).unwrap();
                loop {
                    match endpoint.poll() {
                        Output::Transmit { bytes, .. } => {
                            black_box(bytes);
                            told += 1;
                        }
                        Output::Wait(_) => break,
                        _ => {}
                    }
                }
            }
            assert_eq!(
                told,
                CHANGES * u32::from(OBSERVERS),
                "all are told each time"
            );
            began.elapsed().as_secs_f64() * 1e9 / f64::from(CHANGES * u32::from(OBSERVERS))
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let (least, median, most) = (rounds[0], rounds[ROUNDS / 2], rounds[ROUNDS - 1]);
    println!("carob engine, one observer told: median {median:.0} ns ({least:.0} to {most:.0})");
}
