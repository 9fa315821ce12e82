//! The client side of the retransmission count option (draft-ietf-core-fasor-02 4.4).

use crate::net::counting::{Log, between, counting};
use crate::net::wire::{Wire, ack, con, view};
use crate::net::{
    Faults, Net, get, millis, observing, pattern, post, put, seconds, server_address,
};
use bytes::Bytes;
use carob_cc::controller::CopyTagging;
use carob_cc::evidence::{Answer, Matched};
use carob_proto::Request;
use carob_proto::codec::{Code, MessageId, OptionNumber, Type};
use carob_proto::endpoint::{Config, Endpoint, MESSAGE_BYTES, RETRANSMISSION_COUNT, RequestConfig};

const COUNT: u16 = RETRANSMISSION_COUNT.0;
const TAGGINGS: [CopyTagging; 3] = [
    CopyTagging::EveryCopy,
    CopyTagging::RepeatedCopies,
    CopyTagging::Token,
];

/// A client with timeouts of 2, 4, 8, 16 and 32 s, and a server with the option.
fn counted(how: CopyTagging) -> (Net, Log) {
    let (config, log) = counting(how, seconds(2), 4);
    let mut net = Net::new(config, Config::default());
    net.app.resources.insert("x".into(), "state".into());
    (net, log)
}

/// A client without a server; the tests respond.
fn without_server(how: CopyTagging) -> (Net, Log) {
    let (mut net, log) = counted(how);
    net.server_dead = true;
    (net, log)
}

/// Counts in the client's messages.
fn counts(net: &Net) -> Vec<Option<Vec<u8>>> {
    let sent = net.sent_by_client();
    let count = |bytes: &&[u8]| view(bytes).option(RETRANSMISSION_COUNT).map(<[u8]>::to_vec);
    sent.iter().map(count).collect()
}

fn some(counts: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    counts.iter().map(|count| Some(count.to_vec())).collect()
}

/// A piggybacked response to a client's message.
fn answer(request: &[u8], count: Option<&[u8]>) -> Vec<u8> {
    let answer = ack(Code::CONTENT, view(request).message_id().0)
        .token_of(request)
        .payload(b"state");
    match count {
        Some(count) => answer.option(COUNT, count).bytes(),
        None => answer.bytes(),
    }
}

/// Responds to the client's last message.
fn reply(net: &mut Net, count: Option<&[u8]>) {
    let request = net.sent_by_client().last().unwrap().to_vec();
    net.inject_to_client(&answer(&request, count));
}

/// An exchange of one transmission with this round-trip time and a peer that supports the option.
fn acquaint(net: &mut Net, milliseconds: u64) {
    net.send_for(get("x"), millis(milliseconds));
    reply(net, Some(&[255]));
}

#[test]
fn first_request_has_count_0_and_retransmissions_their_count() {
    let (mut net, _) = without_server(CopyTagging::EveryCopy);
    net.send_for(get("x"), seconds(100));
    assert_eq!(counts(&net), some(&[&[255], &[1], &[2], &[3], &[4]]));
    let sent = net.sent_by_client();
    let same = |bytes: &&[u8]| {
        let message = view(bytes);
        let path = message.option(OptionNumber::URI_PATH) == Some(b"x");
        (
            message.message_id(),
            message.token().as_slice().to_vec(),
            path,
        )
    };
    assert!(sent.iter().all(|bytes| same(bytes) == same(&sent[0])));
}

#[test]
fn original_has_an_empty_count_after_the_first_echo() {
    let (mut net, log) = counted(CopyTagging::EveryCopy);
    net.send_for(get("x"), seconds(1));
    net.send_for(get("x"), seconds(1));
    net.server_dead = true;
    net.send_for(get("x"), seconds(7));
    assert_eq!(counts(&net), some(&[&[255], &[], &[], &[1], &[2]]));
    assert_eq!(log.matches(), vec![Matched::Exact(0); 2]);
    let echoes = net.sent_by_server();
    assert_eq!(view(echoes[1]).option(RETRANSMISSION_COUNT), Some(&[][..]));
}

