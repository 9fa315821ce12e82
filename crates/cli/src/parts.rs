//! Parts of the command for another program with commands of the lab, such as `carob-studies`.

#[cfg(feature = "emulate")]
pub use crate::args::lab::EmulateArgs;
pub use crate::args::lab::{RunArgs, SweepArgs, ThreadArgs};
pub use crate::args::{ColorArgs, SetupCommand, at_least_one, with_long_help};
#[cfg(feature = "emulate")]
pub use crate::commands::lab::emulate::run as emulate;
pub use crate::commands::lab::output::{
    json_lines, progress, quoted, raw, say, say_table, took, with_progress, with_threads, write,
};
pub use crate::commands::lab::run::run;
pub use crate::commands::lab::source::read_file;
pub use crate::commands::lab::sweep::{Rows, wrong as wrong_sweep};
pub use crate::commands::manual::run as setup;
pub use crate::failure::{Failure, Kind, Outcome};
pub use crate::program::{Program, registry};
