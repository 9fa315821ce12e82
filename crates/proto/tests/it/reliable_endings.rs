//! The end of connections and of the observations over them (RFC 8323).

use crate::stream::{CLIENT, Pair, SERVER, address, ask, config, failure, pair};
use carob_cc::time::Duration;
use carob_proto::codec::{Code, ContentFormat};
use carob_proto::endpoint::{
    Disconnect, Endpoint, Event, Failure, Output, RequestConfig, RequestId, Subject,
};
use carob_proto::{Request, Response};

mod endings {
    use super::*;

    #[test]
    fn failed_connection_is_unreachable() {
        let mut pair = pair();
        pair.unreachable = true;
        let id = ask(&mut pair, Request::get());
        assert_eq!(failure(&pair, id), Failure::Unreachable);
        assert!(pair.ends[CLIENT].is_idle());
    }

    #[test]
    fn idempotent_request_is_repeated_once_on_a_new_connection() {
        let mut pair = pair();
        let get = ask(&mut pair, Request::get());
        let post = ask(&mut pair, Request::new(Code::POST));
        pair.disconnect();
        pair.settle();
        assert_eq!(
            failure(&pair, post),
            Failure::Disconnected(Disconnect::Broken)
        );
        assert_eq!(pair.connections, 2);
        assert_eq!(pair.codes(CLIENT), ["7.01", "0.01", "0.02", "7.01", "0.01"]);
        pair.disconnect();
        pair.settle();
        assert_eq!(
            failure(&pair, get),
            Failure::Disconnected(Disconnect::Broken)
        );
        assert!(pair.ends[CLIENT].is_idle());
    }

    #[test]
    fn incomplete_upload_ends_with_its_connection() {
        let small = || config(|reliable| reliable.max_message_size = 1_152);
        let mut pair = Pair::new(small(), small());
        pair.connect();
        pair.settle();
        let put = Request::new(Code::PUT).with_payload(vec![7; 5_000]);
        let now = pair.now;
        let id = pair.ends[CLIENT]
            .request(now, address(SERVER), put, RequestConfig::default())
            .expect("taken");
        let taken = pair.ends[SERVER].usage().uploads;
        assert_eq!(taken, (0, 0));
        while let Output::Transmit { bytes, .. } = pair.ends[CLIENT].poll() {
            let bytes = bytes.to_vec();
            pair.ends[SERVER].handle_stream(now, address(CLIENT), &bytes);
        }
        assert_eq!(pair.ends[SERVER].usage().uploads.0, 1);
        pair.disconnect();
        pair.settle();
        assert_eq!(
            failure(&pair, id),
            Failure::Disconnected(Disconnect::Broken)
        );
        assert_eq!(pair.ends[SERVER].usage().uploads, (0, 0));
    }

    #[test]
    fn full_table_closes_idle_connections_only() {
        let mut small = config(|reliable| reliable.csm_required = false);
        small.limits.connections = 2;
        let mut server = Endpoint::new(small, crate::stream::Draws(1));
        let now = carob_cc::time::Instant::ZERO;
        let peer = |n| std::net::SocketAddr::from(([10, 0, 0, n], 1));
        assert!(server.connected(now, peer(1)) && server.connected(now, peer(2)));
        // The second connection has an incomplete message; the first is idle.
        server.handle_stream(now, peer(2), &[0x00, 0x01]);
        assert!(server.connected(now, peer(3)), "the first is closed");
        server.handle_stream(now, peer(3), &[0x00, 0x01]);
        assert!(!server.connected(now, peer(4)));
        assert_eq!(server.usage().connections, 2);
    }

    #[test]
    fn request_fails_if_the_connection_table_is_full() {
        let mut small = config(|_| ());
        small.limits.connections = 1;
        let mut end = Endpoint::new(small, crate::stream::Draws(1));
        let now = carob_cc::time::Instant::ZERO;
        let peer = |n| std::net::SocketAddr::from(([10, 0, 0, n], 1));
        let mut ask = |n, payload, observe| {
            let mut sending = RequestConfig::default();
            sending.observe = observe;
            let code = if payload > 0 { Code::FETCH } else { Code::GET };
            let request = Request::new(code).with_payload(vec![7; payload]);
            end.request(now, peer(n), request, sending)
        };
        ask(1, 0, false).expect("taken");
        let others = [ask(2, 0, false), ask(2, 0, true), ask(2, 1_000, false)];
        assert_eq!(
            ask(2, 5_000, false),
            Err(carob_proto::endpoint::RequestError::PeersFull)
        );
        let ping = end.ping(now, peer(2)).expect("taken");
        let mut failed = Vec::new();
        loop {
            match end.poll() {
                Output::Event(Event::Failed { id, failure }) => failed.push((id, failure)),
                Output::Wait(_) => break,
                _ => {}
            }
        }
        let expected = Failure::Disconnected(Disconnect::NoRoom);
        let others = others
            .into_iter()
            .map(|id| id.expect("taken"))
            .chain([ping]);
        assert_eq!(failed, others.map(|id| (id, expected)).collect::<Vec<_>>());
        assert_eq!((end.usage().connections, end.usage().requests), (1, 1));
    }

