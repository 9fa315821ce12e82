//! `carob-studies calibrate`: open settings of a study, chosen by its baseline facts.

use std::path::Path;

use carob_cli::parts::{
    Failure, Kind, Outcome, quoted, raw, read_file, say, say_table, with_progress,
};
use carob_lab::registry::Registry;

use super::args::CalibrateArgs;
use super::{judge, keep};
use crate::StudyError;
use crate::calibration::{
    CALIBRATED, Calibrated, Calibration, CalibrationResult, markdown, tables,
};
use crate::papers::{self, Claim};

/// A study to calibrate.
struct Subject {
    citation: String,
    calibration: Calibration,
    texts: Vec<Claim>,
    kept: Option<CalibrationResult>,
    /// The file of its stored result.
    kept_file: String,
}

pub(super) fn run(args: &CalibrateArgs) -> Result<Outcome, Failure> {
    let mut subject = subject(&args.study)?;
    if let Some(points) = args.points {
        subject.calibration.search.points = usize::try_from(points).unwrap_or(usize::MAX);
    }
    let fresh = args.fresh || args.points.is_some() || args.keep.is_some();
    let kept = subject.kept.take().filter(|_| !fresh);
    let from_store = kept.is_some();
    let result = match kept {
        Some(kept) => kept,
        None => compute(&subject, args)?,
    };
    if let Some(folder) = &args.keep {
        keep(&folder.join(&subject.kept_file), &result.to_json())?;
    }
    let calibration = &subject.calibration;
    if args.json {
        raw(result.to_json().trim_end());
    } else if args.markdown {
        let page = markdown(calibration, &result, &subject.texts, &subject.citation);
        raw(page.trim_end());
    } else {
        if from_store && result.is_stale(calibration) {
            say(
                "STALE: settings, facts, findings or scenarios have changed; --fresh computes anew",
            );
        }
        show(&subject, &result, from_store);
    }
    Ok(Outcome::Done)
}

fn subject(study: &Path) -> Result<Subject, Failure> {
    if let Some(known) = study.to_str().and_then(Calibrated::of) {
        return Ok(Subject {
            citation: papers::study(known.study).map_or_else(String::new, |s| s.citation()),
            calibration: known.calibration().map_err(|error| wrong(study, &error))?,
            texts: papers::claims(known.study),
            kept: known.kept(),
            kept_file: known.kept_file(),
        });
    }
    if !study.is_dir() {
        let names: Vec<&str> = CALIBRATED.iter().map(|one| one.study).collect();
        let hint = format!(
            "the studies are {}; or name a folder with open.toml",
            names.join(", ")
        );
        let message = format_args!("no study to calibrate: {}", study.display());
        return Err(Failure::new(Kind::Usage, message).hint(hint));
    }
    let folder = judge::open(study, Registry::BUILT_IN)?;
    let read = |file: &str| read_file(&study.join(file));
    let name = folder.study().short_name.clone();
    let calibration = Calibration::read(
        &name,
        &read("open.toml")?,
        &read("baseline.toml")?,
        folder.rules().to_vec(),
        folder.files().to_vec(),
    );
    Ok(Subject {
        citation: folder.study().citation(),
        calibration: calibration.map_err(|error| wrong(study, &error))?,
        texts: Vec::new(),
        kept: None,
        kept_file: format!("{name}.json"),
    })
}

fn wrong(study: &Path, error: &StudyError) -> Failure {
    let message = format_args!("{}: {error}", study.display());
    Failure::new(Kind::Usage, message).hint(&error.remedy)
}

fn compute(subject: &Subject, args: &CalibrateArgs) -> Result<CalibrationResult, Failure> {
    let mut command = format!(
        "carob-studies calibrate {}",
        quoted(&args.study.to_string_lossy())
    );
    if let Some(points) = args.points {
        command = format!("{command} --points {points}");
    }
    if let Some(folder) = &args.keep {
        command = format!("{command} --keep {}", quoted(&folder.to_string_lossy()));
    }
    let runs = subject.calibration.runs();
    let result = with_progress(args.threads, |progress| {
        subject.calibration.run(&command, || progress(0, runs))
    })?;
    result.map_err(|error| Failure::new(Kind::Usage, error))
}

fn show(subject: &Subject, result: &CalibrationResult, from_store: bool) {
    let calibration = &subject.calibration;
    let plausible = result.plausible();
    say(format_args!(
        "{}: {} points, {} facts; {}{}",
        subject.citation,
        result.points.len(),
        calibration.facts.len(),
        match plausible.len() {
            0 => "every point is excluded".to_owned(),
            one => format!("{one} points are not excluded"),
        },
        if from_store {
            " (stored result; --fresh runs again)"
        } else {
            ""
        }
    ));
    let headings = ["Baseline facts", "Open settings", "Findings"];
    for (heading, table) in headings
        .iter()
        .zip(tables(calibration, result, &subject.texts))
    {
        say(format_args!("\n{heading}:"));
        say_table(&table, 0);
    }
    say("");
}
