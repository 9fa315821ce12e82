//! Energy of a device's radio: the time in each state times its power.

use carob_cc::time::{Duration, Instant};

use super::sleep::SleepSpec;

/// Power of a radio by state, in microwatts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowerSpec {
    /// While it sends.
    pub send: u64,
    /// While it receives.
    pub receive: u64,
    /// While it is connected and waits, and in paging windows.
    pub listen: u64,
    /// While it is idle between paging windows.
    pub idle: u64,
    /// In power saving mode, where nothing reaches it.
    pub sleep: u64,
}

/// Time of a device's radio in each state, and its energy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DeviceRecord {
    /// Sending.
    pub send: Duration,
    /// Receiving.
    pub receive: Duration,
    /// Connected without either, and in paging windows.
    pub listen: Duration,
    /// Idle.
    pub idle: Duration,
    /// In power saving mode.
    pub sleep: Duration,
    /// Microjoules.
    pub energy_uj: u64,
}

/// The use of a radio so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    send: Duration,
    receive: Duration,
    /// Closed connections.
    connected: Duration,
    /// Paging windows.
    paged: Duration,
    idle: Duration,
    sleep: Duration,
    /// Beginning of the last connection; none before the first.
    begins: Option<Instant>,
}

impl Usage {
    pub(super) fn add_send(&mut self, takes: Duration) {
        self.send += takes;
    }

    pub(super) fn add_receive(&mut self, takes: Duration) {
        self.receive += takes;
    }

    /// A connection begins at `begins`; the one before ended at `ended`.
    pub(super) fn open(
        &mut self,
        sleep: Option<&SleepSpec>,
        ended: Option<Instant>,
        begins: Instant,
    ) {
        match self.begins.filter(|planned| *planned > begins) {
            // The device sends before it is paged: the time counted before is connected.
            Some(planned) => {
                let early = planned.since(begins);
                let of_sleep = early.saturating_sub(self.idle);
                self.idle = self.idle.saturating_sub(early);
                self.sleep = self.sleep.saturating_sub(of_sleep);
            }
            None => self.close(sleep, ended, begins),
        }
        self.begins = Some(begins);
    }

    /// Counts the last connection, which ends at `ended`, and the time without one until `now`.
    fn close(&mut self, sleep: Option<&SleepSpec>, ended: Option<Instant>, now: Instant) {
        let ended = ended.map(|ended| ended.min(now));
        if let (Some(begins), Some(ended)) = (self.begins, ended) {
            self.connected += ended.since(begins);
        }
        // Without a connection before, the device was idle from the beginning of the run.
        let gap = now.since(ended.unwrap_or(Instant::ZERO));
        let (awake, asleep) = sleep.map_or((gap, Duration::ZERO), |sleep| {
            sleep.split(gap, ended.is_none())
        });
        let paged = sleep.map_or(Duration::ZERO, |sleep| sleep.paged(awake));
        self.paged += paged;
        self.idle += awake.saturating_sub(paged);
        self.sleep += asleep;
    }

    /// The record at the end of a run. Without connections the radio always listens.
    pub(super) fn record(
        mut self,
        power: &PowerSpec,
        sleep: Option<&SleepSpec>,
        ended: Option<Instant>,
        now: Instant,
        has_connections: bool,
    ) -> DeviceRecord {
        if has_connections {
            self.close(sleep, ended, now);
        } else {
            self.connected = now.since(Instant::ZERO);
        }
        let on_air = self.send + self.receive;
        // Saturating: time on air is counted in full when a packet is sent, the connection up to `now`.
        let listen = self.connected.saturating_sub(on_air) + self.paged;
        let microwatts = [
            (self.send, power.send),
            (self.receive, power.receive),
            (listen, power.listen),
            (self.idle, power.idle),
            (self.sleep, power.sleep),
        ];
        let work =
            |(time, power): (Duration, u64)| u128::from(time.as_micros()) * u128::from(power);
        let total: u128 = microwatts.into_iter().map(work).sum();
        DeviceRecord {
            send: self.send,
            receive: self.receive,
            listen,
            idle: self.idle,
            sleep: self.sleep,
            energy_uj: u64::try_from(total / 1_000_000).unwrap_or(u64::MAX),
        }
    }
}
