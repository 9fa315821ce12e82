//! Calls as the page makes them.

use serde_json::{Value, json};

use super::call;

fn result(request: &Value) -> Value {
    serde_json::from_str(&call(&request.to_string(), &|_, _| {})).expect("JSON")
}

fn ok(request: &Value) -> Value {
    let mut result = result(request);
    assert_eq!(result["error"], Value::Null, "{request}");
    result["ok"].take()
}

/// A download of 20 kB over NB-IoT with more losses.
fn download() -> Value {
    json!({
        "link": { "name": "nb-iot", "loss": "8 %", "traffic": "firmware", "clients": 2, "size": 20_000 },
        "algorithms": ["default", "cocoa-plus"],
    })
}

#[test]
fn lists_name_links_controllers_and_scenarios() {
    let about = ok(&json!({ "call": "about" }));
    let has = |list: &str, name: &str| {
        let list = about[list].as_array().expect("a list");
        list.iter().any(|entry| entry["name"] == name)
    };
    assert!(has("links", "nb-iot") && has("controllers", "carob"));
    assert!(has("scenarios", "carob/default") && has("metrics", "fct_s"));
}

#[test]
fn a_source_is_checked_and_copied() {
    let checked = ok(&json!({ "call": "check", "source": download(), "seeds": 20 }));
    assert_eq!(checked["algorithms"], json!(["default", "cocoa-plus"]));
    assert_eq!(checked["jobs_per_seed"], 2);
    let text = checked["text"].as_str().expect("text");
    assert!(
        text.contains("seeds = 20") && text.contains("rate = \"30000 bit/s\""),
        "{text}"
    );
    let compare = checked["compare"].as_str().expect("a command");
    assert_eq!(
        compare,
        "carob lab compare --link nb-iot --loss '8 %' --traffic firmware --clients 2 --size 20000"
    );
    let scenario = json!({
        "scenario": "thesis/long", "cell": "long-1c-none-2500", "algorithms": ["default"],
        "set": ["down.rate=60 kbit/s"],
    });
    let checked = ok(&json!({ "call": "check", "source": scenario, "seeds": 5 }));
    assert_eq!(
        checked["command"],
        "carob lab run thesis/long-1c-none-2500 --algorithm default --seeds 5 --set 'down.rate=60 kbit/s'"
    );
}

#[test]
fn a_wrong_value_is_named_with_its_remedy() {
    let mut source = download();
    source["link"]["rtt"] = "soon".into();
    let wrong = result(&json!({ "call": "check", "source": source, "seeds": 1 }));
    assert!(
        wrong["error"]
            .as_str()
            .expect("an error")
            .contains("rtt is \"soon\""),
        "{wrong}"
    );
    assert!(
        wrong["remedy"]
            .as_str()
            .expect("a remedy")
            .contains("rtt takes")
    );
    let wrong =
        result(&json!({ "call": "check", "source": { "scenario": "thesis/lang" }, "seeds": 1 }));
    assert!(
        wrong["remedy"]
            .as_str()
            .expect("a remedy")
            .contains("thesis/long")
    );
}

#[test]
fn samples_of_seeds_are_those_of_the_rows() {
    let source = download();
    let rows = ok(&json!({ "call": "rows", "source": source, "seeds": 3 }));
    let rows: Vec<Value> = rows["text"]
        .as_str()
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    let runs = ok(
        &json!({ "call": "runs", "source": source, "first": 1, "count": 3, "samples": ["fct_s"] }),
    );
    let runs = runs.as_array().expect("runs");
    assert_eq!((rows.len(), runs.len()), (6, 6));
    for run in runs {
        let same =
            |row: &&Value| row["algorithm"] == run["algorithm"] && row["seed"] == run["seed"];
        let row = rows.iter().find(same).expect("its row");
        assert_eq!(row["trace_hash"], run["hash"]);
        assert_eq!(row["metrics"]["fct_s"]["mean"], run["means"]["fct_s"]);
        assert_eq!(run["samples"]["fct_s"].as_array().map(Vec::len), Some(2));
    }
}

#[test]
fn a_ranking_has_no_interval_below_ten_seeds() {
    let values = |seeds: u32| {
        let of = |add: f64| {
            (0..seeds)
                .map(|k| f64::from(k % 3) + add)
                .collect::<Vec<f64>>()
        };
        json!({ "call": "ranking", "reference": "a", "values": { "a": of(0.0), "b": of(2.0) } })
    };
    let few = ok(&values(9));
    assert_eq!(few[1]["difference"], Value::Null);
    let many = ok(&values(10));
    assert_eq!(many[0]["difference"], Value::Null, "the reference itself");
    assert_eq!(
        many[1]["difference"],
        json!({ "mean": 2.0, "half": 0.0, "seeds": 10 })
    );
}

/// Columns of a watched run, and what its record says.
fn watched(source: &Value, algorithm: &str, seed: u64) -> Value {
    ok(&json!({ "call": "watch", "source": source, "algorithm": algorithm, "seed": seed }))
}

