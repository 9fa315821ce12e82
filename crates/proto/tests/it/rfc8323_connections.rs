//! State of a connection and its end, and limits on work per connection (RFC 8323 3.3, 3.4, 6, 7).

use crate::stream::{CLIENT, CSM, Lone, address, config, frame, introduced};
use carob_cc::random::Fixed;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{Code, ContentFormat, MessageView, OptionNumber};
use carob_proto::endpoint::{Endpoint, Event, IncomingId, Output, RequestConfig, Subject};
use carob_proto::{Request, Response};
use core::net::SocketAddr;

fn text(text: &'static str) -> Response {
    Response::content(ContentFormat::TEXT_PLAIN, text)
}

/// Loses the connection and reconnects.
fn reconnected(lone: &mut Lone) {
    lone.lose();
    assert!(lone.connect());
    lone.hear(CSM);
    lone.told();
}

mod belonging {
    use super::*;

    #[test]
    fn response_uses_connection_of_its_request_only() {
        let mut lone = introduced();
        lone.hear(&frame(Code::GET, &[1], &[], &[]));
        let ids = lone.requests();
        reconnected(&mut lone);
        lone.respond(ids[0], &text("late"));
        assert!(lone.codes().is_empty());
        assert_eq!(lone.end.usage().incoming, 0);
    }

    #[test]
    fn late_response_is_not_sent_on_the_next_connection() {
        let mut lone = introduced();
        lone.hear(&frame(Code::GET, &[1], &[], &[]));
        let old = lone.requests();
        reconnected(&mut lone);
        lone.hear(&frame(Code::GET, &[1], &[], &[]));
        lone.hear(&frame(Code::RELEASE, &[], &[], &[]));
        lone.respond(old[0], &text("late"));
        assert_eq!(lone.closed, 0, "one is still under way on this one");
        let new = lone.requests();
        lone.respond(new[0], &text("in time"));
        assert_eq!((lone.codes(), lone.closed), (vec!["2.05".into()], 1));
    }

    #[test]
    fn requests_with_equal_tokens_each_get_a_response() {
        let mut lone = introduced();
        lone.hear(&frame(Code::GET, &[1], &[], &[]));
        lone.hear(&frame(Code::GET, &[1], &[], &[]));
        for id in lone.requests() {
            lone.respond(id, &text("x"));
        }
        assert_eq!(lone.codes(), ["2.05", "2.05"]);
    }

    #[test]
    fn unmatched_response_is_ignored() {
        let mut lone = introduced();
        lone.hear(&frame(Code::CONTENT, &[1, 2, 3], &[], b"?"));
        lone.request(Request::new(Code::POST));
        let post = lone.told().pop().expect("sent");
        reconnected(&mut lone);
        lone.events.clear();
        lone.hear(&frame(Code::CONTENT, &post[4..12], &[], b"?"));
        assert_eq!((lone.codes(), lone.closed), (vec![], 0));
        assert!(lone.events.is_empty());
    }

    #[test]
    fn incomplete_body_is_not_continued_on_the_next_connection() {
        let mut lone = introduced();
        let part = |number: u8, more: u8| {
            let block = [number << 4 | more << 3 | 6];
            frame(Code::PUT, &[1], &[(27, &block)], &[7; 1_024])
        };
        lone.hear(&part(0, 1));
        assert_eq!(lone.codes(), ["2.31"]);
        reconnected(&mut lone);
        lone.hear(&part(1, 0));
        assert_eq!(lone.codes(), ["4.08"]);
        assert_eq!(lone.end.usage().uploads, (0, 0));
    }

    #[test]
    fn connection_closed_within_a_message_leaves_no_state() {
        let whole = frame(Code::PUT, &[1], &[(27, &[0x0e])], &[7; 1_024]);
        for end in 0..whole.len() {
            let mut lone = introduced();
            lone.hear(&whole[..end]);
            lone.lose();
            let usage = lone.end.usage();
            assert_eq!(
                (usage.connections, usage.incoming, usage.uploads),
                (0, 0, (0, 0))
            );
            assert!(lone.end.is_idle() && lone.events.is_empty(), "{end}");
        }
    }
}

mod bert {
    use super::*;

