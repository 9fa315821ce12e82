//! Real-time emulation of Carob's modelled links, under the kernel's own TCP and UDP.
//!
//! Two network namespaces, one for servers and one for clients, are joined by links. Each end of a
//! link is a TUN device. Every packet the kernel sends through it goes to *the simulator's link
//! model* ([`carob_sim::link::Direction::offer`], [`carob_sim::link::Devices::cross`]), with the same seeds and labels, and is delivered
//! to the other end at the model's time. So the kernel's TCP, and `carob`'s own UDP, use the same
//! link as simulated flows.
//!
//! Requirements: Linux and privileges ([`check`] lists missing ones). Namespaces have no names, and
//! devices and the BPF program live as long as their descriptors: nothing is left behind however
//! the process ends.
//!
//! Reading order: `namespace` and `tun` (devices), `port` and `engine` (packets), `kernel` and
//! `bpf` (TCP settings), `emulator` (all together), `flow` (sockets).
//!
//! ```no_run
//! # #[cfg(target_os = "linux")]
//! # fn example() -> Result<(), carob_emu::Error> {
//! use carob_emu::{Config, Emulator, LinkConfig};
//! use carob_sim::link::{DirectionSpec, LinkSpec};
//! use std::time::Duration;
//!
//! let down = DirectionSpec::new(30_000, 2_500);
//! let up = DirectionSpec::new(60_000, 2_500);
//! let link = LinkConfig::new(LinkSpec { down, up }, 1, "link");
//! let emulator = Emulator::start(&Config::thesis(vec![link]))?;
//! let listener = emulator.link(0).listen(5683, "reno")?;
//! let client = emulator.link(0).connect(5683, "reno", Duration::from_secs(60))?;
//! // ... any code that uses sockets ...
//! # drop((listener, client));
//! println!("{}", emulator.finish()?.lateness);
//! # Ok(())
//! # }
//! ```

// A driver: it reads the clock, as the engine below it does not.
#![allow(clippy::disallowed_methods)]

mod error;
mod report;

#[cfg(target_os = "linux")]
mod bpf;
#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod check;
#[cfg(target_os = "linux")]
mod emulator;
#[cfg(target_os = "linux")]
mod engine;
#[cfg(target_os = "linux")]
pub mod flow;
#[cfg(target_os = "linux")]
pub mod kernel;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod packet;
mod port;
#[cfg(target_os = "linux")]
mod realtime;
#[cfg(target_os = "linux")]
pub mod runs;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(all(test, target_os = "linux"))]
mod testing;
#[cfg(target_os = "linux")]
mod tun;

pub use error::{Error, Refusal};
pub use report::{Item, Report, Setting};
pub use report::{LATENESS_P99_MAX, Lateness};

#[cfg(target_os = "linux")]
pub use capture::{CAPTURE_QUEUE_PACKETS, Captured};
#[cfg(target_os = "linux")]
pub use emulator::{Config, EmulatedLink, Emulator, LINKS_MAX, LinkConfig, Outcome};
#[cfg(target_os = "linux")]
pub use engine::{IN_FLIGHT_MAX, Side};
#[cfg(target_os = "linux")]
pub use namespace::Namespace;
#[cfg(target_os = "linux")]
pub use tun::DEVICE_QUEUE_PACKETS;

/// Checks this machine for the emulator's requirements. Nothing it tries outlives the call.
pub fn check() -> Report {
    #[cfg(target_os = "linux")]
    let report = check::check();
    #[cfg(not(target_os = "linux"))]
    let report = Report {
        items: vec![Item {
            what: "Linux",
            required: true,
            missing: Some("links are emulated with Linux's TUN devices and namespaces".into()),
        }],
    };
    report
}
