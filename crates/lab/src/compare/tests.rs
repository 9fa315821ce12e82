//! Tests of whole comparisons.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::candidates::with_peer;
use super::runs::is_possible;
use super::*;
use carob_cc::time::Duration;
use carob_sim::link::LossSpec;
use carob_sim::spec::NetworkSpec;

use crate::scenario::Scenario;
use crate::scenario::value::Value;

fn question(link: &str, traffic: &str) -> Question {
    let link = Link::built_in(link).expect("a built-in link");
    Question::new(link, Traffic::named(traffic).expect("known traffic"))
}

#[test]
fn written_scenario_file_repeats_the_compared_run() {
    for (link, traffic) in [
        ("nb-iot", "firmware"),
        ("3g", "observe"),
        ("tsch", "command"),
        ("thread", "telemetry"),
    ] {
        let question = question(link, traffic);
        let default = question.default_coap();
        let text = question.scenario_text(&["default"], &default, 1);
        let read = Scenario::read("a.toml", &text, &[]).expect(&text);
        let written = read.spec(&read.cells()[0], &read.algorithms()[0], 1);
        let compared = question.spec(&Values::new()).expect("possible");
        assert_eq!(format!("{written:?}"), format!("{compared:?}"), "{text}");
    }
}

#[test]
fn slow_recommendation_does_not_depend_on_the_number_of_threads() {
    let of = |threads| {
        let answer = crate::run::on_threads(Some(threads), || {
            question("lte-m", "command").answer(&|_| {})
        });
        let answer = answer.expect("a pool").expect("possible");
        serde_json::to_string(&answer).expect("plain data")
    };
    assert_eq!(of(1), of(3));
}

/// The answer of a search whose runs are made in pieces of `seeds` seeds, the last piece first.
fn in_pieces(question: &Question, most: u64) -> Answer {
    let (mut search, maker) = (question.search(), question.run_maker());
    loop {
        let requests = match search.step() {
            Step::Answer(answer) => return *answer,
            Step::Runs(requests) => requests,
        };
        let mut pieces = Vec::new();
        let mut place = 0;
        for request in requests {
            for first in (0..request.count).step_by(most as usize) {
                let count = most.min(request.count - first);
                let text = serde_json::to_string(&RunRequest {
                    first: request.first + first,
                    count,
                    ..request.clone()
                });
                pieces.push((place, text.expect("plain data")));
                place += count as usize;
            }
        }
        for (place, text) in pieces.into_iter().rev() {
            let request: RunRequest = serde_json::from_str(&text).expect("a request");
            let results = maker.make(&request).expect("possible");
            for (k, result) in results.iter().enumerate() {
                search.add(place + k, result).expect("its place");
            }
        }
    }
}

#[test]
fn nightly_recommendation_does_not_depend_on_batches_of_runs() {
    for (link, traffic, most) in [("umts", "command", 7), ("nb-iot", "telemetry", 100)] {
        let question = question(link, traffic);
        let one = question.answer(&|_| {}).expect("possible");
        let other = in_pieces(&question, most);
        let [one, other] =
            [one, other].map(|answer| serde_json::to_string(&answer).expect("plain data"));
        assert_eq!(one, other);
    }
}

#[test]
fn results_of_unrequested_runs_are_rejected() {
    let question = question("umts", "command");
    let (mut search, maker) = (question.search(), question.run_maker());
    let Step::Runs(requests) = search.step() else {
        panic!("no search is without runs");
    };
    let total: u64 = requests.iter().map(|request| request.count).sum();
    let one = RunRequest {
        count: 1,
        ..requests[0].clone()
    };
    let results = maker.make(&one).expect("possible");
    assert_eq!(results.len(), 1);
    assert!(search.add(0, &results[0]).is_ok());
    let beyond = search.add(total as usize, &results[0]).expect_err("beyond");
    assert!(beyond.what.contains("is unknown"), "{beyond}");
    assert!(search.add(1, &results[0][..3]).is_err());
    // The same runs are requested until all have their results.
    assert!(matches!(search.step(), Step::Runs(again) if again == requests));
    let unknown = RunRequest {
        controller: "none".to_owned(),
        ..one
    };
    assert!(maker.make(&unknown).is_err());
}

