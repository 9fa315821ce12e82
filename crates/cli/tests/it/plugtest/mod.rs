//! The ETSI CoAP plugtests: core, block, observe and link format (test descriptions of CoAP#4, 2014).
//!
//! Each case states the client's actions and the expected messages. It runs in several columns: Carob with Carob,
//! Carob's client with a peer's server, and a peer's client with Carob's server. `interop/path.rs` relays between
//! them, records every datagram and drops those that a case selects. `crates/cli/tests/it/plugtest/README.md` has the
//! results, which `CAROB_PLUGTEST_TABLE=FILE` writes.
//!
//! Reading order: `cases` (the table), `cases/basic` and the others (the cases), `setup`, `interop/bench.rs`
//! (operations), `interop/wire.rs` (recorded messages).

#[macro_use]
pub(crate) mod cases;
pub(crate) mod programs;
pub(crate) mod setup;

// The server's resources are an example of the library, so that other clients can be tried with it.
#[path = "../../../../carob/examples/plugtest_server/observed.rs"]
pub(crate) mod observed;
#[path = "../../../../carob/examples/plugtest_server/resources.rs"]
mod resources;
#[path = "../../../../carob/examples/plugtest_server/stored.rs"]
mod stored;

use crate::installed::Peer::{Aiocoap, Californium};
use crate::interop::matrix::Column;
use crate::interop::transport::Transport::Udp;

/// The columns of the table and their tests.
macro_rules! columns {
    ($($module:ident: $column:expr;)*) => {
        pub(crate) const COLUMNS: &[Column] = &[$($column),*];

        mod interop_plugtest {
            $(mod $module {
                use super::super::*;

                const COLUMN: Column = $column;
                for_each_plugtest!(tests PLUGTEST, COLUMN;);
            })*
        }
    };
}

columns! {
    ours: Column::CAROB;
    californium_server: Column::our_client(Californium, Udp);
    aiocoap_server: Column::our_client(Aiocoap, Udp);
    californium_client: Column::their_client(Californium, Udp);
    aiocoap_client: Column::their_client(Aiocoap, Udp);
}
