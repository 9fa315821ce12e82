//! Block-wise transfers (RFC 7959), with and without loss.

use std::time::Duration;

use crate::commands::harness::carob;
use crate::installed::Peer;
use crate::interop::bench::{Bench, assert_same, can_run, pattern};
use crate::interop::clients::Implementation;
use crate::interop::matrix::Column;
use crate::interop::path::Faults;
use crate::interop::requests::Ask;
use crate::interop::transport::Transport;

/// 64 blocks at 10 % loss per round trip time out about seven times, for two to three seconds each.
const LOSSY_LIMIT: Duration = Duration::from_secs(240);

const LARGE_BYTES: usize = 1 << 20;
const LOSSY_BYTES: usize = 64 << 10;
const SMALL_BYTES: usize = 4 << 10;
const TRIAL_BYTES: usize = 256;

const LOSSY: Faults = Faults {
    loss: 50,
    duplication: 50,
    reordering: 20,
};

/// RFC 7959 2.4: early negotiation of the block size.
pub(crate) fn small_blocks(bench: &Bench) {
    const BLOCK: u16 = 64;
    /// Header, token and options in front of a block.
    const OVERHEAD_MAX: usize = 48;
    let (path, expected) = bench.source(SMALL_BYTES);
    bench.interpose(Faults::default());
    let answer = bench.succeed(&Ask::get(&path).block_size(BLOCK));
    assert_same(&answer.payload, &expected);
    let seen = bench.path().to_client();
    assert!(
        seen.longest() <= usize::from(BLOCK) + OVERHEAD_MAX,
        "larger blocks than asked for: {seen:?}"
    );
}

pub(crate) fn large_down(bench: &Bench) {
    let (path, expected) = bench.source(LARGE_BYTES);
    let answer = bench.succeed(&Ask::get(&path));
    assert_same(&answer.payload, &expected);
}

pub(crate) fn large_up(bench: &Bench) {
    let payload = pattern(LARGE_BYTES);
    bench.store(&payload);
    bench.assert_stored(&payload);
}

pub(crate) fn lossy_down(bench: &Bench) {
    let (path, expected) = bench.source(LOSSY_BYTES);
    bench.interpose(LOSSY);
    let answer = bench.succeed(&Ask::get(&path).limit(LOSSY_LIMIT));
    assert_same(&answer.payload, &expected);
    assert_faults(bench);
}

pub(crate) fn lossy_up(bench: &Bench) {
    bench.interpose(LOSSY);
    upload_through_loss(bench);
    if let Some(counter) = bench.server.paths.counter {
        let payload = pattern(LOSSY_BYTES);
        let post = Ask::post(counter).payload(&payload);
        bench.succeed(&post.limit(LOSSY_LIMIT));
        let count = bench.ask_directly(&Ask::get(counter));
        assert_same(&count.payload, b"1");
    }
}

/// `carob try` on a peer's server through the lossy path: every request is answered and the controllers are compared.
/// Each request has one exchange, because each timeout costs 2 to 3 s.
pub(crate) fn trial(peer: Peer) {
    if !can_run(&[peer]) {
        return;
    }
    let bench = Bench::of_column(Column::our_client(peer, Transport::Udp));
    bench.interpose(LOSSY);
    let (path, _) = bench.source(TRIAL_BYTES);
    let uri = bench.to().uri(&path);
    let prefix = bench.scratch.text("trial");
    let options = "--interval 2ms --pairs 20 --within 20s --json";
    let ran = carob(&format!("try {uri} {options} -o {prefix}")).ended(0);
    let answer: serde_json::Value = ran.json().remove(0);
    assert!(answer["pairs"].as_u64() >= Some(2), "{answer}");
    for controller in [&answer["controllers"][0], &answer["controllers"][1]] {
        assert_eq!(controller["failed"], 0, "{answer}");
    }
    let ratio = |end: &str| answer["controllers"][1]["ratio"][end].as_f64().unwrap();
    assert!(ratio("low") <= ratio("value") && ratio("value") <= ratio("high"));
}

/// libcoap's client with aiocoap's server through the path, as a check of the path alone.
pub(crate) fn peers_alone() {
    if !can_run(&[Peer::Libcoap, Peer::Aiocoap]) {
        return;
    }
    let bench = Bench::of_column(Column {
        client: Implementation::Of(Peer::Libcoap),
        ..Column::our_client(Peer::Aiocoap, Transport::Udp)
    });
    bench.interpose(LOSSY);
    upload_through_loss(&bench);
}

fn upload_through_loss(bench: &Bench) {
    let payload = pattern(LOSSY_BYTES);
    let put = Ask::put(bench.server.paths.store).payload(&payload);
    bench.succeed(&put.limit(LOSSY_LIMIT));
    bench.assert_stored(&payload);
    assert_faults(bench);
}

/// Checks that the path lost and duplicated datagrams in both directions.
fn assert_faults(bench: &Bench) {
    for seen in [bench.path().to_server(), bench.path().to_client()] {
        assert!(
            seen.lost() > 0 && seen.duplicated() > 0,
            "nothing was lost or duplicated: {seen:?}"
        );
    }
}
