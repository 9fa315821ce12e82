//! `carob lab reproduce`.

mod networks;

use std::time::Instant;

use carob_lab::published::Study;
use carob_lab::statistics::Statistic;
use carob_studies::comparison::{self, Comparison};
use carob_studies::papers;
use carob_studies::reproduce::{self, MeasuredRuns, SEEDS};

use super::output::{self, json_lines, raw, say, say_table};
use crate::args::lab::ReproduceArgs;
use crate::failure::{Failure, Kind, Outcome};

/// Studies whose tables can be compared so far.
const COMPARABLE: [&str; 2] = ["thesis", "cocoaplus"];

pub(super) fn run(args: &ReproduceArgs) -> Result<Outcome, Failure> {
    let Some(study) = papers::study(&args.study) else {
        return Err(unknown(&args.study));
    };
    if !COMPARABLE.contains(&args.study.as_str()) {
        let citation = study.citation();
        let message = format!("{citation} ({}) prints no table of results", args.study);
        return Err(Failure::new(Kind::Usage, message)
            .hint(format_args!("there are: {}", COMPARABLE.join(", "))));
    }
    if args.study == "cocoaplus" {
        return networks::run(&study, args);
    }
    if !args.set.is_empty() {
        let message = "tables of completion times are compared with the scenario as it is";
        return Err(Failure::new(Kind::Usage, message)
            .hint("carob lab run thesis/long --set KEY=VALUE runs it with other settings"));
    }
    let began = Instant::now();
    let fresh = args.fresh || args.seeds.is_some() || args.keep.is_some();
    let measured = if fresh {
        compute(args)?
    } else {
        MeasuredRuns::stored()
    };
    let stale = if fresh { Vec::new() } else { measured.stale() };
    if let Some(file) = &args.keep {
        output::write(file, &measured.to_json()).map_err(|e| Failure::file("write", file, &e))?;
    }
    let comparisons = reproduce::compare(&measured.rows);
    if args.markdown {
        raw(document(&study, &measured, &comparisons).trim_end());
        return Ok(Outcome::Done);
    }
    if args.json {
        json_lines(comparisons.iter().map(Comparison::to_json));
    } else {
        let origin = if fresh {
            format!("run in {}", output::took(began.elapsed()))
        } else {
            format!(
                "kept results of version {}; --fresh runs them again",
                measured.version
            )
        };
        say(format_args!(
            "{}: \"{}\", {}",
            study.authors.join(", "),
            study.title,
            study.year
        ));
        say(format_args!(
            "{}, {} seeds, {origin}",
            measured.scenario, measured.seeds
        ));
        for why in &stale {
            say(format_args!("STALE: {why}; --fresh computes anew"));
        }
        tell(&comparisons);
    }
    Ok(Outcome::Done)
}

fn compute(args: &ReproduceArgs) -> Result<MeasuredRuns, Failure> {
    let seeds = args.seeds.unwrap_or(SEEDS);
    let measured = output::with_progress(args.threads, |progress| {
        MeasuredRuns::compute(seeds, progress)
    })?;
    measured.map_err(|e| Failure::new(Kind::Usage, e))
}

fn tell(comparisons: &[Comparison]) {
    let of_medians =
        comparison::tally(comparisons.iter().filter(|c| c.statistic == Statistic::P50));
    let all = comparison::tally(comparisons);
    say("\nMedians of flow completion time");
    say_table(&reproduce::medians(comparisons), 0);
    say("");
    say("Interpretations of what the study leaves open, medians");
    say_table(&reproduce::readings(comparisons), 0);
    say("");
    for sentence in reproduce::nearer(comparisons) {
        say(sentence);
    }
    say("\nAll published statistics, measured over published (✗: outside its tolerance)");
    say_table(&reproduce::all_statistics(comparisons), 0);
    say("");
    say(format_args!(
        "{} of {} medians hold, {} of {} values (tolerances: papers/thesis/tolerances.toml).",
        of_medians.holds, of_medians.run, all.holds, all.run
    ));
    say(
        "\nTwo verdicts by table: by the rule's own tolerance, and within 10 % of the published value",
    );
    say_table(&reproduce::by_table(comparisons), 0);
    say("");
    for remark in reproduce::remarks(comparisons) {
        say(format_args!("Note: {remark}"));
    }
    let not_run = reproduce::not_run(comparisons);
    if !not_run.is_empty() {
        say("\nUndecided, since not run");
        for line in not_run {
            say(format_args!("  {line}"));
        }
    }
    say("");
}

/// The document papers/thesis/reproduction.md.
fn document(study: &Study, measured: &MeasuredRuns, comparisons: &[Comparison]) -> String {
    let medians = comparisons.iter().filter(|c| c.statistic == Statistic::P50);
    let (of_medians, all) = (comparison::tally(medians), comparison::tally(comparisons));
    let readings: Vec<String> = reproduce::thesis_readings()
        .into_iter()
        .map(|r| format!("`{}`: {}", comparison::label(&r.algorithm, &r.set), r.about))
        .chain(reproduce::nearer(comparisons))
        .collect();
    let not_run: Vec<String> = reproduce::not_run(comparisons)
        .into_iter()
        .map(|line| format!("- {line}\n"))
        .collect();
    let not_run = match &not_run[..] {
        [] => String::new(),
        lines => format!("## Not run\n\n{}", lines.concat()),
    };
    let remarks: Vec<String> = reproduce::remarks(comparisons)
        .into_iter()
        .map(|remark| format!("- {remark}\n"))
        .collect();
    format!(
        "\
# {citation}: published and measured

Generated by `carob lab reproduce {name} --markdown`; `cargo xtask generate` rewrites it. The runs behind it were made by
`{command}` and are kept in the program; a test checks that it would make the same runs today.

{authors}: \"{title}\", {venue}, {year}. Measured: {scenario}, {seeds} seeds per cell and algorithm. Of the medians {median_holds}
of {median_run} are within tolerance, of all published values {holds} of {run}. The study states no tolerances; those used are in
[tolerances.toml](tolerances.toml). Box plots of all cells are in [figures.md](figures.md).

## Two verdicts by table

All published values of the profiles as they are: within the tolerance of their rule, within 10 % of the published value, and the tolerance at which half
of them hold.

{by_table}
## Medians of flow completion time

{medians}
{remarks}
## Interpretations of what the study leaves open

{explained}

{readings}
## All published statistics

Measured over published. A cross marks a ratio outside its tolerance.

{statistics}
{not_run}",
        citation = study.citation(),
        name = study.short_name,
        command = measured.command,
        authors = study.authors.join(", "),
        title = study.title,
        venue = study.venue,
        year = study.year,
        scenario = measured.scenario,
        seeds = measured.seeds,
        median_holds = of_medians.holds,
        median_run = of_medians.run,
        holds = all.holds,
        run = all.run,
        by_table = reproduce::by_table(comparisons).markdown(),
        medians = reproduce::medians(comparisons).markdown(),
        explained = readings.join("\n\n"),
        readings = reproduce::readings(comparisons).markdown(),
        statistics = reproduce::all_statistics(comparisons).markdown(),
        remarks = remarks.concat(),
    )
}

pub(super) fn unknown(name: &str) -> Failure {
    let names: Vec<String> = papers::studies().map(|s| s.short_name).collect();
    Failure::new(Kind::Usage, format_args!("unknown study \"{name}\""))
        .hint(format_args!("there are: {}", names.join(", ")))
}
