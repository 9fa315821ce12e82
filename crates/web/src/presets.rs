//! Experiments to begin with: headline experiments of the studies. Their scenarios have the numbers in the texts. Further
//! lists for the page: links, traffic, controllers, scenarios, metrics.

use carob_lab::compare::{BUILT_IN, LEFT_OUT, TRAFFIC, WrittenLink};
use carob_lab::metrics::METRICS;
use carob_lab::registry::Registry;
use carob_lab::scenario::{Cell, Scenario, builtin};
use serde_json::{Value, json};

/// A cell of a built-in scenario with what to see in it.
struct Preset {
    /// Name in the page's address.
    id: &'static str,
    /// Short form of the study's source.
    study: &'static str,
    /// Heading. A key in braces is replaced by its value in the cell, also in `about`.
    heading: &'static str,
    about: &'static str,
    scenario: &'static str,
    cell: &'static str,
    algorithms: &'static str,
    seeds: u64,
    /// Metric shown first; the scenario's own if empty.
    metric: &'static str,
}

const PRESETS: [Preset; 6] = [
    Preset {
        id: "loss",
        study: "Pesola 2020",
        heading: "a download at error level {link.error}",
        about: "{workload.response} in blocks of {workload.block} over {link.down.rate}. See CoCoA finish long before default CoAP: \
                its timers follow the measured round trip.",
        scenario: "thesis/long",
        cell: "long-1c-high-2500",
        algorithms: "default,cocoa-001,carob",
        seeds: 40,
        metric: "",
    },
    Preset {
        id: "tcp",
        study: "Pesola 2020",
        heading: "CoAP over UDP or TCP",
        about: "{workload.response} over {link.down.rate}, error level {link.error}. See TCP New Reno finish long before: it keeps \
                the link full, and block-wise transfer has one block in flight.",
        scenario: "thesis/long",
        cell: "long-1c-none-2500",
        algorithms: "default,cocoa-001,tcp-newreno,tcp-bbr1",
        seeds: 20,
        metric: "",
    },
    Preset {
        id: "clients",
        study: "Lee et al. 2016",
        heading: "{workload.clients} clients, one slow link",
        about: "{workload.clients} clients on {link.down.rate}. See default CoAP spend the link on spurious retransmissions, and \
                controllers that measure answer more requests a second.",
        scenario: "retrycount/clients",
        cell: "clients-100",
        algorithms: "default,rtt-count,cocoa-03,carob",
        seeds: 20,
        metric: "throughput_rps",
    },
    Preset {
        id: "observers",
        study: "Betzler et al. 2016",
        heading: "notifications over GPRS",
        about: "A server notifies {workload.subscribers} observers at once every {workload.interval}. See bursts overflow the buffer \
                of {link.buffer} under default CoAP, and drawn intervals spread them.",
        scenario: "nonobserve/gprs",
        cell: "gprs-60s-100S5n",
        algorithms: "default,observe-static,cocoa-002,carob",
        seeds: 10,
        metric: "pdr",
    },
    Preset {
        id: "mesh",
        study: "Betzler et al. 2015",
        heading: "a lossy grid of IEEE 802.15.4",
        about: "A grid of {mesh.topology} nodes sends {traffic.load} to one sink over several hops. See where the frames queue, and \
                how often a node of the far corner sends again.",
        scenario: "cocoaplus/constant",
        cell: "constant-6x6-lossy-5kbit",
        algorithms: "default,cocoa-v0,cocoa-plus",
        seeds: 10,
        metric: "pdr",
    },
    Preset {
        id: "rpl",
        study: "Vallati et al. 2020",
        heading: "RPL under load",
        about: "Each node of a sparse testbed sends {workload.message} every {traffic.period}. See retransmissions raise the ETX of \
                links, and nodes change their parents because of it.",
        scenario: "rpl/pint-rpl",
        cell: "pint-rpl-1s",
        algorithms: "default,cocoa-004-text",
        seeds: 10,
        metric: "pdr",
    },
];

/// The presets as the page lists them: heading, text, and the state of the page.
pub(crate) fn presets() -> Vec<Value> {
    PRESETS.iter().filter_map(Preset::entry).collect()
}

