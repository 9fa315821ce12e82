//! `carob-studies claims`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Instant;

use carob_cli::parts::{
    Failure, Kind, Outcome, json_lines, quoted, raw, say, say_table, with_progress,
};
use carob_lab::quantity::{Making, Reference};
use carob_lab::scenario::builtin;
use carob_lab::text::TextTable;
use serde_json::json;

use super::args::ClaimsArgs;
use super::claims_index::{self, StudyVerdicts};
use super::{keep, say_origin};
use crate::claims::{
    self, ClaimStatus, ClaimStatuses, Judged, Judgement, Part, StoredVerdicts, Verdict, rule,
};
use crate::papers;

/// Columns of a claim's text on a terminal.
const CLAIM: usize = 60;
const MEASURED: usize = 44;

pub(super) fn run(args: &ClaimsArgs) -> Result<Outcome, Failure> {
    let studies: Vec<String> = match &args.study {
        Some(name) => vec![name.clone()],
        None => papers::studies().map(|s| s.short_name).collect(),
    };
    if let Some(unknown) = studies.iter().find(|name| papers::study(name).is_none()) {
        return Err(super::reproduce::unknown(unknown));
    }
    let parts: Vec<&Part> = studies.iter().flat_map(|study| Part::of(study)).collect();
    let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
    let wanted = |part: &&&Part| args.part.as_ref().is_none_or(|name| name == part.name);
    let parts: Vec<&Part> = parts.iter().filter(wanted).copied().collect();
    if parts.is_empty() {
        let text = "there is no such part";
        return Err(
            Failure::new(Kind::Usage, text).hint(format_args!("there are: {}", names.join(", ")))
        );
    }
    let studies = || parts.chunk_by(|a, b| a.study == b.study);
    if args.markdown && args.study.is_none() {
        let all: Vec<StudyVerdicts> = studies().filter_map(StudyVerdicts::of).collect();
        raw(claims_index::document(&all).trim_end());
        return Ok(Outcome::Done);
    }
    for part in studies() {
        one(part, args)?;
    }
    Ok(Outcome::Done)
}

