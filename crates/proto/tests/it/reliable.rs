//! Endpoints over connections: CSM, requests and signals (RFC 8323).

use crate::stream::{CLIENT, Pair, SERVER, address, ask, config, failure, hello, lenient, pair};
use carob_cc::time::Duration;
use carob_proto::codec::{Code, ContentFormat, Framing, MessageView, OptionNumber};
use carob_proto::endpoint::{Event, Failure, RequestConfig};
use carob_proto::{Request, Response};

mod requests {
    use super::*;

    #[test]
    fn client_sends_csm_and_request_in_one_flight() {
        let mut pair = pair().answering(hello);
        let id = ask(&mut pair, Request::get());
        assert_eq!(pair.codes(CLIENT), ["7.01", "0.01"]);
        assert_eq!(pair.codes(SERVER), ["7.01", "2.05"]);
        assert_eq!(pair.response(id).bytes().as_ref(), b"hello");
        assert_eq!(pair.connections, 1);
    }

    #[test]
    fn websocket_exchanges_csm_and_requests() {
        let framed = || config(|reliable| reliable.framing = Framing::WebSocket);
        let mut pair = Pair::new(framed(), framed()).answering(hello);
        let id = ask(&mut pair, Request::get());
        assert_eq!(pair.response(id).bytes().as_ref(), b"hello");
    }

    #[test]
    fn responses_are_matched_by_token_in_any_order() {
        let mut pair = pair();
        let first = ask(&mut pair, Request::get());
        let second = ask(&mut pair, Request::get());
        let waiting: Vec<_> = pair.heard[SERVER].events.drain(..).collect();
        let [Event::Request(a), Event::Request(b)] = waiting[..] else {
            panic!("{waiting:?}");
        };
        let now = pair.now;
        pair.ends[SERVER].respond(now, b, &Response::content(ContentFormat::TEXT_PLAIN, "b"));
        pair.ends[SERVER].respond(now, a, &Response::content(ContentFormat::TEXT_PLAIN, "a"));
        pair.settle();
        assert_eq!(pair.response(first).bytes().as_ref(), b"a");
        assert_eq!(pair.response(second).bytes().as_ref(), b"b");
    }

    #[test]
    fn requests_beyond_the_window_wait() {
        let mut pair = Pair::new(config(|reliable| reliable.window = 2), config(|_| ()));
        let ids: Vec<_> = (0..3).map(|_| ask(&mut pair, Request::get())).collect();
        let requests = |pair: &Pair| pair.codes(CLIENT).iter().filter(|c| *c == "0.01").count();
        assert_eq!(requests(&pair), 2);
        let Event::Request(first) = pair.heard[SERVER].events[0] else {
            panic!()
        };
        let now = pair.now;
        pair.ends[SERVER].respond(now, first, &Response::new(Code::CONTENT));
        pair.settle();
        assert_eq!(requests(&pair), 3);
        assert_eq!(pair.response(ids[0]).code, Code::CONTENT);
    }

    #[test]
    fn requests_go_both_ways_on_one_connection() {
        let mut pair = pair().answering(hello);
        ask(&mut pair, Request::get());
        let now = pair.now;
        let id = pair.ends[SERVER]
            .request(
                now,
                address(CLIENT),
                Request::get(),
                RequestConfig::default(),
            )
            .expect("taken");
        pair.settle();
        let Some(Event::Request(asked)) = pair.heard[CLIENT].events.pop() else {
            panic!("{:?}", pair.heard[CLIENT].events);
        };
        pair.ends[CLIENT].respond(
            now,
            asked,
            &Response::content(ContentFormat::TEXT_PLAIN, "me"),
        );
        pair.settle();
        let got = pair.heard[SERVER].events.iter().any(|event| {
            matches!(event, Event::Response { id: of, response } if *of == id && response.bytes().as_ref() == b"me")
        });
        assert!(got && pair.connections == 1);
    }

