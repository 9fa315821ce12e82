//! Pacing of notifications by controllers (draft-ietf-core-cocoa-03, Non-Confirmables; Betzler et al. 2016): intervals,
//! conversions to CON, and the budget shared by a peer's requests, separate responses and notifications.

use crate::net::wire::{shapes, view};
use crate::net::{Net, get, millis, observing, seconds};
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::Type;
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::{Config, RequestConfig};

/// A server with this controller and a client that observes `/light`. The round-trip time is 20 ms.
fn observed(controller: &str) -> Net {
    let mut server = Config::default();
    let choice = CongestionControl::named(controller).unwrap();
    if let CongestionControl::Registered(entry) = &choice {
        server.parameters = entry.suggested.apply(server.parameters);
    }
    server.controller = choice;
    let mut net = Net::new(Config::default(), server);
    net.observable("light", "off");
    net.send_with(get("light"), observing());
    net.run_for(seconds(1));
    assert_eq!(net.states(), ["off"]);
    net.crossings.clear();
    net
}

/// Times and types of notifications while the state changes every 50 ms for a minute.
fn busy_minute(controller: &str) -> Vec<(Instant, Type)> {
    let mut net = observed(controller);
    for n in 0..1_200 {
        net.change("light", format!("{n}"), false);
        net.run_for(millis(50));
    }
    net.run_for(seconds(10));
    assert_eq!(
        net.states().last().unwrap(),
        "1199",
        "the last state arrives"
    );
    assert!(net.server.is_idle());
    let told = net.crossings.iter().filter(|c| !c.from_client);
    told.map(|c| (c.at, view(&c.bytes).kind())).collect()
}

fn gaps(told: &[(Instant, Type)]) -> Vec<Duration> {
    told.windows(2)
        .map(|two| two[1].0.since(two[0].0))
        .collect()
}

/// Indices of CON notifications.
fn confirmed(told: &[(Instant, Type)]) -> Vec<usize> {
    let all = told.iter().enumerate();
    all.filter(|(_, (_, kind))| *kind == Type::Confirmable)
        .map(|(place, _)| place)
        .collect()
}

#[test]
fn cocoa_03_notifies_once_per_rto_and_every_eighth_as_con() {
    let told = busy_minute("cocoa-03");
    // 2 s without a sample, until the first CON is acknowledged: RTO = 1 s + 1.5 x 20 ms.
    let gaps = gaps(&told);
    // The interval after that CON had been set before its acknowledgement.
    assert_eq!(gaps[..8], [seconds(2); 8]);
    assert_eq!(gaps[8..16], [millis(1_030); 8]);
    // Then RTO = 1/2 x 1.03 s + 1/2 x (20 ms + 4 x 7.5 ms).
    assert_eq!(gaps[16..24], [millis(540); 8]);
    let confirmed = confirmed(&told);
    assert_eq!(confirmed[..3], [7, 15, 23]);
    for sixteen in told.windows(16) {
        let confirmed = sixteen
            .iter()
            .filter(|(_, kind)| *kind == Type::Confirmable);
        assert!(confirmed.count() >= 2);
    }
}

#[test]
fn cocoa_002_randomizes_the_interval() {
    let told = busy_minute("cocoa-002");
    let first: Vec<_> = gaps(&told)[..7].to_vec();
    let within = |gap: &Duration| (seconds(2)..=seconds(3)).contains(gap);
    assert!(first.iter().all(within), "{first:?}");
    assert!(first.windows(2).any(|two| two[0] != two[1]), "{first:?}");
    assert_eq!(confirmed(&told)[..2], [7, 15]);
}

#[test]
fn cocoa_californium_paces_without_conversion() {
    let told = busy_minute("cocoa-californium");
    assert!(gaps(&told).iter().all(|gap| *gap == seconds(2)));
    // Fewer than 32 NON in a row, after which a CON follows with any controller (RFC 7641 7).
    assert_eq!(confirmed(&told).first(), None);
}

#[test]
fn fasor_paces_at_3_s_without_samples() {
    let told = busy_minute("fasor");
    assert!(gaps(&told).iter().all(|gap| *gap == seconds(3)));
}

#[test]
fn default_coap_does_not_pace() {
    assert_eq!(busy_minute("default").len(), 1_200);
}

#[test]
fn notification_upgraded_to_con_occupies_nstart() {
    let mut net = observed("cocoa-03");
    for n in 0..7 {
        net.change("light", format!("{n}"), false);
        net.run_for(seconds(2));
    }
    // The eighth is not acknowledged: with NSTART 1, a request by the server has to wait.
    net.drop_if =
        Some(|from_client, bytes| !from_client && view(bytes).kind() == Type::Confirmable);
    let before = net.sent_by_server().len();
    net.change("light", "7", false);
    net.server
        .request(
            net.now,
            crate::net::client_address(),
            get("x"),
            RequestConfig::default(),
        )
        .unwrap();
    net.run_for(seconds(10));
    net.change("light", "8", false);
    let sent = shapes(&net.sent_by_server()[before..]);
    assert!(
        sent.len() >= 2 && sent.iter().all(|shape| shape == "CON 2.05"),
        "{sent:?}"
    );
    net.drop_if = None;
    net.run_for(seconds(30));
    let sent = shapes(&net.sent_by_server()[before..]);
    let request = sent.iter().position(|shape| shape == "CON 0.01");
    assert!(request.is_some(), "{sent:?}");
    assert_eq!(net.states().last().unwrap(), "8");
}
