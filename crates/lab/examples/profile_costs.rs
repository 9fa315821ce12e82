//! Costs of the transmission profiles beside default CoAP and the recommendation of `carob lab compare`,
//! as a page of Markdown; `cargo xtask long profile-costs` keeps it.
#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::process::ExitCode;

use carob_cc::TransmissionProfile;
use carob_lab::compare::profiles::judge;
use carob_lab::compare::{CompareError, Configuration, Cost, Link, TRAFFIC, Traffic};

const ABOUT: &str = "\
# Transmission profiles by the cost of comparisons

For those who choose between a profile and a recommendation. Prerequisite: [profiles](../../../docs/profiles.md) and
[the cost](../../../docs/compare.md#cost). Written by `cargo xtask long profile-costs`.

Each profile runs on the built-in link of its name, for each traffic, with one device and with ten, beside default CoAP and the
recommendation of `carob lab compare`. Costs are beside default CoAP, with 95 % intervals over paired fresh seeds; the last column is the
cost of the profile beside that of the recommendation. In a profile NSTART is 1.

The profiles are not changed by this table: scenarios with fixed trace hashes use them. Where the last column but one is above 1, the
recommendation is the better choice on that link.

| profile | traffic | devices | profile is | cost | recommended | cost | profile beside recommendation | seeds |
|---|---|---:|---|---:|---|---:|---:|---:|";

fn main() -> ExitCode {
    println!("{ABOUT}");
    for profile in TransmissionProfile::ALL {
        for (traffic, ..) in TRAFFIC {
            for clients in [1, 10] {
                if let Err(error) = row(profile, traffic, clients) {
                    eprintln!("error: {error}");
                    return ExitCode::from(2);
                }
            }
        }
    }
    ExitCode::SUCCESS
}

fn row(profile: TransmissionProfile, name: &str, clients: u32) -> Result<(), CompareError> {
    let link = Link::built_in(profile.name()).expect("each profile has a link of its name");
    let mut traffic = Traffic::named(name).expect("it is in the table");
    traffic.clients = clients;
    let found = judge(profile, &link, &traffic, &|_| {})?;
    let settings = |one: &Configuration| {
        let settings = one.settings(traffic.is_blockwise());
        format!("{}, {settings}", one.controller).replace(", -", "")
    };
    println!(
        "| {profile} | {name} | {clients} | {} | {} | {} | {} | {} | {} |",
        settings(&found.configuration),
        interval(&found.cost),
        settings(&found.recommended),
        interval(&found.recommended_cost),
        interval(&found.ratio),
        found.seeds,
    );
    Ok(())
}

fn interval(cost: &Cost) -> String {
    format!("{:.2} ({:.2} to {:.2})", cost.value, cost.low, cost.high)
}
