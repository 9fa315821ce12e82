//! The network and the workload of cells in numbers, for reports and tables.

use carob_sim::link::LinkSpec;
use carob_sim::spec::NetworkSpec;

use super::keys::{self, Key};
use super::settings::default_of;
use super::{Cell, Scenario, device, impairments, mesh};
use crate::text::distinct;

/// The most values of a swept key that are listed one by one.
const LISTED_MAX: usize = 6;
/// The longest value that is shown whole, in characters.
const SHOWN_MAX: usize = 60;

impl Scenario {
    /// The simulated network of these cells, as (name, value): the link or the wireless network, and the
    /// workload. Values that differ between cells are listed.
    pub fn network(&self, cells: &[&Cell]) -> Vec<(String, String)> {
        let Some(first) = cells.first() else {
            return Vec::new();
        };
        let mut facts = if mesh::is_one(&first.settings) {
            let told =
                |(table, name): (&str, &str)| (name.to_owned(), changed(cells, table).join(", "));
            mesh::TABLES.map(told).into()
        } else {
            self.link(cells)
        };
        facts.push(("Workload".to_owned(), changed(cells, "workload").join(", ")));
        let server = changed(cells, "server").join(", ");
        facts.push(("Server".to_owned(), server));
        facts.push(("Faults".to_owned(), changed(cells, "faults").join(", ")));
        facts.retain(|(_, value)| !value.is_empty());
        facts
    }

    fn link(&self, cells: &[&Cell]) -> Vec<(String, String)> {
        let of = |path: &str| values(cells, path);
        let direction = |name: &str| {
            let [rate, delay] = ["rate", "delay"].map(|key| of(&format!("link.{name}.{key}")));
            format!("{rate}, {delay}")
        };
        let kind = match &*of("link.delay_of") {
            "round-trip" => " (delays are of a round trip)",
            _ => "",
        };
        let link = format!("down {}; up {}{kind}", direction("down"), direction("up"));
        let extra = match of("link.extra_delay") {
            none if none.is_empty() || none == "0 s" => String::new(),
            extra => format!("; {extra} more each way"),
        };
        let own = ["down", "up"].map(|name| of(&format!("link.{name}.buffer")));
        let buffer = match own {
            [down, up] if down.is_empty() && up.is_empty() => of("link.buffer"),
            own => {
                let or_shared = own.map(|b| if b.is_empty() { of("link.buffer") } else { b });
                format!("down {}, up {}", or_shared[0], or_shared[1])
            }
        };
        let impairments = impairments::KEYS.iter().chain(device::KEYS);
        let impairments = changed_keys(cells, impairments);
        let mtu = format!("{}, headers {}", of("link.mtu"), of("link.header"));
        vec![
            ("Link".to_owned(), link + &extra),
            ("Buffer".to_owned(), buffer),
            ("MTU".to_owned(), mtu),
            ("Packet loss".to_owned(), self.loss(cells)),
            ("Changes".to_owned(), changes_of_path(cells)),
            ("Impairments".to_owned(), impairments.join(", ")),
        ]
    }

    /// The shares of packets lost in the long run, by their names.
    fn loss(&self, cells: &[&Cell]) -> String {
        let mut shares: Vec<String> = Vec::new();
        for cell in cells {
            let mut algorithms = self.algorithms().iter();
            let Some(algorithm) = algorithms.find(|a| a.may_run_in(cell)) else {
                continue;
            };
            let NetworkSpec::Link(network) = self.spec(cell, algorithm, 0).network else {
                continue;
            };
            let LinkSpec { down, up } = network.link;
            let [down, up] = [down, up].map(|d| percent(d.loss.mean_ratio()));
            let share = if down == up {
                down
            } else {
                format!("down {down}, up {up}")
            };
            let text = match cell.setting("link.error") {
                Some(word) if word != "none" || share == "0 %" => format!("{word} {share}"),
                _ => share,
            };
            if !shares.contains(&text) {
                shares.push(text);
            }
        }
        match &shares[..] {
            [none] if none == "none 0 %" => "none".to_owned(),
            _ => format!("{} (means)", shares.join(", ")),
        }
    }
}

