//! Parameters that the study of retransmission counts leaves open about its server and the rest,
//! and their effect on its claims.

use std::path::Path;

use anyhow::Result;

use crate::{
    readings::{Reading, Sweep},
    workspace::Workspace,
};

/// Settings over those of the scenarios before their calibration, with a link that is no bottleneck.
macro_rules! fast_link {
    ($($set:expr),* $(,)?) => {
        &["down.rate=100 kbit/s", "up.rate=100 kbit/s", $($set),*]
    };
}

/// With 60 ms congestion begins between 25 and 50 clients, as in the study.
const MS60: &str = "service=60 ms";
/// A receive queue that never overflows.
const ROOM: &str = "receive_queue=1000";

const READINGS: &[Reading] = &[
    ("as in `retrycount/clients`", &[]),
    ("a link of 100 kbit/s, 20 ms a request", fast_link![]),
    // How long a request takes the server.
    ("40 ms a request", fast_link!["service=40 ms"]),
    ("60 ms", fast_link![MS60]),
    ("80 ms", fast_link!["service=80 ms"]),
    ("100 ms", fast_link!["service=100 ms"]),
    ("150 ms", fast_link!["service=150 ms"]),
    ("200 ms", fast_link!["service=200 ms"]),
    ("60 ms on average", fast_link!["service=0-120 ms"]),
    // How many requests wait for it.
    ("room for 25 packets", fast_link![MS60, "receive_queue=25"]),
    ("for 100", fast_link![MS60, "receive_queue=100"]),
    ("for 150", fast_link![MS60, "receive_queue=150"]),
    ("for 200", fast_link![MS60, "receive_queue=200"]),
    ("for 300", fast_link![MS60, "receive_queue=300"]),
    ("for all", fast_link![MS60, ROOM]),
    ("for all, 20 ms", fast_link![ROOM]),
    ("for all, 40 ms", fast_link!["service=40 ms", ROOM]),
    ("for all, 80 ms", fast_link!["service=80 ms", ROOM]),
    ("for all, 100 ms", fast_link!["service=100 ms", ROOM]),
    // What copies cost it.
    ("copies cost nothing", fast_link![MS60, "copies=free"]),
    (
        "copies cost nothing, room for all",
        fast_link![MS60, ROOM, "copies=free"],
    ),
    // No server at all, but a slow link with room for all.
    ("the link is the bottleneck", &["service=0 s"]),
    // The rest, where timers matter.
    (
        "room for 50 packets on the link, too",
        fast_link![MS60, ROOM, "link.buffer=3900 B"],
    ),
    (
        "round trips of 500 ms",
        fast_link![MS60, ROOM, "up.delay=250 ms", "down.delay=250 ms"],
    ),
    (
        "messages of 25 bytes",
        fast_link![MS60, ROOM, "request=25 B", "response=25 B"],
    ),
    (
        "clients begin within a second",
        fast_link![MS60, ROOM, "start_spread=0-1 s"],
    ),
    ("within 10 s", fast_link![MS60, ROOM, "start_spread=0-10 s"]),
    (
        "a failure ends a client",
        fast_link![MS60, ROOM, "after_failure=stop"],
    ),
    ("no limit of 25 s", fast_link![MS60, ROOM, "rto_max=none"]),
    (
        "the limit is the scheme's only",
        fast_link![MS60, ROOM, "algorithm.default.rto_max=none"],
    ),
    (
        "the limit is not of first timers",
        fast_link![MS60, ROOM, "algorithm.rtt-count.cc.cap_first=false"],
    ),
    (
        "the scheme backs off by 3, 2 and 1.5",
        fast_link![
            MS60,
            ROOM,
            "algorithm.rtt-count.cc.backoff_small=3",
            "algorithm.rtt-count.cc.backoff_large=1.5",
        ],
    ),
    (
        "its RTO is the strong estimate",
        fast_link![MS60, ROOM, "algorithm.rtt-count.cc.weight_strong=1"],
    ),
    (
        "its gains are those of RFC 6298",
        fast_link![
            MS60,
            ROOM,
            "algorithm.rtt-count.cc.alpha=0.125",
            "algorithm.rtt-count.cc.beta=0.25",
        ],
    ),
    (
        "it does not dither",
        fast_link![MS60, ROOM, "algorithm.rtt-count.cc.dither=1"],
    ),
];

const CLAIMS: &[&str] = &[
    "retrycount-01",
    "retrycount-02",
    "retrycount-03",
    "retrycount-04",
    "retrycount-05",
    "retrycount-06",
    "retrycount-07",
    "retrycount-08",
    "retrycount-09",
    "retrycount-10",
    "retrycount-13",
];

pub(crate) const SLOW_SERVER: Sweep = Sweep {
    title: "What the study of retransmission counts leaves open, and its claims",
    about: "\
Verdicts on the claims about clients of a slow server (`docs/retrycount-claims.md`) under each reading. The
first column of numbers is what the study prints: with 100 clients its scheme has 2.5 times the throughput
of default CoAP. `docs/retrycount.md` says what follows. Written by
`cargo xtask long server-sensitivity`;",
    study: "retrycount",
    part: "clients",
    seeds: "20",
    readings: READINGS,
    claims: CLAIMS,
    numbers: &[("retrycount-01", 0, "2.5")],
};

/// Makes the table.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    SLOW_SERVER.run(workspace, results)
}
