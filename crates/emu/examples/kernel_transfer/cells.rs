//! The measured cells of the thesis's Tables 6 to 11.

use carob_cc::time::Duration;
use carob_emu::LinkConfig;
use carob_sim::link::{DirectionSpec, ExtraDelay, LinkSpec, LossProfile, LossSpec, profile};

/// The transport of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

/// Some links that are alike but for their seeds.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) error: &'static str,
    pub(crate) clients: u32,
    pub(crate) buffer: u64,
    pub(crate) transport: Transport,
    /// A congestion module of the kernel, or a controller of `carob`.
    pub(crate) algorithm: &'static str,
    pub(crate) links: u32,
}

const BUFFERS: [u64; 4] = [2_500, 14_100, 28_200, 1_410_000];

impl Cell {
    /// As scenarios call it.
    pub(crate) fn name(&self) -> String {
        let buffer = match self.buffer {
            1_410_000 => "inf".to_owned(),
            bytes => bytes.to_string(),
        };
        format!("long-{}c-{}-{buffer}", self.clients, self.error)
    }

    /// All cells of these error profiles, each with `runs` links. Four clients give four flows a
    /// link, so those cells have no more than the thesis's 20.
    pub(crate) fn all(errors: &[&'static str], runs: u32) -> Vec<Self> {
        let mut cells = Vec::new();
        for error in errors {
            for clients in [1, 4] {
                let mut add = |buffer, transport, algorithm| {
                    cells.push(Self {
                        error,
                        clients,
                        buffer,
                        transport,
                        algorithm,
                        links: if clients == 1 { runs } else { runs.min(20) },
                    });
                };
                for algorithm in ["default", "cocoa-001"] {
                    add(BUFFERS[0], Transport::Udp, algorithm);
                }
                for buffer in BUFFERS {
                    add(buffer, Transport::Tcp, "reno");
                    if clients == 1 {
                        add(buffer, Transport::Tcp, "bbr");
                    }
                }
            }
        }
        cells
    }

    /// One of its links: the thesis's, with the readings of `scenarios/thesis/long.toml`. Seeds
    /// and the label are the simulator's, so that its runs meet the same losses.
    pub(crate) fn link(&self, number: u32) -> LinkConfig {
        let loss = profile(self.error).map_or(LossSpec::None, |profile| {
            profile.per_packet(LossProfile::BURST_MILLIPACKETS)
        });
        let direction = |rate, delay| DirectionSpec {
            delay: Duration::from_millis(delay),
            extra: ExtraDelay::Constant(Duration::from_millis(15)),
            loss,
            ..DirectionSpec::new(rate, self.buffer)
        };
        let spec = LinkSpec {
            down: direction(30_000, 400),
            up: direction(60_000, 200),
        };
        LinkConfig::new(spec, seed(number), "link")
    }
}

/// The seeds of scenarios begin at 1.
pub(crate) fn seed(number: u32) -> u64 {
    u64::from(number) + 1
}
