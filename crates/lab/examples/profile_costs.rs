//! Costs of the transmission profiles compared with default CoAP and with the recommendation of `carob lab compare`, as
//! Markdown; `cargo xtask long profile-costs` stores the page. With the name of a profile, prints its rows only.
#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::process::ExitCode;

use carob_cc::TransmissionProfile;
use carob_lab::compare::profiles::{judge, variants};
use carob_lab::compare::{CompareError, Configuration, Cost, Link, TRAFFIC, Traffic};

const ABOUT: &str = "\
# Transmission profiles by the cost of comparisons

For those who choose between a profile and a recommendation. Prerequisite: profiles (`carob profiles`) and
[the cost](../../../docs/compare.md#cost). Written by `cargo xtask long profile-costs`.

Each profile runs on the built-in link of its name, for each traffic, with one device and with ten, beside default CoAP and the
recommendation of `carob lab compare`. Costs are beside default CoAP, with 95 % intervals over paired fresh seeds; the last column is the
cost of the profile beside that of the recommendation. In a profile NSTART is 1.

Block sizes of profiles follow the second table. Controllers and timers do not: a profile is for all traffic of a link, and scenarios with
fixed trace hashes use them. Where the last column but one is above 1, the recommendation is the better choice on that link.

| profile | traffic | devices | profile is | cost | recommended | cost | profile beside recommendation | seeds |
|---|---|---:|---|---:|---|---:|---:|---:|";

const VARIANTS: &str = "
## Downloads with other block sizes

Each profile with its own controller and with `carob`, and with three block sizes, for one device, for ten, and for one at four times
the round-trip time: costs beside default CoAP with the largest block. Mesh frames hold blocks of 64 B at most, so `thread` is left out.

| profile | controller | block | 1 device | 10 devices | 1 device, four times the round trip |
|---|---|---:|---:|---:|---:|";

fn main() -> ExitCode {
    println!("{ABOUT}");
    match tables() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Prints all tables, or the rows of the named profile.
fn tables() -> Result<(), CompareError> {
    let named = std::env::args().nth(1);
    let is_wanted = |profile: &TransmissionProfile| {
        let named = named.as_ref();
        named.is_none_or(|name| name == profile.name())
    };
    let profiles = || TransmissionProfile::ALL.into_iter().filter(is_wanted);
    for profile in profiles() {
        for (traffic, ..) in TRAFFIC {
            for clients in [1, 10] {
                row(profile, traffic, clients)?;
            }
        }
    }
    println!("{VARIANTS}");
    for profile in profiles() {
        variant_rows(profile)?;
    }
    Ok(())
}

/// Prints one row per alternative block size and controller.
fn variant_rows(profile: TransmissionProfile) -> Result<(), CompareError> {
    if profile == TransmissionProfile::Thread {
        return Ok(());
    }
    let link = Link::built_in(profile.name()).expect("each profile has a link of its name");
    let of = |clients, times: u64| {
        let mut traffic = Traffic::named("firmware").expect("it is in the table");
        traffic.clients = clients;
        let mut link = link.clone();
        link.rtt_us *= times;
        variants(profile, &link, &traffic, &|_| {})
    };
    let (one, ten, far) = (of(1, 1)?, of(10, 1)?, of(1, 4)?);
    for ((one, ten), far) in one.iter().zip(&ten).zip(&far) {
        let (configuration, cost) = one;
        println!(
            "| {profile} | {} | {} B | {} | {} | {} |",
            configuration.controller,
            configuration.block,
            interval(cost),
            interval(&ten.1),
            interval(&far.1)
        );
    }
    Ok(())
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
