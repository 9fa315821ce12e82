//! Block-wise notifications.

use super::*;

fn observed_large() -> Net {
    let mut net = Net::plain();
    net.observable("light", "");
    net.app.resources.insert("light".into(), pattern(5_000));
    net.send_with(get("light"), observing());
    net.run_for(seconds(5));
    assert_eq!(bodies(&net), [pattern(5_000)]);
    net
}

fn bodies(net: &Net) -> Vec<bytes::Bytes> {
    let of = |(_, event): &(Instant, Event)| match event {
        Event::Notification { response, .. } => Some(response.bytes().clone()),
        _ => None,
    };
    net.events.iter().filter_map(of).collect()
}

#[test]
fn block_wise_notification_is_delivered_whole() {
    let mut net = observed_large();
    let next: bytes::Bytes = pattern(6_000).slice(700..);
    net.change("light", next.clone(), false);
    net.run_for(seconds(5));
    assert_eq!(bodies(&net), [pattern(5_000), next]);
    // Requests for further blocks have no Observe option (RFC 7959 2.6).
    let requests = net.sent_by_client();
    let rest: Vec<_> = requests
        .iter()
        .filter(|bytes| {
            view(bytes)
                .option(OptionNumber::BLOCK2)
                .map(BlockValue::decode)
                .is_some()
        })
        .collect();
    assert_eq!(rest.len(), 9);
    assert!(rest.iter().all(|bytes| observe_value(bytes).is_none()));
}

#[test]
fn a_new_state_cancels_the_body_of_the_old_one() {
    let mut net = observed_large();
    let (second, third) = (pattern(9_000).slice(1_000..), pattern(9_000).slice(3_000..));
    net.change("light", second, false);
    net.run_for(millis(50)); // two blocks of eight
    net.change("light", third.clone(), false);
    net.run_for(seconds(5));
    assert_eq!(bodies(&net), [pattern(5_000), third]);
}

#[test]
fn incomplete_notification_body_is_requested_again() {
    let mut net = observed_large();
    net.app.etags.insert("light".into(), b"2".to_vec());
    net.change("light", pattern(8_000), false);
    net.run_for(millis(25));
    // The server restarts during the transfer; further blocks are of another state.
    net.restart_server(4);
    net.app.etags.insert("light".into(), b"3".to_vec());
    net.run_for(seconds(60));
    assert!(matches!(stale(&net)[..], [(_, Some(Failure::Body(_)))]));
    assert_eq!(bodies(&net), [pattern(5_000), pattern(8_000)]);
    assert_eq!(net.server.observers(Subject(0)), 1);
}