#[test]
fn slow_progress_reports_as_many_planned_as_finished_runs() {
    let (planned, made) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let answer = question("umts", "command").answer(&|step| {
        match step {
            Progress::Planned(more) => planned.fetch_add(more, Ordering::Relaxed),
            Progress::Made => made.fetch_add(1, Ordering::Relaxed),
        };
    });
    let answer = answer.expect("possible");
    assert_eq!(planned.into_inner(), made.load(Ordering::Relaxed));
    assert!(answer.runs >= made.into_inner());
}

#[test]
fn nightly_costs_are_relative_to_default_coap() {
    let answer = question("umts", "command")
        .answer(&|_| {})
        .expect("possible");
    let default = answer.default_coap();
    assert_eq!(default.configuration.controller, "default");
    assert_eq!((default.cost.low, default.cost.high), (1.0, 1.0));
    let best = answer.recommended();
    assert!(best.excluded.is_empty());
}

#[test]
fn an_invalid_link_is_an_error_with_a_remedy() {
    let text =
        "[link]\ndown = \"1 kbit/s\"\nup = \"1 kbit/s\"\nloss = \"50 %\"\nloss_burst = \"0.5\"";
    let link = Link::from_file("l.toml", text).expect("it reads");
    let traffic = Traffic::named("command").expect("known");
    let error = Question::new(link, traffic)
        .answer(&|_| {})
        .expect_err("impossible");
    assert!(error.what.contains("loss_burst"), "{error}");
    assert!(!error.remedy.is_empty());
}

#[test]
fn runs_of_losses_have_a_length_in_packets_or_in_time() {
    let link = |burst: &str| {
        let text = format!(
            "[link]\ndown = \"1 kbit/s\"\nup = \"1 kbit/s\"\nloss = \"5 %\"\nloss_burst = \"{burst}\""
        );
        Link::from_file("l.toml", &text)
    };
    let told = |burst| link(burst).expect("it reads").about();
    assert!(told("2.5").contains("in runs of 2.5 packets"));
    assert!(
        told("300 ms").contains("in runs of 300 ms"),
        "{}",
        told("300 ms")
    );
    let error = link("long").expect_err("no length");
    assert!(error.remedy.contains("a number of packets, or a time"));
    let process = |burst| {
        let traffic = Traffic::named("command").expect("known");
        let question = Question::new(link(burst).expect("it reads"), traffic);
        let spec = question.spec(&Values::new()).expect("possible");
        match spec.network {
            NetworkSpec::Link(network) => network.link.up.loss,
            NetworkSpec::Mesh(_) => panic!("a mesh"),
        }
    };
    let by_time = process("300 ms");
    assert!(
        matches!(by_time, LossSpec::PerTime { burst, .. } if burst == Duration::from_millis(300))
    );
    assert!((by_time.mean_ratio() - process("2.5").mean_ratio()).abs() < 1e-9);
}

#[test]
fn nightly_default_coap_is_recommended_on_a_fast_link_without_loss() {
    let text = "[link]\ndown = \"10 Mbit/s\"\nup = \"10 Mbit/s\"\nrtt = \"1 ms\"";
    let link = Link::from_file("l.toml", text).expect("it reads");
    let traffic = Traffic::named("command").expect("known");
    let answer = Question::new(link, traffic)
        .answer(&|_| {})
        .expect("possible");
    assert_eq!(answer.recommended, 0);
    assert!(answer.words()[0].starts_with("Stay with default CoAP"));
    let settings =
        "Default CoAP has ACK_TIMEOUT 2 s, ACK_RANDOM_FACTOR 1.5, MAX_RETRANSMIT 4 and NSTART 1.";
    assert!(
        answer.words()[1].ends_with(settings),
        "{:?}",
        answer.words()
    );
}

