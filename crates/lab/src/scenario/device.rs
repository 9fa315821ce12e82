//! Radios of devices on a link, from keys of the `link` table.

use carob_cc::time::Duration;
use carob_sim::link::{
    DeviceSpec, FragmentSpec, IdleSetup, PowerSaving, PowerSpec, RadioSpec, SessionSpec, SleepSpec,
};
use carob_sim::spec::{LinkNetworkSpec, NetworkSpec, RunSpec};

use super::cell::Cell;
use super::error::ScenarioError;
use super::impossible;
use super::link::own_rate;

/// Rates of a device's radio.
const RATES: [&str; 2] = ["link.down.device_rate", "link.up.device_rate"];

keys! {
    /// Keys of the radios of devices.
    pub(super) KEYS;

    IdleSetup {
        takes: "link.idle_setup", Distribution, -,
            "Set-up of a device's connection, which its first packet after idle waits for, in either direction. Without it, there is none.";
        after: "link.idle_after", Time, "20 s", needs "link.idle_setup",
            "Time without a packet of the device after which it is idle, with `link.idle_setup`.";
    }

    SleepSpec {
        cycle: "link.paging_cycle", Time, -, needs "link.idle_setup",
            "Time between the paging occasions of an idle device (DRX, eDRX), at which a packet to it begins the set-up of its connection; with `link.idle_setup`. Without it, idle devices can be reached at once.";
        window: "link.paging_window", Time, "10 ms", needs "link.paging_cycle",
            "Time for which the device listens at each.";
    }

    PowerSaving {
        active: "link.psm_active", Time, -, needs "link.idle_setup",
            "Time that an idle device can be reached before power saving mode (T3324): then packets to it wait for its next periodic wake-up. Without it, there is no such mode.";
        interval: "link.psm_interval", Time, "1 h", needs "link.psm_active",
            "Time between periodic wake-ups (T3412), with `link.psm_active`.";
    }

    PowerSpec {
        send: "link.power_send", Power, -,
            "Power of a device's radio while it sends. With it, the energy of devices is measured, from their times in each state. 545 mW in 3GPP TR 45.820.";
        receive: "link.power_receive", Power, "90 mW", needs "link.power_send",
            "Power while it receives (3GPP TR 45.820, as those that follow).";
        listen: "link.power_listen", Power, "90 mW", needs "link.power_send",
            "Power while it is connected and waits, without `link.idle_setup` always, and in paging windows.";
        idle: "link.power_idle", Power, "3 mW", needs "link.power_send",
            "Power while it is idle.";
        sleep: "link.power_sleep", Power, "15 uW", needs "link.power_send",
            "Power in power saving mode.";
    }

    RadioSpec {
        is_half_duplex: "link.duplex", Word { "full" => false, "half" => true }, "full", needs "link.up.device_rate",
            "Whether the radio of a device with `device_rate` sends and receives at the same time, or in turn (NB-IoT).";
        turnaround: "link.duplex_turnaround", Time, "0 s", needs "link.up.device_rate",
            "Time from sending to receiving and back, with `link.duplex` = `half`.";
        _: "link.down.device_rate", Rate, -, needs "link.up.device_rate",
            "Rate at which the radio of each device receives, besides the shared link, which stands for the cell. Without it, devices receive at the rate of the link.";
        down_repetitions: "link.down.repetitions", Whole(1, 2048), "1", needs "link.up.device_rate",
            "Transmissions of each packet towards the constrained side at that rate, by the coverage class of a device (3GPP TS 36.211).";
        _: "link.up.device_rate", Rate, -, needs "link.down.device_rate",
            "Rate at which the radio of each device sends, besides the shared link, which stands for the cell. Without it, devices send at the rate of the link.";
        up_repetitions: "link.up.repetitions", Whole(1, 128), "1", needs "link.up.device_rate",
            "Transmissions of each packet from the constrained side at that rate, by the coverage class of a device (3GPP TS 36.211).";
    }

    FragmentSpec {
        bytes: "link.fragment", Bytes(1, 65_535), -, needs "link.up.device_rate",
            "Bytes of a packet that a frame of a device with `device_rate` carries: SCHC fragments, as over LoRaWAN (RFC 9011). Without it, packets are whole.";
        header_bytes: "link.fragment_header", Bytes(0, 255), "15 B", needs "link.fragment",
            "Headers of each frame: 13 B of LoRaWAN and 2 B of SCHC.";
        loss: "link.fragment_loss", Percent, "0 %", needs "link.fragment",
            "Share of frames lost, each by itself, besides loss of packets.";
        _: "link.fragment_mode", Word(&["no-ack", "ack-on-error"]), "no-ack", needs "link.fragment",
            "A lost frame loses the packet, or costs a round: `link.fragment_ack` until the acknowledgement, then the frames that were lost, in 8 rounds at most.";
        _: "link.fragment_ack", Time, "2 s", needs "link.fragment",
            "Time from the last frame of a round to its acknowledgement, with `ack-on-error`.";
        receive_delay: "link.receive_delay", Time, -, needs "link.fragment",
            "Time from the end of a frame of the device to its first receive window; the second is 1 s later. Packets to it wait for them (LoRaWAN class A: 1 s; over UDP). Without it, the device always receives.";
        duty_ppm: "link.duty_cycle", Percent, "100 %", needs "link.fragment",
            "Share of time that a device with fragments may send; it is silent in proportion after each frame.";
    }

    SessionSpec {
        window_bytes: "link.fragment_window", Bytes(1, 65_535), -, needs "link.fragment",
            "Bytes of a window, with `ack-on-error`: packets from the device that need several frames are acknowledged window by window (RFC 9011: 630 B, 63 tiles of 10 B). Shorter ones are not fragments. Without it, one acknowledgement is of the packet and none is lost.";
        ack_loss: "link.fragment_ack_loss", Percent, "0 %", needs "link.fragment_window",
            "Share of acknowledgements of windows lost.";
        timer: "link.fragment_timer", Time, "10 s", needs "link.fragment_window",
            "Time without the acknowledgement of a window after which the device requests it again, 8 times in all (Retransmission Timer).";
    }
}