/// The claims of one study.
fn one(parts: &[&'static Part], args: &ClaimsArgs) -> Result<(), Failure> {
    let began = Instant::now();
    let fresh = args.fresh || args.seeds.is_some() || args.keep.is_some() || !args.set.is_empty();
    let mut all = Vec::new();
    for part in parts {
        if fresh {
            all.push(compute(part, args)?);
        } else {
            all.extend(StoredVerdicts::of(part));
        }
    }
    let stale: Vec<String> = if fresh {
        Vec::new()
    } else {
        all.iter().flat_map(StoredVerdicts::stale).collect()
    };
    if let Some(folder) = &args.keep {
        for kept in &all {
            let name = kept.part().map(Part::kept_file).unwrap_or_default();
            keep(&folder.join(name), &kept.to_json())?;
        }
    }
    let standings = parts.first().map(|part| ClaimStatuses::of(part.study));
    let standings = standings.expect("a study has parts");
    if args.json {
        let of = |kept: &StoredVerdicts| {
            let each = kept.claims.iter();
            let stale = !stale.is_empty();
            let each = each.map(|judged| to_json(kept, judged, &standings, &args.set, stale));
            each.collect::<Vec<_>>()
        };
        json_lines(all.iter().flat_map(of));
        return Ok(());
    }
    if args.markdown {
        raw(document(&all, &standings).trim_end());
        return Ok(());
    }
    let Some(first) = all.first() else {
        return Ok(());
    };
    let study = papers::study(&first.study).expect("it was just looked at");
    let made_since = fresh.then_some(began);
    say_origin(&study.citation(), made_since, &first.version, &stale);
    for kept in &all {
        let about = kept.part().map(|part| part.about).unwrap_or_default();
        let has_runs = kept.part().is_some_and(|part| !part.scenarios.is_empty());
        let seeds = if has_runs {
            format!(", {} seeds", kept.seeds)
        } else {
            String::new()
        };
        say(format_args!("\n{about}{seeds}:"));
        say_table(&table(kept, &standings, false), 0);
        say("");
        say_causes(kept, &standings);
    }
    say_table(&tally(&all, &standings), 0);
    say("");
    say(format_args!(
        "Rules: papers/{}/rules/. All checks of a claim, and the runs they are made of: --json.",
        first.study
    ));
    Ok(())
}

/// Prints the causes of a part's claims that fail.
fn say_causes(kept: &StoredVerdicts, standings: &ClaimStatuses) {
    let causes: Vec<(&Judged, &str)> = standings.causes(&kept.claims).collect();
    if causes.is_empty() {
        return;
    }
    say("Causes:");
    for (judged, cause) in causes {
        say(format_args!("  {}: {cause}", judged.id));
    }
    say("");
}

fn compute(part: &Part, args: &ClaimsArgs) -> Result<StoredVerdicts, Failure> {
    let making = Making {
        seeds: args.seeds.unwrap_or(part.seeds),
        set: &args.set,
        ..Making::default()
    };
    making
        .check(&claims::files(part))
        .map_err(|error| Failure::new(Kind::Usage, error))?;
    let kept = with_progress(args.threads, |progress| {
        StoredVerdicts::compute(part, making, progress)
    })?;
    kept.map_err(|error| Failure::new(Kind::Usage, error))
}

/// The command that makes the runs of a claim, with the settings they were made with: one for each
/// scenario they are of.
fn command(kept: &StoredVerdicts, judged: &Judged, set: &[String]) -> Option<String> {
    let study = &kept.study;
    let part = kept.part()?;
    let rules = claims::rules(part);
    let rule = rules.iter().find(|rule| rule.id == judged.id)?;
    let checks = rule.text.iter().chain(&rule.table);
    if checks.clone().any(|check| check.printed.is_some()) {
        return Some(format!("carob-studies reproduce {study} --fresh"));
    }
    // A claim that quotes another study is judged by that study's scenarios.
    let folders = part
        .scenarios
        .iter()
        .filter_map(|name| name.split_once('/'));
    let folders: BTreeSet<&str> = folders.map(|(folder, _)| folder).collect();
    let mut scenarios: BTreeMap<(&str, &str), Vec<Reference>> = BTreeMap::new();
    for of in checks.flat_map(rule::Check::references) {
        let (folder, scenario) = folders.iter().find_map(|folder| {
            let (scenario, _) = builtin::find(&format!("{folder}/{}", of.cell))?;
            Some((*folder, scenario.name))
        })?;
        scenarios.entry((folder, scenario)).or_default().push(of);
    }
    let commands = scenarios.iter().map(|((folder, _), references)| {
        let cells: BTreeSet<&str> = references.iter().map(|of| &*of.cell).collect();
        let algorithms: BTreeSet<&str> = references.iter().map(|of| &*of.algorithm).collect();
        let mut command = format!(
            "carob-studies run {} --algorithm {} --seeds {}",
            quoted(&format!("{folder}/{}", common_pattern(&cells))),
            algorithms.into_iter().collect::<Vec<_>>().join(","),
            kept.seeds
        );
        for set in set {
            command = format!("{command} --set {}", quoted(set));
        }
        command
    });
    let commands: Vec<String> = commands.collect();
    (!commands.is_empty()).then(|| commands.join(" && "))
}

/// Common pattern of several names, part for part, with `*` for parts that differ. Names of
/// different lengths have one `*` for all parts after the common ones.
fn common_pattern(names: &BTreeSet<&str>) -> String {
    let all: Vec<Vec<&str>> = names.iter().map(|name| name.split('-').collect()).collect();
    let shortest = all.iter().map(Vec::len).min().unwrap_or_default();
    let common = |n: usize| all.iter().all(|name| name[n] == all[0][n]);
    if all.iter().any(|name| name.len() != shortest) {
        let prefix = (0..shortest).take_while(|n| common(*n));
        let mut parts: Vec<&str> = prefix.map(|n| all[0][n]).collect();
        parts.push("*");
        return parts.join("-");
    }
    let part = |n: usize| if common(n) { all[0][n] } else { "*" };
    (0..shortest).map(part).collect::<Vec<_>>().join("-")
}

fn about(kept: &StoredVerdicts, judged: &Judged) -> String {
    let rules = kept.part().map(claims::rules).unwrap_or_default();
    let rule = rules.into_iter().find(|rule| rule.id == judged.id);
    rule.map(|rule| rule.about).unwrap_or_default()
}

fn to_json(
    kept: &StoredVerdicts,
    judged: &Judged,
    standings: &ClaimStatuses,
    set: &[String],
    stale: bool,
) -> serde_json::Value {
    let claim = claims::claim(judged);
    let weight = claim.as_ref().map(|claim| claim.weight.clone());
    let caveat = claim
        .as_ref()
        .map(|claim| claim.caveat.clone())
        .unwrap_or_default();
    let mut note = about(kept, judged);
    if !caveat.is_empty() {
        note = format!("{note} Doubt: {caveat}.");
    }
    let mut value = json!({
        "id": judged.id,
        "weight": weight,
        "verdict": judged.text.verdict.name(),
        "standing": standings.standing(judged).name(),
        "measured": judged.text.measured(),
        "expected": judged.text.expected(),
        "within_tenth": standings.within_tenth(judged).map(Verdict::name),
        "note": note,
        "claim": claim.map(|claim| claim.claim),
        "checks": judged.text.checks,
        "command": command(kept, judged, set),
        "scenario_hash": kept.scenario_hash,
        "first_seed": kept.first_seed,
        "seeds": kept.seeds,
        "version": kept.version,
        "stale": stale,
    });
    if let Some(share) = standings.share(&judged.id) {
        value["plausible"] = json!({
            "holds": share.holds,
            "partly": share.partly,
            "class": share.class.name(),
        });
    }
    if let Some(refutation) = standings.refutation(&judged.id) {
        value["refuted_by"] = json!({
            "source": refutation.source,
            "reason": refutation.reason,
        });
    }
    if let Some(unpublished) = standings.missing(&judged.id) {
        value["unpublished"] = json!({
            "missing": unpublished.missing,
            "reason": unpublished.reason,
        });
    }
    if let Some((_, cause)) = standings.causes([judged]).next() {
        value["cause"] = json!(cause);
    }
    if let Some(table) = &judged.table {
        value["by_table"] = json!({
            "verdict": table.verdict.name(),
            "measured": table.measured(),
            "expected": table.expected(),
            "checks": table.checks,
        });
    }
    value
}

fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let cut: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
}

