//! One large answer over the thesis's link, by the kernel's TCP and by `carob` over UDP.
//!
//! ```text
//! cargo run --release -p carob-emu --example kernel_transfer -- --error none,low --csv flows.csv
//! ```
//!
//! Every cell of the thesis's long-lived transfers (error x buffer x congestion control x clients
//! a link) gets a number of links, and all links run at once. A client connects, sends 20 bytes
//! and is sent 102,408, a CoAP message of 102,400 bytes of payload over TCP (`papers/thesis`,
//! Tables 6 to 11); over UDP it gets a resource of 102,400 bytes in 400 blocks. Completion times
//! are from the request's first byte sent to the answer's last byte read.
//!
//! Needs Linux and root, and as long as the slowest flow takes: 5 minutes without errors and with
//! low error, BBR with the smallest buffer and high error longer.

#![cfg_attr(
    target_os = "linux",
    allow(clippy::disallowed_methods, clippy::print_stdout)
)]

#[cfg(target_os = "linux")]
mod cells;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod tcp;
#[cfg(target_os = "linux")]
mod udp;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("{}", carob_emu::check());
    std::process::exit(1);
}
