//! Deterministic model of IEEE 802.15.4 mesh networks: radio, MAC, 6LoWPAN and RPL.
//!
//! A [`Mesh`] carries datagrams between nodes and reads none of them. It reads no clock and draws
//! only from streams of its seed. A [`Simulator`] passes it events at their times.
//!
//! The study notes cited by scenario files describe the model and the assumptions that change
//! results most. Every choice among interpretations of a source is a setting of [`spec`].
//!
//! Reading order: [`spec`] (specification), [`record`] (results), [`topology`] (positions and
//! roles), [`radio`] (medium and MAC), [`rpl`] (parents and routes), [`lowpan`] (headers and
//! fragments), `ipv6` (packets and routes over all that), `mesh` (events), `idle` (a mesh without
//! traffic).
//!
//! ```
//! use carob_mesh::spec::MeshSpec;
//!
//! // The default: a grid of 6 x 6 nodes with the root in a corner.
//! let spec = MeshSpec::default();
//! let idle = carob_mesh::idle_network(&spec, 1)?;
//! assert_eq!(idle.hops[usize::from(idle.topology.root)], Some(0));
//! assert!(idle.parents.iter().flatten().count() > 30);
//! # Ok::<(), carob_mesh::ConfigError>(())
//! ```

mod config_error;
mod idle;
mod ipv6;
pub mod lowpan;
mod mesh;
pub mod radio;
pub mod record;
mod routing;
pub mod rpl;
pub mod spec;
pub mod topology;

pub use config_error::{BINS_MAX, ConfigError, DURATION_MAX, NO_ROUTE_MAX};
pub use idle::{IdleNetwork, idle_network};
pub use mesh::{Body, Event, Mesh, Simulator};
pub use record::Counts;

/// A node of a network, numbered from 0.
pub type Node = u16;

/// The maximum number of nodes of a network.
pub const NODES_MAX: usize = 4_096;
