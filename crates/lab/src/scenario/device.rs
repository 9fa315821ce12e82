//! Radios of devices on a link, from keys of the `link` table.

use carob_sim::link::{
    DeviceSpec, FragmentSpec, IdleSetup, PowerSaving, PowerSpec, RadioSpec, SessionSpec, SleepSpec,
};
use carob_sim::spec::{LinkNetworkSpec, NetworkSpec, RunSpec};

use super::cell::Cell;
use super::error::ScenarioError;
use super::impossible;

/// Rates of a device's radio.
const RATES: [&str; 2] = ["link.down.device_rate", "link.up.device_rate"];
/// The radios of a cell.
pub(super) fn of(cell: &Cell) -> Result<DeviceSpec, ScenarioError> {
    Ok(DeviceSpec {
        setup: idle_setup(cell)?,
        sleep: sleep(cell)?,
        radio: radio(cell)?,
        fragments: fragments(cell)?,
        power: power(cell)?,
    })
}

fn idle_setup(cell: &Cell) -> Result<Option<IdleSetup>, ScenarioError> {
    let after = "link.idle_after";
    let Some(takes) = cell.if_set("link.idle_setup", Cell::distribution)? else {
        return Ok(None);
    };
    let after = cell.time(after)?;
    Ok(Some(IdleSetup { takes, after }))
}

fn sleep(cell: &Cell) -> Result<Option<SleepSpec>, ScenarioError> {
    let [cycle, active, interval] = ["link.paging_cycle", "link.psm_active", "link.psm_interval"];
    let saving = cell.if_set(active, Cell::time)?.map(|active| {
        let interval = cell.time(interval)?;
        Ok(PowerSaving { active, interval })
    });
    let cycle_time = cell.if_set(cycle, Cell::time)?;
    if cycle_time.is_none() && saving.is_none() {
        return Ok(None);
    }
    let window = cycle_time.map(|_| cell.time("link.paging_window"));
    let sleep = SleepSpec {
        cycle: cycle_time.unwrap_or_default(),
        window: window.transpose()?.unwrap_or_default(),
        saving: saving.transpose()?,
    };
    let path = if sleep.saving.is_some() {
        interval
    } else {
        "link.paging_window"
    };
    let value = cell.setting(path).unwrap_or_default();
    let checked = sleep.check();
    checked.map_err(|why| impossible(cell.place(path), format!("{path} {value}: {why}")))?;
    Ok(Some(sleep))
}

/// Checks that the devices of a run are possible: receive windows are of datagrams.
pub(super) fn check(cell: &Cell, spec: &RunSpec) -> Result<(), ScenarioError> {
    let NetworkSpec::Link(LinkNetworkSpec { device, .. }) = &spec.network else {
        return Ok(());
    };
    let windows = "link.receive_delay";
    let why = if !device.has_windows() {
        return Ok(());
    } else if device.setup.is_some() {
        "link.receive_delay and link.idle_setup are of different networks"
    } else if cell.text("link.queue")? == "fq-codel" {
        "link.receive_delay: packets wait for windows, and link.queue fq-codel sends them before"
    } else if spec.has_connections() {
        "link.receive_delay: datagrams wait for windows, and an algorithm over TCP was asked for; leave that out"
    } else {
        return Ok(());
    };
    Err(impossible(cell.place(windows), why))
}

/// Rounds of a packet (MAX_ACK_REQUESTS of RFC 9011 5.6.3).
const ROUNDS: u32 = 8;

