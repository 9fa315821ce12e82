//! Parameters that the thesis leaves open about crowds of clients, and their effect on its claims.

use std::path::Path;

use anyhow::Result;

use crate::{
    readings::{Number, Reading, Sweep},
    workspace::Workspace,
};

/// Open parameters (`papers/thesis`) and their interpretations; the first row is the scenario's
/// own.
const READINGS: &[Reading] = &[
    ("as in `thesis/short`", &[]),
    ("the client reconnects at once", &["reconnect=at-once"]),
    ("a pause of 0-10 s between batches", &["batch_pause=0-10 s"]),
    ("all clients start at once", &["start_spread=0 s"]),
    ("clients start within a minute", &["start_spread=0-60 s"]),
    ("payloads of 60 bytes", &["size_of=payload"]),
    ("responses without a payload", &["response=4 B"]),
    ("requests without a payload", &["request=10 B"]),
    (
        "extra delay drawn for each packet",
        &["extra_delay=10-20 ms"],
    ),
    ("MAX_RETRANSMIT 4", &["max_retransmit=4"]),
    (
        "no cap on default CoAP's timers",
        &["algorithm.default.rto_max=none"],
    ),
    (
        "Full Backoff 2 of CoCoA compares estimates",
        &["algorithm.cocoa-fb2.cc.fb2_base=estimate"],
    ),
    (
        "retained timers are dithered",
        &[
            "algorithm.cocoa-fb1.cc.dither_retained=true",
            "algorithm.cocoa-fb2.cc.dither_retained=true",
            "algorithm.default-fb1.cc.dither_retained=true",
            "algorithm.default-fb2.cc.dither_retained=true",
        ],
    ),
    (
        "any exchange that is answered halves a retained timer",
        &[
            "algorithm.default-fb1.cc.halved_by=answered",
            "algorithm.default-fb2.cc.halved_by=answered",
        ],
    ),
    ("error states of 2 packets", &["error_burst_packets=2"]),
];

/// Claims with a printed number: (id, check, the text's number).
const NUMBERS: &[Number] = &[
    ("thesis-055", 0, "1.05"),
    ("thesis-056", 0, "1.11"),
    ("thesis-063", 0, "0.21"),
    ("thesis-064", 0, "1.38"),
    ("thesis-065", 0, "1.35"),
    ("thesis-068", 0, "2.00"),
    ("thesis-068", 1, "2.34"),
    ("thesis-069", 0, "6"),
    ("thesis-070", 0, "1.43"),
    ("thesis-071", 2, "1.37"),
];

pub(crate) const CROWDS: Sweep = Sweep {
    title: "What the thesis leaves open about crowds, and its claims",
    about: "\
Verdicts on the claims about many clients with small exchanges (`docs/claims.md`) under each reading,
and the numbers that the text prints: the claim with its number above, ours below. Written by
`cargo xtask long crowd-sensitivity`;",
    study: "thesis",
    part: "short",
    seeds: "5",
    readings: READINGS,
    claims: &[],
    numbers: NUMBERS,
};

/// Makes the table.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    CROWDS.run(workspace, results)
}