/// Number of a judgement's checks that hold, if there are several.
fn share(judgement: &Judgement) -> String {
    let holds = judgement
        .checks
        .iter()
        .filter(|c| c.verdict == Verdict::Holds)
        .count();
    match judgement.checks.len() {
        1 => judgement.verdict.name().to_owned(),
        all => format!("{} {holds}/{all}", judgement.verdict.name()),
    }
}

/// Share of the plausible interpretations in which a claim holds.
fn plausible(standings: &ClaimStatuses, judged: &Judged) -> String {
    standings
        .share(&judged.id)
        .map_or_else(String::new, |share| format!("{:.0} %", share.holds * 100.0))
}

/// The second verdict: with 10 % of each published number as its tolerance.
fn within_tenth(standings: &ClaimStatuses, judged: &Judged) -> String {
    let verdict = standings.within_tenth(judged);
    verdict.map_or_else(String::new, |verdict| verdict.name().to_owned())
}

fn table(kept: &StoredVerdicts, standings: &ClaimStatuses, whole: bool) -> TextTable {
    let has_tables = kept.claims.iter().any(|judged| judged.table.is_some());
    let has_shares = kept
        .claims
        .iter()
        .any(|judged| standings.share(&judged.id).is_some());
    let columns = [
        ("claim", true),
        ("importance", true),
        ("verdict", true),
        ("by the text", true),
        ("within 10 %", true),
        ("by its tables", has_tables),
        ("plausible settings", has_shares),
        ("", true),
        ("measured", true),
    ];
    let used = columns.iter().filter(|(_, used)| *used);
    let mut table = TextTable::new(used.map(|(name, _)| name));
    for judged in &kept.claims {
        let Some(claim) = claims::claim(judged) else {
            continue;
        };
        let by_table = judged.table.as_ref().map(share).unwrap_or_default();
        let (text, measured) = (claim.claim, judged.text.measured());
        let cells = [
            judged.id.clone(),
            claim.weight,
            standings.standing(judged).name().to_owned(),
            share(&judged.text),
            within_tenth(standings, judged),
            by_table,
            plausible(standings, judged),
            if whole { text } else { cut(&text, CLAIM) },
            cut(&measured, if whole { 2 * CLAIM } else { MEASURED }),
        ];
        let used = cells
            .into_iter()
            .zip(columns)
            .filter(|(_, (_, used))| *used);
        table.add(used.map(|(cell, _)| cell).collect());
    }
    table.optional(&[
        "within 10 %",
        "by its tables",
        "plausible settings",
        "by the text",
        "measured",
    ]);
    table.emphasise_verdicts();
    table
}

