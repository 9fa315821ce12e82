//! Saturated stars compared with the analytical model of `examples/radio_validation`.

#[path = "../../examples/radio_validation/model.rs"]
mod model;
#[path = "../../examples/radio_validation/network.rs"]
#[expect(dead_code, reason = "the example uses the rest")]
mod network;

use carob_cc::time::Duration;

use network::Network;

const TIME: Duration = Duration::from_secs(60);

fn delivered(nodes: u16, bytes: u16, hidden: bool) -> f64 {
    let totals = Network::star(nodes, bytes, hidden, 1).run(TIME);
    totals.delivered as f64 * 1e6 / TIME.as_micros() as f64
}

#[test]
fn one_node_sends_a_frame_per_cycle() {
    let (measured, model) = (delivered(1, 100, false), model::star(1, 100));
    // A back-off, an assessment, two turnarounds, frame, acknowledgement and LIFS take 6016 us on average.
    assert!((model - 1e6 / 6_016.0).abs() < 0.01, "{model}");
    assert!((measured / model - 1.0).abs() < 0.01, "{measured} {model}");
}

#[test]
fn stars_are_within_a_fifth_of_the_decoupled_model() {
    for nodes in [2, 3, 5, 10, 15] {
        let (measured, model) = (delivered(nodes, 100, false), model::star(nodes.into(), 100));
        assert!(
            (measured / model - 1.0).abs() < 0.2,
            "{nodes}: {measured} {model}"
        );
    }
}

#[test]
fn hidden_nodes_cost_throughput_in_both() {
    let found = [2, 5, 10].map(|n| (delivered(n, 20, true), model::hidden(n.into(), 20)));
    assert!(
        found
            .windows(2)
            .all(|two| two[1].0 < two[0].0 / 2.0 && two[1].1 < two[0].1 / 2.0)
    );
    let (hidden, heard) = (delivered(5, 20, true), delivered(5, 20, false));
    assert!(hidden < heard / 2.0, "{hidden} {heard}");
}

#[test]
fn chains_lose_little_and_delay_each_hop_alike() {
    let delay = |hops: u16| {
        let totals = Network::chain(hops, 100, 1.0, 1).run(Duration::from_secs(600));
        assert!(totals.delivered * 100 >= totals.offered * 99, "{totals:?}");
        totals.delay.as_micros() as f64 / totals.delivered as f64
    };
    // Back-off 1120, assessment 128, turnaround 192, frame 3392; a relay adds an acknowledgement of 544.
    let (one, three) = (delay(1), delay(3));
    assert!((one / 4_832.0 - 1.0).abs() < 0.02, "{one}");
    assert!(
        ((three - one) / 2.0 / 5_376.0 - 1.0).abs() < 0.05,
        "{three}"
    );
}
