//! Links near the one asked about.

use carob_cc::time::Duration;

use super::candidates::order;
use super::configuration::Transfer;
use super::judge::RESAMPLES;
use super::link::Link;
use super::link_words::time_text;
use super::traffic::Traffic;
use super::{Flip, Ranked};
use crate::scenario::value::{Value, Values, table};

/// A link of the neighbourhood.
#[derive(Debug)]
pub(super) struct Near {
    pub(super) at: String,
    pub(super) link: Link,
    pub(super) traffic: Traffic,
    /// Values of the scenario: trouble on the path or at the server.
    pub(super) overrides: Values,
    /// Whether a configuration must not be worse than default CoAP there.
    pub(super) is_required: bool,
}

/// Links near the one asked about: loss and round-trip time halved and doubled, one client.
/// Farther ones only show where another configuration would be better.
pub(super) fn neighbourhood(link: &Link, traffic: &Traffic) -> Vec<Near> {
    let mut near = Vec::new();
    let mut add = |at: String, link: Link, traffic: Traffic, is_required| {
        near.push(Near {
            at,
            link,
            traffic,
            overrides: Values::new(),
            is_required,
        });
    };
    if !link.is_mesh {
        // Users know their link within a factor of two at best, so a recommendation must be safe within that.
        let times = [(1, 2, true), (2, 1, true), (5, 1, false)];
        match link.mean_loss_ppm() {
            _ if link.traces.has_loss() => {
                for (numerator, denominator, required) in times {
                    let at = format!("{} the loss", multiple(numerator, denominator));
                    let link = link.with_loss_times(numerator, denominator);
                    add(at, link, traffic.clone(), required);
                }
            }
            0 => {
                for (loss_ppm, required) in [(10_000, true), (50_000, false)] {
                    let link = Link {
                        loss_ppm,
                        ..link.clone()
                    };
                    add(loss_text(&link), link, traffic.clone(), required);
                }
            }
            ppm => {
                for (numerator, denominator, required) in times {
                    let near = link.with_loss_times(numerator, denominator);
                    if near.mean_loss_ppm() != ppm {
                        add(loss_text(&near), near, traffic.clone(), required);
                    }
                }
            }
        }
        for (numerator, denominator, required) in times {
            let near = link.with_round_trip_times(numerator, denominator);
            let at = if link.traces.has_delay() {
                format!("{} the round trip", multiple(numerator, denominator))
            } else {
                format!("round trip {}", time_text(near.rtt_us))
            };
            add(at, near, traffic.clone(), required);
        }
    }
    let clients = match traffic.clients {
        1 => vec![(5, false), (20, false)],
        2..=4 => vec![(1, true)],
        n => vec![(1, true), (n.div_ceil(4), true)],
    };
    for (clients, required) in clients {
        if clients != traffic.clients {
            let at = format!("{clients} device{}", if clients == 1 { "" } else { "s" });
            let mut traffic = traffic.clone();
            traffic.clients = clients;
            add(at, link.clone(), traffic, required);
        }
    }
    if !link.is_mesh {
        let suiting = DISTURBANCES.iter().filter(|one| one.suits(link, traffic));
        near.extend(suiting.map(|one| Near {
            at: one.at.to_owned(),
            link: link.clone(),
            traffic: traffic.clone(),
            overrides: one.overrides_of(link),
            is_required: true,
        }));
    }
    near
}

/// Disturbance that a recommendation must survive, from 10 s after the start.
struct Disturbance {
    at: &'static str,
    /// Changes of the path (`link.changes`).
    changes: Option<&'static str>,
    /// Keys that a trace must not replace.
    replaces: Option<Quantity>,
}

/// A quantity that traces or traffic may not leave to a disturbance.
#[derive(Clone, Copy)]
enum Quantity {
    Rate,
    Delay,
    Service,
}

