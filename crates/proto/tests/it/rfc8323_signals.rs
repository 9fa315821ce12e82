//! Ping, Pong, Release, Abort and empty messages (RFC 8323 3.4, 5).

use crate::stream::{
    CLIENT, CSM, Lone, address, ask, config, failure, frame, introduced, pair, signal_of,
};
use carob_cc::time::Duration;
use carob_proto::codec::Code;
use carob_proto::endpoint::{AbortText, Disconnect, Event, Failure};
use carob_proto::{Request, Response};

mod ping {
    use super::*;

    #[test]
    fn pong_has_the_token_of_the_ping() {
        let mut lone = introduced();
        for token in [&[][..], &[0x42], &[1, 2, 3, 4, 5, 6, 7, 8]] {
            lone.hear(&frame(Code::PING, token, &[], &[]));
            let told = lone.told();
            assert_eq!((told.len(), told[0][1], &told[0][4..]), (1, 0xe3, token));
        }
    }

    #[test]
    fn pending_request_does_not_delay_the_pong() {
        let mut lone = introduced();
        lone.hear(&frame(Code::GET, &[1], &[], &[]));
        lone.hear(&frame(Code::PING, &[2], &[], &[]));
        assert_eq!(lone.codes(), ["7.03"]);
    }

    #[test]
    fn unknown_elective_options_of_signals_are_ignored() {
        let mut lone = introduced();
        lone.hear(&frame(Code::PING, &[1], &[(8, b"x")], &[]));
        assert_eq!(lone.codes(), ["7.03"]);
        let id = lone.end.ping(lone.now, address(CLIENT)).expect("taken");
        lone.drain();
        let ping = lone.told().pop().expect("sent");
        lone.hear(&frame(Code::PONG, &ping[4..], &[(8, b"x")], &[]));
        assert!(
            lone.events
                .iter()
                .any(|event| matches!(event, Event::Pong(of) if *of == id))
        );
    }

    #[test]
    fn pong_with_custody_follows_earlier_responses() {
        let mut lone = introduced();
        lone.hear(&frame(Code::GET, &[1], &[], &[]));
        lone.hear(&frame(Code::GET, &[2], &[], &[]));
        lone.hear(&frame(Code::PING, &[3], &[(2, b"")], &[]));
        lone.hear(&frame(Code::GET, &[4], &[], &[]));
        let ids = lone.requests();
        assert!(lone.codes().is_empty());
        lone.respond(ids[2], &Response::new(Code::CONTENT));
        lone.respond(ids[0], &Response::new(Code::CONTENT));
        assert_eq!(
            lone.codes(),
            ["2.05", "2.05"],
            "the second is still under way"
        );
        lone.respond(ids[1], &Response::new(Code::CONTENT));
        let told = lone.told();
        assert_eq!(told.len(), 2);
        assert_eq!(signal_of(&told[1]), (Code::PONG, vec![(2, 0)], ""));
        assert_eq!(told[1][4], 3);
    }

    #[test]
    fn pong_with_custody_without_pending_requests_is_immediate() {
        let mut lone = introduced();
        lone.hear(&frame(Code::PING, &[3], &[(2, b"")], &[]));
        assert_eq!(signal_of(&lone.told()[0]), (Code::PONG, vec![(2, 0)], ""));
    }

    #[test]
    fn pings_beyond_the_custody_limit_get_plain_pongs() {
        let mut lone = introduced();
        lone.hear(&frame(Code::GET, &[1], &[], &[]));
        for n in 0..20 {
            lone.hear(&frame(Code::PING, &[n], &[(2, b"")], &[]));
        }
        let told = lone.told();
        assert_eq!(told.len(), 12, "eight wait");
        assert!(
            told.iter()
                .all(|pong| signal_of(pong) == (Code::PONG, vec![], ""))
        );
    }
}

mod release {
    use super::*;

    #[test]
    fn release_closes_after_earlier_requests_are_answered() {
        let mut lone = introduced();
        lone.hear(&frame(Code::GET, &[1], &[], &[]));
        lone.hear(&frame(Code::RELEASE, &[], &[], b"bye"));
        assert_eq!(lone.closed, 0);
        let ids = lone.requests();
        lone.respond(ids[0], &Response::new(Code::CONTENT));
        assert_eq!((lone.codes(), lone.closed), (vec!["2.05".into()], 1));
    }

