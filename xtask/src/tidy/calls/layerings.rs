//! The layers of the engine and of the runtime.

use super::{Layer, Layering};

/// The layerings that hold.
pub(super) const LAYERINGS: &[Layering<'_>] = &[PROTO, CAROB];

/// The protocol engine (ADR 31).
const PROTO: Layering<'_> = Layering {
    root: "crates/proto/src",
    layers: &[
        Layer {
            name: "base",
            paths: &[""],
            below: &[],
        },
        Layer {
            name: "context",
            paths: &[
                "capacity.rs",
                "config.rs",
                "context.rs",
                "event.rs",
                "limits.rs",
                "option_rules.rs",
                "retransmission_count.rs",
                "seeds.rs",
                "stream_config.rs",
                "writing.rs",
            ],
            below: &["base"],
        },
        Layer {
            name: "admission",
            paths: &["admission/"],
            below: &["base", "context"],
        },
        // Two carriers behind one seam: each calls the other through `Carrier` (ADR 31).
        Layer {
            name: "carrier",
            paths: &["carrier.rs", "message_layer/", "stream_layer/"],
            below: &["base", "context", "admission"],
        },
        Layer {
            name: "client",
            paths: &["client/"],
            below: &["base", "context", "admission", "carrier"],
        },
        Layer {
            name: "server",
            paths: &["server/"],
            below: &["base", "context", "admission", "carrier"],
        },
        Layer {
            name: "endpoint",
            paths: &["endpoint/", "fuzzing/", "lib.rs"],
            below: &[
                "base",
                "context",
                "admission",
                "carrier",
                "client",
                "server",
            ],
        },
    ],
};

/// The runtime.
const CAROB: Layering<'_> = Layering {
    root: "crates/carob/src",
    layers: &[
        Layer {
            name: "base",
            paths: &["clock.rs", "descriptors.rs", "http_host.rs", "metrics/"],
            below: &[],
        },
        Layer {
            name: "transport",
            paths: &["transport/"],
            below: &["base"],
        },
        Layer {
            name: "configuration",
            paths: &["config.rs", "error.rs"],
            below: &["base", "transport"],
        },
        Layer {
            name: "runtime",
            paths: &["runtime/"],
            below: &["base", "transport", "configuration"],
        },
        Layer {
            name: "client",
            paths: &["client/"],
            below: &["base", "transport", "configuration", "runtime"],
        },
        Layer {
            name: "server",
            paths: &["server/"],
            below: &["base", "transport", "configuration", "runtime"],
        },
        // `Server::client` makes a client that shares the server's endpoints.
        Layer {
            name: "server builder",
            paths: &["server/mod.rs"],
            below: &[
                "base",
                "transport",
                "configuration",
                "runtime",
                "client",
                "server",
            ],
        },
        Layer {
            name: "proxy",
            paths: &["proxy/"],
            below: &[
                "base",
                "transport",
                "configuration",
                "runtime",
                "client",
                "server",
                "server builder",
            ],
        },
        Layer {
            name: "public",
            paths: &["lib.rs", "limits.rs", "fuzzing.rs"],
            below: &[
                "base",
                "transport",
                "configuration",
                "runtime",
                "client",
                "server",
                "server builder",
                "proxy",
            ],
        },
    ],
};
