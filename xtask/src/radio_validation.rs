//! The radio model beside analytical models of unslotted CSMA-CA and beside ns-3's lr-wpan.

use std::{fmt::Write as _, fs, path::Path, process::Command, thread};

use anyhow::{Context, Result, ensure};

use crate::{process, workspace::Workspace};

/// Libraries of ns-3.37, as Debian's `libns3-dev` has them.
const LIBRARIES: [&str; 8] = [
    "lr-wpan",
    "spectrum",
    "antenna",
    "propagation",
    "mobility",
    "network",
    "stats",
    "core",
];
/// Runs of each network in ns-3.
const SEEDS: u32 = 5;
/// Deviation in per cent up to which the models agree.
const TOLERANCE: f64 = 5.0;

/// A network and what a simulator measured in it.
#[derive(Clone, Debug)]
struct Row {
    kind: String,
    nodes: u32,
    bytes: u32,
    rate: f64,
    seconds: f64,
    delivered_per_s: f64,
    delivery: f64,
    delay_ms: f64,
    transmissions: f64,
    model: Option<f64>,
}

impl Row {
    fn read(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        ensure!(
            fields.len() == 10,
            "a line of {} fields: {line}",
            fields.len()
        );
        let number = |n: usize| {
            let field: &str = fields[n];
            field
                .parse::<f64>()
                .with_context(|| format!("{field} in {line}"))
        };
        Ok(Self {
            kind: fields[0].to_owned(),
            nodes: number(1)? as u32,
            bytes: number(2)? as u32,
            rate: number(3)?,
            seconds: number(4)?,
            delivered_per_s: number(5)?,
            delivery: number(6)?,
            delay_ms: number(7)?,
            transmissions: number(8)?,
            model: (!fields[9].is_empty()).then(|| number(9)).transpose()?,
        })
    }

    /// Runs the same network in ns-3.
    fn in_ns3(&self, program: &Path, with_capture: bool) -> Result<Self> {
        let mut sums = [0.0; 5];
        for seed in 1..=SEEDS {
            let mut command = Command::new(program);
            command.arg(&self.kind);
            for number in [
                f64::from(self.nodes),
                f64::from(self.bytes),
                self.rate,
                self.seconds,
            ] {
                command.arg(number.to_string());
            }
            command.arg(seed.to_string());
            if with_capture {
                command.arg("--capture");
            }
            let output = process::output(&mut command)?;
            let numbers: Vec<f64> = output
                .trim()
                .split(',')
                .map(str::parse)
                .collect::<Result<_, _>>()
                .with_context(|| format!("output of lrwpan: {output}"))?;
            ensure!(numbers.len() == sums.len(), "output of lrwpan: {output}");
            for (sum, number) in sums.iter_mut().zip(numbers) {
                *sum += number;
            }
        }
        let [delivered, offered, delay, frames, transmissions] = sums;
        Ok(Self {
            delivered_per_s: delivered / self.seconds / f64::from(SEEDS),
            delivery: delivered / offered.max(1.0),
            delay_ms: delay * 1e3 / delivered.max(1.0),
            transmissions: transmissions / frames.max(1.0),
            model: None,
            ..self.clone()
        })
    }
}

/// A network in Carob, in ns-3, and in ns-3 with capture.
struct Compared {
    ours: Row,
    ns3: Row,
    captured: Row,
}

