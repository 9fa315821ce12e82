//! A constrained link: rate, bottleneck buffer, delay and loss.
//!
//! The model is the thesis's emulator (`papers/thesis`, `docs/emulation.md`): in each direction a
//! drop-tail buffer (or another [`Discipline`]) served at a constant rate, then propagation, an
//! extra delay and random loss. Before the bottleneck only a full buffer drops packets, so lost
//! packets have used the link.
//!
//! A [`Link`] is sans-I/O: [`Direction::offer`] returns at once when the packet will arrive, or why
//! it will not. The simulator schedules one event per packet; a real-time emulator sleeps.

mod device;
mod device_radio;
mod direction;
mod discipline;
mod energy;
mod fair_queue;
pub(crate) mod fragments;
mod impairments;
mod loss;
mod path_change;
mod receive_windows;
mod schc;
mod sleep;
mod trace;

pub use device::{DeviceSpec, Devices};
pub use device_radio::RadioSpec;
pub use direction::{Counters, Direction, Verdict};
pub(crate) use direction::{DOWN, UP};
pub use discipline::{CoDelSpec, Discipline};
pub use energy::{DeviceRecord, PowerSpec};
pub use fair_queue::{FairQueue, Waiting};
pub use impairments::{Impairments, Policer, Reordering};
pub use loss::{LossProfile, LossSpec, PROFILES, profile};
pub use path_change::{Effect, Level, PathChange};
pub use schc::{FragmentSpec, RX2_AFTER, SessionSpec};
pub use sleep::IdleSetup;
pub use sleep::{PowerSaving, SleepSpec};
pub use trace::{
    LinkTrace, OPPORTUNITY_BYTES, Replay, TRACE_ROWS_MAX, TraceEnd, TraceError, TraceRow,
    TraceStart,
};

use carob_cc::time::Duration;

use crate::distribution::TimeDistribution;

/// The maximum number of packets in one direction, regardless of its buffer in bytes.
pub const PACKETS_MAX: u32 = 1 << 20;

/// Limits of a bottleneck buffer, the packet in service included. A packet that would exceed either
/// limit is dropped (drop-tail).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes, IP and transport headers included.
    pub bytes: u64,
    /// Packets; at most [`PACKETS_MAX`].
    pub packets: u32,
    /// The discipline that drops or marks before either limit is reached.
    pub discipline: Discipline,
}

impl Buffer {
    /// A buffer limited by bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self {
            bytes,
            packets: PACKETS_MAX,
            discipline: Discipline::DropTail,
        }
    }

    /// A buffer limited by packets of any size.
    pub const fn packets(packets: u32) -> Self {
        Self {
            bytes: u64::MAX,
            packets,
            discipline: Discipline::DropTail,
        }
    }

    /// The same limits under another discipline.
    pub const fn with(self, discipline: Discipline) -> Self {
        Self { discipline, ..self }
    }
}

/// Delay on top of propagation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraDelay {
    /// The same for every packet.
    Constant(Duration),
    /// Uniform over `[low, high]` for each packet, without reordering.
    Uniform {
        /// Shortest.
        low: Duration,
        /// Longest.
        high: Duration,
    },
    /// Drawn from a distribution for each packet, without reordering.
    Drawn(TimeDistribution),
}

impl ExtraDelay {
    /// No extra delay.
    pub const NONE: Self = Self::Constant(Duration::ZERO);
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectionSpec {
    /// Bits per second; above 0.
    pub rate_bps: u64,
    /// The bottleneck buffer.
    pub buffer: Buffer,
    /// Propagation delay.
    pub delay: Duration,
    /// Delay on top of it.
    pub extra: ExtraDelay,
    /// Loss after the bottleneck.
    pub loss: LossSpec,
    /// A trace in the place of rate, delay and loss, as far as it has them.
    pub replay: Option<Replay>,
    /// Changes of rate, delay and loss. Rates change only without a trace of rates.
    pub changes: Vec<PathChange>,
    /// A policer, bit errors, corruption, reordering, duplication.
    pub impairments: Impairments,
}

impl DirectionSpec {
    /// A direction of `rate_bps` bit/s and a buffer of `buffer_bytes`, without delay or loss.
    pub const fn new(rate_bps: u64, buffer_bytes: u64) -> Self {
        Self {
            rate_bps,
            buffer: Buffer::bytes(buffer_bytes),
            delay: Duration::ZERO,
            extra: ExtraDelay::NONE,
            loss: LossSpec::None,
            replay: None,
            changes: Vec::new(),
            impairments: Impairments::NONE,
        }
    }

    /// The direction behind the queues of [`FairQueue`]: without a buffer, if it has such queues.
    #[must_use]
    pub fn behind_queues(&self) -> Self {
        let mut spec = self.clone();
        if matches!(spec.buffer.discipline, Discipline::FqCoDel(_)) {
            spec.buffer = Buffer::bytes(u64::MAX);
        }
        spec
    }
}

/// Both directions of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// From the fixed host to the constrained device.
    pub down: DirectionSpec,
    /// From the constrained device to the fixed host.
    pub up: DirectionSpec,
}

/// A link: two independent directions.
#[derive(Clone, Debug)]
pub struct Link {
    /// From the fixed host to the constrained device.
    pub down: Direction,
    /// From the constrained device to the fixed host.
    pub up: Direction,
}

impl Link {
    /// A link whose streams are labelled `<label>/down/...` and `<label>/up/...`.
    pub fn new(spec: &LinkSpec, seed: u64, label: &str) -> Self {
        Self {
            down: Direction::new(&spec.down, seed, &format!("{label}/down")),
            up: Direction::new(&spec.up, seed, &format!("{label}/up")),
        }
    }
}
