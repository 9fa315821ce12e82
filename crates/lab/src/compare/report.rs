//! The answer as a report.

use super::judge::Component;
use super::words::{digits, percentiles_of};
use super::{Answer, LEFT_OUT, Ranked};
use crate::report::{FigureBlock, PairedGroup, PairedRow, PairedRows, Report, Section};
use crate::text::TextTable;

/// The report of an answer; `command` repeats it.
pub(super) fn report(answer: &Answer, command: String) -> Report {
    let mut words = answer.words().into_iter();
    let fact = |name: &str, value: String| (name.to_owned(), value);
    Report {
        title: format!("A controller for {}", answer.link.name),
        lead: words.next().unwrap_or_default(),
        facts: vec![
            fact("Link", answer.link.about()),
            fact("Traffic", answer.traffic.about()),
            fact(
                "Seeds",
                format!("{} in the last stage, paired", answer.seeds),
            ),
            fact("Runs", answer.runs.to_string()),
            fact("Version", env!("CARGO_PKG_VERSION").to_owned()),
        ],
        command,
        sections: vec![
            Section {
                heading: "Evidence".to_owned(),
                text: words.collect(),
                ..Section::default()
            },
            costs(answer),
            measured(answer),
            nearby(answer),
            controllers(answer),
        ],
    }
}

fn name(answer: &Answer, one: &Ranked) -> String {
    let settings = one.configuration.settings(answer.traffic.is_blockwise());
    match settings.as_str() {
        "-" => one.configuration.controller.to_owned(),
        settings => format!("{}, {settings}", one.configuration.controller),
    }
}

/// Configurations of the last stage, the cheapest first, with their places.
fn by_cost(answer: &Answer) -> Vec<(usize, &Ranked)> {
    let mut all: Vec<(usize, &Ranked)> = answer.ranked.iter().enumerate().collect();
    all.sort_by(|a, b| a.1.cost.value.total_cmp(&b.1.cost.value));
    all
}

fn costs(answer: &Answer) -> Section {
    let weights = Component::ALL
        .iter()
        .filter(|one| answer.weights.of(**one) > 0.0);
    let weights: Vec<String> = weights
        .map(|one| format!("{} {:.0} %", one.name(), answer.weights.of(*one) * 100.0))
        .collect();
    let mut components = TextTable::new([
        "ratio to default CoAP",
        ">time",
        ">tail",
        ">undelivered",
        ">spurious",
        ">bytes",
        ">harm",
    ]);
    for (_, one) in by_cost(answer) {
        let default = &answer.default_coap().measured;
        let ratios = Component::ALL.iter().map(|component| {
            // Not part of the cost, and a neighbour's time may not have been measured at all.
            if answer.weights.of(*component) == 0.0 {
                return "-".to_owned();
            }
            format!("{:.2}", one.measured.ratio(default, *component))
        });
        components.add(std::iter::once(name(answer, one)).chain(ratios).collect());
    }
    Section {
        heading: "Cost".to_owned(),
        text: vec![format!(
            "The cost is the weighted geometric mean of ratios to default CoAP: {}.",
            weights.join(", ")
        )],
        figures: vec![FigureBlock::new(
            cost_figure(answer).picture(),
            "Cost of each configuration.".to_owned(),
            "Markers are costs, lines 95 % intervals over paired seeds. Bars begin at the cost of \
                 default CoAP.",
        )],
        tables: vec![components],
        ..Section::default()
    }
}

fn cost_figure(answer: &Answer) -> PairedRows {
    let row = |(place, one): (usize, &Ranked)| {
        let cost = &one.cost;
        let is_recommended = place == answer.recommended;
        let remark = if is_recommended { ", recommended" } else { "" };
        let (name, value) = (name(answer, one), cost.value);
        let text = format!("{value:.3} ({:.3} to {:.3}){remark}", cost.low, cost.high);
        PairedRow {
            look: one.configuration.controller.to_owned(),
            value,
            interval: (cost.low, cost.high),
            tip: format!("{name}: {text}"),
            name,
            text,
        }
    };
    PairedRows {
        label: "Cost beside default CoAP".to_owned(),
        baseline: 1.0,
        groups: vec![PairedGroup {
            rows: by_cost(answer).into_iter().map(row).collect(),
            ..PairedGroup::default()
        }],
        ..PairedRows::default()
    }
}

