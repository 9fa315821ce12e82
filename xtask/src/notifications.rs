//! Parameters that the study of NON and Observe leaves open about GPRS and UMTS, and their effect
//! on its claims.

use std::path::Path;

use anyhow::Result;

use crate::{
    readings::{Number, Reading, Sweep},
    workspace::Workspace,
};

pub(crate) const NOTIFICATIONS: Sweep = Sweep {
    title: "What the study of NON and Observe leaves open about GPRS and UMTS, and its claims",
    about: "Verdicts on the claims about notifications over GPRS and UMTS (`docs/notifications.md`) under each\n\
            reading, and some numbers: CoCoA's largest gain (44 % in the text); CoCoA's PDR over default CoAP's\n\
            with UMTS and 25S3n, which the link can carry, and 100S5n, which it cannot; Observe's over default\n\
            CoAP's with GPRS and 60s-100S5n; CoCoA's RTO with 25S3n between 90 and 120 s. Written by\n\
            `cargo xtask long notification-sensitivity`;",
    study: "nonobserve",
    part: "gprs-umts",
    seeds: "3",
    readings: READINGS,
    claims: CLAIMS,
    numbers: NUMBERS,
};

const CLAIMS: &[&str] = &[
    "nonobserve-02",
    "nonobserve-05",
    "nonobserve-06",
    "nonobserve-07",
    "nonobserve-08",
    "nonobserve-11",
    "nonobserve-12",
    "nonobserve-13",
    "nonobserve-14",
    "nonobserve-15",
];

/// Open parameters (`scenarios/nonobserve`) and their interpretations.
const READINGS: &[Reading] = &[
    ("as in the scenarios", &[]),
    (
        "the link's buffer holds 25 packets",
        &["link.buffer=25 packets"],
    ),
    ("100 packets", &["link.buffer=100 packets"]),
    ("200 packets", &["link.buffer=200 packets"]),
    ("350 packets", &["link.buffer=350 packets"]),
    (
        "500 packets, the largest round",
        &["link.buffer=500 packets"],
    ),
    ("2000 packets", &["link.buffer=2000 packets"]),
    ("notifications of 32 bytes", &["message=32 B"]),
    ("of 128 bytes", &["message=128 B"]),
    ("delays are round trips", &["delay_of=round-trip"]),
    ("no delay on the Internet", &["extra_delay=0 ms"]),
    ("loss from the server only", &["error_directions=up"]),
    (
        "the server holds 5 of a subscriber",
        &["queue_of_subscriber=5"],
    ),
    (
        "50 of a subscriber, 5000 in all",
        &["queue_of_subscriber=50", "queue_of_all=5000"],
    ),
    (
        "newer states replace those that wait",
        &["notification_queue=supersede"],
    ),
    ("rounds spread over a second", &["offset=0-1 s"]),
    (
        "one NON in 100 asks, as CON, for every algorithm",
        &["unconfirmed_max=100"],
    ),
    (
        "CoCoA turns every 16th NON into a CON",
        &["algorithm.cocoa-002.cc.non_successive=15"],
    ),
    (
        "CoCoA's gap is one RTO, not drawn",
        &["algorithm.cocoa-002.cc.non_pace=rto"],
    ),
    (
        "rounds spread and 350 packets",
        &["offset=0-1 s", "link.buffer=350 packets"],
    ),
    (
        "350 packets, delays are round trips",
        &["link.buffer=350 packets", "delay_of=round-trip"],
    ),
    (
        "500 packets, 32 bytes, delays are round trips",
        &[
            "link.buffer=500 packets",
            "message=32 B",
            "delay_of=round-trip",
        ],
    ),
];

/// (id, check, what stands above the column).
const NUMBERS: &[Number] = &[
    ("nonobserve-02", 0, "gain, 0.44"),
    ("nonobserve-11", 21, "umts 25S3n"),
    ("nonobserve-11", 26, "umts 100S5n"),
    ("nonobserve-08", 1, "Observe's gain 100S5n"),
    ("nonobserve-14", 2, "RTO, s"),
];

/// Makes the table.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    NOTIFICATIONS.run(workspace, results)
}
