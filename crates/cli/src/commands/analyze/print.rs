//! The analysis for people: findings first, then tables.

use carob_analyze::{Analysis, Fitted, FlowReport, Quantiles};
use carob_lab::compare::controllers;
use carob_lab::text::TextTable;

use crate::args::AnalyzeArgs;
use crate::commands::lab::output::{quoted, say, say_table};
use crate::printer;

/// Rows of the tables of peers and transfers.
const ROWS_MAX: usize = 10;

pub(super) fn show(args: &AnalyzeArgs, analysis: &Analysis) {
    for (place, sentence) in analysis.findings().iter().enumerate() {
        if place == 0 {
            printer::strong(sentence);
        } else {
            say(sentence);
        }
    }
    let unknowns = analysis.unknowns();
    if !unknowns.is_empty() {
        say("\nNot known from this capture:");
        for sentence in &unknowns {
            say(format_args!("- {sentence}"));
        }
    }
    for (title, table) in [
        ("Round trips and times in seconds:", times(analysis)),
        ("Peers with the most exchanges:", peers(analysis)),
        ("Block-wise transfers:", transfers(analysis)),
    ] {
        if !table.is_empty() {
            say(format_args!("\n{title}"));
            say_table(&table, 0);
        }
    }
    show_controllers(args, analysis);
    show_link(analysis);
    next(args, analysis);
}