impl Disturbance {
    /// Its values on a link: changes of the path follow the link's, and radios of devices are slower
    /// from the start.
    fn overrides_of(&self, link: &Link) -> Values {
        let Some(changes) = self.changes else {
            let pause = [("pause", 10), ("pause_duration", 5)];
            let pause = pause.map(|(key, secs)| (key, Duration::from_secs(secs).into()));
            return table("server", pause).collect();
        };
        let all = match link.more.get("changes") {
            Some(own) => format!("{own}; {changes}"),
            None => changes.to_owned(),
        };
        let mut values: Values = table("link", [("changes", Value::Text(all))]).collect();
        if matches!(self.replaces, Some(Quantity::Rate)) {
            for key in ["down.device_rate", "up.device_rate"] {
                // `link.changes` acts on the shared link only, not on the radio of each device.
                if let Some(Value::Rate(bps)) = link.more.get(key) {
                    values.insert(format!("link.{key}"), Value::Rate(bps.div_ceil(5)));
                }
            }
        }
        values
    }

    fn suits(&self, link: &Link, traffic: &Traffic) -> bool {
        match self.replaces {
            None => true,
            // A server of notifications has no service time.
            Some(Quantity::Service) => !traffic.is_observe(),
            Some(Quantity::Rate) => !link.traces.has_rate(),
            Some(Quantity::Delay) => !link.traces.has_delay(),
        }
    }
}

const DISTURBANCES: [Disturbance; 5] = [
    Disturbance {
        at: "a fifth of the rate",
        changes: Some("rate / 5 from 10 s"),
        replaces: Some(Quantity::Rate),
    },
    Disturbance {
        at: "an outage of 3 s",
        changes: Some("outage from 10 s for 3 s"),
        replaces: None,
    },
    Disturbance {
        at: "an outage of 30 s",
        changes: Some("outage from 10 s for 30 s"),
        replaces: None,
    },
    Disturbance {
        at: "ten times the delay for a minute",
        changes: Some("delay x 10 from 10 s for 60 s"),
        replaces: Some(Quantity::Delay),
    },
    Disturbance {
        at: "a server that pauses for 5 s",
        changes: None,
        replaces: Some(Quantity::Service),
    },
];

fn loss_text(link: &Link) -> String {
    format!("loss {} %", f64::from(link.mean_loss_ppm()) / 10_000.0)
}

/// A factor in words.
fn multiple(numerator: u32, denominator: u32) -> String {
    match (numerator, denominator) {
        (1, 2) => "half".to_owned(),
        (2, 1) => "twice".to_owned(),
        (n, _) => format!("{n} times"),
    }
}

/// Costs of all runs, without resamples.
pub(super) fn firsts_of(costs: &[Vec<f64>]) -> Vec<f64> {
    costs.iter().map(|costs| costs[0]).collect()
}

/// Links nearby where another configuration, within all limits there, costs at least 5 % less than the
/// recommended one, in 95 % of resamples.
pub(super) fn flips(
    near: &[Near],
    costs: &[Vec<Option<Vec<f64>>>],
    ranked: &[Ranked],
    recommended: usize,
) -> Vec<Flip> {
    let mut flips = Vec::new();
    for (one, costs) in near.iter().zip(costs) {
        let first = |(costs, one): (&Option<Vec<f64>>, &Ranked)| match costs {
            Some(all) if one.configuration.transfer == Transfer::Block => all[0],
            _ => f64::INFINITY,
        };
        let firsts = costs.iter().zip(ranked).map(first);
        let best = order(&firsts.collect::<Vec<_>>())[0];
        let (Some(cheapest), Some(own)) = (&costs[best], &costs[recommended]) else {
            continue;
        };
        let ratios: Vec<f64> = cheapest.iter().zip(own).map(|(a, b)| a / b).collect();
        let sure = ratios[1..].iter().filter(|ratio| **ratio < 0.95).count();
        if best != recommended && sure * 100 >= RESAMPLES * 95 {
            flips.push(Flip {
                at: one.at.clone(),
                configuration: ranked[best].configuration,
                cost: ratios[0],
            });
        }
    }
    flips
}
