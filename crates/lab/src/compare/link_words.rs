//! Links in words.

use super::link::Link;
use super::words::seconds;
use crate::scenario::value::Value;

impl Link {
    /// One line: the numbers of the link.
    pub fn about(&self) -> String {
        let unvalidated = if self.is_unvalidated {
            "; not validated"
        } else {
            ""
        };
        if let Some(mesh) = &self.mesh {
            return mesh.about();
        }
        let burst = match self.more.get("loss_burst_time") {
            Some(Value::Time(Some(time))) => format!(" in runs of {time}"),
            _ if self.loss_burst_milli == 1_000 => String::new(),
            _ => {
                let packets = f64::from(self.loss_burst_milli) / 1_000.0;
                format!(" in runs of {packets} packets")
            }
        };
        let jitter = if self.jitter_us == 0 {
            String::new()
        } else {
            format!(" (up to {} more each way)", time_text(self.jitter_us))
        };
        let percent = |ppm: u32| f64::from(ppm) / 10_000.0;
        let loss = match self.losses() {
            [down, up] if down == up => format!("{} % lost each way", percent(down)),
            [down, up] => format!("{} % lost down, {} % up", percent(down), percent(up)),
        };
        let shown = |(key, _): &(&String, &Value)| !is_shown(key);
        let more = self.more.iter().filter(shown);
        let more = more.map(|(key, value)| match value {
            Value::Distribution(of) => {
                let mean = seconds(of.mean().as_micros() as f64 / 1e6);
                format!(", {} {mean} on average", words(key))
            }
            value if key == "changes" => format!(", {}", changes_text(&value.to_string())),
            value => format!(", {} {value}", words(key)),
        });
        let more: String = more.collect();
        let [has_rate, has_delay, has_loss] = self.traces.replaced();
        let rates = [(self.down_bps, "down"), (self.up_bps, "up")];
        let rates = rates.iter().zip(has_rate).filter(|(_, of_trace)| !of_trace);
        let mut numbers: Vec<String> = rates
            .map(|((bps, way), _)| format!("{} {way}", rate_text(*bps)))
            .collect();
        if has_delay != [true; 2] {
            numbers.push(format!("round trip {}{jitter}", time_text(self.rtt_us)));
        }
        if has_loss != [true; 2] {
            numbers.push(format!("{loss}{burst}"));
        }
        format!(
            "{}{}buffers {} B, MTU {} B{more}{}{unvalidated}",
            numbers.join(", "),
            if numbers.is_empty() { "" } else { ", " },
            self.buffer_bytes,
            self.mtu,
            self.traces.about(),
        )
    }
}

/// Returns true for keys that the numbers of a link already show.
fn is_shown(key: &str) -> bool {
    let (_, own) = key.split_once('.').unwrap_or(("", key));
    matches!(own, "delay" | "loss" | "loss_burst_time" | "buffer")
}

/// Changes of the path in words; random times by their mean.
fn changes_text(changes: &str) -> String {
    let plain = changes.replace("exponential ", "");
    let drawn = if plain == changes { "" } else { " on average" };
    plain + drawn
}

/// A key in words, such as `up device rate`.
fn words(key: &str) -> String {
    key.replace(['.', '_'], " ")
}

/// A rate in its largest unit.
pub(super) fn rate_text(bps: u64) -> String {
    match bps {
        1_000_000.. => format!("{} Mbit/s", bps as f64 / 1e6),
        1_000.. => format!("{} kbit/s", bps as f64 / 1e3),
        _ => format!("{bps} bit/s"),
    }
}

/// A time in its largest unit.
pub(super) fn time_text(us: u64) -> String {
    match us {
        1_000_000.. => format!("{} s", us as f64 / 1e6),
        1_000.. => format!("{} ms", us as f64 / 1e3),
        _ => format!("{us} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_times_are_told_by_their_mean_in_three_digits() {
        let link = Link::built_in("nb-iot").expect("a built-in link");
        let text = link.about();
        assert!(text.contains(", idle setup 1.64 s on average,"), "{text}");
    }

    #[test]
    fn drawn_changes_are_told_by_their_mean() {
        let drawn = "outage for exponential 10.8 s every exponential 128 s";
        assert_eq!(
            changes_text(drawn),
            "outage for 10.8 s every 128 s on average"
        );
        assert_eq!(
            changes_text("outage for 3 s every 5 min"),
            "outage for 3 s every 5 min"
        );
    }
}