    fn bert(number: u32, more: bool, payload: usize) -> Vec<u8> {
        let block = (number << 4 | u32::from(more) << 3 | 7).to_be_bytes();
        frame(Code::PUT, &[1], &[(27, &block[1..])], &vec![7; payload])
    }

    #[test]
    fn example_upload_with_bert() {
        // The example of RFC 8323 6.2.
        let mut lone = introduced();
        lone.hear(&bert(0, true, 8_192));
        lone.hear(&bert(8, true, 16_384));
        lone.hear(&bert(24, false, 5_683));
        let told = lone.told();
        let blocks: Vec<_> = told
            .iter()
            .map(|told| MessageView::parse_long(told).expect("well formed"))
            .map(|view| (view.code(), view.uint_option(OptionNumber::BLOCK1)))
            .collect();
        assert_eq!(
            blocks,
            [(Code::CONTINUE, Some(0x0f)), (Code::CONTINUE, Some(0x8f))]
        );
        let ids = lone.requests();
        let body = lone.end.incoming(ids[0]).expect("it waits").body.len();
        assert_eq!(body, 8_192 + 16_384 + 5_683);
        lone.respond(ids[0], &Response::new(Code::CHANGED));
        let answer = lone.told().pop().expect("sent");
        let view = MessageView::parse_long(&answer).expect("well formed");
        assert_eq!(view.uint_option(OptionNumber::BLOCK1), Some(24 << 4 | 7));
    }

    #[test]
    fn non_final_bert_message_has_whole_blocks() {
        for payload in [1_023, 1_025, 1_536] {
            let mut lone = introduced();
            lone.hear(&bert(0, true, payload));
            assert_eq!(lone.codes(), ["4.00"], "{payload}");
        }
    }

    #[test]
    fn final_bert_message_may_have_any_length() {
        for payload in [1, 1_023, 1_024, 3_000] {
            let mut lone = introduced();
            lone.hear(&bert(0, true, 2_048));
            lone.hear(&bert(2, false, payload));
            let ids = lone.requests();
            let body = lone.end.incoming(ids[0]).expect("it waits").body.len();
            assert_eq!(body, 2_048 + payload);
        }
    }
}

mod observing {
    use super::*;

    const SUBJECT: Subject = Subject(7);

    /// A registration by the peer.
    fn asked(lone: &mut Lone) -> IncomingId {
        lone.hear(&frame(Code::GET, &[5], &[(6, b"")], &[]));
        lone.requests()[0]
    }

    fn tell(lone: &mut Lone, state: &'static str) -> usize {
        let told = lone.end.notify(lone.now, SUBJECT, &text(state), false);
        lone.drain();
        told.expect("it fits")
    }

    #[test]
    fn observers_end_with_their_connection() {
        let mut lone = introduced();
        let id = asked(&mut lone);
        assert!(lone.end.observe(lone.now, id, SUBJECT));
        lone.respond(id, &text("0"));
        assert_eq!(tell(&mut lone, "1"), 1);
        lone.pass(Duration::from_secs(3_600));
        assert_eq!(lone.closed, 0, "connections with observers are not idle");
        lone.lose();
        assert_eq!((lone.end.observers(SUBJECT), tell(&mut lone, "2")), (0, 0));
        assert_eq!(lone.wanted, 0, "it is not gone to");
    }

    #[test]
    fn observers_end_when_the_peer_is_silent() {
        let mut lone = introduced();
        let id = asked(&mut lone);
        assert!(lone.end.observe(lone.now, id, SUBJECT));
        lone.respond(id, &text("0"));
        lone.request(Request::new(Code::POST));
        lone.pass(Duration::from_secs(119));
        assert_eq!(lone.end.observers(SUBJECT), 1);
        lone.pass(Duration::from_secs(2));
        assert_eq!((lone.closed, lone.end.observers(SUBJECT)), (1, 0));
    }

    #[test]
    fn observer_of_lost_connection_is_not_registered() {
        let mut lone = introduced();
        let id = asked(&mut lone);
        lone.lose();
        assert!(!lone.end.observe(lone.now, id, SUBJECT));
        lone.respond(id, &text("0"));
        assert_eq!((lone.end.observers(SUBJECT), lone.wanted), (0, 0));
    }