    #[test]
    fn unknown_critical_option_gets_4_02_over_a_connection() {
        let mut pair = pair().answering(hello);
        let mut request = Request::get();
        request
            .options
            .push(OptionNumber(65_001), b"x")
            .expect("fits");
        let id = ask(&mut pair, request);
        assert_eq!(pair.response(id).code, Code::BAD_OPTION);
    }

    #[test]
    fn request_without_response_times_out() {
        let mut pair = Pair::new(
            config(|reliable| reliable.response_timeout = Duration::from_secs(5)),
            config(|_| ()),
        );
        let id = ask(&mut pair, Request::get());
        pair.pass(Duration::from_secs(4));
        assert!(pair.heard[CLIENT].events.is_empty());
        pair.pass(Duration::from_secs(2));
        assert_eq!(failure(&pair, id), Failure::NoResponse);
    }

    #[test]
    fn a_ping_is_answered_by_a_pong() {
        let mut pair = pair();
        let now = pair.now;
        let id = pair.ends[CLIENT].ping(now, address(SERVER)).expect("taken");
        pair.settle();
        assert!(matches!(pair.heard[CLIENT].events[..], [Event::Pong(of)] if of == id));
        assert_eq!(pair.codes(CLIENT), ["7.01", "7.02"]);
    }

    #[test]
    fn concurrent_pings_each_get_a_pong() {
        let mut pair = pair();
        let now = pair.now;
        let mut ping = || pair.ends[CLIENT].ping(now, address(SERVER)).expect("taken");
        let mut ids = [ping(), ping()];
        pair.settle();
        let pong = |event: &Event| match event {
            Event::Pong(id) => Some(*id),
            _ => None,
        };
        let mut told: Vec<_> = pair.heard[CLIENT].events.iter().filter_map(pong).collect();
        ids.sort_by_key(|id| format!("{id:?}"));
        told.sort_by_key(|id| format!("{id:?}"));
        assert_eq!(told, ids);
    }

    #[test]
    fn pong_without_token_is_accepted() {
        let mut pair = pair();
        pair.connect();
        pair.settle();
        let now = pair.now;
        let id = pair.ends[CLIENT].ping(now, address(SERVER)).expect("taken");
        // As libcoap 4.3.1 sends it: with Custody, without token.
        pair.inject(CLIENT, &[0x10, 0xe3, 0x20]);
        assert!(matches!(pair.heard[CLIENT].events[..], [Event::Pong(of)] if of == id));
    }
}

mod bodies {
    use super::*;