/// Microseconds in seconds, with three digits.
fn seconds(us: u64) -> String {
    let value = us as f64 / 1e6;
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        0.1.. => format!("{value:.3}"),
        0.01.. => format!("{value:.4}"),
        _ => format!("{value:.5}"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn times(analysis: &Analysis) -> TextTable {
    let mut table = TextTable::new([
        "time", ">count", ">min", ">median", ">p90", ">p95", ">p99", ">max",
    ]);
    let mut add = |name: &str, times: Option<Quantiles>| {
        let Some(times) = times.filter(|times| times.count > 0) else {
            return;
        };
        let values = [
            times.min_us,
            times.p50_us,
            times.p90_us,
            times.p95_us,
            times.p99_us,
            times.max_us,
        ];
        let mut row = vec![name.to_owned(), times.count.to_string()];
        row.extend(values.map(seconds));
        table.add(row);
    };
    for (flow, name) in [
        (&analysis.requests, "request"),
        (&analysis.responses, "response"),
    ] {
        add(&format!("{name}: round trip"), flow.round_trip);
        if flow.unambiguous != flow.round_trip {
            add(&format!("{name}: one transmission"), flow.unambiguous);
        }
        add(&format!("{name}: in NON"), flow.unconfirmed);
        add(&format!("{name}: peer's time"), flow.server_time);
    }
    add(
        "between notifications",
        Some(analysis.observations.interval),
    );
    add("pause of 1 s or more", Some(analysis.idle));
    table
}

fn peers(analysis: &Analysis) -> TextTable {
    let mut table = TextTable::new([
        "client",
        "server",
        ">exchanges",
        ">median s",
        ">repeated",
        ">spurious",
    ]);
    if analysis.peers.len() < 2 {
        return table;
    }
    for row in analysis.peers.iter().take(ROWS_MAX) {
        let sum = |of: fn(&FlowReport) -> u64| of(&row.requests) + of(&row.responses);
        let spurious = row
            .requests
            .spurious
            .map(|n| n + row.responses.spurious.unwrap_or(0));
        let trips = row.requests.round_trip.or(row.responses.round_trip);
        let none = || "-".to_owned();
        table.add(vec![
            row.client.to_string(),
            row.server.to_string(),
            sum(|flow| flow.exchanges).to_string(),
            trips.map_or_else(none, |trips| seconds(trips.p50_us)),
            sum(|flow| flow.retransmissions).to_string(),
            spurious.map_or_else(none, |n| n.to_string()),
        ]);
    }
    let more = analysis.peer_count.saturating_sub(ROWS_MAX as u64);
    if more > 0 {
        table.add_note(&format!(
            "{more} more: --json has up to {}.",
            carob_analyze::PEERS_LISTED
        ));
    }
    table
}

fn transfers(analysis: &Analysis) -> TextTable {
    let mut table = TextTable::new([
        "direction",
        ">bytes",
        ">blocks",
        ">block B",
        ">took s",
        ">B/s",
        ">repeated",
    ]);
    let listed = &analysis.transfers.listed;
    for one in listed.iter().take(ROWS_MAX) {
        let way = if one.is_upload { "upload" } else { "download" };
        let whole = if one.is_complete { "" } else { ", incomplete" };
        table.add(vec![
            format!("{way}{whole}"),
            one.bytes.to_string(),
            one.blocks.to_string(),
            one.block_bytes.to_string(),
            seconds(one.took_us),
            one.goodput().to_string(),
            one.retransmissions.to_string(),
        ]);
    }
    let count = analysis.transfers.complete + analysis.transfers.incomplete;
    let more = count.saturating_sub(ROWS_MAX as u64);
    if more > 0 {
        table.add_note(&format!("{more} more: --json has them."));
    }
    table
}

/// The table of controllers; those unfit for use only with `all`.
pub(super) fn controller_table(analysis: &Analysis, all: bool) -> TextTable {
    let mut columns = vec![
        "controller",
        ">mean s",
        ">median s",
        ">p95 s",
        ">too short",
        ">loss waits s",
    ];
    if analysis
        .controllers
        .iter()
        .all(|one| one.lost_wait_us.is_none())
    {
        columns.pop();
    }
    let mut table = TextTable::new(&columns);
    let fit = controllers();
    for one in &analysis.controllers {
        if !all && !fit.contains(&one.name) {
            continue;
        }
        let none = || "-".to_owned();
        // Without losses there is no last column, and its cell is dropped.
        table.add(vec![
            one.name.to_owned(),
            seconds(one.timeout.mean_us),
            seconds(one.timeout.p50_us),
            seconds(one.timeout.p95_us),
            one.spurious.map_or_else(none, percent),
            one.lost_wait_us.map_or_else(none, seconds),
        ]);
    }
    table
}

fn show_controllers(args: &AnalyzeArgs, analysis: &Analysis) {
    let table = controller_table(analysis, args.all);
    if table.is_empty() {
        return;
    }
    say("\nFirst timeouts that each controller would have set:");
    say_table(&table, 0);
    say(
        "too short: share of answered first transmissions whose answer came after the timeout, so \
         that a retransmission would have been spurious.",
    );
    if analysis
        .controllers
        .iter()
        .any(|one| one.lost_wait_us.is_some())
    {
        say("loss waits: mean timeout of exchanges whose first transmission was lost.");
    }
}

fn rate(bps: f64) -> String {
    match bps {
        1e6.. => format!("{:.2} Mbit/s", bps / 1e6),
        1e3.. => format!("{:.1} kbit/s", bps / 1e3),
        _ => format!("{bps:.0} bit/s"),
    }
}

/// The values of the fitted link.
pub(super) fn link_table(analysis: &Analysis) -> TextTable {
    let mut table = TextTable::new(["link", "value", "certainty"]);
    let Some(link) = &analysis.link else {
        return table;
    };
    let mut add = |name: &str, value: String, fitted: &Fitted| {
        table.add(vec![name.to_owned(), value, fitted.certainty.to_string()]);
    };
    let time = |fitted: &Fitted| format!("{:.1} ms", fitted.value / 1e3);
    add("down", rate(link.down_bps.value), &link.down_bps);
    add("up", rate(link.up_bps.value), &link.up_bps);
    add("round trip", time(&link.rtt_us), &link.rtt_us);
    add("jitter each way", time(&link.jitter_us), &link.jitter_us);
    add("loss each way", percent(link.loss.value), &link.loss);
    if let Some(burst) = &link.loss_burst {
        add(
            "run of losses",
            format!("{:.1} packets", burst.value),
            burst,
        );
    }
    if let Some(buffer) = &link.buffer_bytes {
        add("buffer, at least", format!("{:.0} B", buffer.value), buffer);
    }
    add("MTU", format!("{:.0} B", link.mtu.value), &link.mtu);
    table
}

fn show_link(analysis: &Analysis) {
    let table = link_table(analysis);
    if let Some(link) = analysis.link.as_ref().filter(|_| !table.is_empty()) {
        say(format_args!(
            "\nThe link, fitted to {} round trips:",
            link.round_trips
        ));
        say_table(&table, 0);
    }
}

/// Prints what may be run next.
fn next(args: &AnalyzeArgs, analysis: &Analysis) {
    let Some(file) = args.files.first().filter(|_| analysis.link.is_some()) else {
        return;
    };
    let file = quoted(&file.display().to_string());
    say("\nNext:");
    say(format_args!(
        "  carob lab compare --link {file}\n      which controller for this link"
    ));
    if args.link_file.is_none() {
        say(format_args!(
            "  carob analyze {file} --link-file link.toml\n      the link as a file, with the origin of each value"
        ));
    }
}