    #[test]
    fn response_to_lost_connection_registers_no_observer() {
        let mut lone = introduced();
        let id = asked(&mut lone);
        assert!(lone.end.observe(lone.now, id, SUBJECT));
        reconnected(&mut lone);
        // The client registers again with the same token; the old request gets an error.
        let again = asked(&mut lone);
        assert!(lone.end.observe(lone.now, again, SUBJECT));
        lone.respond(id, &Response::new(Code::NOT_FOUND));
        lone.respond(again, &text("0"));
        assert_eq!(lone.codes(), ["2.05"]);
        assert_eq!(lone.end.observers(SUBJECT), 1);
    }

    #[test]
    fn get_with_observe_1_cancels_the_observation() {
        let mut lone = introduced();
        let id = asked(&mut lone);
        assert!(lone.end.observe(lone.now, id, SUBJECT));
        lone.respond(id, &text("0"));
        lone.hear(&frame(Code::GET, &[5], &[(6, &[1])], &[]));
        assert_eq!(lone.end.observers(SUBJECT), 0);
        let ids = lone.requests();
        lone.respond(ids[0], &text("0"));
        let told = lone.told();
        let last = MessageView::parse_long(&told[1]).expect("well formed");
        assert_eq!(
            (last.code(), last.option(OptionNumber::OBSERVE)),
            (Code::CONTENT, None)
        );
    }

    /// An observation of the peer; returns its token.
    fn observing(lone: &mut Lone) -> (carob_proto::endpoint::RequestId, Vec<u8>) {
        let mut sending = RequestConfig::default();
        sending.observe = true;
        let to = address(CLIENT);
        let id = lone
            .end
            .request(lone.now, to, Request::get(), sending)
            .expect("taken");
        lone.drain();
        (id, lone.told()[0][4..12].to_vec())
    }

    fn states(lone: &Lone) -> Vec<&[u8]> {
        let states = lone.events.iter().filter_map(|event| match event {
            Event::Notification { response, .. } => Some(response.bytes().as_ref()),
            _ => None,
        });
        states.collect()
    }

    #[test]
    fn observe_number_is_ignored_over_a_connection() {
        let mut lone = introduced();
        let (_, token) = observing(&mut lone);
        for (number, state) in [
            (&[9][..], "a"),
            (&[9], "b"),
            (&[2], "c"),
            (&[], "d"),
            (&[1, 0, 0], "e"),
            (&[0], "f"),
        ] {
            lone.hear(&frame(
                Code::CONTENT,
                &token,
                &[(6, number)],
                state.as_bytes(),
            ));
        }
        assert_eq!(states(&lone), [b"a", b"b", b"c", b"d", b"e", b"f"]);
    }

    #[test]
    fn cancellation_has_the_token_of_the_observation() {
        let mut lone = introduced();
        let (id, token) = observing(&mut lone);
        lone.hear(&frame(Code::CONTENT, &token, &[(6, b"")], b"a"));
        assert!(lone.end.cancel(lone.now, id));
        lone.drain();
        let told = lone.told();
        let view = MessageView::parse_long(&told[0]).expect("well formed");
        assert_eq!(
            (view.code(), view.token().as_slice()),
            (Code::GET, &token[..])
        );
        assert_eq!(view.uint_option(OptionNumber::OBSERVE), Some(1));
        // Later notifications with that token are ignored.
        lone.hear(&frame(Code::CONTENT, &token, &[(6, b"")], b"b"));
        lone.hear(&frame(Code::CONTENT, &token, &[], b"c"));
        assert_eq!(
            (lone.codes(), lone.closed, lone.end.is_idle()),
            (vec![], 0, true)
        );
    }

    #[test]
    fn queued_notification_is_cut_to_size_at_transmission() {
        let mut lone = Lone::new(config(|_| ()));
        lone.hear(&frame(Code::CSM, &[], &[(2, &[0x20, 0x00])], &[]));
        let id = asked(&mut lone);
        assert!(lone.end.observe(lone.now, id, SUBJECT));
        lone.respond(id, &text("0"));
        lone.end.set_congested(lone.now, address(CLIENT), true);
        let large = Response::content(ContentFormat::TEXT_PLAIN, "1".repeat(4_000));
        assert_eq!(lone.end.notify(lone.now, SUBJECT, &large, false), Ok(1));
        lone.drain();
        lone.told();
        lone.hear(&frame(Code::CSM, &[], &[(2, &[0x02, 0x00])], &[]));
        lone.end.set_congested(lone.now, address(CLIENT), false);
        lone.drain();
        let told = lone.told();
        assert!(told.len() == 1 && told[0].len() <= 510, "{told:02x?}");
        let view = MessageView::parse_long(&told[0]).expect("well formed");
        assert_eq!((view.code(), view.payload().len()), (Code::CONTENT, 256));
        assert_eq!(lone.end.observers(SUBJECT), 1);
    }

