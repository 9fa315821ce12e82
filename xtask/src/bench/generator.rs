//! Cost of the load generators themselves: `carob bench` and `tools/coapload`, in turns.
//!
//! Server and generator run on a core each, and every slice has a server of its own, because
//! libcoap's cost grows with the source ports that it has seen.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    options,
    statistics::{median, median_ratio},
    subjects::{Subject, generate, number, on_core, start_carob, start_libcoap},
};
use crate::{process, workspace::Workspace};

const HELP: &str = "\
cargo xtask bench generator [OPTION...]

`carob bench` and coapload load `carob serve` and libcoap with CON GET /hello, closed loop, 64
requests outstanding over 16 ports, server and generator on a core each.

  --rounds N    rounds of all four pairs in turn (5)
  --seconds S   length of one slice (3)
";

const OUTSTANDING: &str = "64";
const PORTS: &str = "16";

struct Options {
    rounds: u32,
    seconds: f64,
}

/// Results of one slice.
#[derive(Clone, Copy)]
struct Slice {
    rate: f64,
    /// CPU microseconds a request.
    generator: f64,
    server: f64,
    p50: f64,
}

/// A generator against a server.
struct Pair {
    server: &'static str,
    generator: &'static str,
    slices: Vec<Slice>,
}

pub(super) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let Some(options) = parse(arguments)? else {
        print!("{HELP}");
        return Ok(());
    };
    let tools = workspace.target()?.join("bench-tools");
    let source = workspace.root.join("tools/coapload/coapload.c");
    let coapload = process::compile_c(&source, &tools, &[])?;
    let carob = workspace.target()?.join("release/carob");
    let mut servers = vec!["carob"];
    if process::find("coap-server-notls").is_some() {
        servers.push("libcoap");
    } else {
        println!("skipped: libcoap (install: cargo xtask peers)");
    }
    let mut pairs: Vec<Pair> = servers
        .iter()
        .flat_map(|&server| ["coapload", "carob bench"].map(|generator| (server, generator)))
        .map(|(server, generator)| Pair {
            server,
            generator,
            slices: Vec::new(),
        })
        .collect();
    for round in 1..=options.rounds {
        for pair in &mut pairs {
            let mut subject = match pair.server {
                "carob" => start_carob(workspace, None)?,
                _ => start_libcoap()?,
            };
            let slice = if pair.generator == "coapload" {
                with_coapload(&coapload, &options, &mut subject)?
            } else {
                with_bench(&carob, &options, &subject)?
            };
            println!(
                "round {round}  {:<8} {:<12} {:>8.0} requests/s  generator {:>5.2} us  server {:>5.2} us",
                pair.server, pair.generator, slice.rate, slice.generator, slice.server
            );
            pair.slices.push(slice);
        }
    }
    print!("\n{}", table(&pairs));
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Option<Options>> {
    let mut options = Options {
        rounds: 5,
        seconds: 3.0,
    };
    let asked = options::read("generator", arguments, |given| {
        match given.name {
            "--rounds" => options.rounds = given.number()?,
            "--seconds" => options.seconds = given.number()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if !asked {
        return Ok(None);
    }
    ensure!(options.rounds >= 1, "`--rounds` must be at least 1");
    Ok(Some(options))
}

fn with_coapload(program: &Path, options: &Options, subject: &mut Subject) -> Result<Slice> {
    let seconds = options.seconds.to_string();
    // `-k`: it sleeps while nothing comes, as the other one does.
    let mode = [
        "-k",
        "-m",
        "con",
        "-w",
        OUTSTANDING,
        "-s",
        PORTS,
        "-d",
        &seconds,
    ];
    let slice = generate(program, subject, &mode)?;
    let cpu = number(&slice, "gen_cpu") * number(&slice, "secs");
    Ok(Slice {
        rate: number(&slice, "rate"),
        generator: cpu * 1e6 / number(&slice, "ok"),
        server: number(&slice, "us_per_req"),
        p50: number(&slice, "p50us"),
    })
}

fn with_bench(program: &Path, options: &Options, subject: &Subject) -> Result<Slice> {
    let mut command = on_core(1, program);
    command
        .arg("bench")
        .arg(format!("coap://127.0.0.1:{}/hello", subject.port))
        .args(["--outstanding", OUTSTANDING, "--ports", PORTS])
        .args(["--duration", &format!("{}s", options.seconds)])
        .args(["--warm-up", "500ms", "--json"])
        .args(["--server-pid", &subject.server.id().to_string()]);
    let text = process::output(&mut command)?;
    let report: Value = serde_json::from_str(text.trim())
        .with_context(|| format!("the generator printed {text:?}"))?;
    for count in [
        &report["errors"]["total"],
        &report["messages"]["wrong"]["total"],
    ] {
        ensure!(count == &Value::from(0), "{}: {report}", subject.name);
    }
    Ok(Slice {
        rate: number(&report, "rate_per_s"),
        generator: number(&report["generator"], "cpu_us_each"),
        server: number(&report["server"], "cpu_us_each"),
        p50: number(&report["latency_us"], "p50"),
    })
}

/// Medians, and each generator's cost against that of the first one on the same server.
fn table(pairs: &[Pair]) -> String {
    let mut lines = vec![
        "server   generator     generator us  x coapload  server us  p50 us  requests/s".to_owned(),
    ];
    for pair in pairs {
        let figures = |pair: &Pair, of: fn(&Slice) -> f64| -> Vec<f64> {
            pair.slices.iter().map(of).collect()
        };
        let middle = |of| median(&figures(pair, of)).unwrap_or(f64::NAN);
        let base = pairs.iter().find(|other| other.server == pair.server);
        let bases = base.map_or_else(Vec::new, |base| figures(base, |slice| slice.generator));
        let own = figures(pair, |slice| slice.generator);
        lines.push(format!(
            "{:<8} {:<12} {:>13.2} {:>11.2} {:>10.2} {:>7.0} {:>11.0}",
            pair.server,
            pair.generator,
            middle(|slice| slice.generator),
            median_ratio(&own, &bases).unwrap_or(f64::NAN),
            middle(|slice| slice.server),
            middle(|slice| slice.p50),
            middle(|slice| slice.rate)
        ));
    }
    lines
        .push("(CPU us a request; medians, ratios are medians of the rounds' ratios)\n".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_compares_generators_on_one_server() {
        let slice = |generator| Slice {
            rate: 1e5,
            generator,
            server: 4.0,
            p50: 100.0,
        };
        let pair = |server, generator, us: [f64; 2]| Pair {
            server,
            generator,
            slices: us.map(slice).to_vec(),
        };
        let pairs = [
            pair("carob", "coapload", [2.0, 4.0]),
            pair("carob", "carob bench", [3.0, 6.0]),
            pair("libcoap", "coapload", [1.0, 1.0]),
        ];
        let text = table(&pairs);
        let line = text.lines().nth(2).expect("three pairs");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "carob", "carob", "bench", "4.50", "1.50", "4.00", "100", "100000"
            ]
        );
        assert!(
            text.lines()
                .nth(3)
                .is_some_and(|line| line.contains(" 1.00 "))
        );
    }

    #[test]
    fn unknown_options_are_errors() {
        let parsed = |words: [&str; 2]| parse(&words.map(str::to_owned));
        assert!(parsed(["--rounds", "3"]).is_ok());
        assert!(parsed(["--round", "3"]).is_err());
        assert!(parsed(["--rounds", "0"]).is_err());
    }
}
