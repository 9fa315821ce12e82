//! Short runs over real sockets, compared with the simulator's runs of the same specification.
#![cfg(target_os = "linux")]

use carob_cc::time::Duration;
use carob_emu::runs::{self, Options};
use carob_sim::distribution::TimeDistribution;
use carob_sim::link::{
    DirectionSpec, Effect, ExtraDelay, IdleSetup, Level, LinkSpec, PathChange, PowerSpec, RadioSpec,
};
use carob_sim::mesh::spec::MeshSpec;
use carob_sim::mesh_traffic::MeshTraffic;
use carob_sim::spec::{
    AfterFailure, ClientGroup, ControllerSpec, FlowRecord, LinkNetworkSpec, NetworkSpec, Outages,
    PauseSchedule, Requests, RunRecord, RunSpec, ServerSpec, Transport, Workload, Works,
};
use carob_sim::tcp::settings::profile;

/// Ten times the rate and a tenth of the response of Pesola 2020, so that runs take a few seconds.
fn spec(clients: u32, transport: Transport) -> RunSpec {
    let direction = |rate, delay| DirectionSpec {
        delay: Duration::from_millis(delay),
        extra: ExtraDelay::Constant(Duration::from_millis(5)),
        ..DirectionSpec::new(rate, 28_200)
    };
    let link = LinkSpec {
        down: direction(300_000, 40),
        up: direction(600_000, 20),
    };
    let workload = Workload::Requests(Requests {
        count: 1,
        response_bytes: 10_240,
        block_bytes: 256,
        path: "hello".to_owned(),
        ..Requests::default()
    });
    let network = NetworkSpec::Link(LinkNetworkSpec::new(link, 296));
    let measured = ClientGroup {
        transport,
        controller: ControllerSpec::new("default", []).expect("a controller"),
        ..ClientGroup::new(clients, workload)
    };
    let time_limit = Duration::from_secs(60);
    RunSpec::new(1, network, measured, time_limit)
}

fn link(spec: &mut RunSpec) -> &mut LinkNetworkSpec {
    match &mut spec.network {
        NetworkSpec::Link(network) => network,
        NetworkSpec::Mesh(_) => panic!("a mesh"),
    }
}

fn tcp() -> Transport {
    Transport::Connections(profile("kernel").expect("a profile").settings)
}