    #[test]
    fn cancellation_after_release_sends_nothing() {
        let mut lone = introduced();
        let (id, token) = observing(&mut lone);
        lone.hear(&frame(Code::CONTENT, &token, &[(6, b"")], b"a"));
        lone.end.release(lone.now, Some(address(CLIENT)));
        lone.drain();
        assert!(lone.end.cancel(lone.now, id));
        lone.drain();
        assert_eq!(lone.codes(), ["7.04"]);
    }

    #[test]
    fn notification_above_one_peers_limit_reaches_the_others() {
        let mut lone = Lone::new(config(|_| ()));
        lone.hear(&frame(Code::CSM, &[], &[(2, &[64])], &[]));
        let id = asked(&mut lone);
        assert!(lone.end.observe(lone.now, id, SUBJECT));
        lone.respond(id, &text("0"));
        lone.told();
        let mut wide = text("1");
        wide.options
            .push(OptionNumber::ETAG, &[1; 8])
            .expect("fits");
        for _ in 0..4 {
            wide.options
                .push(OptionNumber::LOCATION_QUERY, &[b'x'; 40])
                .expect("fits");
        }
        wide.code = Code::CONTENT;
        let told = lone.end.notify(lone.now, SUBJECT, &wide, false);
        lone.drain();
        let sent = lone.told();
        assert!(
            sent.iter().all(|message| message.len() <= 62),
            "{told:?} {sent:02x?}"
        );
        assert_eq!(sent.len(), 1);
    }
}

mod owing {
    use super::*;

    #[test]
    fn pings_are_answered_while_pongs_are_read() {
        let mut lone = introduced();
        let pings = frame(Code::PING, &[], &[], &[]).repeat(10_000);
        lone.hear(&pings);
        assert_eq!((lone.told().len(), lone.closed), (10_000, 0));
    }

    #[test]
    fn many_requests_in_one_read_are_processed_in_portions() {
        let mut lone = introduced();
        let gets = frame(Code::GET, &[1], &[], &[]).repeat(5_000);
        lone.end.handle_stream(lone.now, address(CLIENT), &gets);
        let (mut answered, mut most) = (0, 0);
        loop {
            most = most.max(lone.end.usage().incoming);
            match lone.end.poll() {
                Output::Event(Event::Request(id)) => lone.end.respond(lone.now, id, &text("x")),
                Output::Transmit { .. } => answered += 1,
                Output::Wait(_) => break,
                _ => {}
            }
        }
        assert_eq!((answered, most), (5_000, 32));
    }

    fn large(length: usize) -> Response {
        Response::new(Code::CONTENT).with_payload(vec![0; length])
    }

    /// A server with this number of connections, each of which has sent 32 requests in one read.
    fn asked_for_much(connections: u16) -> (Endpoint, Instant) {
        let now = Instant::from_micros(1_000_000);
        let mut end = Endpoint::new(config(|_| ()), Fixed(1));
        let csm = frame(Code::CSM, &[], &[(2, &[0xff; 4]), (4, &[])], &[]);
        let gets = frame(Code::GET, &[1], &[], &[]).repeat(32);
        let peers = (0..connections).map(|port| SocketAddr::from(([192, 0, 2, 1], 40_000 + port)));
        for peer in peers {
            assert!(end.connected(now, peer));
            end.handle_stream(now, peer, &[&csm[..], &gets[..]].concat());
        }
        (end, now)
    }

    #[test]
    fn large_responses_to_many_connections_are_polled_one_by_one() {
        let (mut end, now) = asked_for_much(24);
        let large = large(1_000_000);
        let (mut requests, mut most) = (0, 0);
        loop {
            most = most.max(end.queued_bytes());
            match end.poll() {
                Output::Event(Event::Request(id)) => {
                    requests += 1;
                    end.respond(now, id, &large);
                }
                Output::Wait(_) => break,
                _ => {}
            }
        }
        assert_eq!((requests, end.queued_bytes()), (24 * 32, 0));
        assert!(most < 1_100_000, "{most} bytes waited");
    }

