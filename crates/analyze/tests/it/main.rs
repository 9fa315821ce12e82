//! Analyses of captures whose ground truth is known.

mod captures;
mod damaged;
mod exchanges;
mod interfaces;
mod packets;
mod sixlowpan;
mod traffic;