    #[test]
    fn incomplete_messages_are_limited_in_total() {
        let mut small = config(|_| ());
        small.limits.partial_bytes = 100;
        small.limits.source_share = 100;
        let mut server = Endpoint::new(small, crate::stream::Draws(1));
        let now = carob_cc::time::Instant::ZERO;
        let peer = |n| std::net::SocketAddr::from(([10, 0, 0, n], 1));
        for n in 1..=2 {
            assert!(server.connected(now, peer(n)));
            let mut begun = vec![0xd0, 0xff, 0x02];
            begun.resize(60, 0x11);
            server.handle_stream(now, peer(n), &begun);
        }
        assert_eq!(server.usage().connections, 1, "the second is aborted");
    }
}

mod observing {
    use super::*;

    const SUBJECT: Subject = Subject(7);

    fn observed() -> (Pair, RequestId) {
        let mut pair = pair().answering_with(|server, now, id| {
            server.observe(now, id, SUBJECT);
            server.respond(now, id, &Response::content(ContentFormat::TEXT_PLAIN, "0"));
        });
        let now = pair.now;
        let mut sending = RequestConfig::default();
        sending.observe = true;
        let id = pair.ends[CLIENT]
            .request(now, address(SERVER), Request::get(), sending)
            .expect("taken");
        pair.settle();
        (pair, id)
    }

    fn states(pair: &Pair) -> Vec<String> {
        let text = |event: &Event| match event {
            Event::Notification { response, .. } => {
                Some(String::from_utf8_lossy(response.bytes()).into_owned())
            }
            _ => None,
        };
        pair.heard[CLIENT].events.iter().filter_map(text).collect()
    }

    fn tell(pair: &mut Pair, text: &'static str) -> usize {
        let response = Response::content(ContentFormat::TEXT_PLAIN, text);
        let now = pair.now;
        let told = pair.ends[SERVER]
            .notify(now, SUBJECT, &response, false)
            .expect("it fits");
        pair.settle();
        told
    }

    #[test]
    fn notifications_arrive_in_order() {
        let (mut pair, _) = observed();
        for text in ["1", "2", "3"] {
            assert_eq!(tell(&mut pair, text), 1);
        }
        assert_eq!(states(&pair), ["0", "1", "2", "3"]);
    }

    #[test]
    fn congested_connection_receives_newest_state_after_drain() {
        let (mut pair, _) = observed();
        let now = pair.now;
        pair.ends[SERVER].set_congested(now, address(CLIENT), true);
        for text in ["1", "2", "3"] {
            tell(&mut pair, text);
        }
        assert_eq!(states(&pair), ["0"]);
        pair.ends[SERVER].set_congested(now, address(CLIENT), false);
        pair.settle();
        assert_eq!(states(&pair), ["0", "3"]);
    }

    #[test]
    fn cancelling_deregisters_at_once() {
        let (mut pair, id) = observed();
        let now = pair.now;
        assert!(pair.ends[CLIENT].cancel(now, id));
        pair.settle();
        assert_eq!(pair.ends[SERVER].observers(SUBJECT), 0);
        assert!(pair.ends[CLIENT].is_idle());
    }

    #[test]
    fn deregistration_gets_a_response() {
        let mut pair = pair().answering_with(|server, now, id| {
            let asks = server.incoming(id).and_then(|incoming| incoming.observe);
            if asks == Some(carob_proto::endpoint::Observe::Register) {
                server.observe(now, id, SUBJECT);
            }
            server.respond(now, id, &Response::content(ContentFormat::TEXT_PLAIN, "0"));
        });
        let now = pair.now;
        let mut sending = RequestConfig::default();
        sending.observe = true;
        let to = address(SERVER);
        let id = pair.ends[CLIENT]
            .request(now, to, Request::get(), sending)
            .expect("taken");
        pair.settle();
        assert!(pair.ends[CLIENT].stop_observing(now, id));
        pair.settle();
        assert_eq!(pair.response(id).code, Code::CONTENT);
        assert_eq!(pair.ends[SERVER].observers(SUBJECT), 0);
    }

    #[test]
    fn observers_end_with_connection_and_register_on_the_next() {
        let (mut pair, _) = observed();
        pair.disconnect();
        pair.settle();
        assert_eq!(pair.ends[SERVER].observers(SUBJECT), 0);
        let stale = |event: &Event| matches!(event, Event::Stale { .. });
        assert!(pair.heard[CLIENT].events.iter().any(stale));
        // The state is fresh for 60 s, but without notifications; the client registers again within 15 s.
        pair.pass(Duration::from_secs(16));
        assert_eq!(pair.ends[SERVER].observers(SUBJECT), 1);
        tell(&mut pair, "1");
        assert_eq!(states(&pair).last().map(String::as_str), Some("1"));
    }

    #[test]
    fn large_state_fits_one_notification_of_large_message_size() {
        let (mut pair, _) = observed();
        let large = "x".repeat(20_000);
        let response = Response::content(ContentFormat::TEXT_PLAIN, large.clone());
        let now = pair.now;
        pair.ends[SERVER]
            .notify(now, SUBJECT, &response, false)
            .expect("it fits");
        pair.settle();
        assert_eq!(states(&pair).last(), Some(&large));
        assert_eq!(pair.codes(CLIENT), ["7.01", "0.01"]);
    }
}
