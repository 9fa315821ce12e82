//! Statements that the thesis quotes from studies over other networks, tested on other links.

use std::path::Path;

use anyhow::Result;

use crate::{
    readings::{Reading, Sweep},
    workspace::Workspace,
};

const READINGS: &[Reading] = &[
    ("as in `thesis/related-*`", &[]),
    // The link.
    ("a buffer of 2,500 B", &["link.buffer=2500 B"]),
    ("of 28,200 B", &["link.buffer=28200 B"]),
    ("that takes everything", &["link.buffer=inf"]),
    ("delays drawn from 10-20 ms", &["link.extra_delay=10-20 ms"]),
    ("from 0-200 ms", &["link.extra_delay=0-200 ms"]),
    ("from 0-1 s", &["link.extra_delay=0-1 s"]),
    (
        "a link of 100 ms, 250 kbit/s",
        &[
            "up.delay=50 ms",
            "down.delay=50 ms",
            "up.rate=250 kbit/s",
            "down.rate=250 kbit/s",
        ],
    ),
    (
        "the same, delays drawn from 0-200 ms",
        &[
            "up.delay=50 ms",
            "down.delay=50 ms",
            "up.rate=250 kbit/s",
            "down.rate=250 kbit/s",
            "link.extra_delay=0-200 ms",
        ],
    ),
    // The rest.
    ("MAX_RETRANSMIT 4", &["max_retransmit=4"]),
    (
        "the same caps on all timers",
        &[
            "algorithm.cocoa-03.rto_max=60 s",
            "algorithm.linux-rto.rto_max=60 s",
            "algorithm.peak-hopper.rto_max=60 s",
        ],
    ),
];

const CLAIMS: &[&str] = &[
    "thesis-015",
    "thesis-021",
    "thesis-022",
    "thesis-023",
    "thesis-024",
    "thesis-025",
    "thesis-026",
    "thesis-027",
    "thesis-028",
    "thesis-029",
    "thesis-164",
];

const LITERATURE: Sweep = Sweep {
    title: "What the thesis quotes from others, on other links",
    about: "\
Verdicts on the claims about what others have found (`docs/claims.md`) under each reading; what follows is in
`docs/literature.md`. Written by `cargo xtask long literature-sensitivity`;",
    study: "thesis",
    part: "related",
    seeds: "5",
    readings: READINGS,
    claims: CLAIMS,
    numbers: &[],
};

/// Makes the table.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    LITERATURE.run(workspace, results)
}
