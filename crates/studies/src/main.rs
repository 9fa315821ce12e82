//! The program `carob-studies`, with the controllers of `carob-cc`.

use std::process::ExitCode;

fn main() -> ExitCode {
    carob_studies::main(carob_cli::Registry::BUILT_IN)
}
