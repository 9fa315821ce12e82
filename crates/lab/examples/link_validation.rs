//! Link models compared with measurements, as comma-separated values; `cargo xtask long links` stores them. Arguments are
//! folders with traces that are not in the repository.
#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::path::Path;
use std::process::ExitCode;

use carob_lab::link_validation::quantities;

fn main() -> ExitCode {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("links/measured");
    let folder = std::env::args().nth(1).map(std::path::PathBuf::from);
    match quantities(Some(&folder.unwrap_or(shipped)), |_| true) {
        Ok(all) => {
            println!("link,model,quantity,unit,measured,model_value,trace_value");
            for one in all {
                let traced = one
                    .traced
                    .map_or(String::new(), |value| format!("{value:.5}"));
                println!(
                    "{},{},{},{},{},{:.5},{traced}",
                    one.link, one.model, one.name, one.unit, one.measured, one.modelled
                );
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
