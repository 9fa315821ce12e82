//! Calls as the page makes them.

use serde_json::{Value, json};

use super::call;

fn result(request: &Value) -> Value {
    serde_json::from_str(&call(&request.to_string())).expect("JSON")
}

fn ok(request: &Value) -> Value {
    let mut result = result(request);
    assert_eq!(result["error"], Value::Null, "{request}");
    result["ok"].take()
}

/// A download of 20 kB over GPRS with more losses.
fn download() -> Value {
    json!({
        "link": { "name": "gprs", "loss": "8 %", "traffic": "firmware", "clients": 2, "size": 20_000 },
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
    assert!(has(
        "presets",
        "Lee et al. 2016: 100 clients, one slow link"
    ));
}

#[test]
fn a_source_is_checked_and_copied() {
    let checked = ok(&json!({ "call": "check", "source": download(), "seeds": 20 }));
    assert_eq!(checked["algorithms"], json!(["default", "cocoa-plus"]));
    assert_eq!(checked["jobs_per_seed"], 2);
    let text = checked["text"].as_str().expect("text");
    assert!(
        text.contains("seeds = 20") && text.contains("rate = \"80 kbit/s\""),
        "{text}"
    );
    assert!(text.contains("nstart = 1\n"), "{text}");
    let mut windowed = download();
    windowed["link"]["nstart"] = 4.into();
    let more = ok(&json!({ "call": "check", "source": windowed, "seeds": 20 }));
    assert_eq!(more["text"], text.replace("nstart = 1\n", "nstart = 4\n"));
    let compare = checked["compare"].as_str().expect("a command");
    assert_eq!(
        compare,
        "carob lab compare --link gprs --loss '8 %' --traffic firmware --clients 2 --size 20000"
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

/// A trace of a link with an outage, for both directions.
const TRACE: &str =
    "time_ms,rate_kbit_s,delay_ms\n0,30,300\n4000,0,300\n6000,60,100\n9000,30,200\n";

/// [`download`] over [`TRACE`].
fn drawn() -> Value {
    let mut source = download();
    for key in ["trace_down", "trace_up"] {
        source["link"][key] = TRACE.into();
    }
    source
}

#[test]
fn a_drawn_link_is_checked_and_copied() {
    let checked = ok(&json!({ "call": "check", "source": drawn(), "seeds": 3 }));
    let text = checked["text"].as_str().expect("text");
    assert_eq!(
        text.matches(&format!("trace = \"\"\"\n{TRACE}\"\"\""))
            .count(),
        2,
        "{text}"
    );
    let compare = checked["compare"].as_str().expect("a command");
    assert!(
        compare.starts_with("cat > down.csv <<'EOF'\ntime_ms,"),
        "{compare}"
    );
    assert!(
        compare.contains(" --trace-down down.csv --trace-up up.csv --traffic firmware"),
        "{compare}"
    );
    let mut bad = drawn();
    bad["link"]["trace_up"] = "time_ms,delay_ms\n0,x\n".into();
    let wrong = result(&json!({ "call": "check", "source": bad, "seeds": 1 }));
    assert!(
        wrong["error"]
            .as_str()
            .expect("an error")
            .contains("line 2"),
        "{wrong}"
    );
}

#[test]
fn packets_of_a_drawn_link_follow_its_trace() {
    let run = ok(&json!({ "call": "watch", "source": drawn(), "algorithm": "default", "seed": 1 }));
    let trace = &run["down"]["trace"];
    assert_eq!(trace["rate_bps"], json!([30_000, 0, 60_000, 30_000]));
    let column = |name: &str| -> Vec<u64> {
        let all = run["packets"][name].as_array().expect("a column");
        all.iter()
            .map(|value| value.as_u64().expect("a number"))
            .collect()
    };
    let [up, fate, departed, arrived] = ["up", "fate", "departed", "arrived"].map(column);
    let numbers = |name: &str| -> Vec<u64> {
        let all = trace[name].as_array().expect("a column");
        all.iter()
            .map(|value| value.as_u64().expect("a number"))
            .collect()
    };
    let (at, delays) = (numbers("at"), numbers("delay"));
    let (offset, length) = (
        trace["offset"].as_u64().expect("a time"),
        trace["length"].as_u64().expect("a time"),
    );
    let mut latest = 0;
    let mut counted = 0;
    for k in 0..up.len() {
        if up[k] == 1 || fate[k] != 1 {
            continue;
        }
        let into = (departed[k] + offset) % length;
        let row = at.partition_point(|row| *row <= into) - 1;
        // The link does not reorder packets.
        latest = latest.max(departed[k] + delays[row]);
        assert_eq!(arrived[k], latest, "packet {k}");
        counted += 1;
    }
    assert!(counted > 30, "{counted}");
}

#[test]
fn an_opened_trace_has_means_over_steps_and_a_name() {
    let steps = ok(&json!({ "call": "trace", "name": "a.csv", "text": TRACE, "steps": 4 }));
    assert_eq!(steps["seconds"], 12.0);
    assert_eq!(steps["rate"], json!([30.0, 10.0, 60.0, 30.0]));
    assert_eq!(steps["loss"], json!([]));
    // Its name gives the same runs as its text, and is in copied commands.
    let mut source = drawn();
    for key in ["trace_down", "trace_up"] {
        source["link"][key] = "a.csv".into();
    }
    let runs = |source: &Value| {
        ok(&json!({ "call": "runs", "source": source, "first": 1, "count": 2, "samples": [] }))
    };
    assert_eq!(runs(&source), runs(&drawn()));
    let checked = ok(&json!({ "call": "check", "source": source, "seeds": 3 }));
    assert_eq!(checked["files"], json!(["a.csv"]));
    let text = checked["text"].as_str().expect("text");
    assert_eq!(text.matches("trace = \"a.csv\"").count(), 2, "{text}");
    let compare = checked["compare"].as_str().expect("a command");
    assert!(
        compare.starts_with("carob lab compare") && compare.contains(" --trace-up a.csv "),
        "{compare}"
    );
    let wrong = result(
        &json!({ "call": "trace", "name": "b.csv", "text": "time_ms,speed\n0,1\n", "steps": 4 }),
    );
    assert!(
        wrong["remedy"]
            .as_str()
            .expect("a remedy")
            .contains("Mahimahi"),
        "{wrong}"
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
fn a_ranking_has_percentiles_of_runs_and_of_single_samples() {
    let samples: Vec<u32> = (0..=100).collect();
    let ranking = ok(&json!({
        "call": "ranking", "reference": "a", "values": { "a": [1.0, 3.0] },
        "samples": { "a": samples },
    }));
    assert_eq!(ranking[0]["statistics"]["p50"], 2.0);
    assert_eq!(ranking[0]["samples"]["p95"], 95.0);
    assert_eq!(ranking[0]["samples"]["p99"], 99.0);
}

#[test]
fn names_of_a_figure_have_looks() {
    let looks = ok(&json!({ "call": "looks", "names": ["default", "fasor"] }));
    assert_eq!(looks, json!([[0, 0], [1, 1]]));
}

#[test]
fn samples_of_seeds_match_the_rows() {
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

#[test]
fn a_search_gets_its_runs_from_other_instances() {
    let link = json!({ "name": "umts", "traffic": "command", "clients": 2 });
    let mut step = ok(&json!({ "call": "search", "link": link }));
    let so_far = || ok(&json!({ "call": "search-so-far" }));
    assert!(so_far().is_null(), "no run was made");
    let mut made = 0;
    let mut last = Value::Null;
    while step["answer"].is_null() {
        last = so_far();
        let mut place = 0;
        for request in step["requests"].as_array().expect("requests") {
            let results = ok(&json!({ "call": "search-runs", "link": link, "request": request }));
            let count = results.as_array().expect("results").len();
            ok(&json!({ "call": "search-results", "place": place, "results": results }));
            place += count;
        }
        made += place;
        step = ok(&json!({ "call": "search-step" }));
    }
    let mut question = carob_lab::compare::Traffic::named("command").expect("known");
    question.clients = 2;
    let link = carob_lab::compare::Link::built_in("umts").expect("built in");
    let answer = carob_lab::compare::Question::new(link, question).answer(&|_| {});
    let answer = answer.expect("possible");
    assert_eq!(step["answer"]["words"], json!(answer.words()));
    assert!(made > 1_000 && step["answer"]["runs"].as_u64() >= Some(made as u64));
    let words = last["words"][0].as_str().expect("a sentence");
    assert!(words.starts_with("Interrupted; so far: "), "{words}");
    // The answer ends the search.
    let over = result(&json!({ "call": "search-step" }));
    assert_eq!(over["remedy"], "begin it again");
}

/// Columns of a watched run, and the counts of its record.
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
fn a_run_over_tcp_has_its_segments() {
    for (algorithm, seed) in [("tcp-newreno", 1), ("tcp-cubic", 2), ("tcp-bbr1", 3)] {
        let mut source = download();
        source["algorithms"] = json!([algorithm]);
        let runs = ok(
            &json!({ "call": "runs", "source": source, "first": seed, "count": 1, "samples": [] }),
        );
        let watched = watched(&source, algorithm, seed);
        assert_eq!(watched["hash"], runs[0]["hash"], "{algorithm}");
        assert_eq!(watched["tcp"], true);
        let packets = &watched["packets"];
        let column = |name: &str| numbers(&packets[name]);
        // Two clients.
        let of = |name: &str| (runs[0]["means"][name].as_f64().expect("a mean") * 2.0).round();
        let of = |name: &str| of(name) as u64;
        let data = column("id");
        let [way, client, seq, again, spurious] =
            ["up", "client", "item", "again", "spurious"].map(column);
        let mut seen = std::collections::BTreeSet::new();
        let mut counted = [0, 0];
        for k in (0..data.len()).filter(|k| data[*k] > 0) {
            let is_first = seen.insert((way[k], client[k], seq[k]));
            assert_eq!(again[k] == 0, is_first, "{algorithm}, packet {k}");
            assert!(again[k] >= spurious[k]);
            counted = [counted[0] + again[k], counted[1] + spurious[k]];
        }
        // A flow counts until its end, and a retransmission may follow.
        for (count, name) in counted.into_iter().zip(["retransmissions", "spurious"]) {
            assert!(
                (of(name)..=of(name) + 2).contains(&count),
                "{algorithm}: {count} {name}"
            );
        }
        assert!(counted[0] > 0, "{algorithm}");
        // Data of the download reach the clients once and for all.
        let [up, sent, departed, arrived, fate] =
            ["up", "sent", "departed", "arrived", "fate"].map(column);
        let down = |k: &usize| up[*k] == 0 && fate[*k] == 1;
        let got: u64 = (0..up.len()).filter(down).map(|k| data[k]).sum();
        assert!(got >= 40_000, "{got}");
        let delay = watched["down"]["delay"].as_u64().expect("a delay");
        for k in (0..up.len()).filter(down) {
            assert!(departed[k] >= sent[k]);
            assert_eq!(arrived[k], departed[k] + delay, "{algorithm}, packet {k}");
        }
    }
}

#[test]
fn packets_leave_the_bottleneck_on_schedule() {
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