fn fragments(cell: &Cell) -> Result<Option<FragmentSpec>, ScenarioError> {
    let size = "link.fragment";
    if !cell.has(size) {
        return Ok(None);
    }
    let duty_ppm = cell.ppm("link.duty_cycle")?;
    if duty_ppm == 0 {
        let why = "link.duty_cycle is 0 %, so nothing would ever be sent";
        return Err(impossible(cell.place("link.duty_cycle"), why));
    }
    let bytes = cell.bytes(size)? as u32;
    let acknowledged = match cell.text("link.fragment_mode")? {
        "ack-on-error" => Some(cell.time("link.fragment_ack")?),
        _ => None,
    };
    let window = "link.fragment_window";
    let session = cell.if_set(window, Cell::bytes)?.map(|window_bytes| {
        let why = if acknowledged.is_none() {
            "needs link.fragment_mode = \"ack-on-error\""
        } else if window_bytes < u64::from(bytes) {
            "is at least a frame of link.fragment"
        } else {
            return Ok(SessionSpec {
                window_bytes: window_bytes as u32,
                ack_loss: cell.share("link.fragment_ack_loss")?,
                timer: cell.time("link.fragment_timer")?,
            });
        };
        Err(impossible(cell.place(window), format!("{window} {why}")))
    });
    Ok(Some(FragmentSpec {
        bytes,
        header_bytes: cell.bytes("link.fragment_header")? as u32,
        loss: cell.share("link.fragment_loss")?,
        acknowledged,
        session: session.transpose()?,
        rounds: ROUNDS,
        duty_ppm,
        receive_delay: cell.if_set("link.receive_delay", Cell::time)?,
    }))
}

fn power(cell: &Cell) -> Result<Option<PowerSpec>, ScenarioError> {
    let send = "link.power_send";
    if !cell.has(send) {
        return Ok(None);
    }
    Ok(Some(PowerSpec {
        send: cell.microwatts(send)?,
        receive: cell.microwatts("link.power_receive")?,
        listen: cell.microwatts("link.power_listen")?,
        idle: cell.microwatts("link.power_idle")?,
        sleep: cell.microwatts("link.power_sleep")?,
    }))
}

