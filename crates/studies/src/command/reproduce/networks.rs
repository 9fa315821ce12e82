//! `carob-studies reproduce cocoaplus`: means over wireless networks, and the order of algorithms.

use std::fmt::Write as _;
use std::time::Instant;

use carob_cli::parts::{Failure, Kind, Outcome, json_lines, raw, say, say_table, with_progress};
use carob_lab::published::Study;

use super::super::args::ReproduceArgs;
use super::super::{keep, say_origin};
use crate::papers::{self, PublishedMean};
use crate::reproduce::networks::{
    self, MeasureError, NETWORK_SEEDS, NetworkComparison, NetworkRuns, printed_tables,
};

pub(super) fn run(study: &Study, args: &ReproduceArgs) -> Result<Outcome, Failure> {
    let began = Instant::now();
    let published = papers::cocoaplus_means();
    let fresh = args.fresh || args.seeds.is_some() || args.keep.is_some() || !args.set.is_empty();
    let measured = if fresh {
        compute(args, &published)?
    } else {
        NetworkRuns::stored()
    };
    let stale = if fresh || args.json || args.markdown {
        Vec::new()
    } else {
        measured.stale(&published)
    };
    if let Some(file) = &args.keep {
        keep(file, &measured.to_json())?;
    }
    let comparisons = networks::compare(&published, &measured);
    if args.markdown {
        raw(document(study, &measured, &comparisons).trim_end());
        return Ok(Outcome::Done);
    }
    if args.json {
        json_lines(comparisons.iter().flat_map(NetworkComparison::to_json));
    } else {
        super::say_study(study);
        let of = format!("{} seeds", measured.seeds);
        say_origin(&of, fresh.then_some(began), &measured.version, &stale);
        for (table, about) in printed_tables(&comparisons) {
            say(format_args!("\nTable {table}, {about}"));
            say_table(&networks::means(&comparisons, table), 0);
            say("");
            say_table(&networks::verdicts(&comparisons, table), 0);
            say("");
            say(networks::summary(&comparisons, table));
        }
        say("");
    }
    Ok(Outcome::Done)
}

fn compute(args: &ReproduceArgs, published: &[PublishedMean]) -> Result<NetworkRuns, Failure> {
    let seeds = args.seeds.unwrap_or(NETWORK_SEEDS);
    let measured = with_progress(args.threads, |progress| {
        NetworkRuns::compute(published, &args.set, seeds, progress)
    })?;
    measured.map_err(|why| match why {
        MeasureError::Set(error) => Failure::new(Kind::Usage, error),
        MeasureError::Run(impossible) => Failure::new(Kind::Usage, impossible),
    })
}

/// The document papers/cocoaplus/reproduction.md.
fn document(study: &Study, measured: &NetworkRuns, comparisons: &[NetworkComparison]) -> String {
    let mut text = format!(
        "\
{begin} Measured: {scenarios}, {seeds} seeds per cell and algorithm, each seed with the same
network and traffic for all three. The publication has 8 runs of each. Values are means with their 95 % intervals. A gap is the
difference to default CoAP over default CoAP.

Absolute values depend on what the study leaves open, so verdicts are about the order of the three. A measured order is known (`>`)
where the 95 % interval of paired differences excludes 0, else not (`~`). A row *holds* if all three pairs are as published, and
*holds-partly* if CoCoA+ and default CoAP are. It *fails* if these are the other way round, and is *undecided* if they cannot be
distinguished. The causes are in [README.md](README.md).
",
        begin = super::begin(study, &measured.command),
        scenarios = listed(measured),
        seeds = measured.seeds,
    );
    for (table, about) in printed_tables(comparisons) {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n## Table {table}: {about}\n\n{}\n\n{}\n{}",
            networks::summary(comparisons, table),
            networks::verdicts(comparisons, table).markdown(),
            networks::means(comparisons, table).markdown(),
        );
    }
    text
}

fn listed(measured: &NetworkRuns) -> String {
    let names: Vec<&str> = measured
        .scenario_hashes
        .keys()
        .map(String::as_str)
        .collect();
    names.join(" and ")
}