#[test]
fn requests_before_the_first_response_all_have_the_option() {
    let (mut net, _) = without_server(CopyTagging::EveryCopy);
    net.send(get("x"));
    net.send(get("y"));
    let first = net.sent_by_client()[0].to_vec();
    net.inject_to_client(&answer(&first, Some(&[255])));
    net.send(get("z"));
    assert_eq!(counts(&net), some(&[&[255], &[255], &[]]));
}

#[test]
fn peer_that_ignores_the_option_gets_it_once() {
    let (mut net, log) = without_server(CopyTagging::EveryCopy);
    net.send(get("x"));
    net.send(get("y"));
    reply(&mut net, None);
    net.run_for(seconds(3));
    net.send(get("z"));
    let mut expected = some(&[&[255], &[255]]);
    expected.extend([None, None]);
    assert_eq!(counts(&net), expected, "nor in a retransmission under way");
    let first = net.sent_by_client()[0].to_vec();
    let repeated = net.sent_by_client()[2].to_vec();
    let without = Wire::bytes(
        &con(Code::GET, view(&first).message_id().0)
            .token_of(&first)
            .path("x"),
    );
    assert_eq!(repeated, without, "it is as if it had never been there");
    // An option in a late response is evidence of nothing.
    net.inject_to_client(&answer(&repeated, Some(&[1])));
    assert_eq!(log.last(), between(0, 1));
    assert_eq!(net.responses().len(), 2);
}

#[test]
fn retransmissions_only_mode_omits_the_option_in_originals() {
    let (mut net, _) = without_server(CopyTagging::RepeatedCopies);
    net.send_for(get("x"), seconds(100));
    let mut expected = vec![None];
    expected.extend(some(&[&[1], &[2], &[3], &[4]]));
    assert_eq!(counts(&net), expected);
}

#[test]
fn only_confirmable_requests_are_counted() {
    for how in [CopyTagging::EveryCopy, CopyTagging::RepeatedCopies] {
        let (config, _) = counting(how, seconds(2), 4);
        let mut net = Net::new(config.clone(), config);
        net.observable("x", "0");
        let mut sending = RequestConfig::default();
        sending.confirmable = false;
        sending.observe = true;
        net.send_with(get("x"), sending);
        net.run_for(seconds(1));
        net.change("x", "1", true);
        net.server_dead = true;
        net.client.ping(net.now, server_address()).unwrap();
        net.run_for(seconds(5));
        let mut all = net.sent_by_client();
        all.extend(net.sent_by_server());
        let kinds: Vec<_> = all.iter().map(|bytes| view(bytes).kind()).collect();
        assert!(kinds.contains(&Type::Confirmable) && kinds.contains(&Type::NonConfirmable));
        assert!(all.len() > 5, "{kinds:?}");
        let carries = |bytes: &&[u8]| view(bytes).option(RETRANSMISSION_COUNT).is_some();
        assert!(!all.iter().any(carries));
    }
}

#[test]
fn invalid_option_number_disables_counting() {
    for number in [0, 65_001] {
        let (mut config, log) = counting(CopyTagging::EveryCopy, seconds(2), 4);
        config.retransmission_count_option = OptionNumber(number);
        let mut net = Net::new(config, Config::default());
        net.server_dead = true;
        net.send_for(get("x"), seconds(3));
        for bytes in net.sent_by_client() {
            assert_eq!(view(bytes).options().count(), 1);
        }
        reply(&mut net, None);
        assert_eq!(log.last(), between(0, 1));
    }
}

#[test]
fn early_response_belongs_to_the_named_transmission() {
    let (mut net, log) = without_server(CopyTagging::EveryCopy);
    acquaint(&mut net, 100);
    for (after, named, expected) in [
        (2_099, &[][..], Matched::Exact(0)),
        (2_100, &[], between(0, 1)),
        (6_099, &[1], Matched::Exact(1)),
        (6_099, &[], between(0, 1)),
        (6_100, &[], between(0, 2)),
        (6_100, &[2], Matched::Exact(2)),
    ] {
        net.send_for(get("x"), millis(after));
        reply(&mut net, Some(named));
        assert_eq!(log.last(), expected, "{named:?} after {after} ms");
    }
}

