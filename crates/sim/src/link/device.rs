//! Devices on a link: effects of its radio on a packet, besides the link that all share.

use carob_cc::time::{Duration, Instant};

use super::device_radio::{Radio, RadioSpec};
use super::direction::{DOWN, UP};
use super::energy::{DeviceRecord, PowerSpec, Usage};
use super::receive_windows::Downlink;
use super::schc::{FragmentSpec, Fragmenter};
use super::sleep::SleepSpec;
use super::sleep::{Connection, IdleSetup};
use super::{LinkSpec, Verdict};
use crate::random::Stream;

/// The radio of every device on a link. Default: none, so that packets meet the shared link alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Set-up of a device's connection after idle time.
    pub setup: Option<IdleSetup>,
    /// Sleep of a device without a connection; needs `setup`.
    pub sleep: Option<SleepSpec>,
    /// Rates and duplex mode of a device's radio.
    pub radio: Option<RadioSpec>,
    /// Fragments of packets; needs `radio`.
    pub fragments: Option<FragmentSpec>,
    /// Power of a device's radio; none if its energy is not measured.
    pub power: Option<PowerSpec>,
}

impl DeviceSpec {
    /// Returns whether packets meet anything besides the shared link, or energy is measured.
    pub fn is_used(&self) -> bool {
        *self != Self::default()
    }

    /// Returns whether packets to a device wait for its receive windows.
    pub fn has_windows(&self) -> bool {
        let fragments = self.fragments.as_ref();
        fragments.is_some_and(|fragments| fragments.receive_delay.is_some())
    }

    /// Checks that its values are possible.
    ///
    /// # Errors
    ///
    /// The reason.
    pub fn check(&self) -> Result<(), &'static str> {
        let has_no_rate = |radio: RadioSpec| radio.down_bps.min(radio.up_bps) == 0;
        match &self.fragments {
            _ if self.sleep.is_some() && self.setup.is_none() => {
                Err("sleep needs a connection set-up")
            }
            _ if self.radio.is_some_and(has_no_rate) => Err("a radio has rates"),
            Some(_) if self.radio.is_none() => Err("fragments need a radio"),
            Some(fragments) if fragments.bytes == 0 || fragments.duty_ppm == 0 => {
                Err("fragments have a size and a share of time")
            }
            Some(fragments) if fragments.session.is_some() && fragments.acknowledged.is_none() => {
                Err("windows and timers are of acknowledged fragments")
            }
            Some(fragments) if fragments.receive_delay.is_some() && self.setup.is_some() => {
                Err("a device with receive windows has no connection to set up")
            }
            _ => self.sleep.map_or(Ok(()), |sleep| sleep.check()),
        }
    }
}

/// State of a device.
#[derive(Clone, Debug)]
struct Device {
    connection: Connection,
    /// Time of its paging occasions in each cycle, drawn on the stream (`"link/paging"`, host).
    phase: Duration,
    radio: Radio,
    fragmenter: Fragmenter,
    downlink: Downlink,
    usage: Usage,
    /// The last arrival by direction: a device's packets keep their order.
    latest: [Instant; 2],
}

/// All devices of a run, by number: beside the [`Link`](super::Link) that they share.
///
/// Like the link, they are sans-I/O: a packet's fate is known when it is offered.
#[derive(Clone, Debug)]
pub struct Devices {
    spec: DeviceSpec,
    /// Rates of the shared link, for times on air without radios.
    rates: [u64; 2],
    seed: u64,
    all: Vec<Device>,
}

impl Devices {
    /// Devices on a link, with streams derived from `seed` and their numbers; none if packets meet nothing at
    /// them and no energy is measured.
    pub fn on_link(spec: &DeviceSpec, link: &LinkSpec, seed: u64) -> Option<Self> {
        let rates = [link.down.rate_bps, link.up.rate_bps];
        spec.is_used().then(|| Self::new(spec, rates, seed))
    }

    pub(super) fn new(spec: &DeviceSpec, rates: [u64; 2], seed: u64) -> Self {
        Self {
            spec: spec.clone(),
            rates,
            seed,
            all: Vec::new(),
        }
    }

    /// Passes a packet of a device that was offered to the shared link at `now` through the device's radio.
    /// Returns its fate behind both.
    ///
    /// Times of a device's packets must not decrease.
    pub fn cross(
        &mut self,
        device: u32,
        is_down: bool,
        now: Instant,
        verdict: Verdict,
        bytes: u32,
    ) -> Verdict {
        let direction = if is_down { DOWN } else { UP };
        let (arrives, on_air) = match verdict {
            Verdict::Deliver { at, .. } => (at, bytes),
            // Upwards the radio comes first, so a packet lost behind it was on the air.
            Verdict::Lost { .. } if !is_down => (now, bytes),
            // The network lost it before the air, or nobody sent it.
            Verdict::Lost { .. } | Verdict::DropFull => (now, 0),
        };
        let arrival = self.arrival(device, direction, now, arrives, on_air);
        match (verdict, arrival) {
            (
                Verdict::Deliver {
                    departed,
                    marked,
                    duplicated,
                    ..
                },
                Some(at),
            ) => Verdict::Deliver {
                at,
                departed,
                marked,
                duplicated,
            },
            (Verdict::Deliver { departed, .. }, None) => Verdict::Lost { departed },
            (other, _) => other,
        }
    }

    /// Returns whether packets to a device wait for its receive windows: [`hold`](Self::hold) then takes the place
    /// of [`cross`](Self::cross) for those that crossed the link.
    pub fn have_windows(&self) -> bool {
        self.spec.has_windows()
    }

