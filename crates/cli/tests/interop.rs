//! Our client and server against those of other implementations, both ways.
//!
//! Peers are started as programs of their own on loopback: libcoap's example client and server, and
//! scripts of ours on aiocoap. `cargo xtask peers` installs them; a peer that is missing is named as
//! skipped, unless `CAROB_REQUIRE_PEERS=1`, which makes its absence a failure.
#![allow(
    clippy::disallowed_methods,
    reason = "these tests wait for real programs on real sockets"
)]

#[path = "interop/cases.rs"]
mod cases;
#[path = "interop/clients.rs"]
mod clients;
#[path = "interop/matrix.rs"]
mod matrix;
#[path = "interop/process.rs"]
mod process;
#[path = "interop/proxy.rs"]
mod proxy;
#[path = "interop/servers.rs"]
mod servers;

/// The tests of one peer: each case once with its client and once with its server.
macro_rules! interop {
    ($module:ident, $peer:expr) => {
        mod $module {
            mod their_client {
                interop!(@direction $peer, crate::matrix::Direction::TheirClient);
            }
            mod our_client {
                interop!(@direction $peer, crate::matrix::Direction::OurClient);
            }
        }
    };
    (@direction $peer:expr, $direction:expr) => {
        interop!(@case $peer, $direction, gets_a_resource, Get);
        interop!(@case $peer, $direction, puts_a_resource, Put);
        interop!(@case $peer, $direction, posts_a_payload, Post);
        interop!(@case $peer, $direction, deletes_a_resource, Delete);
        interop!(@case $peer, $direction, receives_a_separate_response, Separate);
        interop!(@case $peer, $direction, downloads_one_mebibyte, LargeDown);
        interop!(@case $peer, $direction, uploads_one_mebibyte, LargeUp);
        interop!(@case $peer, $direction, downloads_through_loss_and_duplication, LossyDown);
        interop!(@case $peer, $direction, uploads_through_loss_and_duplication, LossyUp);
        interop!(@case $peer, $direction, has_duplicated_requests_carried_out_once, Once);
    };
    (@case $peer:expr, $direction:expr, $name:ident, $case:ident) => {
        #[test]
        fn $name() {
            crate::cases::run($peer, $direction, crate::matrix::Case::$case);
        }
    };
}

interop!(interop_libcoap, crate::matrix::Peer::Libcoap);
interop!(interop_aiocoap, crate::matrix::Peer::Aiocoap);

/// The peers among themselves: when this fails, the proxy or the peers are at fault, not Carob.
mod interop_harness {
    #[test]
    fn peers_reach_each_other_through_the_lossy_proxy() {
        crate::cases::run_peers_alone();
    }
}
