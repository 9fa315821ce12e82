//! Carob's modelled links in real time, under the kernel's own TCP and UDP.
//!
//! Two network namespaces, one for servers and one for clients, are joined by links. Each end of
//! a link is a TUN device; every packet the kernel sends through it goes to *the simulator's link
//! model* ([`carob_sim::link::Direction::offer`]), with the same seeds and labels, and is handed
//! to the other end when the model says. So the kernel's TCP, and `carob`'s own UDP, meet
//! the link that simulated flows meet.
//!
//! It needs Linux and rights ([`check`] says which are missing). Namespaces have no names, devices
//! live as long as their descriptors, and the one program given to the kernel as long as its own:
//! however this one ends, nothing is left behind.
//!
//! Reading order: `namespace` (where), `tun` and `netlink` (the devices), `engine` (the packets'
//! way), `kernel` and `bpf` (how TCP is set, and what cannot be), `emulator` (all together),
//! `flow` (what runs on top).
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
//! let link = LinkConfig { spec: LinkSpec { down, up }, seed: 1, label: "link".into() };
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
mod lateness;
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
mod netlink;
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
pub use lateness::{LATENESS_P99_MAX, Lateness};
pub use report::{Item, Report, Setting};

#[cfg(target_os = "linux")]
pub use capture::{CAPTURE_QUEUE_PACKETS, Captured};
#[cfg(target_os = "linux")]
pub use emulator::{Config, EmulatedLink, Emulator, LINKS_MAX, LinkConfig, Outcome};
#[cfg(target_os = "linux")]
pub use engine::{Side, UNDER_WAY_MAX};
#[cfg(target_os = "linux")]
pub use namespace::Namespace;
#[cfg(target_os = "linux")]
pub use tun::DEVICE_QUEUE_PACKETS;

/// What this machine has of what the emulator needs. Nothing it tries outlives the call.
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