/// The changes of the path by key.
fn changes_of_path(cells: &[&Cell]) -> String {
    let keys = [
        ("", "link.changes"),
        ("down ", "link.down.changes"),
        ("up ", "link.up.changes"),
    ];
    let texts = keys.map(|(name, path)| (name, values(cells, path)));
    let set = texts.iter().filter(|(_, text)| !text.is_empty());
    let shown: Vec<String> = set.map(|(name, text)| format!("{name}{text}")).collect();
    shown.join("; ")
}

fn percent(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The values of a key in the cells, each once; nothing if none has it.
fn values(cells: &[&Cell], path: &str) -> String {
    let mut texts = distinct(cells.iter().filter_map(|cell| cell.setting(path)));
    if texts.len() > LISTED_MAX {
        let last = texts.pop().unwrap_or_default();
        return format!("{} to {last} ({} values)", texts[0], texts.len() + 1);
    }
    texts.join(", ")
}

fn has_kind(cells: &[&Cell], kind: &str) -> bool {
    values(cells, "workload.kind").contains(kind)
}

/// The keys of a table that are not at their defaults, with their values.
fn changed(cells: &[&Cell], table: &str) -> Vec<String> {
    let of_table = |key: &&Key| key.path.split('.').next() == Some(table);
    changed_keys(cells, keys::all().filter(of_table))
}

/// The keys that differ from their defaults, with their values.
fn changed_keys(cells: &[&Cell], keys: impl Iterator<Item = &'static Key>) -> Vec<String> {
    keys.map(|key| key.path)
        .filter_map(|path| {
            let is_default = |cell: &&&Cell| {
                let own = cell.settings.get(path).map(|s| &s.value);
                own.is_none_or(|own| Some(own) == default_of(path))
            };
            let is_told = match path {
                "workload.clients" => has_kind(cells, "blockwise") || has_kind(cells, "exchanges"),
                "workload.block" => has_kind(cells, "blockwise"),
                _ => false,
            };
            if !is_told && cells.iter().all(|cell| is_default(&cell)) {
                return None;
            }
            let name = path.rsplit('.').next().unwrap_or(path).replace('_', " ");
            let value = super::cases::shown(&values(cells, path));
            let shown = if value.chars().count() > SHOWN_MAX {
                let start: String = value.chars().take(SHOWN_MAX).collect();
                format!("{start}...")
            } else {
                value
            };
            Some(format!("{name} {shown}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Cell, builtin};

    fn network(name: &str, set: &[&str]) -> String {
        let scenario = crate::testing::scenario(name, set);
        let cells: Vec<&Cell> = scenario.cells().iter().collect();
        let facts = scenario.network(&cells);
        let lines: Vec<String> = facts.iter().map(|(k, v)| format!("{k}: {v}")).collect();
        lines.join("\n")
    }

    #[test]
    fn a_link_is_told_in_numbers() {
        let text = network("carob/default", &[]);
        for line in [
            "Link: down 30 kbit/s, 400 ms; up 60 kbit/s, 200 ms; 15 ms more each way",
            "Buffer: 2500 B",
            "MTU: 296 B, headers 28 B",
            "Packet loss: none 0 %, low 2 %, medium 10 %, high 18 % (means)",
            "Workload: kind blockwise-get, clients 1",
            "response 102400 B, block 256 B",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        let text = network(
            "carob/default",
            &["error=none", "loss=5%", "up.rate=20 kbit/s"],
        );
        assert!(text.contains("Packet loss: 5 % (means)"), "{text}");
        assert!(text.contains("up 20 kbit/s, 200 ms"), "{text}");
        assert!(network("thesis/exchange-udp", &[]).contains("Packet loss: none"));
        let set = [
            "reordering=5 %",
            "link.changes=rate / 2 from 5 s",
            "service=1 s",
        ];
        let text = network("carob/default", &set);
        for line in [
            "Changes: rate / 2 from 5 s",
            "Impairments: reordering 5 %",
            "Server: service 1 s",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        let text = network("carob/default", &[]);
        assert!(
            !text.contains("Changes") && !text.contains("Impairments"),
            "{text}"
        );
    }

    #[test]
    fn every_scenario_names_its_network() {
        for file in builtin::ALL {
            let text = network(file.name, &[]);
            let of_link = text.starts_with("Link: down ");
            assert!(of_link || text.starts_with("Wireless network: "), "{text}");
            assert!(text.contains("\nWorkload: "), "{text}");
        }
    }
}
