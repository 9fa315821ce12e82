//! Output for people: progress, the table at the end, the distribution in a file.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use carob::Code;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use carob_bench::{
    Arrivals, BUSY, ErrorKind, Mode, Pace, Percentiles, Plan, Report, limit_by_default,
};

use crate::output::thousands;

/// A line on stderr while the load runs, if that is a terminal.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(plan: &Plan) -> Self {
        if !io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let target = ProgressDrawTarget::stderr_with_hz(10);
        let length = plan.duration.map(|duration| duration + plan.warm_up);
        let bar = ProgressBar::with_draw_target(length.map(|d| d.as_millis() as u64), target);
        let template = if length.is_some() {
            "{bar:40} {msg}"
        } else {
            "{spinner} {msg}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(super) fn show(&self, elapsed: Duration, (finished, errors): (u64, u64)) {
        if self.0.is_hidden() {
            return;
        }
        let rate = finished as f64 / elapsed.as_secs_f64().max(1e-3);
        self.0.set_position(elapsed.as_millis() as u64);
        self.0.set_message(format!(
            "{} ended, {} errors, {}/s",
            thousands(finished),
            thousands(errors),
            thousands(rate as u64)
        ));
    }

    pub(super) fn end(self) {
        self.0.finish_and_clear();
    }
}

/// Prints that every request was refused.
pub(super) fn refused(plan: &Plan, code: Code) {
    let name = code.name().unwrap_or_default();
    let _ = writeln!(
        io::stderr().lock(),
        "carob: {} answered no request with 2.xx, but with {code} {name}",
        plan.target.uri
    );
}

/// The table.
pub(super) fn table(plan: &Plan, report: &Report) {
    let text = crate::output::fitted(&text(plan, report));
    let _ = crate::output::bytes().write_all(text.as_bytes());
}

/// Lines of a name and a text.
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        let written = writeln!(self.0, "{name:<22}{value}");
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    }

    /// A count, if there is anything to count.
    fn count(&mut self, name: &str, count: u64) {
        if count > 0 {
            self.add(name, thousands(count));
        }
    }

    fn percentiles(&mut self, name: &str, of: Option<&Percentiles>) {
        let Some(of) = of else { return };
        let row = |cells: [&str; 6]| cells.map(|cell| format!("{cell:<10}")).concat();
        let names = ["p50", "p90", "p99", "p99.9", "max", "mean"];
        self.add(name, row(names).trim_end());
        let values = [of.p50, of.p90, of.p99, of.p999, of.max, of.mean].map(figure);
        self.add("", row(values.each_ref().map(String::as_str)).trim_end());
    }
}

fn text(plan: &Plan, report: &Report) -> String {
    let mut lines = Lines(headline(plan, report) + "\n\n");
    let unit = match report.unit {
        "body" => "bodies",
        _ => "requests",
    };
    lines.add(unit, thousands(report.requests));
    lines.add("  answered 2.xx", thousands(report.answered));
    lines.add("  errors", thousands(report.errors()));
    for (name, count) in report.errors.iter().filter(|(name, _)| *name != "total") {
        let kind = ErrorKind::ALL.into_iter().find(|t| t.name() == name);
        let words = kind.map_or(name.as_str(), |kind| kind.words());
        lines.add(&format!("    {}", thousands(*count)), words);
    }
    if report.interrupted || report.unfinished > 0 {
        lines.add("  not finished", thousands(report.unfinished));
    }
    lines.add(
        "rate",
        format_args!("{} {unit}/s", figure(report.rate_per_s)),
    );
    if plan.mode.moves_bodies() {
        let megabytes = figure(report.megabytes_per_s);
        lines.add("throughput", format_args!("{megabytes} MB/s"));
    }
    lines.count("  of another ETag", report.bodies_changed);
    let what = match report.unit {
        "body" => "time per body, us",
        _ => "latency, us",
    };
    lines.percentiles(what, report.latency_us.as_ref());
    open_loop(&mut lines, report);
    dtls(&mut lines, report);
    messages(&mut lines, plan, report);
    cpu(&mut lines, report);
    lines.0
}