/// Table of verdicts by importance.
fn tally(kept: &[StoredVerdicts], standings: &ClaimStatuses) -> TextTable {
    let mut header = vec![String::new(), ">claims".to_owned()];
    header.extend(ClaimStatus::ALL.map(|standing| format!(">{}", standing.name())));
    let near = [">state a number", ">hold within 10 %", ">partly", ">fail"];
    header.extend(
        [">verdict fails"]
            .into_iter()
            .chain(near)
            .map(str::to_owned),
    );
    let mut table = TextTable::new(header);
    for weight in ["headline", "main", "detail"] {
        let of_weight =
            |judged: &&Judged| claims::claim(judged).is_some_and(|c| c.weight == weight);
        let claims = kept.iter().flat_map(|kept| &kept.claims);
        let all: Vec<&Judged> = claims.filter(of_weight).collect();
        let count = |standing| {
            let of = all.iter().filter(|j| standings.standing(j) == standing);
            of.count().to_string()
        };
        let mut row = vec![weight.to_owned(), all.len().to_string()];
        row.extend(ClaimStatus::ALL.map(count));
        let fail = all.iter().filter(|j| j.text.verdict == Verdict::Fails);
        row.push(fail.count().to_string());
        let near: Vec<Verdict> = all
            .iter()
            .filter_map(|j| standings.within_tenth(j))
            .collect();
        row.push(near.len().to_string());
        row.extend(
            [Verdict::Holds, Verdict::HoldsPartly, Verdict::Fails].map(|verdict| {
                near.iter()
                    .filter(|one| **one == verdict)
                    .count()
                    .to_string()
            }),
        );
        table.add(row);
    }
    table
}

/// The document papers/thesis/claims.md.
fn document(all: &[StoredVerdicts], standings: &ClaimStatuses) -> String {
    let Some(first) = all.first() else {
        return String::new();
    };
    let study = papers::study(&first.study).expect("it has verdicts");
    let mut text = format!(
        "\
# Claims of {citation}

Generated by `carob-studies claims {name} --markdown`; `cargo xtask generate` rewrites it. Verdicts are kept in the program
with the command that made them; a test checks that it would make the same runs today.

{authors}: \"{title}\", {venue}, {year}. How each claim is judged is data, written before the runs. A claim is *holds*
if every check of its rule does, and *holds-partly* if at least half do. Otherwise it *fails* if one check fails, and is *undecided* if none
does.
Orderings hold where the 95 % interval of paired differences excludes 0. Where the study's own tables contradict its text,
the claim is judged by both. `carob-studies claims {name} --json` has every check with its interval, and the command that makes
its runs.

The verdict is the one by the text, with two exceptions. A claim *contradicts its own data* if the study's tables or
raw data say otherwise. A claim that does not hold *cannot be decided* if it holds in 5 to 95 % of the interpretations
that the study's baseline facts do not exclude. Nor can one that depends on something that is not published. *Verdict fails* counts the verdict
*fails* by the text, without these exceptions. The last columns count a second verdict, of claims that state a number: by the same checks,
with 10 % of each published number as its tolerance. Orderings keep theirs.{calibrated}

{tally}{refuted}{unpublished}{causes}",
        citation = study.citation(),
        name = study.short_name,
        authors = study.authors.join(", "),
        title = study.title,
        venue = study.venue,
        year = study.year,
        calibrated = if standings.has_shares() {
            " The column *plausible settings* has the share in which it holds, from [this calibration](calibration.md)."
        } else {
            " No calibration of this study is stored."
        },
        tally = tally(all, standings).markdown(),
        refuted = refuted(all, standings),
        unpublished = unpublished(all, standings),
        causes = causes(all, standings),
    );
    for kept in all {
        let Some(part) = kept.part() else {
            continue;
        };
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "
## {about}

By [these rules](rules/{rules}.toml), {from}:
`{command}`

{table}",
            about = part.about,
            rules = part.name,
            from = if part.scenarios.is_empty() {
                "without runs".to_owned()
            } else {
                format!("from {} seeds per cell and algorithm", kept.seeds)
            },
            command = kept.command,
            table = table(kept, standings, true).markdown(),
        );
    }
    text
}

/// A list under its heading; nothing without lines.
fn list(heading: &str, lines: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> = lines.map(|line| format!("* {line}\n")).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("\n{heading}:\n\n{}", lines.concat())
}

/// The claims that raw data refutes, as a list.
fn refuted(all: &[StoredVerdicts], standings: &ClaimStatuses) -> String {
    let judged = all.iter().flat_map(|kept| &kept.claims);
    let lines = judged.filter_map(|judged| standings.refutation(&judged.id));
    let lines = lines.map(|one| format!("{}, by {}: {}.", one.id, one.source, one.reason));
    list("Contradicted by the study's published data", lines)
}

