//! Registration of observers and its refusal, its renewal, stale representations, and the end by either side.

use super::*;

#[test]
fn unobservable_resource_has_one_response() {
    let mut net = Net::plain();
    net.app.resources.insert("x".into(), "y".into());
    net.send_with(get("x"), observing());
    net.run_for(seconds(200));
    assert_eq!(&net.response().unwrap().bytes()[..], b"y");
    assert_eq!(observe_value(net.sent_by_server()[0]), None);
    assert!(net.client.is_idle());
    assert_eq!(net.client.usage().observations, 0);
}

#[test]
fn error_response_registers_no_observer() {
    let mut net = Net::plain();
    net.observable("light", "off");
    net.app.resources.clear();
    net.send_with(get("light"), observing());
    net.run_for(seconds(1));
    assert_eq!(net.response().unwrap().code, Code::NOT_FOUND);
    assert_eq!(observe_value(net.sent_by_server()[0]), None);
    assert_eq!(net.server.observers(Subject(0)), 0);
}

#[test]
fn only_safe_methods_observe() {
    let mut net = Net::plain();
    let outcome = net.client.request(
        net.now,
        crate::net::server_address(),
        put("light", "on".into()),
        observing(),
    );
    assert_eq!(outcome, Err(RequestError::NotObservable));
    // A server registers no observer for unsafe methods.
    net.observable("light", "off");
    let mut request = put("light", "on".into());
    request.options.set_uint(OptionNumber::OBSERVE, 0).unwrap();
    net.send(request);
    net.run_for(seconds(1));
    assert_eq!(net.server.observers(Subject(0)), 0);
}

#[test]
fn fetch_observes_like_get() {
    let mut net = Net::plain();
    net.observable("light", "off");
    let mut request = Request::new(Code::FETCH).with_path("light").unwrap();
    request.payload = "{}".into();
    net.send_with(request, observing());
    net.run_for(seconds(1));
    net.change("light", "on", false);
    net.run_for(seconds(1));
    assert_eq!(net.states(), ["off", "on"]);
}

#[test]
fn one_peer_cannot_use_all_observer_slots() {
    let (mut net, _) = observed_with(crate::net::config(|config| {
        config.limits.observers_of_peer = 2;
    }));
    for path in ["a", "b"] {
        net.observable(path, "x");
        net.send_with(get(path), observing());
        net.run_for(seconds(1));
    }
    assert_eq!(net.server.usage().observers, 2);
    assert_eq!(net.responses().len(), 1);
}

#[test]
fn change_during_a_registration_is_notified() {
    let mut net = Net::plain();
    net.observable("light", "off");
    net.app.delay = seconds(3);
    net.send_with(get("light"), observing());
    net.run_for(seconds(1));
    assert_eq!(net.change("light", "on", false), 1);
    net.run_for(seconds(10));
    // The registration's response has the new state, and a notification repeats it: a duplicate is better than a gap.
    assert_eq!(net.states(), ["on", "on"]);
}

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
    let told = con(Code::CONTENT, 7).token_of(net.sent_by_client()[0]);
    net.inject_to_client(&told.option(6, &[9]).option(2_049, b"x").bytes());
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

#[test]
fn state_older_than_max_age_is_stale_and_renewed() {
    let (mut net, _) = observed();
    net.app
        .resources
        .insert("light".into(), "changed in silence".into());
    net.run_until(Instant::ZERO + seconds(80));
    // The default Max-Age is 60 s from the arrival of the response.
    assert_eq!(stale(&net), [(60_020, None)]);
    let renewal = net.crossings.iter().filter(|c| c.from_client).nth(1);
    let at = renewal.unwrap().at.since(Instant::ZERO);
    assert!(at >= seconds(65) && at <= seconds(76), "{at:?}");
    assert_eq!(observe_value(net.sent_by_client()[1]), Some(0));
    assert_eq!(
        view(net.sent_by_client()[1]).token(),
        view(net.sent_by_client()[0]).token()
    );
    assert_eq!(net.states(), ["off", "changed in silence"]);
    assert_eq!(net.server.observers(Subject(0)), 1);
}

