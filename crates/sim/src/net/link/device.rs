//! Devices on a link: what a packet meets at the radio of its device, besides the link that all share.

use carob_cc::time::Instant;

use super::device_radio::{Radio, RadioSpec};
use super::idle_setup::{Connection, IdleSetup};

/// The radio of every device on a link. Default: none, so that packets meet the shared link alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Set-up of a device's connection after idle time.
    pub setup: Option<IdleSetup>,
    /// Rates and duplex mode of a device's radio.
    pub radio: Option<RadioSpec>,
}

impl DeviceSpec {
    /// Returns whether packets meet anything besides the shared link.
    pub fn is_used(&self) -> bool {
        *self != Self::default()
    }
}

/// State of a device.
#[derive(Clone, Debug)]
struct Device {
    connection: Connection,
    radio: Radio,
    /// The last arrival by direction: a device's packets keep their order.
    latest: [Instant; 2],
}

/// All devices of a run.
#[derive(Debug)]
pub(super) struct Devices {
    spec: DeviceSpec,
    seed: u64,
    devices: Vec<Device>,
}

impl Devices {
    pub(super) fn new(spec: &DeviceSpec, seed: u64) -> Self {
        Self {
            spec: spec.clone(),
            seed,
            devices: Vec::new(),
        }
    }

    /// The arrival of a packet of a device that is sent at `now` and arrives at `arrives` over the shared
    /// link. Of its `bytes` those that the link carries use the radio.
    pub(super) fn arrival(
        &mut self,
        device: u32,
        direction: usize,
        now: Instant,
        arrives: Instant,
        bytes: u32,
    ) -> Instant {
        for number in self.devices.len() as u32..=device {
            self.devices.push(Device {
                connection: Connection::new(self.seed, number),
                radio: Radio::default(),
                latest: [Instant::ZERO; 2],
            });
        }
        let device = &mut self.devices[device as usize];
        let mut arrives = arrives;
        let setup = self.spec.setup.as_ref();
        let waits = setup.map(|setup| device.connection.waits(setup, now));
        arrives += waits.unwrap_or_default();
        if let Some(spec) = &self.spec.radio {
            let ready = now + waits.unwrap_or_default();
            arrives = device
                .radio
                .arrival(spec, direction, [now, ready, arrives], bytes);
        }
        arrives = arrives.max(device.latest[direction]);
        device.latest[direction] = arrives;
        arrives
    }
}