    fn body(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i % 251) as u8).collect()
    }

    fn serve(length: usize) -> impl FnMut(&MessageView<'_>, &[u8]) -> Response {
        move |_, _| Response::new(Code::CONTENT).with_payload(body(length))
    }

    #[test]
    fn body_up_to_max_message_size_is_one_message() {
        let roomy = || config(|reliable| reliable.max_message_size = 200_000);
        let mut pair = Pair::new(roomy(), roomy()).answering(serve(102_400));
        let id = ask(&mut pair, Request::get());
        assert_eq!(pair.response(id).bytes().as_ref(), body(102_400));
        assert_eq!(pair.codes(CLIENT), ["7.01", "0.01"]);
        let put = Request::new(Code::PUT).with_payload(body(102_400));
        let mut pair = Pair::new(roomy(), roomy()).answering(|_, got| {
            Response::content(ContentFormat::TEXT_PLAIN, got.len().to_string())
        });
        let id = ask(&mut pair, put);
        assert_eq!(pair.response(id).bytes().as_ref(), b"102400");
        assert_eq!(pair.codes(CLIENT), ["7.01", "0.03"]);
    }

    #[test]
    fn larger_bodies_use_bert() {
        let mut pair = pair().answering(serve(300_000));
        let id = ask(&mut pair, Request::get());
        assert_eq!(pair.response(id).bytes().as_ref(), body(300_000));
        // 64 KiB + 1152 bytes fit 65 blocks beside the options.
        let gets = pair
            .codes(CLIENT)
            .iter()
            .filter(|code| *code == "0.01")
            .count();
        assert_eq!(gets, 300_000_usize.div_ceil(65 * 1024));
        let get = &pair.heard[CLIENT].sent[2];
        let view = MessageView::parse_long(get).expect("well formed");
        assert_eq!(view.uint_option(OptionNumber::BLOCK2), Some(65 << 4 | 7));

        let mut pair = super::pair().answering(|_, got| {
            Response::content(ContentFormat::TEXT_PLAIN, got.len().to_string())
        });
        let id = ask(
            &mut pair,
            Request::new(Code::PUT).with_payload(body(300_000)),
        );
        assert_eq!(pair.response(id).bytes().as_ref(), b"300000");
        let puts = pair
            .codes(CLIENT)
            .iter()
            .filter(|code| *code == "0.03")
            .count();
        assert_eq!(puts, 5);
    }

    #[test]
    fn peer_without_bert_gets_blocks_of_1024() {
        for plain in [CLIENT, SERVER] {
            let choose = |end| {
                config(|reliable| {
                    if end == plain {
                        reliable.block_wise = false;
                        reliable.max_message_size = 1_152;
                    }
                })
            };
            let mut pair = Pair::new(choose(CLIENT), choose(SERVER)).answering(|request, got| {
                if request.code() == Code::GET {
                    Response::new(Code::CONTENT).with_payload(body(5_000))
                } else {
                    Response::content(ContentFormat::TEXT_PLAIN, got.len().to_string())
                }
            });
            let get = ask(&mut pair, Request::get());
            assert_eq!(pair.response(get).bytes().as_ref(), body(5_000));
            let put = ask(&mut pair, Request::new(Code::PUT).with_payload(body(5_000)));
            assert_eq!(pair.response(put).bytes().as_ref(), b"5000");
            let limit = |end: usize| pair.heard[end].sent.iter().map(Vec::len).max();
            assert!(limit(1 - plain) <= Some(1_150), "above Max-Message-Size");
        }
    }

    #[test]
    fn a_large_request_waits_for_the_csm_and_a_small_one_does_not() {
        let mut pair = pair().answering(|_, got| {
            Response::content(ContentFormat::TEXT_PLAIN, got.len().to_string())
        });
        let put = |length| Request::new(Code::PUT).with_payload(body(length));
        let now = pair.now;
        let client = &mut pair.ends[CLIENT];
        let large = client
            .request(now, address(SERVER), put(3_000), RequestConfig::default())
            .expect("taken");
        let small = client
            .request(now, address(SERVER), put(300), RequestConfig::default())
            .expect("taken");
        pair.settle();
        assert_eq!(pair.response(large).bytes().as_ref(), b"3000");
        assert_eq!(pair.response(small).bytes().as_ref(), b"300");
        let lengths: Vec<_> = pair.heard[CLIENT].sent.iter().map(Vec::len).collect();
        assert!(lengths[1] < 400 && lengths[2] > 3_000, "{lengths:?}");
    }

    #[test]
    fn large_request_without_csm_goes_in_small_blocks_on_timeout() {
        let mut pair = lenient();
        pair.connected = true;
        let now = pair.now;
        pair.ends[CLIENT].connected(now, address(SERVER));
        ask(&mut pair, Request::new(Code::PUT).with_payload(body(3_000)));
        assert_eq!(pair.codes(CLIENT), ["7.01"]);
        pair.pass(Duration::from_secs(11));
        assert_eq!(pair.codes(CLIENT), ["7.01", "0.03"]);
        assert!(pair.heard[CLIENT].sent[1].len() <= 1_150);
    }

    #[test]
    fn message_beyond_max_message_size_aborts_the_connection() {
        let mut pair = pair().answering(hello);
        ask(&mut pair, Request::get());
        pair.inject(SERVER, &[0xf0, 0, 1, 0, 0, 0x02]);
        assert_eq!(pair.codes(SERVER).last().map(String::as_str), Some("7.05"));
        assert!(!pair.connected);
    }
}

mod signals {
    use super::*;

