//! The end of an observation, by either side.

use super::*;

#[test]
fn forgotten_observation_is_cancelled_by_reset() {
    for confirmable in [false, true] {
        let (mut net, id) = observed();
        assert!(net.client.cancel(net.now, id));
        net.change("light", "on", confirmable);
        net.run_for(seconds(1));
        assert_eq!(view(net.sent_by_client()[1]).kind(), Type::Reset);
        assert_eq!(net.server.observers(Subject(0)), 0, "{confirmable}");
        assert_eq!(net.change("light", "off", confirmable), 0);
        assert_eq!(net.states(), ["off"]);
        assert!(net.server.is_idle());
    }
}

#[test]
fn unreachable_observer_is_removed() {
    let (mut net, _) = observed();
    net.server.handle_unreachable(net.now, client_address());
    net.drain();
    assert_eq!(net.server.usage().observers, 0);
    assert!(matches!(net.server_events[..], [(_, Event::Unobserved(_))]));
}

#[test]
fn notification_with_unknown_critical_option_is_rejected() {
    let (mut net, _) = observed();
    let token = view(net.sent_by_client()[0]).token();
    let mut buffer = [0; 64];
    let kind = Type::Confirmable;
    let mut writer = Writer::new(&mut buffer, kind, Code::CONTENT, MessageId(7), &token).unwrap();
    writer.uint_option(OptionNumber::OBSERVE, 9).unwrap();
    writer.option(OptionNumber(2_049), b"x").unwrap();
    let length = writer.finish();
    net.inject_to_client(&buffer[..length]);
    assert_eq!(
        net.failure(),
        Some(Failure::UnknownOption(OptionNumber(2_049)))
    );
    assert_eq!(net.sent_by_client()[1], [0x70, 0, 0, 7]);
}

#[test]
fn shutting_down_ends_observations() {
    let (mut net, _) = observed();
    net.client.shut_down(net.now);
    net.drain();
    assert_eq!(net.failure(), Some(Failure::ShutDown));
    assert!(net.client.is_idle());
}