    /// Holds a packet of `bytes` for a device, by a number of the caller's, from its arrival at the gateway on.
    pub fn hold(&mut self, device: u32, packet: u32, arrives: Instant, bytes: u32) {
        self.reach(device);
        if let Some(fragments) = &self.spec.fragments {
            let downlink = &mut self.all[device as usize].downlink;
            downlink.hold(fragments, packet, arrives, bytes);
        }
    }

    /// The next receive window of a device that held packets can use, at which [`open`](Self::open) is due. It may
    /// change when the device sends and when a packet is held.
    pub fn next_window(&mut self, device: u32, now: Instant) -> Option<Instant> {
        let device = self.all.get_mut(device as usize)?;
        device.downlink.next(&mut device.fragmenter, now)
    }

    /// Sends the frames of a device's window at `now`. Returns the number of a packet whose last frame was sent, and its
    /// arrival; none if a frame of it is missing.
    pub fn open(&mut self, device: u32, now: Instant) -> Option<(u32, Option<Instant>)> {
        let (fragments, radio) = (self.spec.fragments.as_ref()?, self.spec.radio.as_ref()?);
        let device = self.all.get_mut(device as usize)?;
        let before = device.fragmenter.sent;
        let sent = device
            .downlink
            .open(fragments, radio, &mut device.fragmenter, now)?;
        let acknowledgements = device.fragmenter.sent.saturating_sub(before);
        device.usage.add_send(acknowledgements);
        device.usage.add_receive(sent.received);
        Some((sent.packet, sent.arrives))
    }

    /// Makes the devices up to this number.
    fn reach(&mut self, device: u32) {
        let cycle = self.spec.sleep.map_or(Duration::ZERO, |sleep| sleep.cycle);
        for number in self.all.len() as u32..=device {
            let mut paging = Stream::indexed(self.seed, "link/paging", number);
            self.all.push(Device {
                connection: Connection::new(self.seed, number),
                phase: paging.uniform(Duration::ZERO, cycle),
                radio: Radio::default(),
                fragmenter: Fragmenter::new(self.seed, number),
                downlink: Downlink::default(),
                usage: Usage::default(),
                latest: [Instant::ZERO; 2],
            });
        }
    }

    /// The arrival of a packet of a device that is sent at `now` and arrives at `arrives` over the shared
    /// link; none if a fragment is missing. Of its `bytes` those that the link carries use the radio.
    pub(crate) fn arrival(
        &mut self,
        device: u32,
        direction: usize,
        now: Instant,
        arrives: Instant,
        bytes: u32,
    ) -> Option<Instant> {
        self.reach(device);
        let device = &mut self.all[device as usize];
        let waits = self.spec.setup.as_ref().map(|setup| {
            let sleep = self.spec.sleep.as_ref();
            if !device.connection.is_open(setup, now) {
                let ended = device.connection.ends(setup).filter(|ended| *ended <= now);
                // Only the network waits for a paging occasion; the device can send at any time.
                let begins = match sleep {
                    Some(sleep) if direction == DOWN => {
                        let idle = ended.unwrap_or(Instant::ZERO);
                        sleep.reaches(now, idle, device.phase)
                    }
                    _ => now,
                };
                device.usage.open(sleep, ended, begins);
                device.connection.begin(setup, begins);
            }
            device.connection.waits(now)
        });
        let mut arrives = arrives + waits.unwrap_or_default();
        let mut is_whole = true;
        let takes = if let (Some(radio), Some(spec)) = (&self.spec.radio, &self.spec.fragments) {
            let ready = now + waits.unwrap_or_default();
            // Upwards the radio comes before the shared link, downwards behind it.
            let earliest = if direction == UP { ready } else { arrives };
            let before = device.fragmenter.sent;
            let last = device
                .fragmenter
                .arrival(spec, radio, direction, earliest, bytes);
            is_whole = last.is_some();
            arrives += last.unwrap_or(earliest).since(earliest);
            match direction {
                UP => device.fragmenter.sent.saturating_sub(before),
                _ => radio.takes(direction, bytes),
            }
        } else if let Some(radio) = &self.spec.radio {
            let ready = now + waits.unwrap_or_default();
            let times = [now, ready, arrives];
            arrives = device.radio.arrival(radio, direction, times, bytes);
            radio.takes(direction, bytes)
        } else {
            // Without radios of devices, a packet is on the air at the rate of the shared link.
            let work = u64::from(bytes) * 8_000_000;
            Duration::from_micros(work / self.rates[direction].max(1))
        };
        match direction {
            UP => device.usage.add_send(takes),
            _ => device.usage.add_receive(takes),
        }
        // Packets of a device keep their order, also if a later one needs no set-up.
        arrives = arrives.max(device.latest[direction]);
        device.latest[direction] = arrives;
        is_whole.then_some(arrives)
    }

    /// Records of all devices at the end of a run; none if their energy is not measured.
    pub fn records(&self, now: Instant) -> Vec<DeviceRecord> {
        let Some(power) = self.spec.power else {
            return Vec::new();
        };
        let (setup, sleep) = (self.spec.setup, self.spec.sleep.as_ref());
        let record = |device: &Device| {
            let ended = setup.and_then(|setup| device.connection.ends(&setup));
            let usage = device.usage.clone();
            usage.record(&power, sleep, ended, now, setup.is_some())
        };
        self.all.iter().map(record).collect()
    }
}