/// The radios of a cell.
pub(super) fn of(cell: &Cell) -> Result<DeviceSpec, ScenarioError> {
    Ok(DeviceSpec {
        setup: cell.fields_if("link.idle_setup")?,
        sleep: sleep(cell)?,
        radio: radio(cell)?,
        fragments: fragments(cell)?,
        power: cell.fields_if("link.power_send")?,
    })
}

fn sleep(cell: &Cell) -> Result<Option<SleepSpec>, ScenarioError> {
    let mut sleep = SleepSpec {
        saving: cell.fields_if("link.psm_active")?,
        ..cell.fields()?
    };
    if !cell.has("link.paging_cycle") {
        sleep.window = Duration::ZERO;
        if sleep.saving.is_none() {
            return Ok(None);
        }
    }
    let path = if sleep.saving.is_some() {
        "link.psm_interval"
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
    let Some(frames) = cell.fields_if::<FragmentSpec>("link.fragment")? else {
        return Ok(None);
    };
    if frames.duty_ppm == 0 {
        let why = "link.duty_cycle is 0 %, so nothing would ever be sent";
        return Err(impossible(cell.place("link.duty_cycle"), why));
    }
    let acknowledged = match cell.text("link.fragment_mode")? {
        "ack-on-error" => Some(cell.get("link.fragment_ack")?),
        _ => None,
    };
    let window = "link.fragment_window";
    let session = cell.fields_if::<SessionSpec>(window)?;
    let why = match session {
        Some(_) if acknowledged.is_none() => "needs link.fragment_mode = \"ack-on-error\"",
        Some(session) if session.window_bytes < frames.bytes => {
            "is at least a frame of link.fragment"
        }
        _ => "",
    };
    if !why.is_empty() {
        return Err(impossible(cell.place(window), format!("{window} {why}")));
    }
    Ok(Some(FragmentSpec {
        acknowledged,
        session,
        rounds: ROUNDS,
        ..frames
    }))
}

fn radio(cell: &Cell) -> Result<Option<RadioSpec>, ScenarioError> {
    // Each rate needs the other.
    if !RATES.iter().all(|path| cell.has(path)) {
        return Ok(None);
    }
    let [down, up] = RATES.map(|path| own_rate(cell, path));
    Ok(Some(RadioSpec {
        down_bps: down?,
        up_bps: up?,
        ..cell.fields()?
    }))
}

#[cfg(test)]
mod tests {
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
