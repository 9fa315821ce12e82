//! One endpoint with arbitrary input.

use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};

use super::Stream;
use crate::codec::{Code, MessageView};
use crate::congestion::CongestionControl;
use crate::endpoint::{Config, Endpoint, Event, Output, RequestConfig};
use crate::{Request, Response};

/// Controllers with different kinds of copy tagging, and one without.
const CONTROLLERS: [&str; 4] = ["default", "fasor-option", "rtt-count", "fasor-token"];

/// A configuration of small tables, one of several controllers and a token length.
fn config(first: u8) -> Config {
    let mut config = Config::default();
    let name = CONTROLLERS[usize::from(first & 3)];
    config.controller = CongestionControl::named(name).expect("the registry has it");
    config.token_length = [0, 1, 2, 8, 9, 13, 64, 300][usize::from(first >> 2 & 7)];
    config.limits.incoming = 4;
    config.limits.dedup_idempotent = 4;
    config.limits.dedup_non_idempotent = 4;
    config.limits.queue = 4;
    config.limits.requests = 8;
    config.limits.peers = 3;
    config.limits.token_peers = 2;
    config.limits.uploads = 2;
    config.limits.all_upload_bytes = 4_096;
    config.limits.bodies = 2;
    config.limits.body_bytes = 4_096;
    config
}

/// An answer to the last message sent, so that fuzzing reaches what follows.
fn answer_to(last_sent: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut answer = bytes.to_vec();
    if let (Ok(sent), true) = (MessageView::parse(last_sent), answer.len() >= 4) {
        answer[2..4].copy_from_slice(&sent.message_id().0.to_be_bytes());
        // The token, and the bytes before it with its length.
        let field = sent.as_bytes()[0] & 0xf;
        let end = 4 + usize::from(field.saturating_sub(12)) + sent.token().len();
        answer[0] = answer[0] & 0xf0 | field;
        answer.splice(4..4, sent.as_bytes()[4..end].iter().copied());
    }
    answer
}

/// Any sequence of datagrams from four peers, replies that match the last message sent, requests,
/// cancellations and time. Every table stays within its limit.
pub fn endpoint(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else {
        return;
    };
    let config = config(first);
    let limits = config.limits;
    let mut endpoint = Endpoint::new(config, Stream(1));
    let mut now = Instant::ZERO;
    let mut rest = data;
    let (mut asked, mut last_sent) = (Vec::new(), Vec::new());
    while let Some((&what, after)) = rest.split_first() {
        let peer = SocketAddr::from(([10, 0, 0, what >> 6], 5683));
        let length = after
            .first()
            .map_or(0, |&n| usize::from(n))
            .min(after.len());
        let (bytes, next) = after.split_at(length);
        rest = next;
        match what & 7 {
            0..=2 => endpoint.handle_datagram(now, peer, bytes),
            3 => {
                endpoint.handle_datagram(now, peer, &answer_to(&last_sent, bytes));
            }
            4 => {
                let method =
                    [Code::GET, Code::PUT, Code::POST, Code::FETCH][usize::from(what >> 3 & 3)];
                let body = vec![7; bytes.len() * 16];
                let request = Request::new(method).with_payload(body);
                asked.extend(endpoint.request(now, peer, request, RequestConfig::default()));
            }
            5 => {
                now += Duration::from_millis(1 << (what >> 3 & 15));
                endpoint.handle_timeout(now);
            }
            6 => {
                if let Some(id) = asked.pop() {
                    endpoint.cancel(now, id);
                }
            }
            _ => endpoint.handle_unreachable(now, peer),
        }
        let mut incoming = Vec::new();
        loop {
            match endpoint.poll() {
                Output::Transmit { bytes, .. } => last_sent = bytes.to_vec(),
                Output::Event(Event::Request(id)) => incoming.push(id),
                Output::Wait(_) if incoming.is_empty() => break,
                Output::Wait(_) => {
                    for id in incoming.drain(..) {
                        let mut response = Response::new(Code::CONTENT);
                        if what & 8 == 0 {
                            response = Response::diagnostic(Code::CONTENT, &"x".repeat(3_000));
                        }
                        endpoint.respond(now, id, &response);
                    }
                }
                _ => {}
            }
        }
        let usage = endpoint.usage();
        assert!(usage.peers <= limits.peers && usage.requests <= limits.requests);
        assert!(usage.incoming <= limits.incoming);
        assert!(usage.remembered <= limits.dedup_idempotent + limits.dedup_non_idempotent);
        assert!(usage.uploads.0 <= limits.uploads && usage.bodies.0 <= limits.bodies);
        assert!(usage.bodies.1 <= limits.body_bytes);
    }
}