#[test]
fn without_rtt_only_the_last_transmission_is_certain() {
    let (mut net, log) = without_server(CopyTagging::EveryCopy);
    net.send_for(get("x"), millis(2_001));
    reply(&mut net, Some(&[255]));
    assert_eq!(log.matches(), [between(0, 1)]);
}

#[test]
fn peer_with_differing_reply_counts_is_trusted() {
    let (mut net, log) = without_server(CopyTagging::EveryCopy);
    acquaint(&mut net, 100);
    net.send_for(get("x"), millis(2_500));
    let request = net.sent_by_client().last().unwrap().to_vec();
    net.inject_to_client(&answer(&request, Some(&[])));
    assert_eq!(log.last(), between(0, 1));
    net.run_for(millis(100));
    net.inject_to_client(&answer(&request, Some(&[1])));
    net.send_for(get("x"), millis(2_500));
    reply(&mut net, Some(&[]));
    assert_eq!(log.last(), Matched::Exact(0));
    // Until the counts of two responses are equal.
    reply(&mut net, Some(&[]));
    net.send_for(get("x"), millis(2_500));
    reply(&mut net, Some(&[]));
    assert_eq!(log.last(), between(0, 1));
}

#[test]
fn own_server_is_trusted_after_few_responses() {
    for how in TAGGINGS {
        // A round trip of 3 s; the retransmission after 2 s is spurious.
        let (mut net, log) = counted(how);
        net.delay = millis(1_500);
        for _ in 0..3 {
            net.send(post("x", "once".into()));
            net.run_for(seconds(10));
        }
        assert_eq!(net.app.executed["x"], 3);
        assert_eq!(
            log.matches(),
            [between(0, 1), Matched::Exact(0), Matched::Exact(0)],
            "{how:?}"
        );
        let round_trip = net.client.snapshot(net.now, server_address()).unwrap();
        assert_eq!(round_trip.round_trip, Some(seconds(3)));
    }
}

#[test]
fn lost_reply_is_replaced_by_reply_to_retransmission() {
    type Drops = fn(bool, &[u8]) -> bool;
    let counts_0 = |from_client: bool, bytes: &[u8]| {
        let count = view(bytes).option(RETRANSMISSION_COUNT);
        !from_client && matches!(count, Some([] | [255]))
    };
    let token_of_0 = |from_client: bool, bytes: &[u8]| {
        !from_client && view(bytes).token().as_slice().ends_with(&[0])
    };
    let cases: [(CopyTagging, Drops); 2] = [
        (CopyTagging::EveryCopy, counts_0),
        (CopyTagging::Token, token_of_0),
    ];
    for (how, is_to_original) in cases {
        let (mut net, log) = counted(how);
        net.drop_if = Some(is_to_original);
        net.send(post("x", Bytes::from_static(b"once")));
        net.run_for(seconds(5));
        assert_eq!(log.matches(), [Matched::Exact(1)]);
        assert_eq!(net.app.executed["x"], 1);
        let round_trip = net.client.snapshot(net.now, server_address()).unwrap();
        let of_copy = Some(millis(20));
        assert_eq!(round_trip.round_trip, of_copy, "from the copy answered");
    }
}

#[test]
fn impossible_counts_are_ignored() {
    let hostile: [&[u8]; 6] = [&[2], &[3], &[200], &[254], &[0, 1], &[1; 9]];
    for count in hostile {
        let (mut net, log) = without_server(CopyTagging::EveryCopy);
        acquaint(&mut net, 100);
        net.send_for(get("x"), millis(2_500));
        reply(&mut net, Some(count));
        assert_eq!(log.last(), between(0, 1), "{count:?}");
        assert_eq!(net.responses().len(), 2, "it is a response all the same");
    }
    // Invalid counts are no evidence of support either.
    let (mut net, log) = without_server(CopyTagging::EveryCopy);
    acquaint(&mut net, 100);
    net.send_for(get("x"), millis(2_500));
    for count in [&[][..], &[7], &[0, 0], &[]] {
        reply(&mut net, Some(count));
    }
    net.send_for(get("x"), millis(2_500));
    reply(&mut net, Some(&[]));
    assert_eq!(log.last(), between(0, 1));
}