/// Runs every network and writes the page.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    let source = workspace.root.join("tools/lrwpan/lrwpan.cc");
    let program = workspace.target()?.join("lrwpan");
    let mut compile = Command::new("g++");
    compile.args(["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
    compile.arg(&program).arg(&source);
    compile.args(LIBRARIES.map(|library| format!("-lns3-{library}")));
    process::must(&mut compile).context("it needs Debian's packages g++ and libns3-dev (3.37)")?;
    let mut example = process::cargo();
    example.current_dir(&workspace.root);
    example.args(["run", "--release", "--quiet", "-p", "carob-sim"]);
    example.args(["--example", "radio_validation"]);
    let output = process::output(&mut example)?;
    let ours: Vec<Row> = output
        .lines()
        .skip(1)
        .map(Row::read)
        .collect::<Result<_>>()?;
    // Two at a time, since each is a process of its own.
    let halves: Vec<Vec<Row>> = (0..2)
        .map(|half| ours.iter().skip(half).step_by(2).cloned().collect())
        .collect();
    let compare = |rows: Vec<Row>| -> Result<Vec<Compared>> {
        let both = rows.into_iter().map(|ours| {
            Ok(Compared {
                ns3: ours.in_ns3(&program, false)?,
                captured: ours.in_ns3(&program, true)?,
                ours,
            })
        });
        both.collect()
    };
    let found: Vec<Vec<Compared>> = thread::scope(|scope| {
        let threads: Vec<_> = halves
            .into_iter()
            .map(|rows| scope.spawn(|| compare(rows)))
            .collect();
        let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .map(|half| half.map_err(|_| anyhow::anyhow!("a thread panicked"))?)
            .collect::<Result<_>>()
    })?;
    let mut halves: Vec<_> = found.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    for n in 0..ours.len() {
        all.extend(halves[n % 2].next());
    }
    fs::write(results, page(&all)?)
        .with_context(|| format!("cannot write {}", results.display()))?;
    Ok(true)
}

/// Deviation of a value from a reference in per cent.
fn deviation(value: f64, reference: f64) -> f64 {
    (value / reference - 1.0) * 100.0
}

/// A quantity of a row.
type Quantity = fn(&Row) -> f64;

fn page(all: &[Compared]) -> Result<String> {
    let mut out = String::from(HEAD);
    let of = |kind: &'static str| all.iter().filter(move |one| one.ours.kind == kind);
    let within = |values: Vec<f64>| {
        let inside = values.iter().filter(|v| v.abs() <= TOLERANCE).count();
        let largest = values.iter().fold(
            0.0_f64,
            |most, v| if v.abs() > most.abs() { *v } else { most },
        );
        format!(
            "{inside} of {} within {TOLERANCE} %, largest {largest:+.1} %",
            values.len()
        )
    };
    let chains: Vec<&Compared> = of("chain").collect();
    let stars: Vec<&Compared> = of("star").chain(of("hidden")).collect();
    let quantities: [(&str, Quantity); 3] = [
        ("delivery", |row| row.delivery),
        ("delay", |row| row.delay_ms),
        ("transmissions of a frame", |row| row.transmissions),
    ];
    writeln!(out, "## Results\n")?;
    for (name, quantity) in quantities {
        let values = chains
            .iter()
            .map(|one| deviation(quantity(&one.ours), quantity(&one.ns3)));
        writeln!(
            out,
            "- Chains against ns-3, {name}: {}.",
            within(values.collect())
        )?;
    }
    let values = stars
        .iter()
        .map(|one| deviation(one.ours.delivered_per_s, one.ns3.delivered_per_s));
    writeln!(
        out,
        "- Stars against ns-3, throughput: {}.",
        within(values.collect())
    )?;
    for (kind, name) in [("star", "without"), ("hidden", "with")] {
        let values =
            of(kind).filter_map(|one| Some(deviation(one.ours.delivered_per_s, one.ours.model?)));
        writeln!(
            out,
            "- Stars {name} hidden nodes against the analytical model: {}.",
            within(values.collect())
        )?;
    }
    out.push_str("\n## Saturation throughput\n\nFrames delivered per second.\n\n");
    out.push_str("| nodes | hear each other | frame | Carob | analytical | deviation | ns-3 | deviation | ns-3 with capture |\n| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for one in stars {
        let Compared {
            ours,
            ns3,
            captured,
        } = one;
        let hear = if ours.kind == "star" { "yes" } else { "no" };
        let model = ours.model.unwrap_or(f64::NAN);
        writeln!(
            out,
            "| {} | {hear} | {} B | {:.1} | {model:.1} | {:+.1} % | {:.1} | {:+.1} % | {:.1} |",
            ours.nodes,
            ours.bytes,
            ours.delivered_per_s,
            deviation(ours.delivered_per_s, model),
            ns3.delivered_per_s,
            deviation(ours.delivered_per_s, ns3.delivered_per_s),
            captured.delivered_per_s,
        )?;
    }
    out.push_str("\n## Chains\n\nThe far end generates messages for the other end, in frames of 100 bytes. Carob / ns-3, and the deviation.\n\n");
    out.push_str("| hops | messages/s | delivery | | delay | | transmissions of a frame | | ns-3 with capture: delivery, delay |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n");
    for Compared {
        ours,
        ns3,
        captured,
    } in chains
    {
        write!(out, "| {} | {} ", ours.nodes, ours.rate)?;
        write!(
            out,
            "| {:.4} / {:.4} | {:+.1} % ",
            ours.delivery,
            ns3.delivery,
            deviation(ours.delivery, ns3.delivery)
        )?;
        write!(
            out,
            "| {:.2} / {:.2} ms | {:+.1} % ",
            ours.delay_ms,
            ns3.delay_ms,
            deviation(ours.delay_ms, ns3.delay_ms)
        )?;
        write!(
            out,
            "| {:.4} / {:.4} | {:+.1} % ",
            ours.transmissions,
            ns3.transmissions,
            deviation(ours.transmissions, ns3.transmissions)
        )?;
        writeln!(
            out,
            "| {:.4}, {:.2} ms |",
            captured.delivery, captured.delay_ms
        )?;
    }
    out.push_str(TAIL);
    Ok(out)
}

const HEAD: &str = include_str!("radio_validation_head.txt");
const TAIL: &str = include_str!("radio_validation_tail.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_example_reads() {
        let row = Row::read("chain,3,100,4,400,3.9,0.99,12.5,1.02,").expect("a row");
        assert_eq!(
            (row.kind.as_str(), row.nodes, row.model),
            ("chain", 3, None)
        );
        let star = Row::read("star,5,100,0,100,120.5,0.9,40,1.2,118.25").expect("a row");
        assert_eq!(star.model, Some(118.25));
        assert!(Row::read("star,5").is_err());
    }

    #[test]
    fn deviations_are_in_per_cent_of_the_reference() {
        assert!((deviation(105.0, 100.0) - 5.0).abs() < 1e-9);
        assert!((deviation(95.0, 100.0) + 5.0).abs() < 1e-9);
    }
}
