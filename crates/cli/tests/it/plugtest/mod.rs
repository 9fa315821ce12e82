//! The ETSI CoAP plugtests: core, block, observe and link format (the test descriptions of
//! CoAP#4, 2014).
//!
//! A case is written once, as what a client does and what must then have passed on the wire, and
//! is run in several columns: our client with our server, ours with a peer's, a peer's with ours.
//! Client and server talk through `interop/path.rs`, which records every datagram and loses what a case
//! wants lost. Peers are programs of ours on their libraries; `crates/cli/tests/it/plugtest/README.md` has the table,
//! which `CAROB_PLUGTEST_TABLE=FILE` writes.
//!
//! Reading order: `cases` (the table), `cases/basic` and the others (the cases), `bench` (what they
//! may do), `interop/wire.rs` (what they look at).

mod bench;
#[macro_use]
pub(crate) mod cases;
mod clients;
mod program;
mod servers;
mod setup;

// The resources of our server are an example of the library's, for people to try clients with.
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