    #[test]
    fn requests_of_congested_connection_wait_above_watermark() {
        let (mut end, now) = asked_for_much(1);
        let peer = SocketAddr::from(([192, 0, 2, 1], 40_000));
        end.set_congested(now, peer, true);
        let large = large(100_000);
        let answered = |end: &mut Endpoint| {
            let mut answered = 0;
            loop {
                match end.poll() {
                    Output::Event(Event::Request(id)) => {
                        answered += 1;
                        end.respond(now, id, &large);
                    }
                    Output::Wait(_) => return answered,
                    _ => {}
                }
            }
        };
        // 32 messages per portion, the first of which is the CSM.
        assert_eq!(answered(&mut end), 31);
        let gets = frame(Code::GET, &[1], &[], &[]).repeat(32);
        end.handle_stream(now, peer, &gets);
        assert_eq!(answered(&mut end), 0);
        assert!(end.usage().partial_bytes >= gets.len());
        end.set_congested(now, peer, false);
        assert_eq!(answered(&mut end), 33);
        assert_eq!(end.usage().partial_bytes, 0);
    }

    #[test]
    fn input_of_a_closed_connection_is_dropped() {
        let mut lone = introduced();
        let gets = frame(Code::GET, &[1], &[], &[]).repeat(100);
        lone.end.handle_stream(lone.now, address(CLIENT), &gets);
        lone.lose();
        assert!(lone.connect());
        assert_eq!(lone.requests().len(), 32);
        assert_eq!(lone.end.usage().partial_bytes, 0);
    }

    #[test]
    fn non_reading_peer_is_aborted() {
        let ping = frame(Code::PING, &[], &[], &[]);
        let get = frame(Code::GET, &[1], &[(65_001, b"x")], &[]);
        for asks in [ping, get] {
            let mut lone = introduced();
            lone.end.set_congested(lone.now, address(CLIENT), true);
            lone.hear(&asks.repeat(1_024));
            assert_eq!((lone.told().len(), lone.closed), (1_024, 0));
            lone.hear(&asks.repeat(1_024));
            assert_eq!((lone.codes(), lone.closed), (vec!["7.05".into()], 1));
        }
    }

    #[test]
    fn slowly_reading_peer_is_not_aborted() {
        let mut lone = introduced();
        for _ in 0..4 {
            lone.end.set_congested(lone.now, address(CLIENT), true);
            lone.hear(&frame(Code::PING, &[], &[], &[]).repeat(1_000));
            lone.end.set_congested(lone.now, address(CLIENT), false);
        }
        assert_eq!((lone.told().len(), lone.closed), (4_000, 0));
    }

    #[test]
    fn congested_connection_still_accepts_responses() {
        let mut lone = introduced();
        let id = lone.request(Request::get());
        let get = lone.told().pop().expect("sent");
        lone.end.set_congested(lone.now, address(CLIENT), true);
        let nothing = frame(Code::CONTENT, &[1], &[], &[]);
        lone.hear(&nothing.repeat(5_000));
        lone.hear(&frame(Code::CONTENT, &get[4..12], &[], &[]));
        assert!(
            lone.events
                .iter()
                .any(|event| matches!(event, Event::Response { id: of, .. } if *of == id))
        );
    }

    #[test]
    fn keepalive_only_connection_is_released_when_idle() {
        let mut lone = introduced();
        for _ in 0..40 {
            lone.hear(&[0x00, 0x00]);
            lone.hear(&frame(Code::PING, &[], &[], &[]));
            lone.pass(Duration::from_secs(10));
        }
        assert_eq!(lone.closed, 1);
    }

    #[test]
    fn incomplete_message_does_not_keep_a_connection() {
        let mut lone = introduced();
        lone.hear(&[0xe0, 0xff]);
        for _ in 0..40 {
            lone.hear(&[0x01]);
            lone.pass(Duration::from_secs(10));
        }
        assert_eq!((lone.closed, lone.end.usage().connections), (1, 0));
    }
}