#[test]
fn empty_ack_and_separate_response_have_no_count() {
    let (mut net, log) = without_server(CopyTagging::EveryCopy);
    acquaint(&mut net, 100);
    net.send_for(get("x"), millis(2_500));
    let request = net.sent_by_client().last().unwrap().to_vec();
    let MessageId(id) = view(&request).message_id();
    net.inject_to_client(&crate::net::wire::empty(Type::Acknowledgement, id));
    let separate = con(Code::CONTENT, 99).token_of(&request);
    net.inject_to_client(&separate.option(COUNT, &[1]).bytes());
    let heard = log.heard();
    let last: Vec<_> = heard[1..]
        .iter()
        .map(|heard| (heard.first, heard.answer, heard.matched))
        .collect();
    let expected = [
        (true, Answer::Empty, between(0, 1)),
        (false, Answer::Separate, between(0, 1)),
    ];
    assert_eq!(last, expected);
}

#[test]
fn separate_response_is_no_evidence_against_support() {
    let (mut net, _) = counted(CopyTagging::EveryCopy);
    net.app.delay = seconds(1);
    net.send_for(get("x"), seconds(10));
    net.app.delay = millis(0);
    for _ in 0..2 {
        net.send_for(get("x"), seconds(10));
    }
    let requests: Vec<_> = counts(&net).into_iter().flatten().collect();
    assert_eq!(requests, [vec![255], vec![255], vec![]]);
}

#[test]
fn response_without_count_is_to_original_if_peer_counts() {
    let (mut net, log) = without_server(CopyTagging::RepeatedCopies);
    net.send_for(get("x"), millis(100));
    reply(&mut net, None);
    let mut ask = |after: u64, count: Option<&[u8]>| {
        net.send_for(get("x"), millis(after));
        reply(&mut net, count);
        log.last()
    };
    assert_eq!(ask(2_050, None), between(0, 1), "ambiguous");
    assert_eq!(ask(2_500, Some(&[1])), Matched::Exact(1));
    assert_eq!(ask(2_050, None), Matched::Exact(0));
    assert_eq!(ask(2_500, None), between(0, 1), "it may be a replay");
    assert_eq!(ask(6_050, Some(&[1])), Matched::Exact(1));
    assert_eq!(ask(6_500, Some(&[0])), between(0, 2), "no copy had that");
}

#[test]
fn largest_request_fits_with_the_count_option() {
    let mut largest = 0;
    for options in 0..250 {
        let (mut net, _) = without_server(CopyTagging::EveryCopy);
        let mut request = put("x", pattern(3_000));
        request
            .options
            .push(OptionNumber::URI_QUERY, &vec![b'a'; options])
            .unwrap();
        net.send(request);
        net.run_for(seconds(3));
        let sent = net.sent_by_client();
        assert_eq!(counts(&net), some(&[&[255], &[1]]), "{options}");
        assert!(sent.iter().all(|bytes| bytes.len() <= MESSAGE_BYTES));
        largest = largest.max(sent[1].len());
    }
    assert!(
        largest > MESSAGE_BYTES - 16,
        "{largest}: none is close to the limit"
    );
    // The limit is lower by the option's length exactly.
    let fits = |config: Config, length: usize| {
        let mut endpoint = Endpoint::new(config, crate::net::Stream(1));
        let request = Request::new(Code::PUT).with_payload(pattern(100));
        let mut request = request;
        request
            .options
            .push(OptionNumber(65_000), &vec![b'a'; length])
            .unwrap();
        let now = carob_cc::time::Instant::ZERO;
        endpoint
            .request(now, server_address(), request, RequestConfig::default())
            .is_ok()
    };
    for length in 900..1_034 {
        let (config, _) = counting(CopyTagging::EveryCopy, seconds(2), 4);
        assert_eq!(
            fits(config, length),
            fits(Config::default(), length),
            "{length}"
        );
    }
}

