//! The ETSI CoAP plugtests: core, block, observe and link format (the test descriptions of
//! CoAP#4, 2014).
//!
//! A case is written once, as what a client does and what must then have passed on the wire, and
//! is run in several columns: our client with our server, ours with a peer's, a peer's with ours.
//! Client and server talk through a relay that writes every datagram down and loses what a case
//! wants lost. Peers are programs of ours on their libraries; `crates/cli/tests/it/plugtest/README.md` has the table,
//! which `CAROB_PLUGTEST_TABLE=FILE` writes.
//!
//! Reading order: `cases` (the table), `cases/basic` and the others (the cases), `bench` (what they
//! may do), `wire` (what they look at).

mod bench;
#[macro_use]
mod cases;
mod clients;
mod matrix;
mod offers;
mod program;
mod relay;
mod servers;
mod setup;
mod wire;

// The resources of our server are an example of the library's, for people to try clients with.
#[path = "../../../../carob/examples/plugtest_server/observed.rs"]
mod observed;
#[path = "../../../../carob/examples/plugtest_server/resources.rs"]
mod resources;
#[path = "../../../../carob/examples/plugtest_server/stored.rs"]
mod stored;

macro_rules! tests {
    ($column:ident; $($name:ident = $id:literal => $run:path, $title:literal, $checks:literal;)*) => {
        $(
            #[test]
            fn $name() {
                crate::plugtest::bench::run($id, crate::plugtest::matrix::Column::$column);
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
    column!(ours, Ours);
    column!(californium_server, CaliforniumServer);
    column!(aiocoap_server, AiocoapServer);
    column!(californium_client, CaliforniumClient);
    column!(aiocoap_client, AiocoapClient);
}