/// The claims that depend on something unpublished and do not hold, as a list.
fn unpublished(all: &[StoredVerdicts], standings: &ClaimStatuses) -> String {
    let judged = all.iter().flat_map(|kept| &kept.claims);
    let open = judged.filter(|one| standings.standing(one) == ClaimStatus::CannotBeDecided);
    let lines = open.filter_map(|judged| standings.missing(&judged.id));
    let lines = lines.map(|one| {
        format!(
            "{}. Unpublished: {}. Reason: {}.",
            one.id, one.missing, one.reason
        )
    });
    list("Not decidable by what the study publishes", lines)
}

/// The causes of the claims that fail, as a list.
fn causes(all: &[StoredVerdicts], standings: &ClaimStatuses) -> String {
    let causes = standings.causes(all.iter().flat_map(|kept| &kept.claims));
    let lines = causes.map(|(judged, cause)| format!("{}. {cause}", judged.id));
    list("Causes of claims that fail", lines)
}

#[cfg(test)]
mod tests {
    use carob_lab::registry::Registry;
    use carob_lab::run::{Plan, Selection};
    use carob_lab::scenario::Scenario;
    use clap::Parser as _;

    use super::super::args::{Args, Command};
    use super::*;
    use crate::claims::PARTS;

    /// The cells and algorithms that a command runs; none if it compares a study's tables.
    fn runs(command: &str) -> Vec<(String, String)> {
        // No word has a space.
        let words: Vec<&str> = command
            .split(' ')
            .map(|word| word.trim_matches('\''))
            .collect();
        let args = Args::try_parse_from(&words).expect(command);
        if matches!(args.command, Command::Reproduce(_)) {
            return Vec::new();
        }
        let ["carob-studies", "run", name, "--algorithm", algorithms, ..] = words[..] else {
            panic!("{command}")
        };
        let algorithms: Vec<String> = algorithms.split(',').map(str::to_owned).collect();
        let (file, cell) = builtin::find(name).expect(command);
        let scenario = Scenario::with_cells(
            Registry::BUILT_IN,
            file.name,
            file.text,
            &[],
            Some(&algorithms),
            cell,
        );
        let scenario = scenario.expect(command);
        let selection = Selection {
            cell: cell.map(str::to_owned),
            everywhere: true,
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).expect(command);
        let of =
            |job: &carob_lab::run::Job<'_>| (job.cell.name.clone(), job.algorithm.name.clone());
        plan.jobs().iter().map(of).collect()
    }

    #[test]
    fn nightly_every_command_makes_the_runs_of_its_claim() {
        let mut several = 0;
        for part in PARTS {
            // The laboratory's tests know which parts have none yet.
            let Some(kept) = StoredVerdicts::of(part) else {
                continue;
            };
            for judged in &kept.claims {
                let rules = claims::rules(part);
                let rule = rules.iter().find(|rule| rule.id == judged.id);
                let checks = rule.map(|rule| rule.text.iter().chain(&rule.table));
                let needed: BTreeSet<(String, String)> = checks
                    .into_iter()
                    .flatten()
                    .flat_map(rule::Check::references)
                    .map(|of| (of.cell, of.algorithm))
                    .collect();
                let Some(command) = command(&kept, judged, &[]) else {
                    assert!(needed.is_empty(), "{}", judged.id);
                    continue;
                };
                let commands: Vec<&str> = command.split(" && ").collect();
                several += usize::from(commands.len() > 1);
                let made: BTreeSet<_> = commands.into_iter().flat_map(runs).collect();
                if !command.contains("reproduce") {
                    assert!(made.is_superset(&needed), "{}: {command}", judged.id);
                }
            }
        }
        assert!(several > 0, "thesis-001 compares two scenarios");
    }

    #[test]
    fn names_have_a_pattern_in_common() {
        let names = ["long-1c-none-2500", "long-1c-low-inf"]
            .into_iter()
            .collect();
        assert_eq!(common_pattern(&names), "long-1c-*-*");
        let names = ["pint-of0-2s", "pint-no-ageing-2s"].into_iter().collect();
        assert_eq!(common_pattern(&names), "pint-*");
        let names = ["exchange-tcp"].into_iter().collect();
        assert_eq!(common_pattern(&names), "exchange-tcp");
    }
}