/// Emulates the runs; none without the privileges, or if the machine is too busy for valid results.
fn emulate(specs: &[RunSpec]) -> Option<Vec<RunRecord>> {
    if !crate::can_emulate() {
        return None;
    }
    match runs::run(specs, &Options::default(), |_, _| ()) {
        Ok(emulated) => Some(emulated.records),
        Err(error @ carob_emu::Error::Refused(_)) => {
            crate::skipped(&format!("an emulated run on a busy machine: {error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn link_time_starts_with_the_clients() {
    // Nothing passes in the first 300 ms; the setup of 60 links takes longer.
    let mut one = spec(1, Transport::Datagrams);
    let change = PathChange {
        effect: Effect::Rate(Level::Value(0)),
        from: Some(Duration::ZERO),
        lasts: Some(TimeDistribution::constant(Duration::from_millis(300))),
        every: None,
        over: Duration::ZERO,
        is_shared: false,
    };
    link(&mut one).link.up.changes = vec![change];
    if let Workload::Requests(requests) = &mut one.measured.workload {
        requests.response_bytes = 64;
    }
    let specs: Vec<RunSpec> = (1..=60)
        .map(|seed| RunSpec {
            seed,
            ..one.clone()
        })
        .collect();
    let Some(records) = emulate(&specs) else {
        return;
    };
    for record in &records {
        let took = record.flows[0].completion().expect("an answer");
        assert!(took >= Duration::from_millis(300), "{took:?}");
    }
}

#[test]
fn real_sockets_take_about_as_long_as_simulated_ones() {
    let specs = [
        spec(1, Transport::Datagrams),
        spec(1, tcp()),
        spec(2, tcp()),
    ];
    let Some(records) = emulate(&specs) else {
        return;
    };
    for (spec, record) in specs.iter().zip(&records) {
        assert_eq!(record.flows.len(), spec.measured.clients as usize);
        let simulated = carob_sim::run(spec).expect("a run");
        for (real, model) in record.flows.iter().zip(&simulated.flows) {
            assert_eq!((real.answered, real.unanswered), (1, 0));
            assert_eq!(record.response_times.len(), spec.measured.clients as usize);
            assert!(real.finished == Some(real.ended) && real.ended <= record.ended);
            assert_eq!(real.answered_at_once, model.answered_at_once);
            assert_eq!(real.rto_median.is_some(), model.rto_median.is_some());
            let (real_s, model_s) = (real.completion(), model.completion());
            let (real_s, model_s) = real_s.zip(model_s).expect("both complete");
            let ratio = real_s.as_micros() as f64 / model_s.as_micros() as f64;
            // In a TCP transfer this short, one delayed acknowledgment is a tenth of the time.
            let about = if model.segments.is_some() {
                0.7..1.4
            } else {
                0.85..1.15
            };
            assert!(about.contains(&ratio), "{real_s:?} against {model_s:?}");
            assert_eq!(real.body_bytes, 10_240);
            assert_eq!(real.setup.is_some(), model.setup.is_some());
            assert_eq!(real.segments.is_some(), model.segments.is_some());
        }
        assert!(record.link.down.delivered >= 40);
    }
}

#[test]
fn devices_take_as_long_and_as_much_energy_as_simulated_ones() {
    let with_devices = |mut spec: RunSpec| {
        let Workload::Requests(requests) = &mut spec.measured.workload else {
            panic!("it makes requests")
        };
        requests.response_bytes = 2_560;
        let device = &mut link(&mut spec).device;
        device.setup = Some(IdleSetup {
            takes: TimeDistribution::constant(Duration::from_secs(1)),
            after: Duration::from_secs(5),
        });
        device.radio = Some(RadioSpec {
            down_bps: 40_000,
            up_bps: 20_000,
            down_repetitions: 1,
            up_repetitions: 2,
            is_half_duplex: true,
            turnaround: Duration::from_millis(10),
        });
        device.power = Some(PowerSpec {
            send: 500_000,
            receive: 100_000,
            listen: 100_000,
            idle: 3_000,
            sleep: 15,
        });
        spec
    };
    let specs = [
        with_devices(spec(2, Transport::Datagrams)),
        with_devices(spec(1, tcp())),
    ];
    let Some(records) = emulate(&specs) else {
        return;
    };
    for (spec, record) in specs.iter().zip(&records) {
        let simulated = carob_sim::run(spec).expect("a run");
        assert_eq!(record.devices.len(), spec.measured.clients as usize);
        let times = simulated.flows.iter().zip(&record.flows);
        let times = times.map(|(model, real)| (model.completion(), real.completion()));
        let ratio = |real: u64, model: u64| real as f64 / model as f64;
        for (model, real) in times {
            let (model, real) = model.zip(real).expect("both complete");
            let ratio = ratio(real.as_micros(), model.as_micros());
            assert!((0.8..1.25).contains(&ratio), "{real:?} against {model:?}");
        }
        for (model, real) in simulated.devices.iter().zip(&record.devices) {
            let ratio = ratio(real.energy_uj, model.energy_uj);
            assert!((0.8..1.25).contains(&ratio), "{real:?} against {model:?}");
        }
    }
}

#[test]
fn slow_server_matches_the_simulated_one() {
    let with_server = |server: ServerSpec, blocks: u32| {
        let mut spec = spec(2, Transport::Datagrams);
        let Workload::Requests(requests) = &mut spec.measured.workload else {
            panic!("it makes requests")
        };
        requests.response_bytes = 256 * blocks;
        spec.server = server;
        spec
    };
    let service = |millis| TimeDistribution::constant(Duration::from_millis(millis));
    let specs = [
        with_server(
            ServerSpec {
                service: service(100),
                ..ServerSpec::default()
            },
            8,
        ),
        with_server(
            ServerSpec {
                service: service(100),
                pauses: Some(PauseSchedule {
                    first: Duration::from_millis(500),
                    interval: Duration::ZERO,
                    lasts: Duration::from_millis(900),
                }),
                ..ServerSpec::default()
            },
            8,
        ),
        with_server(
            ServerSpec {
                service: service(600),
                works: Works::Application,
                ..ServerSpec::default()
            },
            2,
        ),
    ];
    let Some(records) = emulate(&specs) else {
        return;
    };
    for (spec, record) in specs.iter().zip(&records) {
        let simulated = carob_sim::run(spec).expect("a run");
        let of_model = simulated.server.map(|server| server.handled);
        assert_eq!(record.server.map(|server| server.handled), of_model);
        // The order of service among clients is random.
        let times = |record: &RunRecord| {
            let times = record.flows.iter().map(FlowRecord::completion);
            let mut times: Vec<_> = times.map(|time| time.expect("it completes")).collect();
            times.sort_unstable();
            times
        };
        for (real, model) in times(record).into_iter().zip(times(&simulated)) {
            let ratio = real.as_micros() as f64 / model.as_micros() as f64;
            assert!((0.9..1.15).contains(&ratio), "{real:?} against {model:?}");
        }
    }
}

#[test]
fn runs_that_need_different_namespaces_are_refused() {
    let mut other = spec(1, Transport::Datagrams);
    link(&mut other).mtu_bytes = 576;
    let specs = [spec(1, Transport::Datagrams), other];
    let error = runs::run(&specs, &Options::default(), |_, _| ()).expect_err("two MTUs");
    assert!(error.to_string().contains("the MTU"), "{error}");
}

#[test]
fn simulator_only_features_are_refused() {
    let refused = |spec: RunSpec| {
        let run = runs::run(&[spec], &Options::default(), |_, _| ());
        run.expect_err("it is refused").to_string()
    };
    let mut slow = spec(1, Transport::Datagrams);
    slow.server.service = TimeDistribution::constant(Duration::from_millis(20));
    slow.measured.transport = tcp();
    assert!(refused(slow).contains("server.service: the receive queue is of datagrams"));
    let mut faulty = spec(1, Transport::Datagrams);
    faulty.faults.outages = Some(Outages {
        first: Duration::from_secs(1),
        interval: Duration::ZERO,
        duration: Duration::from_secs(1),
    });
    assert!(refused(faulty).contains("faults: faults happen in the simulator only"));
    let mut goes_on = spec(1, Transport::Datagrams);
    let Workload::Requests(requests) = &mut goes_on.measured.workload else {
        panic!("it makes requests")
    };
    requests.after_failure = AfterFailure::Next;
    assert!(refused(goes_on).contains("workload.after_failure"));
    let mut wireless = spec(1, Transport::Datagrams);
    let duration = Duration::from_secs(60);
    wireless.measured.workload = Workload::MeshTraffic(MeshTraffic::default());
    wireless.network = NetworkSpec::Mesh(MeshSpec {
        warm_up: duration,
        duration,
        bin: duration,
        ..MeshSpec::default()
    });
    assert!(refused(wireless).contains("workload.kind: wireless networks"));
}