/// Times, failures and the bytes of a device.
fn measured(answer: &Answer) -> Section {
    let mut times = TextTable::new([
        "configuration",
        ">mean s",
        ">median s",
        ">p95 s",
        ">p99 s",
        ">slowest 5 % s",
        ">failed %",
        ">spurious",
        ">neighbour s",
    ]);
    let unit = if answer.link.is_mesh { "frames" } else { "kB" };
    let mut bytes = TextTable::new([
        "radio of a device",
        ">sent",
        ">received",
        ">sends s",
        ">receives s",
    ]);
    let clients = f64::from(answer.traffic.clients);
    for (_, one) in by_cost(answer) {
        let all = &one.measured;
        times.add(vec![
            name(answer, one),
            digits(all.time_s),
            digits(all.p50_s),
            digits(all.p95_s),
            digits(all.p99_s),
            digits(all.tail_s),
            format!("{:.2}", all.undelivered * 100.0),
            digits(all.spurious),
            digits(all.harm_s),
        ]);
        // In a mesh the frames of all nodes are counted together, without a direction.
        let [sent, received] = if answer.link.is_mesh {
            [Some(all.bytes / clients), None]
        } else {
            [Some(all.bytes_up / clients), Some(all.bytes_down / clients)]
        };
        let amount = |value: Option<f64>| match value {
            None => "-".to_owned(),
            Some(frames) if answer.link.is_mesh => format!("{frames:.1} {unit}"),
            Some(bytes) => format!("{:.2} {unit}", bytes / 1_000.0),
        };
        let air = |bytes: Option<f64>, bps: u64| match bytes {
            Some(bytes) if bps > 0 => digits(bytes * 8.0 / bps as f64),
            _ => "-".to_owned(),
        };
        bytes.add(vec![
            name(answer, one),
            amount(sent),
            amount(received),
            air(sent, answer.link.up_bps),
            air(received, answer.link.down_bps),
        ]);
    }
    Section {
        heading: "Times, failures, bytes".to_owned(),
        text: vec![format!(
            "Median, p95 and p99 are of {} of all runs; failures count as what they cost. The radio of a \
             device sends and receives these bytes in a run, with IP and UDP headers, and the time that this takes \
             at the rates of the link; waiting for responses is in the times.",
            percentiles_of(answer)
        )],
        tables: vec![times, bytes],
        ..Section::default()
    }
}

fn nearby(answer: &Answer) -> Section {
    let mut flips = TextTable::new(["better elsewhere", ">configuration", ">of the cost there"]);
    let is_blockwise = answer.traffic.is_blockwise();
    for flip in &answer.flips {
        let (controller, settings) = (
            flip.configuration.controller,
            flip.configuration.settings(is_blockwise),
        );
        let cost = format!("{:.2}", flip.cost);
        flips.add(vec![
            flip.at.clone(),
            format!("{controller}, {settings}"),
            cost,
        ]);
    }
    let ruled_out = answer.ranked.iter().filter(|one| !one.excluded.is_empty());
    let mut worse = TextTable::new(["ruled out", ">reason"]);
    for one in ruled_out {
        let reasons: Vec<String> = one.excluded.iter().map(ToString::to_string).collect();
        worse.add(vec![name(answer, one), reasons.join("; ")]);
    }
    let tables = [flips, worse].into_iter().filter(|table| !table.is_empty());
    Section {
        heading: "Links nearby".to_owned(),
        text: vec![format!(
            "The recommendation must not be worse than default CoAP at: {}.",
            answer.neighbours.join(", ")
        )],
        tables: tables.collect(),
        ..Section::default()
    }
}

fn controllers(answer: &Answer) -> Section {
    let mut all = TextTable::new(["parameters of RFC 7252", ">cost"]);
    for (name, cost) in &answer.controllers {
        all.add(vec![(*name).to_owned(), format!("{cost:.2}")]);
    }
    let mut left_out = TextTable::new(["left out", ">reason"]);
    for (name, reason) in LEFT_OUT {
        left_out.add(vec![name.to_owned(), reason.to_owned()]);
    }
    Section {
        heading: "All controllers".to_owned(),
        tables: vec![all, left_out],
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Link, Question, Traffic};

    #[test]
    fn nightly_a_report_has_the_answer_its_network_and_the_command() {
        let link = Link::built_in("umts").expect("built in");
        let traffic = Traffic::named("command").expect("known");
        let answer = Question::new(link, traffic)
            .answer(&|_| {})
            .expect("possible");
        let html = answer
            .report("carob lab compare --link umts".to_owned())
            .html();
        for text in [
            answer.words()[0].as_str(),
            "348 kbit/s down",
            "carob lab compare --link umts",
            "<svg",
            "p99 s",
            "receives s",
            "cocoa-californium",
        ] {
            assert!(html.contains(text), "{text}");
        }
    }
}