impl Preset {
    /// None without its scenario and cell, of which a test has all.
    fn entry(&self) -> Option<Value> {
        let (file, _) = builtin::find(self.scenario)?;
        let scenario = Scenario::read(file.name, file.text, &[]).ok()?;
        let cell = scenario.cell(self.cell)?;
        Some(json!({
            "id": self.id,
            "name": format!("{}: {}", self.study, filled(self.heading, cell)),
            "about": filled(self.about, cell),
            "state": {
                "scenario": self.scenario, "cell": self.cell, "cc": self.algorithms, "seeds": self.seeds,
                "metric": self.metric,
            },
        }))
    }
}

/// A text with the cell's values in the place of keys; an unknown key stays.
fn filled(text: &str, cell: &Cell) -> String {
    let mut parts = text.split('{');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (key, rest) = part.split_once('}').unwrap_or((part, ""));
        match cell.setting(key) {
            Some(value) => filled += &value,
            None => filled = format!("{filled}{{{key}}}"),
        }
        filled += rest;
    }
    filled
}

pub(crate) fn about() -> Value {
    let controllers = Registry::BUILT_IN.entries().map(|entry| {
        let is_compared = LEFT_OUT.iter().all(|(name, _)| *name != entry.name);
        json!({
            "name": entry.name, "about": entry.about, "source": entry.source,
            "compared": is_compared,
        })
    });
    let traffic = TRAFFIC
        .iter()
        .map(|(name, _, about)| json!({ "name": name, "about": about }));
    let metrics = METRICS
        .iter()
        .map(|metric| json!({ "name": metric.name, "unit": metric.unit, "about": metric.about }));
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "presets": presets(),
        "links": BUILT_IN.iter().map(|link| link_entry(link.name, link.source)).collect::<Vec<_>>(),
        "traffic": traffic.collect::<Vec<_>>(),
        "controllers": controllers.collect::<Vec<_>>(),
        "scenarios": scenarios(),
        "metrics": metrics.collect::<Vec<_>>(),
    })
}

fn link_entry(name: &str, source: &str) -> Value {
    let written = WrittenLink::built_in(name).unwrap_or_default();
    let of = |key| written.get(key);
    json!({
        "name": name, "source": source, "mesh": of("mesh"),
        "down": of("down"), "up": of("up"), "rtt": of("rtt"), "jitter": of("jitter"),
        "loss": of("loss"), "loss_burst": of("loss_burst"), "buffer": of("buffer"),
        "mtu": of("mtu"),
    })
}

fn scenarios() -> Vec<Value> {
    let all = builtin::ALL.iter().map(|file| {
        let read = Scenario::read(file.name, file.text, &[]);
        let about = read.map(|read| read.about().to_owned()).unwrap_or_default();
        json!({ "name": file.name, "about": about })
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use carob_lab::metrics::METRICS;

    use super::*;

    #[test]
    fn every_preset_is_of_a_scenario_and_has_its_numbers() {
        let all = presets();
        assert_eq!(all.len(), PRESETS.len());
        for (preset, entry) in PRESETS.iter().zip(&all) {
            let text = format!("{} {}", entry["name"], entry["about"]);
            assert!(!text.contains(['{', '}']), "{text}");
            let algorithms: Vec<String> = preset.algorithms.split(',').map(str::to_owned).collect();
            let (file, _) = builtin::find(preset.scenario).expect("a scenario");
            Scenario::with_algorithms(file.name, file.text, &[], Some(&algorithms))
                .expect("known ones");
            let is_known = METRICS.iter().any(|metric| metric.name == preset.metric);
            assert!(is_known || preset.metric.is_empty(), "{}", preset.metric);
        }
    }

    #[test]
    fn a_changed_scenario_changes_the_text() {
        let (file, _) = builtin::find("retrycount/clients").expect("a scenario");
        let set = ["down.rate=7 kbit/s".to_owned()];
        let scenario = Scenario::read(file.name, file.text, &set).expect("a valid one");
        let cell = scenario.cell("clients-50").expect("a cell");
        let text = filled(
            "{workload.clients} clients on {link.down.rate}, {no.key}.",
            cell,
        );
        assert_eq!(text, "50 clients on 7 kbit/s, {no.key}.");
    }
}
