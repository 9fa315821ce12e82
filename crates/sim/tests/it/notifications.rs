//! Notification fan-out over a constrained link, with results computed by hand.

use crate::specs::{link, run_spec};
use carob_cc::bottleneck_group::Constants;
use carob_cc::time::{Duration, Instant};
use carob_proto::endpoint::NotificationQueue;
use carob_sim::link::{Buffer, DirectionSpec, ExtraDelay, LinkSpec, LossSpec, RadioSpec};
use carob_sim::notifications::{ConfigError, LAG};
use carob_sim::random::Probability;
use carob_sim::spec::RunError;
use carob_sim::spec::{
    ClientGroup, ControllerSpec, NetworkSpec, NotificationRecord, Notifications, Recording,
    RunRecord, RunSpec, Span, Subscriber, Workload,
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn direction(rate: u64, buffer: Buffer, delay: Duration) -> DirectionSpec {
    DirectionSpec {
        buffer,
        delay,
        extra: ExtraDelay::Constant(millis(30)),
        ..DirectionSpec::new(rate, 0)
    }
}

/// A link without loss: 1 Mbit/s and a large buffer.
fn ample() -> LinkSpec {
    let both = direction(1_000_000, Buffer::packets(10_000), millis(100));
    LinkSpec {
        down: both.clone(),
        up: both,
    }
}

/// The UMTS link of the study with a buffer of 50 packets.
fn umts() -> LinkSpec {
    LinkSpec {
        down: direction(348_000, Buffer::packets(50), millis(71)),
        up: direction(128_000, Buffer::packets(50), millis(71)),
    }
}

pub(crate) fn told() -> Notifications {
    Notifications {
        has_device_each: false,
        resources: 1,
        warm_up: seconds(60),
        interval: seconds(1),
        offset: Span::default(),
        duration: seconds(60),
        message_bytes: 64,
        token_bytes: 2,
        max_age: None,
        queue: NotificationQueue::Queue,
        queue_of_client: 10,
        queue_of_all: 1_000,
        unconfirmed_max: u16::MAX,
        aggregate: None,
        bin: seconds(10),
    }
}

fn spec(clients: u32, controller: &str, link: LinkSpec, told: Notifications) -> RunSpec {
    let workload = Workload::Notifications(told);
    let measured = ClientGroup {
        start: Span {
            low: Duration::ZERO,
            high: seconds(30),
        },
        controller: ControllerSpec::new(controller, []).expect("a controller"),
        ..ClientGroup::new(clients, workload)
    };
    RunSpec {
        time_limit: seconds(12 * 3_600),
        ..run_spec(measured, 1_280, link)
    }
}

fn run(spec: &RunSpec) -> RunRecord {
    carob_sim::run(spec).expect("a possible run")
}

fn notifications(spec: &RunSpec) -> NotificationRecord {
    let record = run(spec).notifications.expect("there were some");
    for subscriber in &record.subscribers {
        let Subscriber {
            generated,
            unlisted,
            dropped,
            superseded,
            unsent,
            sent,
            received,
            ..
        } = *subscriber;
        assert_eq!(
            generated,
            unlisted + dropped + superseded + unsent + sent,
            "{subscriber:?}"
        );
        assert!(received <= sent);
    }
    record
}

fn sum(record: &NotificationRecord, of: impl Fn(&Subscriber) -> u64) -> u64 {
    record.subscribers.iter().map(of).sum()
}

#[test]
fn ample_link_delivers_every_notification_once() {
    let told = Notifications {
        resources: 3,
        ..told()
    };
    let record = notifications(&spec(25, "default", ample(), told));
    // 60 rounds of 3 resources; the last round arrives within its second.
    for subscriber in &record.subscribers {
        let Subscriber {
            generated,
            sent,
            received,
            ..
        } = *subscriber;
        assert_eq!([generated, sent, received], [180; 3]);
        // 64 + 28 bytes take 736 us; a round has a burst of 75 packets. The first 255 notifications of a client have an
        // Observe value of one byte, which saves 8 us each.
        assert!(subscriber.delay_max <= millis(130) + Duration::from_micros(75 * 736));
        assert!(subscriber.delay.as_micros() >= 180 * 130_000);
    }
    let counts = [
        sum(&record, |s| s.confirmable + s.retransmissions),
        sum(&record, |s| s.link_dropped + s.link_lost),
        sum(&record, |s| s.unlisted + s.dropped + s.superseded),
    ];
    assert_eq!(counts, [0; 3]);
    // Each bin has ten rounds.
    assert_eq!(record.bins.len(), 6);
    for bin in &record.bins {
        assert_eq!([bin.generated, bin.received], [10 * 75; 2]);
        assert_eq!(bin.rtos, 0, "default CoAP keeps none");
    }
    assert_eq!(record.sends.packets, 60 * 75);
    assert_eq!(record.sends.peak, 75);
    assert_eq!(record.sends.squares, 60 * 75 * 75);
    let lag = LAG.as_micros() / 1_000_000;
    assert_eq!(record.sends.products, (60 - lag) * 75 * 75);
}

#[test]
fn registrations_are_excluded_and_messages_have_set_size() {
    let mut spec = spec(10, "default", ample(), told());
    spec.record.packets = 10_000;
    let record = run(&spec);
    let begin = Instant::ZERO + seconds(60);
    let sizes = record.packets.iter().filter(|p| p.is_outgoing());
    let (before, after): (Vec<_>, Vec<_>) = sizes.partition(|p| p.at < begin);
    assert_eq!(before.len(), 2 * 10, "a CON GET each, and its answer");
    assert_eq!(after.len(), 60 * 10);
    // 61 Observe numbers fit into one byte.
    assert!(after.iter().all(|p| p.packet(10).len() == 64 + 28));
    assert_eq!(
        record.link.up.offered, 600,
        "counted from the first round on"
    );
    assert_eq!(record.link.down.offered, 0);
    assert_eq!(record.link.up.bytes_sent, 600 * 92);
}

#[test]
fn observe_limit_sends_one_per_3_s_and_queue_drops_rest() {
    let record = notifications(&spec(5, "observe-static", ample(), told()));
    for subscriber in &record.subscribers {
        // One is sent at 0, 3, ..., 57 s, and ten wait at the end.
        assert_eq!([subscriber.sent, subscriber.received], [20, 20]);
        assert_eq!([subscriber.unsent, subscriber.dropped], [10, 30]);
        assert_eq!(subscriber.superseded, 0);
        // The eleventh in the queue waits for all before it.
        assert!(subscriber.delay_max > seconds(25), "{subscriber:?}");
    }
}

#[test]
fn superseding_delivers_the_newest() {
    let told = Notifications {
        queue: NotificationQueue::Supersede,
        ..told()
    };
    let record = notifications(&spec(5, "observe-static", ample(), told));
    for subscriber in &record.subscribers {
        assert_eq!([subscriber.sent, subscriber.received], [20, 20]);
        assert_eq!([subscriber.unsent, subscriber.superseded], [1, 39]);
        assert_eq!(subscriber.dropped, 0);
        // The notification sent at 3 s was generated at 2 s.
        assert!(subscriber.delay_max < millis(1_140), "{subscriber:?}");
    }
}

#[test]
fn the_limit_for_all_clients_holds_together() {
    let told = Notifications {
        queue_of_all: 12,
        ..told()
    };
    let record = notifications(&spec(5, "observe-static", ample(), told));
    assert_eq!(sum(&record, |s| s.sent), 5 * 20);
    let waiting = sum(&record, |s| s.unsent);
    assert!((12..=14).contains(&waiting), "{waiting}");
}

#[test]
fn a_burst_beyond_the_buffer_is_dropped_at_the_link() {
    let told = Notifications {
        interval: seconds(30),
        ..told()
    };
    let mut link = umts();
    link.up.rate_bps = 20_000;
    let record = notifications(&spec(100, "default", link, told));
    // Two rounds of 100 packets for a buffer of 50.
    assert_eq!(sum(&record, |s| s.link_dropped), 2 * 50);
    assert_eq!(sum(&record, |s| s.received), 2 * 50);
    let drops: Vec<u64> = record.bins.iter().map(|bin| bin.link_dropped).collect();
    assert_eq!(drops, [50, 0, 0, 50, 0, 0]);
}

#[test]
fn rounds_spread_over_the_interval_do_not_meet_in_the_buffer() {
    let told = Notifications {
        interval: seconds(30),
        offset: Span {
            low: Duration::ZERO,
            high: seconds(30),
        },
        ..told()
    };
    let mut link = umts();
    link.up.rate_bps = 20_000;
    let record = notifications(&spec(100, "default", link, told));
    assert_eq!(sum(&record, |s| s.generated), 2 * 100);
    assert_eq!(sum(&record, |s| s.link_dropped), 0);
    assert!(
        sum(&record, |s| s.received) >= 190,
        "but for the last seconds'"
    );
}

#[test]
fn cocoa_sends_every_eighth_as_con_and_learns_the_round_trip() {
    let told = Notifications {
        duration: seconds(240),
        ..told()
    };
    let mut spec = spec(5, "cocoa-002", umts(), told);
    spec.record.samples = 100;
    let record = notifications(&spec);
    for subscriber in &record.subscribers {
        let (confirmable, sent) = (subscriber.confirmable, subscriber.sent);
        assert!(sent / 8 - confirmable <= 1, "{subscriber:?}");
        assert_eq!(subscriber.retransmissions, 0);
        let first = subscriber.rto.first().expect("it learns").value;
        // 1 s + 1.5 R, with R = 2 x 101 ms plus queueing delay.
        assert!((millis(1_300)..millis(1_400)).contains(&first), "{first}");
    }
    let mean = |bin: usize| {
        let bin = record.bins[bin];
        assert_eq!(bin.rtos, 5);
        assert!(bin.rto_min <= bin.rto_max);
        Duration::from_micros(bin.rto_sum.as_micros() / 5)
    };
    assert_eq!(mean(0), seconds(2), "nothing was measured yet");
    // A CON every 8 s: an RTO below 500 ms ages before the next one and doubles.
    assert!(
        (millis(250)..millis(600)).contains(&mean(23)),
        "{}",
        mean(23)
    );
}

#[test]
fn every_lost_notification_has_a_reason() {
    let mut link = umts();
    link.up.loss = LossSpec::Constant(Probability::ppm(100_000));
    let told = Notifications {
        resources: 5,
        ..told()
    };
    let record = notifications(&spec(50, "default", link, told));
    let on_the_way = sum(&record, |s| {
        s.sent - s.received - s.link_dropped - s.link_lost
    });
    assert!(on_the_way < 250, "one round at most: {on_the_way}");
    assert!(sum(&record, |s| s.link_lost) > 0 && sum(&record, |s| s.link_dropped) > 0);
}

#[test]
fn observer_with_lost_ack_is_removed_and_reregisters() {
    let told = Notifications {
        duration: seconds(600),
        ..told()
    };
    let mut spec = spec(3, "cocoa-002", ample(), told);
    // Acknowledgements are lost; registrations mostly succeed at the fifth transmission.
    link(&mut spec).down.loss = LossSpec::Constant(Probability::ppm(600_000));
    let record = notifications(&spec);
    let abandoned = sum(&record, |s| s.abandoned);
    let unlisted = sum(&record, |s| s.unlisted);
    assert!(abandoned > 0 && unlisted > 0, "{abandoned} {unlisted}");
    assert!(sum(&record, |s| s.generated) == 3 * 600 && unlisted < 3 * 600);
}

#[test]
fn runs_are_determined_by_the_seed() {
    let mut spec = spec(20, "cocoa-002", umts(), told());
    let first = run(&spec);
    assert_eq!(first, run(&spec));
    spec.record = Recording {
        samples: 10,
        log: 1_000,
        packets: 1_000,
        ..Recording::default()
    };
    let recorded = run(&spec);
    assert_eq!(recorded.trace_hash, first.trace_hash);
    assert!(!recorded.log.is_empty() && !recorded.packets.is_empty());
    spec.seed = 2;
    assert_ne!(run(&spec).trace_hash, first.trace_hash);
}

#[test]
fn record_size_depends_on_bins_not_on_duration() {
    let told = Notifications {
        duration: seconds(3_600),
        ..told()
    };
    let record = notifications(&spec(5, "cocoa-002", umts(), told));
    assert_eq!(sum(&record, |s| s.generated), 5 * 3_600);
    assert_eq!((record.bins.len(), record.subscribers.len()), (360, 5));
    assert!(record.subscribers.iter().all(|s| s.rto.is_empty()));
}

#[test]
fn each_device_has_a_radio_of_its_own() {
    // A packet of 64 + 28 bytes takes 0.49 s at 1.5 kbit/s, so one device needs 9.8 s for twenty observers.
    let delay = |clients, has_device_each| {
        let told = Notifications {
            has_device_each,
            interval: seconds(20),
            duration: seconds(600),
            ..told()
        };
        let mut spec = spec(clients, "default", ample(), told);
        let NetworkSpec::Link(network) = &mut spec.network else {
            panic!("a link");
        };
        network.device.radio = Some(RadioSpec {
            down_bps: 20_000,
            up_bps: 1_500,
            down_repetitions: 1,
            up_repetitions: 1,
            is_half_duplex: true,
            turnaround: Duration::ZERO,
        });
        let record = notifications(&spec);
        let received = sum(&record, |s| s.received);
        assert_eq!(received, u64::from(clients) * 30);
        let delays = record.subscribers.iter().map(|s| s.delay.as_micros());
        delays.sum::<u64>() / received / 1_000
    };
    let (alone, twenty, shared) = (delay(1, true), delay(20, true), delay(20, false));
    assert_eq!(alone, delay(1, false));
    assert!(twenty.abs_diff(alone) <= 20, "{alone} and {twenty} ms");
    assert!((4_500..6_000).contains(&shared), "{shared} ms");
}

#[test]
fn impossible_notifications_are_refused_with_the_reason() {
    let refused = |change: fn(&mut Notifications)| {
        let mut told = told();
        change(&mut told);
        match carob_sim::run(&spec(1, "default", ample(), told)) {
            Err(RunError::Notifications(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(|t| t.resources = 9), ConfigError::Resources(9));
    assert_eq!(
        refused(|t| t.interval = Duration::ZERO),
        ConfigError::NoTime
    );
    assert_eq!(
        refused(|t| t.duration = seconds(90_000)),
        ConfigError::TooLong
    );
    assert_eq!(
        refused(|t| t.bin = Duration::from_micros(1)),
        ConfigError::TooLong
    );
    assert_eq!(
        refused(|t| t.warm_up = seconds(43_200)),
        ConfigError::TimeLimit
    );
    assert_eq!(refused(|t| t.token_bytes = 0), ConfigError::Token);
    let budget = |t: &mut Notifications| {
        (t.has_device_each, t.aggregate) = (true, Some(Constants::DEFAULT));
    };
    assert_eq!(refused(budget), ConfigError::Budget);
    // Header 4, token 2, Observe 2, payload marker 1, payload 6.
    assert_eq!(refused(|t| t.message_bytes = 14), ConfigError::Message(15));
    assert_eq!(
        refused(|t| t.message_bytes = 1_253),
        ConfigError::Mtu(1_281)
    );
}
