//! Registration of observers and its refusal.

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
