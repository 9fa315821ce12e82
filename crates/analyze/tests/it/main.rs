//! Analyses of captures of which the truth is known.

mod damaged;
mod exchanges;
mod links;
mod logs;
mod traffic;