    #[test]
    fn release_closes_an_idle_connection_at_once() {
        let mut lone = introduced();
        lone.hear(&frame(Code::RELEASE, &[], &[], &[]));
        assert_eq!((lone.closed, lone.end.usage().connections), (1, 0));
    }

    #[test]
    fn own_requests_before_release_get_responses() {
        let mut lone = introduced();
        let id = lone.request(Request::get());
        let get = lone.told().pop().expect("sent");
        lone.hear(&frame(Code::RELEASE, &[], &[], &[]));
        assert_eq!(lone.closed, 0);
        lone.hear(&frame(Code::CONTENT, &get[4..12], &[], b"it"));
        assert!(
            lone.events
                .iter()
                .any(|event| matches!(event, Event::Response { id: of, .. } if *of == id))
        );
        assert_eq!(lone.closed, 1);
    }

    #[test]
    fn after_own_release_peer_is_served_and_own_requests_wait() {
        let mut lone = introduced();
        lone.end.release(lone.now, Some(address(CLIENT)));
        lone.drain();
        lone.hear(&frame(Code::GET, &[1], &[], &[]));
        lone.request(Request::get());
        let ids = lone.requests();
        lone.respond(ids[0], &Response::new(Code::CONTENT));
        assert_eq!(
            (lone.codes(), lone.closed),
            (vec!["7.04".into(), "2.05".into()], 0)
        );
        lone.end
            .disconnected(lone.now, address(CLIENT), Disconnect::Closed);
        lone.drain();
        assert_eq!(lone.wanted, 1, "the peer has closed it");
        assert!(lone.connect());
        assert_eq!(lone.codes(), ["7.01", "0.01"]);
    }

    #[test]
    fn own_release_waits_5_s_for_the_close() {
        let mut lone = introduced();
        lone.end.release(lone.now, Some(address(CLIENT)));
        lone.pass(Duration::from_secs(4));
        assert_eq!((lone.codes(), lone.closed), (vec!["7.04".into()], 0));
        lone.end.release(lone.now, Some(address(CLIENT)));
        lone.pass(Duration::from_secs(2));
        assert_eq!(
            (lone.codes(), lone.closed),
            (vec![], 1),
            "a second Release was sent"
        );
    }

    #[test]
    fn pending_requests_are_answered_after_own_release() {
        let mut lone = introduced();
        lone.hear(&frame(Code::GET, &[1], &[], &[]));
        lone.end.release(lone.now, Some(address(CLIENT)));
        lone.pass(Duration::from_secs(10));
        assert_eq!(lone.closed, 0);
        let ids = lone.requests();
        lone.respond(ids[0], &Response::new(Code::CONTENT));
        assert_eq!(
            (lone.codes(), lone.closed),
            (vec!["7.04".into(), "2.05".into()], 1)
        );
    }

    #[test]
    fn hold_off_from_a_client_leaves_no_state() {
        let mut lone = introduced();
        lone.hear(&frame(Code::RELEASE, &[], &[(4, &[0xff, 0xff, 0xff])], &[]));
        assert_eq!((lone.closed, lone.end.usage().connections), (1, 0));
    }

    #[test]
    fn alternative_address_is_ignored() {
        let mut lone = introduced();
        lone.hear(&frame(Code::RELEASE, &[], &[(2, b"192.0.2.1:5683")], &[]));
        lone.pass(Duration::from_secs(1_000));
        assert_eq!((lone.closed, lone.wanted), (1, 0));
    }

    #[test]
    fn release_during_an_upload_fails_the_request() {
        let small = || config(|reliable| reliable.max_message_size = 1_152);
        let mut lone = Lone::new(small());
        lone.hear(CSM);
        let id = lone.request(Request::new(Code::PUT).with_payload(vec![7; 5_000]));
        let put = lone.told().pop().expect("sent");
        lone.hear(&frame(Code::RELEASE, &[], &[], &[]));
        lone.hear(&frame(Code::CONTINUE, &put[4..12], &[(27, &[0x0e])], &[]));
        let expected = Failure::Disconnected(Disconnect::Released);
        let failed = |event: &Event| matches!(event, Event::Failed { id: of, failure } if *of == id && *failure == expected);
        assert!(lone.events.iter().any(failed), "{:?}", lone.events);
        assert_eq!((lone.closed, lone.wanted), (1, 0));
    }
}

