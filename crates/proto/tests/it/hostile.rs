//! Arbitrary input causes no panic and no growth, and the endpoint keeps working.

use crate::net::counting::counting;
use crate::net::wire::view;
use crate::net::{Net, Stream, client_address, get, millis, pattern, put, seconds, server_address};
use bytes::Bytes;
use carob_cc::controller::CopyTagging;
use carob_cc::random::Random;
use carob_proto::codec::{Options, Token, Writer};
use carob_proto::endpoint::{Config, Endpoint, Event, Output, RETRANSMISSION_COUNT};

fn usable(net: &mut Net) {
    net.run_for(seconds(1_000));
    net.events.clear();
    net.app
        .resources
        .insert("x".into(), Bytes::from_static(b"still here"));
    net.send_for(get("x"), seconds(100));
    assert_eq!(&net.response().unwrap().bytes()[..], b"still here");
}

#[test]
fn server_survives_the_corpus() {
    let mut net = Net::plain();
    let mut seen = 0;
    for datagram in crate::corpus::datagrams() {
        net.server
            .handle_datagram(net.now, client_address(), datagram);
        net.drain();
        seen += 1;
    }
    assert!(seen >= 10_000, "{seen} datagrams");
    let usage = net.server.usage();
    assert!(usage.peers <= 1 && usage.incoming == 0, "{usage:?}");
    usable(&mut net);
}

#[test]
fn client_survives_the_corpus() {
    let mut net = Net::deaf();
    net.send(put("x", pattern(5_000)));
    for datagram in crate::corpus::datagrams() {
        net.client
            .handle_datagram(net.now, server_address(), datagram);
        net.drain();
    }
    net.run_for(seconds(300));
    net.server_dead = false;
    usable(&mut net);
}

#[test]
fn matching_but_malformed_responses_end_every_request() {
    // Like the corpus, but with the pending Message ID and token.
    let mut random = Stream(7);
    let mut net = Net::plain();
    for (n, datagram) in crate::corpus::datagrams().enumerate().take(6_000) {
        let mut client = Endpoint::new(Config::default(), Stream(n as u64));
        let body = if n % 2 == 0 {
            pattern(3_000)
        } else {
            Bytes::new()
        };
        let sending = carob_proto::endpoint::RequestConfig::default();
        client
            .request(net.now, server_address(), put("x", body), sending)
            .unwrap();
        let mut now = net.now;
        for _ in 0..6 {
            let mut asked = None;
            loop {
                match client.poll() {
                    Output::Transmit { bytes, .. } => asked = Some(bytes.to_vec()),
                    Output::Event(Event::Response { .. } | Event::Failed { .. }) => asked = None,
                    Output::Wait(_) => break,
                    _ => {}
                }
            }
            let Some(asked) = asked else { break };
            let view = view(&asked);
            let mut answer = vec![0x60 | 8, 0x40 | (random.next_u32() % 10) as u8];
            answer.extend_from_slice(&view.message_id().0.to_be_bytes());
            answer.extend_from_slice(view.token().as_slice());
            answer.extend_from_slice(datagram.get(4..).unwrap_or_default());
            client.handle_datagram(now, server_address(), &answer);
            now += seconds(1);
            client.handle_timeout(now);
        }
    }
    usable(&mut net);
}

#[test]
fn plausible_random_requests_are_answered_or_refused() {
    let mut net = Net::plain();
    net.app.resources.insert("x".into(), pattern(5_000));
    net.server_dead = true; // its answers are looked at, not delivered
    for (n, datagram) in crate::corpus::datagrams().enumerate() {
        let mut request = vec![0x42, 1 + (n % 4) as u8, (n >> 8) as u8, n as u8, 7, 7];
        request.extend_from_slice(datagram.get(4..).unwrap_or_default());
        net.crossings.clear();
        net.server
            .handle_datagram(net.now, client_address(), &request);
        net.drain();
        assert_eq!(
            net.sent_by_server().len(),
            1,
            "request {n} got no single answer"
        );
        net.now += seconds(1);
        net.server.handle_timeout(net.now);
    }
    let usage = net.server.usage();
    assert!(usage.incoming == 0 && usage.uploads.0 < 300, "{usage:?}");
    net.server_dead = false;
    usable(&mut net);
}

/// A message with other transmission counts in its token and option.
fn miscounted(message: &[u8], random: &mut Stream) -> Vec<u8> {
    let view = view(message);
    let mut options = Options::from_view(&view).unwrap();
    options.remove(RETRANSMISSION_COUNT);
    for _ in 0..random.below(3) {
        let value = random.next_u32().to_be_bytes();
        let length = random.below(4) as usize;
        options
            .push(RETRANSMISSION_COUNT, &value[..length])
            .unwrap();
    }
    let mut token = view.token().as_slice().to_vec();
    if let Some(last) = token.last_mut()
        && random.below(2) == 0
    {
        *last = random.below(5) as u8;
    }
    let mut buffer = [0; 4_096];
    let (token, id) = (Token::new(&token).unwrap(), view.message_id());
    let mut writer = Writer::new(&mut buffer, view.kind(), view.code(), id, &token).unwrap();
    options.encode(&mut writer).unwrap();
    writer.payload(view.payload()).unwrap();
    let length = writer.finish();
    buffer[..length].to_vec()
}

#[test]
fn invalid_transmission_counts_are_harmless() {
    let mut random = Stream(9);
    for how in [
        CopyTagging::EveryCopy,
        CopyTagging::RepeatedCopies,
        CopyTagging::Token,
    ] {
        let (config, _) = counting(how, millis(15), 2);
        let mut net = Net::new(config, Config::default());
        net.app.resources.insert("x".into(), pattern(3_000));
        for n in 0..400 {
            net.send(get("x"));
            net.send(put("y", pattern(1_500)));
            let seen = net.crossings.len();
            net.run_for(millis(u64::from(random.below(60))));
            for crossing in net.crossings.split_off(seen) {
                let wrong = miscounted(&crossing.bytes, &mut random);
                if crossing.from_client {
                    net.inject_to_server(&wrong);
                } else {
                    net.inject_to_client(&wrong);
                }
            }
            net.run_for(seconds(100));
            assert!(net.client.is_idle(), "{how:?}, {n}");
            let snapshot = net.client.snapshot(net.now, server_address()).unwrap();
            assert_eq!(snapshot.outstanding_bytes, 0);
            net.crossings.clear();
        }
        usable(&mut net);
    }
}
