//! IEEE 802.15.4 mesh networks: radio, MAC, 6LoWPAN, RPL, and on each node an endpoint of the stack.
//!
//! What is modelled, and what of it changes results most, is in the study notes that scenario files
//! cite; every choice among readings of a source is a setting of [`spec`].
//!
//! Reading order: [`spec`] (what a network is told), [`record`] (what it tells), [`topology`]
//! (where nodes are, and who does what), [`air`] (radio and MAC), [`lowpan`] (what packets are in
//! frames), [`rpl`] (who sends to whom).

pub mod air;
pub mod lowpan;
pub mod record;
pub mod rpl;
pub mod spec;
pub mod topology;

/// A node of a network, numbered from 0.
pub type Node = u16;

/// The most nodes a network may have.
pub const NODES_MAX: usize = 4_096;