mod abort {
    use super::*;

    #[test]
    fn abort_ends_connection_and_discards_later_messages() {
        let mut lone = introduced();
        let mut bytes = frame(Code::ABORT, &[], &[(2, &[9])], b"why not");
        bytes.extend(frame(Code::GET, &[1], &[], &[]));
        lone.hear(&bytes);
        assert_eq!((lone.closed, lone.codes()), (1, vec![]));
        assert!(lone.requests().is_empty());
        assert_eq!(lone.end.usage().connections, 0);
    }

    #[test]
    fn abort_before_csm_is_accepted() {
        let mut lone = Lone::new(config(|_| ()));
        lone.hear(&frame(Code::ABORT, &[], &[], &[]));
        assert_eq!((lone.codes(), lone.closed), (vec!["7.01".into()], 1));
    }

    #[test]
    fn own_abort_has_a_diagnostic_payload() {
        let critical = |code| frame(code, &[], &[(9, b"")], &[]);
        let wrong = [
            vec![0x0f],                            // reserved token length
            vec![0x10, 0x01, 0xff],                // marker without payload
            vec![0x10, 0x01, 0xf0],                // reserved delta
            vec![0xf0, 0xff, 0xff, 0xff, 0xff, 1], // too long
            critical(Code::CSM),
            critical(Code::PING),
            critical(Code::PONG),
            critical(Code::RELEASE),
            critical(Code::ABORT),
            critical(Code(0xe6)),
        ];
        for bytes in wrong {
            let mut lone = introduced();
            lone.hear(&bytes);
            let told = lone.told();
            let text = match told.iter().map(|told| signal_of(told)).collect::<Vec<_>>()[..] {
                [(Code::ABORT, _, text)] => text.to_owned(),
                _ => panic!("{bytes:02x?}: {told:02x?}"),
            };
            assert!(!text.is_empty() && lone.closed == 1, "{bytes:02x?}");
            assert!(lone.events.is_empty(), "it is not processed: {bytes:02x?}");
        }
    }

    #[test]
    fn request_is_sent_twice_if_the_peer_always_aborts() {
        let mut pair = pair();
        let id = ask(&mut pair, Request::get());
        pair.inject(CLIENT, &frame(Code::ABORT, &[], &[], &[]));
        pair.inject(CLIENT, &frame(Code::ABORT, &[], &[], b"no tenant 7"));
        let text = AbortText::new(b"no tenant 7");
        let failure = failure(&pair, id);
        assert_eq!(
            failure,
            Failure::Disconnected(Disconnect::AbortedByPeer(text))
        );
        let expected = "the peer aborted the connection: no tenant 7";
        assert_eq!(failure.to_string(), expected);
        assert_eq!(pair.connections, 2);
    }
}

mod health {
    use super::*;

    #[test]
    fn empty_messages_are_ignored_at_any_time() {
        let mut lone = Lone::new(config(|_| ()));
        lone.hear(&[0x00, 0x00]);
        lone.hear(CSM);
        lone.told();
        lone.hear(&[0x00, 0x00, 0x01, 0x00, 0x77]);
        assert_eq!((lone.codes(), lone.closed), (vec![], 0));
        lone.hear(&frame(Code::GET, &[1], &[], &[]));
        assert_eq!(lone.requests().len(), 1);
    }

    #[test]
    fn messages_of_reserved_classes_are_ignored() {
        for code in [0x20, 0x3f, 0xc0, 0xdf] {
            let mut lone = introduced();
            lone.hear(&frame(Code(code), &[1], &[], &[]));
            assert_eq!((lone.codes(), lone.closed), (vec![], 0), "{code:02x}");
        }
    }

    #[test]
    fn requests_with_unknown_methods_reach_the_application() {
        let mut lone = introduced();
        lone.hear(&frame(Code(0x1f), &[1], &[], &[]));
        let ids = lone.requests();
        lone.respond(ids[0], &Response::new(Code::METHOD_NOT_ALLOWED));
        assert_eq!(lone.codes(), ["4.05"]);
    }
}