fn numbers(column: &Value) -> Vec<u64> {
    let column = column.as_array().expect("a column");
    column
        .iter()
        .map(|value| value.as_u64().expect("a number"))
        .collect()
}

#[test]
fn a_watched_run_is_the_run_of_its_row() {
    let mut spurious_seen = 0;
    for (traffic, seed) in [
        ("firmware", 1),
        ("command", 2),
        ("telemetry", 3),
        ("observe", 4),
    ] {
        let mut source = download();
        source["link"]["traffic"] = traffic.into();
        // A timeout below the round-trip time gives spurious retransmissions.
        source["link"]["rtt"] = "2500 ms".into();
        let runs = ok(
            &json!({ "call": "runs", "source": source, "first": seed, "count": 1,
            "samples": ["spurious", "retransmissions"] }),
        );
        let run = &runs[0];
        let watched = watched(&source, "default", seed);
        assert_eq!(watched["hash"], run["hash"], "{traffic}");
        let sum = |name: &str| -> u64 {
            let samples = run["samples"][name].as_array();
            samples
                .into_iter()
                .flatten()
                .filter_map(Value::as_f64)
                .sum::<f64>() as u64
        };
        let marked = |name: &str| numbers(&watched["packets"][name]).iter().sum::<u64>();
        if traffic != "observe" {
            assert_eq!(marked("again"), sum("retransmissions"), "{traffic}");
            assert_eq!(marked("spurious"), sum("spurious"), "{traffic}");
        }
        spurious_seen += marked("spurious");
    }
    assert!(spurious_seen > 10);
}

#[test]
fn packets_leave_the_bottleneck_when_the_link_says() {
    let mut source = download();
    source["link"]["jitter"] = "50 ms".into();
    source["link"]["block"] = 128.into();
    let watched = watched(&source, "default", 7);
    let packets = &watched["packets"];
    let [up, sent, departed, arrived] =
        ["up", "sent", "departed", "arrived"].map(|name| numbers(&packets[name]));
    let fates = numbers(&packets["fate"]);
    let mut latest = [0, 0];
    let mut arrivals = 0;
    for place in 0..sent.len() {
        assert!(departed[place] >= sent[place]);
        if fates[place] != 1 {
            continue;
        }
        arrivals += 1;
        let direction = &watched[if up[place] == 1 { "up" } else { "down" }];
        let delay = direction["delay"].as_u64().expect("a delay");
        let least = departed[place] + delay;
        // Packets never overtake each other.
        let least = least.max(latest[up[place] as usize]);
        assert!(
            (least..=least + 50_000).contains(&arrived[place]),
            "packet {place}"
        );
        latest[up[place] as usize] = arrived[place];
    }
    assert!(arrivals > 100);
    assert!(fates.contains(&2));
}

#[test]
fn a_watched_mesh_has_frames_along_its_links() {
    let source = json!({
        "scenario": "cocoaplus/constant", "cell": "constant-chain-lossy-4kbit", "algorithms": ["cocoa-plus"],
        "set": ["workload.duration=1 min"],
    });
    let watched = watched(&source, "cocoa-plus", 1);
    let runs =
        ok(&json!({ "call": "runs", "source": source, "first": 1, "count": 1, "samples": [] }));
    assert_eq!(watched["hash"], runs[0]["hash"]);
    let links = &watched["links"];
    let [from, to] = ["from", "to"].map(|name| numbers(&links[name]));
    let known: std::collections::BTreeSet<(u64, u64)> = from.into_iter().zip(to).collect();
    let frames = &watched["frames"];
    let integers = |column: &Value| -> Vec<i64> {
        let column = column.as_array().expect("a column");
        column
            .iter()
            .map(|value| value.as_i64().expect("a number"))
            .collect()
    };
    let [at, from, to, sent] = ["at", "from", "to", "sent"].map(|name| integers(&frames[name]));
    assert!(at.len() > 500 && at.is_sorted());
    let mut unicast = 0;
    for place in 0..at.len() {
        if to[place] >= 0 && sent[place] == 1 {
            unicast += 1;
            assert!(
                known.contains(&(from[place] as u64, to[place] as u64)),
                "frame {place}"
            );
        }
    }
    assert!(unicast > 100);
    let again = numbers(&watched["messages"]["again"]);
    let counted = runs[0]["means"]["transmissions"].as_f64();
    let begin = watched["begin"].as_u64().expect("a time");
    let since = numbers(&watched["messages"]["at"]);
    let after = since.iter().filter(|at| **at >= begin).count();
    assert_eq!((Some(after as f64), again.len()), (counted, since.len()));
    assert!(!numbers(&watched["rto"]["at"]).is_empty());
    let nodes = watched["x"].as_array().expect("nodes").len();
    assert_eq!(watched["parents"].as_array().map(Vec::len), Some(nodes));
}