fn headline(plan: &Plan, report: &Report) -> String {
    let uri = &plan.target.uri;
    let what = match plan.mode {
        Mode::Get => format!("GET {uri}"),
        Mode::Post => format!("POST {uri}, {} bytes", plan.request.payload.len()),
        Mode::Block => format!("download {uri}"),
        Mode::Upload => format!(
            "{} {uri}, {} bytes",
            plan.request.code.name().unwrap_or("upload"),
            thousands(plan.request.payload.len() as u64)
        ),
    };
    let pace = match (plan.mode, plan.pace) {
        (Mode::Block | Mode::Upload, _) => format!("{} in parallel", plan.ports),
        (_, Pace::Closed) => format!("{} outstanding over {} ports", plan.outstanding, plan.ports),
        (_, Pace::Open { rate, arrivals, .. }) => {
            let arrivals = match arrivals {
                Arrivals::Constant => "constant",
                Arrivals::Poisson => "Poisson",
            };
            format!("{rate}/s, {arrivals}, over {} ports", plan.ports)
        }
    };
    let seconds = report.seconds;
    let kind = if plan.confirmable { "CON" } else { "NON" };
    let controller = &plan.controller;
    format!("{what}: {pace}, {kind}, {controller}, {seconds:.1} s")
}

fn open_loop(lines: &mut Lines, report: &Report) {
    let Some(open) = &report.open_loop else {
        return;
    };
    lines.add("meant to be sent", thousands(open.intended));
    lines.count("  not sent", open.not_sent);
    lines.count("  over 1 ms late", open.late);
    lines.add("  longest delay, us", figure(open.longest_delay_us));
    if open.not_sent > 0 {
        lines.add(
            "",
            "not sent: no room for them within --timeout, or before the end; see --outstanding",
        );
    }
}

fn dtls(lines: &mut Lines, report: &Report) {
    let Some(of) = &report.dtls else { return };
    let by = match of.credential {
        "key" => "a pre-shared key",
        other => other,
    };
    let suite = of.suite.unwrap_or("no session");
    let version = of.version;
    lines.add("transport", format_args!("DTLS {version}, {by}, {suite}"));
    lines.count("  more handshakes", of.handshakes);
    if let Some(failure) = of.failure.as_ref().filter(|_| of.failed > 0) {
        lines.add(
            "  failed handshakes",
            format_args!("{}: {failure}", thousands(of.failed)),
        );
    }
}

fn messages(lines: &mut Lines, plan: &Plan, report: &Report) {
    let of = &report.messages;
    let limit = limit_by_default(&plan.target);
    let limit = match plan.target.secure {
        Some(_) => format!("{limit}, as a handshake shows where we are"),
        None => format!("{limit} by default for {}", plan.target.address.ip()),
    };
    lines.add("messages sent", thousands(of.sent));
    lines.add("  retransmissions", thousands(of.retransmissions));
    lines.count("  sent for nothing", of.answered_again);
    lines.add(
        "amplification limit",
        format_args!("{}; {} challenged", limit, thousands(of.challenged)),
    );
    lines.count("repeated by server", of.duplicates);
    lines.count("late answers", of.late);
    lines.count("wrong answers", of.wrong.total);
    lines.count("  Message ID", of.wrong.message_id);
    lines.count("  token", of.wrong.token);
    lines.count("  type or code", of.wrong.kind);
    lines.count("  malformed", of.wrong.malformed);
    lines.count("  too long to read", of.wrong.oversized);
}

fn cpu(lines: &mut Lines, report: &Report) {
    let each = |us: Option<f64>| us.map_or("-".to_owned(), figure);
    let unit = report.unit;
    let generator = &report.generator;
    lines.add(
        "generator's CPU",
        format_args!(
            "{} us per {unit}, {:.0} % of a core",
            each(generator.cpu_us_each),
            generator.cpu_share * 100.0
        ),
    );
    if let Some(server) = &report.server {
        lines.add(
            "server's CPU",
            format_args!(
                "{} us per {unit}, {:.0} % of a core",
                each(server.cpu_us_each),
                server.cpu_share * 100.0
            ),
        );
    }
    let server_busy = report
        .server
        .as_ref()
        .is_some_and(|server| server.cpu_share > BUSY);
    if generator.bottleneck && !server_busy {
        lines.add(
            "note",
            "the generator was busy all the time: the server may be faster than this; try --threads",
        );
    }
    if report.message_ids_ran_out {
        lines.add(
            "note",
            "a body needed more blocks than there are Message IDs, and waited; try a larger --block-size",
        );
    }
    if report.source_ports_recurred {
        lines.add(
            "note",
            "source ports ran out: some Message IDs recurred too early",
        );
    }
}

/// Three digits that count, or all before the point.
fn figure(value: f64) -> String {
    match value {
        v if v >= 1e4 => thousands(v.round() as u64),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_and_grouped() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(thousands),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [0.123, 9.876, 12.34, 345.6, 12_345.6].map(figure),
            ["0.12", "9.88", "12.3", "346", "12,346"]
        );
    }
}
