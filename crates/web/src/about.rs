//! Lists for the page: presets, links, traffic, controllers, scenarios, metrics.

use carob_lab::compare::{BUILT_IN, LEFT_OUT, TRAFFIC, WrittenLink};
use carob_lab::metrics::METRICS;
use carob_lab::registry::Registry;
use carob_lab::scenario::{Scenario, builtin};
use serde_json::{Value, json};

use crate::presets::presets;

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