#[test]
fn notification_keeps_the_state_fresh() {
    let (mut net, _) = observed();
    for _ in 0..5 {
        net.run_for(seconds(50));
        net.change("light", "on", false);
    }
    net.run_for(seconds(50));
    assert_eq!(stale(&net), []);
    assert_eq!(net.sent_by_client().len(), 1);
}

#[test]
fn max_age_of_each_state_counts() {
    let mut net = Net::plain();
    net.observable("light", "off");
    net.app.max_ages.insert("light".into(), 5);
    net.send_with(get("light"), observing());
    net.run_for(seconds(4));
    net.app.max_ages.insert("light".into(), 300);
    net.change("light", "on", false);
    net.run_for(seconds(290));
    assert_eq!(stale(&net), []);
    net.run_for(seconds(20));
    assert_eq!(stale(&net).len(), 1);
}

#[test]
fn an_observation_survives_a_restart_of_the_server() {
    let (mut net, _) = observed();
    for _ in 0..9 {
        net.change("light", "on", false);
        net.run_for(seconds(1));
    }
    net.restart_server(77);
    assert_eq!(net.change("light", "after the restart", false), 0);
    net.run_for(seconds(90));
    assert_eq!(net.states().last().unwrap(), "after the restart");
    net.change("light", "and on", false);
    net.run_for(seconds(1));
    assert_eq!(net.states().last().unwrap(), "and on");
}

#[test]
fn observation_survives_a_long_outage() {
    let (mut net, _) = observed();
    net.server_dead = true;
    net.run_for(seconds(1_800));
    let failures: Vec<_> = stale(&net).iter().skip(1).map(|s| s.1).collect();
    assert!(failures.len() >= 3, "{failures:?}");
    let timed_out = |f: &Option<Failure>| matches!(f, Some(Failure::TimedOut { .. }));
    assert!(failures.iter().all(timed_out), "{failures:?}");
    let tries: Vec<_> = stale(&net).iter().map(|s| s.0).collect();
    let gaps: Vec<_> = tries.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps.last() > gaps.first(), "tries grow rarer: {gaps:?}");
    net.server_dead = false;
    net.restart_server(5);
    net.app.resources.insert("light".into(), "back".into());
    net.run_for(seconds(1_200));
    assert_eq!(net.states().last().unwrap(), "back");
    assert!(net.failure().is_none());
}

#[test]
fn registration_is_retried_after_max_age_of_5_03() {
    let (mut net, _) = observed();
    net.server_dead = true;
    while net.sent_by_client().len() < 2 {
        net.run_for(millis(100));
    }
    let refusal = reply(Code::SERVICE_UNAVAILABLE, net.sent_by_client()[1]);
    net.inject_to_client(&refusal.uint(OptionNumber::MAX_AGE, 500).bytes());
    let now = net.now;
    net.server_dead = false;
    let sent = net.sent_by_client().len();
    net.run_until(now + seconds(499));
    assert_eq!(net.sent_by_client().len(), sent);
    net.run_until(now + seconds(501));
    assert_eq!(net.sent_by_client().len(), sent + 1);
    assert_eq!(net.states(), ["off", "off"]);
}

#[test]
fn error_response_to_renewal_ends_the_observation() {
    let (mut net, _) = observed();
    net.restart_server(3);
    net.app.resources.clear();
    net.run_for(seconds(90));
    assert_eq!(net.response().unwrap().code, Code::NOT_FOUND);
    assert!(net.client.is_idle());
}

#[test]
fn a_notification_during_a_renewal_does_not_end_the_renewal() {
    let (mut net, _) = observed();
    net.run_until(Instant::ZERO + seconds(62));
    net.app.mute = true;
    net.run_until(Instant::ZERO + seconds(76));
    let renewal = net.sent_by_client().len();
    assert_eq!(renewal, 2);
    net.inject_to_client(&notification(&net, Type::NonConfirmable, 900, 8, b"on"));
    assert_eq!(net.states(), ["off", "on"]);
    net.app.mute = false;
    net.restart_server(9);
    net.run_for(seconds(30));
    // The restarted server counts from 1, so the notification during the registration is fresher.
    assert_eq!(net.states(), ["off", "on"]);
    net.run_for(seconds(90));
    assert!(net.response().is_none() && net.failure().is_none());
}
