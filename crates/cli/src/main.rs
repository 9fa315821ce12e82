//! The `carob` command, with the controllers of `carob-cc`.

use std::process::ExitCode;

fn main() -> ExitCode {
    carob_cli::main(carob_cli::Registry::BUILT_IN)
}
