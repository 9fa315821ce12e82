//! Reports of the studies: published values beside measured ones, and runs that a text explains.

mod explained;
mod network_reproduction;
mod published;
mod reproduction;

pub use explained::{Drawn, Explained, READING, explained, explained_figure};
pub use network_reproduction::network_reproduction;
pub use published::completion_times;
pub use reproduction::reproduction;