    #[test]
    fn peer_without_csm_is_served_if_csm_is_optional() {
        let mut pair = lenient().answering(hello);
        pair.connected = true;
        let now = pair.now;
        pair.ends[SERVER].connected(now, address(CLIENT));
        pair.inject(SERVER, &[0x00, 0x01]);
        assert_eq!(pair.codes(SERVER), ["7.01", "2.05"]);
    }

    #[test]
    fn missing_csm_aborts_after_a_timeout() {
        let mut pair = pair();
        pair.connected = true;
        let now = pair.now;
        pair.ends[SERVER].connected(now, address(CLIENT));
        pair.pass(Duration::from_secs(9));
        assert_eq!(pair.codes(SERVER), ["7.01"]);
        pair.pass(Duration::from_secs(2));
        assert_eq!(pair.codes(SERVER), ["7.01", "7.05"]);
    }

    #[test]
    fn an_unknown_critical_option_of_a_csm_is_named_in_the_abort() {
        let mut pair = pair();
        pair.connect();
        pair.inject(SERVER, &[0x10, 0xe1, 0x90]);
        let abort = pair.heard[SERVER].sent.last().expect("sent");
        // Bad-CSM-Option (2) with option number 9.
        assert_eq!((abort[1], &abort[4..6]), (0xe5, &[0x21, 9][..]));
    }

    #[test]
    fn after_release_new_requests_take_a_new_connection() {
        let mut pair = pair();
        let first = ask(&mut pair, Request::get());
        let now = pair.now;
        pair.ends[SERVER].release(now, Some(address(CLIENT)));
        pair.settle();
        let second = ask(&mut pair, Request::get());
        assert_eq!(pair.connections, 1, "the first is still under way");
        let Event::Request(waiting) = pair.heard[SERVER].events[0] else {
            panic!()
        };
        pair.ends[SERVER].respond(now, waiting, &Response::new(Code::CONTENT));
        pair.settle();
        assert_eq!(pair.response(first).code, Code::CONTENT);
        assert_eq!(pair.connections, 2);
        let Some(Event::Request(waiting)) = pair.heard[SERVER].events.pop() else {
            panic!()
        };
        pair.ends[SERVER].respond(now, waiting, &Response::new(Code::CONTENT));
        pair.settle();
        assert_eq!(pair.response(second).code, Code::CONTENT);
    }

    #[test]
    fn hold_off_delays_reconnecting() {
        let mut pair = pair().answering(hello);
        ask(&mut pair, Request::get());
        // Release with Hold-Off 30.
        pair.inject(CLIENT, &[0x20, 0xe4, 0x41, 30]);
        assert!(!pair.connected);
        let id = ask(&mut pair, Request::get());
        pair.pass(Duration::from_secs(29));
        assert_eq!(pair.connections, 1);
        pair.pass(Duration::from_secs(2));
        assert_eq!(
            (pair.connections, pair.response(id).code),
            (2, Code::CONTENT)
        );
    }

    #[test]
    fn an_idle_connection_is_released_and_closed() {
        let mut pair = pair().answering(hello);
        ask(&mut pair, Request::get());
        pair.pass(Duration::from_secs(301));
        assert!(!pair.connected);
        assert_eq!(pair.codes(CLIENT).last().map(String::as_str), Some("7.04"));
        let id = ask(&mut pair, Request::get());
        assert_eq!(
            (pair.response(id).code, pair.connections),
            (Code::CONTENT, 2)
        );
    }

    #[test]
    fn pending_request_triggers_keepalive_pings() {
        let mut pair = pair();
        let id = ask(&mut pair, Request::get());
        pair.pass(Duration::from_secs(100));
        assert!(pair.codes(CLIENT).contains(&"7.02".to_owned()));
        assert!(pair.connected && pair.codes(SERVER).contains(&"7.03".to_owned()));
        // The connection is dead from here on.
        pair.connected = false;
        pair.pass(Duration::from_secs(121));
        assert_eq!(pair.connections, 2, "the GET is sent once more");
        let _ = id;
    }
}