fn radio(cell: &Cell) -> Result<Option<RadioSpec>, ScenarioError> {
    let [down, up] = RATES.map(|path| cell.if_set(path, Cell::own_rate));
    // Each needs the other.
    let (Some(down_bps), Some(up_bps)) = (down?, up?) else {
        return Ok(None);
    };
    Ok(Some(RadioSpec {
        down_bps,
        up_bps,
        down_repetitions: cell.whole("link.down.repetitions")? as u32,
        up_repetitions: cell.whole("link.up.repetitions")? as u32,
        is_half_duplex: cell.text("link.duplex")? == "half",
        turnaround: cell.time("link.duplex_turnaround")?,
    }))
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Duration;
    use carob_sim::link::{LinkSpec, LossSpec};
    use carob_sim::random::Probability;

    use super::*;
    use crate::testing::{link, spec};

    const CELL: &str = "default-none";

    fn set(keys: &[&str]) -> Result<DeviceSpec, String> {
        Ok(link(spec("carob/default", CELL, keys)?).device)
    }

    #[test]
    fn every_part_of_a_radio_is_a_key_and_none_is_on_by_default() {
        assert_eq!(set(&[]), Ok(DeviceSpec::default()));
        let keys = [
            "down.device_rate=20 kbit/s",
            "up.device_rate=10 kbit/s",
            "duplex=half",
            "duplex_turnaround=20 ms",
            "up.repetitions=8",
        ];
        let radio = set(&keys).expect("valid").radio.expect("a radio");
        let expected = RadioSpec {
            down_bps: 20_000,
            up_bps: 10_000,
            down_repetitions: 1,
            up_repetitions: 8,
            is_half_duplex: true,
            turnaround: Duration::from_millis(20),
        };
        assert_eq!(radio, expected);
    }

    #[test]
    fn keys_of_an_absent_mechanism_are_errors() {
        for (keys, expected) in [
            (
                &["duplex=half"][..],
                "link.duplex needs link.up.device_rate",
            ),
            (
                &["up.device_rate=1 kbit/s"],
                "link.up.device_rate needs link.down.device_rate",
            ),
            (&["idle_after=5 s"], "link.idle_after needs link.idle_setup"),
            (&["duty_cycle=1 %"], "link.duty_cycle needs link.fragment"),
            (
                &["fragment=50 B"],
                "link.fragment needs link.up.device_rate",
            ),
            (
                &["fragment_timer=9 s"],
                "link.fragment_timer needs link.fragment_window",
            ),
            (
                &[
                    "down.device_rate=5 kbit/s",
                    "up.device_rate=5 kbit/s",
                    "fragment=50 B",
                    "fragment_window=630 B",
                ],
                "link.fragment_window needs link.fragment_mode",
            ),
            (
                &["paging_cycle=20 s"],
                "link.paging_cycle needs link.idle_setup",
            ),
            (
                &["power_idle=5 mW"],
                "link.power_idle needs link.power_send",
            ),
            (
                &["idle_setup=1 s", "psm_active=2 h"],
                "link.psm_interval 3600 s: the interval of wake-ups is longer",
            ),
            (
                &["down.loss=5 %", "error=low"],
                "link.down.loss and link.error = \"low\" both say",
            ),
        ] {
            let error = set(keys).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_direction_has_a_loss_of_its_own() {
        let losses = |keys: &[&str]| {
            let spec = spec("carob/default", CELL, keys).expect("valid");
            let LinkSpec { down, up } = link(spec).link;
            [down.loss, up.loss]
        };
        let constant = |ppm| LossSpec::Constant(Probability::ppm(ppm));
        let keys = ["error=none", "loss=2 %", "down.loss=5 %"];
        assert_eq!(losses(&keys), [50_000, 20_000].map(constant));
        let keys = [
            "error=none",
            "loss=2 %",
            "up.loss=0 %",
            "error_directions=up",
        ];
        assert_eq!(losses(&keys), [LossSpec::None, LossSpec::None]);
    }

    #[test]
    fn a_fragment_that_is_lost_loses_a_datagram() {
        let rates = ["down.device_rate=5470 bit/s", "up.device_rate=5470 bit/s"];
        let lost = |loss: &str| {
            let keys = ["error=none", "fragment=50 B", "response=2560 B", loss];
            let keys = [&rates[..], &keys].concat();
            let record = carob_sim::run(&spec("carob/default", CELL, &keys).expect("valid"));
            record.expect("a run").flows[0].retransmissions
        };
        assert_eq!(lost("fragment_loss=0 %"), 0);
        assert!(lost("fragment_loss=5 %") > 0);
    }

    /// A device of class A over a cell that costs nothing: a byte takes a millisecond, and headers none.
    const CLASS_A: [&str; 12] = [
        "error=none",
        "down.rate=100 Mbit/s",
        "up.rate=100 Mbit/s",
        "down.delay=1 ms",
        "up.delay=1 ms",
        "down.extra_delay=0 ms",
        "up.extra_delay=0 ms",
        "down.device_rate=8 kbit/s",
        "up.device_rate=8 kbit/s",
        "fragment=400 B",
        "fragment_header=0 B",
        "receive_delay=1 s",
    ];

    #[test]
    fn a_response_waits_for_a_receive_window_and_a_late_one_for_the_next_request() {
        let finished = |service: &str| {
            let more = ["response=64 B", "start_spread=0 s", service];
            let keys = [&CLASS_A[..], &more].concat();
            let record = carob_sim::run(&spec("carob/default", CELL, &keys).expect("valid"));
            let flow = &record.expect("a run").flows[0];
            let took = flow.finished.expect("complete").as_micros() as f64 / 1e6;
            (took, flow.retransmissions)
        };
        let (plain, retransmissions) = finished("server.service=0 s");
        assert_eq!(retransmissions, 0);
        // Request and response are some 0.15 s on air, a second apart; then in the second window.
        assert!((1.1..1.25).contains(&plain), "{plain}");
        let (second, _) = finished("server.service=1.5 s");
        assert!((second - plain - 1.0).abs() < 1e-6, "{second} {plain}");
        // Too late for both: the retransmission after the initial timeout of 2 to 3 s brings it.
        let (late, retransmissions) = finished("server.service=2.5 s");
        assert_eq!(retransmissions, 1);
        assert!((3.1..4.3).contains(&late), "{late}");
    }

    #[test]
    fn receive_windows_refuse_connections() {
        let keys = [&CLASS_A[..], &["run.algorithms=tcp-newreno"]].concat();
        let error = set(&keys).expect_err("over TCP");
        assert!(error.contains("datagrams wait for windows"), "{error}");
    }

    /// Energy of the connected time of an exchange a minute of this size, in joules, over NB-IoT as a SARA-N211 on Telia in
    /// Oslo has it: power by state from exchanges of 20 B.
    fn connected_energy(bytes: u32) -> f64 {
        let link = crate::compare::Link::built_in("nb-iot").expect("built in");
        let mut keys = link.settings().expect("a link");
        let more = [
            "workload.kind=exchanges",
            "workload.requests=200",
            "workload.response=0 B",
            "workload.block=1024 B",
            "workload.request_period=60 s",
            "transmission.ack_timeout=50 s",
            "link.power_idle=0 mW",
        ];
        keys.extend(more.map(str::to_owned));
        keys.push(format!("workload.request={bytes} B"));
        let (file, _) = crate::scenario::builtin::find("carob/default").expect("built in");
        let scenario = crate::scenario::Scenario::read(file.name, file.text, &keys).expect("valid");
        let spec = scenario.spec(&scenario.cells()[0], &scenario.algorithms()[0], 1);
        let record = carob_sim::run(&spec).expect("a run");
        record.devices[0].energy_uj as f64 / 1e6 / 200.0
    }

    #[test]
    fn energy_is_within_a_tenth_of_a_measured_device() {
        // SARA-N211, Telia, coverage level 0, medians of the connected state: github.com/theomarzaki/NB-IoT-Performance.
        for (bytes, measured) in [(20, 1.2099), (128, 1.2496), (256, 1.267), (512, 1.3473)] {
            let energy = connected_energy(bytes);
            assert!(
                (energy / measured - 1.0).abs() < 0.1,
                "{bytes} B: {energy} J, {measured} J"
            );
        }
    }

    #[test]
    fn waiting_for_a_reply_costs_energy() {
        let energy = |delay: &str| {
            let delay = format!("down.delay={delay}");
            let keys = ["error=none", "power_send=545 mW", "response=64 B", &delay];
            let record = carob_sim::run(&spec("carob/default", CELL, &keys).expect("valid"));
            record.expect("a run").devices[0].energy_uj as f64 / 1e6
        };
        // The radio listens for a second more, at 90 mW.
        let more = energy("1400 ms") - energy("400 ms");
        assert!((more - 0.09).abs() < 1e-3, "{more}");
    }

    /// Microseconds of a transfer of 10 blocks of 256 B.
    fn transfer(keys: &[&str]) -> (f64, [u64; 2]) {
        let all = [&["response=2560 B", "start_spread=0 s"][..], keys].concat();
        let record = carob_sim::run(&spec("carob/default", CELL, &all).expect("valid"));
        let record = record.expect("a run");
        let finished = record.flows[0].finished.expect("complete").as_micros();
        let bytes = [record.link.down.bytes_sent, record.link.up.bytes_sent];
        (finished as f64 / 1e6, bytes)
    }

    #[test]
    fn a_transfer_takes_the_time_on_air_of_its_device_more() {
        let (plain, [down, up]) = transfer(&[]);
        let rates = ["down.device_rate=80 kbit/s", "up.device_rate=40 kbit/s"];
        let (with_radio, _) = transfer(&rates);
        let expected = plain + down as f64 * 8.0 / 80e3 + up as f64 * 8.0 / 40e3;
        assert!(
            (with_radio - expected).abs() < 1e-4,
            "{with_radio} {expected}"
        );
        // The next of 10 requests follows a response at once, after the turnaround.
        let half = ["duplex=half", "duplex_turnaround=10 ms"];
        let (with_half, _) = transfer(&[&rates[..], &half].concat());
        assert!(
            (with_half - with_radio - 9.0 * 0.01).abs() < 1e-6,
            "{with_half}"
        );
    }
}