#[test]
fn bytes_in_flight_include_the_count_option() {
    for how in TAGGINGS {
        let (mut net, _) = without_server(how);
        net.send(get("x"));
        net.send(get("y"));
        for until in [0, 3, 4] {
            net.run_for(seconds(until));
            let sent = net.sent_by_client();
            let flying: usize = sent.iter().rev().take(2).map(|bytes| bytes.len()).sum();
            let snapshot = net.client.snapshot(net.now, server_address()).unwrap();
            assert_eq!(snapshot.outstanding_bytes, flying as u32, "{how:?}");
        }
        for request in net
            .sent_by_client()
            .iter()
            .rev()
            .take(2)
            .map(|b| b.to_vec())
            .collect::<Vec<_>>()
        {
            net.inject_to_client(&answer(&request, Some(&[2])));
        }
        let snapshot = net.client.snapshot(net.now, server_address()).unwrap();
        assert_eq!(
            (snapshot.outstanding, snapshot.outstanding_bytes),
            (0, 0),
            "{how:?}"
        );
        assert!(net.client.is_idle());
    }
}

#[test]
fn count_echo_is_hidden_from_the_application() {
    let (mut net, _) = counted(CopyTagging::EveryCopy);
    net.app.resources.insert("large".into(), pattern(3_000));
    net.send_for(get("x"), seconds(1));
    net.send_for(get("large"), seconds(1));
    assert!(
        view(net.sent_by_server()[0])
            .option(RETRANSMISSION_COUNT)
            .is_some()
    );
    let responses = net.responses();
    assert_eq!(responses.len(), 2);
    assert_eq!(responses[1].bytes(), &pattern(3_000));
    for response in responses {
        assert!(!response.options.contains(RETRANSMISSION_COUNT));
    }
}

#[test]
fn option_of_application_passes_without_counting() {
    let mut net = Net::deaf();
    let mut request = get("x");
    request.options.push(RETRANSMISSION_COUNT, b"own").unwrap();
    net.send(request);
    assert_eq!(counts(&net), [Some(b"own".to_vec())]);
    reply(&mut net, Some(b"too"));
    let response = net.response().unwrap();
    assert_eq!(
        response.options.first(RETRANSMISSION_COUNT),
        Some(&b"too"[..])
    );
}

#[test]
fn registrations_are_counted_and_notifications_are_not() {
    let (mut net, log) = counted(CopyTagging::EveryCopy);
    net.observable("x", "0");
    net.send_with(get("x"), observing());
    net.run_for(seconds(1));
    net.change("x", "1", true);
    net.run_for(seconds(1));
    assert_eq!(net.states(), ["0", "1"]);
    let sent = net.sent_by_server();
    let carries: Vec<_> = sent
        .iter()
        .map(|bytes| view(bytes).option(RETRANSMISSION_COUNT).is_some())
        .collect();
    assert_eq!(carries, [true, false]);
    assert_eq!(log.matches(), [Matched::Exact(0)]);
}

#[test]
fn block_wise_body_over_a_bad_path_is_counted() {
    let token = CopyTagging::Token;
    for (how, length) in [
        (CopyTagging::EveryCopy, 8),
        (token, 0),
        (token, 1),
        (token, 8),
    ] {
        let (mut config, log) = counting(how, millis(100), 4);
        config.token_length = length;
        let mut net = Net::new(config, Config::default()).seeded(3);
        net.app.resources.insert("x".into(), pattern(20_000));
        net.faults = Faults {
            loss: 20,
            duplication: 20,
            jitter: millis(60),
        };
        net.send(get("x"));
        net.send(put("y", pattern(20_000)));
        net.run_for(seconds(120));
        assert_eq!(net.responses().len(), 2, "{how:?} {length}");
        let bodies = net.responses();
        assert!(bodies.iter().any(|r| r.bytes() == &pattern(20_000)));
        assert_eq!(net.app.resources["y"], pattern(20_000));
        let heard = log.heard();
        let told = heard
            .iter()
            .filter(|heard| heard.copies > 1 && matches!(heard.matched, Matched::Exact(_)));
        assert!(told.count() > 5, "{how:?} {length}");
    }
}