#[test]
fn nightly_a_smaller_block_size_is_part_of_the_recommendation() {
    let text = "[link]\ndown = \"1 Mbit/s\"\nup = \"1 Mbit/s\"\nrtt = \"100 ms\"\nloss = \"5 %\"\nmtu = \"300 B\"";
    let link = Link::from_file("l.toml", text).expect("it reads");
    let mut traffic = Traffic::named("firmware").expect("known");
    traffic.size = 4_096;
    let answer = Question::new(link, traffic)
        .answer(&|_| {})
        .expect("possible");
    assert!(answer.recommended > 0);
    let words = answer.words();
    let block = answer.recommended().configuration.block;
    assert!(block <= 256, "{block}");
    assert!(
        words[0].contains(&format!("blocks of {block} B")),
        "{words:?}"
    );
    assert!(
        words[1].contains("Set it at the client, which requests the blocks"),
        "{words:?}"
    );
}

#[test]
fn weights_that_are_all_zero_are_rejected() {
    let none: Vec<(Component, f64)> = Component::ALL.iter().map(|one| (*one, 0.0)).collect();
    assert!(question("lan", "command").weighted(&none).is_err());
    assert!(
        question("lan", "command")
            .weighted(&[(Component::Time, 9.0)])
            .is_ok()
    );
}

#[test]
fn slow_an_interrupted_search_recommends_from_finished_runs() {
    let question = question("umts", "command");
    let stopped_at = |batches: usize| {
        let (begun, is_stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
        let progress = |step| {
            if let Progress::Planned(_) = step {
                let begun = begun.fetch_add(1, Ordering::Relaxed);
                is_stopped.store(begun + 1 >= batches, Ordering::Relaxed);
            }
        };
        question.answer_until(&progress, &is_stopped)
    };
    assert!(stopped_at(1).is_err(), "no controller has run");
    let early = stopped_at(2).expect("an answer so far");
    assert!(!early.is_complete() && early.neighbours.is_empty());
    assert!(early.words()[0].starts_with("Interrupted; so far: "));
    assert!(early.words()[1].contains("links nearby were not tried"));
    assert!(early.ranked.len() > 2 && early.seeds >= 4);
    // The last batches run on the links nearby.
    let whole = question.answer(&|_| {}).expect("possible");
    let last = stopped_at(25).expect("an answer so far");
    assert_eq!(last.ranked[0].measured, whole.ranked[0].measured);
    let mut all = last.neighbours.clone();
    all.extend(last.unchecked.clone());
    assert_eq!((all, whole.is_complete()), (whole.neighbours, true));
    assert!(!last.neighbours.is_empty() && !last.is_complete());
}

#[test]
fn tcp_is_no_candidate_with_polling_devices_or_fq_codel() {
    let over_tcp = |question: &Question| {
        let all = with_peer(&question.default_coap(), &question.link, &question.traffic);
        all.iter().any(|one| is_possible(question, None, one))
    };
    let mut sleepy = question("lte-m", "command");
    assert!(over_tcp(&sleepy));
    sleepy.traffic.sleepy_us = 20_000_000;
    assert!(!over_tcp(&sleepy), "devices that poll");
    let mut fair = question("lte-m", "command");
    fair.link
        .more
        .insert("queue".to_owned(), Value::Text("fq-codel".to_owned()));
    assert!(!over_tcp(&fair), "FQ-CoDel");
}

#[test]
fn nightly_configurations_that_need_peer_support_are_not_recommended() {
    let answer = question("lte-m", "firmware")
        .answer(&|_| {})
        .expect("possible");
    let needs = answer
        .ranked
        .iter()
        .filter_map(|one| one.configuration.transfer.needs());
    let mut needs: Vec<&str> = needs.collect();
    needs.sort_unstable();
    assert_eq!(needs, ["CoAP over TCP", "Q-Block"]);
    assert_eq!(answer.recommended().configuration.transfer, Transfer::Block);
    if let Some(place) = answer.with_peer {
        let one = &answer.ranked[place];
        assert!(one.excluded.is_empty() && one.cost.high < answer.recommended().cost.low);
        assert!(
            answer
                .words()
                .iter()
                .any(|text| text.starts_with("Better with "))
        );
    }
}
