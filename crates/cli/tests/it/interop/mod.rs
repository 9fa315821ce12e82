//! Interoperability of Carob's client and server with other implementations.
//!
//! Peers run as separate processes on loopback: libcoap's example client and server, and programs on aiocoap,
//! Californium and go-coap (README.md in `interop/`). `cargo xtask peers` installs them. Cases of a missing peer are
//! skipped, unless `CAROB_REQUIRE_PEERS=1`, which makes them fail. `CAROB_INTEROP_TABLE=FILE` writes the results over
//! UDP as Markdown, `CAROB_STREAMS_TABLE=FILE` those over TCP, TLS and WebSocket (RFC 8323). The ETSI plugtests in
//! `plugtest/` use the same peers.
pub(crate) mod bench;
#[macro_use]
pub(crate) mod cases;
pub(crate) mod clients;

pub(crate) mod library;
pub(crate) mod matrix;
pub(crate) mod path;
mod relay;
pub(crate) mod requests;
mod servers;
pub(crate) mod transport;
pub(crate) mod watching;
pub(crate) mod wire;

/// The tests of a column: the cases of its table.
macro_rules! tests {
    ($table:ident, $column:path; $($name:ident => $title:literal, $run:expr;)*) => {
        $(
            #[test]
            fn $name() {
                crate::interop::matrix::$table.run($column, stringify!($name));
            }
        )*
    };
}

/// Tests that differ by the arguments of one function.
macro_rules! calls {
    ($($name:ident: $call:expr;)*) => {
        $(
            #[test]
            fn $name() {
                $call;
            }
        )*
    };
}

mod proxying;

/// Tests of a peer over a transport: each case with its client and with its server.
macro_rules! interop {
    ($($module:ident: $table:ident, $cases:ident, $peer:ident, $transport:ident;)*) => {
        $(mod $module {
            use crate::installed::Peer::$peer;
            use crate::interop::matrix::Column;
            use crate::interop::transport::Transport::$transport;

            const THEIR_CLIENT: Column = Column::their_client($peer, $transport);
            const OUR_CLIENT: Column = Column::our_client($peer, $transport);

            mod their_client {
                $cases!(tests $table, super::THEIR_CLIENT;);
            }
            mod our_client {
                $cases!(tests $table, super::OUR_CLIENT;);
            }
        })*
    };
}

interop! {
    interop_libcoap: DATAGRAMS, for_each_case, Libcoap, Udp;
    interop_aiocoap: DATAGRAMS, for_each_case, Aiocoap, Udp;
    interop_californium: DATAGRAMS, for_each_case, Californium, Udp;
    interop_gocoap: DATAGRAMS, for_each_case, GoCoap, Udp;
    interop_libcoap_tcp: STREAMS, for_each_stream_case, Libcoap, Tcp;
    interop_libcoap_tls: STREAMS, for_each_stream_case, Libcoap, Tls;
    interop_aiocoap_tcp: STREAMS, for_each_stream_case, Aiocoap, Tcp;
    interop_aiocoap_tls: STREAMS, for_each_stream_case, Aiocoap, Tls;
    interop_aiocoap_ws: STREAMS, for_each_stream_case, Aiocoap, WebSocket;
    interop_aiocoap_wss: STREAMS, for_each_stream_case, Aiocoap, SecureWebSocket;
    interop_californium_tcp: STREAMS, for_each_stream_case, Californium, Tcp;
    interop_californium_tls: STREAMS, for_each_stream_case, Californium, Tls;
    interop_gocoap_tcp: STREAMS, for_each_stream_case, GoCoap, Tcp;
    interop_gocoap_tls: STREAMS, for_each_stream_case, GoCoap, Tls;
}

mod interop_trial {
    use crate::installed::Peer::{Aiocoap, Californium, Libcoap};
    use crate::interop::cases::transfers::trial;

    calls! {
        trial_on_libcoap_over_a_lossy_path: trial(Libcoap);
        trial_on_aiocoap_over_a_lossy_path: trial(Aiocoap);
        trial_on_californium_over_a_lossy_path: trial(Californium);
    }
}

/// Peers among themselves: a failure here is one of the path or the peers, not of Carob.
mod interop_harness {
    #[test]
    fn peers_interoperate_through_the_lossy_path() {
        crate::interop::cases::transfers::peers_alone();
    }
}
