//! The ETSI CoAP plugtests: core, block, observe and link format (test descriptions of CoAP#4, 2014).
//!
//! Each case states the client's actions and the expected messages. It runs in several columns: Carob with Carob,
//! Carob's client with a peer's server, and a peer's client with Carob's server. `interop/path.rs` relays between
//! them, records every datagram and drops those that a case selects. `crates/cli/tests/it/plugtest/README.md` has the
//! results, which `CAROB_PLUGTEST_TABLE=FILE` writes.
//!
//! Reading order: `cases` (the table), `cases/basic` and the others (the cases), `bench` (operations),
//! `interop/wire.rs` (recorded messages).

mod bench;
#[macro_use]
pub(crate) mod cases;
mod clients;
mod servers;

// The server's resources are an example of the library, so that other clients can be tried with it.
#[path = "../../../../carob/examples/plugtest_server/observed.rs"]
mod observed;
#[path = "../../../../carob/examples/plugtest_server/resources.rs"]
mod resources;
#[path = "../../../../carob/examples/plugtest_server/stored.rs"]
mod stored;

use crate::installed::Peer::{Aiocoap, Californium};
use crate::interop::matrix::{
    Column,
    Direction::{OurClient, TheirClient},
};
use crate::interop::transport::Transport::Udp;

pub(crate) const CAROB: Column = Column::CAROB;
pub(crate) const CALIFORNIUM_SERVER: Column = Column::new(Californium, Udp, OurClient);
pub(crate) const AIOCOAP_SERVER: Column = Column::new(Aiocoap, Udp, OurClient);
pub(crate) const CALIFORNIUM_CLIENT: Column = Column::new(Californium, Udp, TheirClient);
pub(crate) const AIOCOAP_CLIENT: Column = Column::new(Aiocoap, Udp, TheirClient);

macro_rules! tests {
    ($column:ident; $($name:ident = $id:literal => $run:path, $title:literal, $checks:literal;)*) => {
        $(
            #[test]
            fn $name() {
                crate::plugtest::bench::run($id, super::$column);
            }
        )*
    };
}

/// The tests of one column.
macro_rules! column {
    ($module:ident, $column:ident) => {
        mod $module {
            for_each_plugtest!(tests $column;);
        }
    };
}

mod interop_plugtest {
    use super::{AIOCOAP_CLIENT, AIOCOAP_SERVER, CALIFORNIUM_CLIENT, CALIFORNIUM_SERVER, CAROB};

    column!(ours, CAROB);
    column!(californium_server, CALIFORNIUM_SERVER);
    column!(aiocoap_server, AIOCOAP_SERVER);
    column!(californium_client, CALIFORNIUM_CLIENT);
    column!(aiocoap_client, AIOCOAP_CLIENT);
}
