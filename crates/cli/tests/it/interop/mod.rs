//! Our client and server against those of other implementations, both ways.
//!
//! Peers are started as programs of their own on loopback: libcoap's example client and server, and
//! programs of ours on aiocoap, Californium and go-coap (README.md in `interop/`). `cargo xtask
//! peers` installs them; a peer that is missing is named as skipped, unless `CAROB_REQUIRE_PEERS=1`,
//! which makes its absence a failure. With `CAROB_INTEROP_TABLE=FILE` the table of a whole run over UDP,
//! with `CAROB_STREAMS_TABLE=FILE` the one over TCP, TLS and WebSocket (RFC 8323), is also written as
//! Markdown. The ETSI plugtests, in `plugtest/`, use the same peers.
pub(crate) mod bench;
#[macro_use]
mod cases;
pub(crate) mod clients;

mod library;
pub(crate) mod matrix;
mod offers;
pub(crate) mod path;
mod proxying;
mod relay;
mod servers;
pub(crate) mod transport;
mod watching;
pub(crate) mod wire;

macro_rules! tests {
    ($peer:ident, $transport:ident, $direction:ident; $($name:ident => $title:literal, $run:path;)*) => {
        $(
            #[test]
            fn $name() {
                let column = crate::interop::matrix::Column::new(
                    crate::installed::Peer::$peer,
                    crate::interop::transport::Transport::$transport,
                    crate::interop::matrix::Direction::$direction,
                );
                crate::interop::bench::run(column, stringify!($name));
            }
        )*
    };
}

/// The tests of one peer: each case once with its client and once with its server.
macro_rules! interop {
    ($module:ident, $peer:ident) => {
        mod $module {
            mod their_client {
                for_each_case!(tests $peer, Udp, TheirClient;);
            }
            mod our_client {
                for_each_case!(tests $peer, Udp, OurClient;);
            }
        }
    };
}

interop!(interop_libcoap, Libcoap);
interop!(interop_aiocoap, Aiocoap);
interop!(interop_californium, Californium);
interop!(interop_gocoap, GoCoap);

/// The tests of one peer over connections: likewise.
macro_rules! streams {
    ($module:ident, $peer:ident, $transport:ident) => {
        mod $module {
            mod their_client {
                for_each_stream_case!(tests $peer, $transport, TheirClient;);
            }
            mod our_client {
                for_each_stream_case!(tests $peer, $transport, OurClient;);
            }
        }
    };
}

streams!(interop_libcoap_tcp, Libcoap, Tcp);
streams!(interop_libcoap_tls, Libcoap, Tls);
streams!(interop_aiocoap_tcp, Aiocoap, Tcp);
streams!(interop_aiocoap_tls, Aiocoap, Tls);
streams!(interop_aiocoap_ws, Aiocoap, WebSocket);
streams!(interop_aiocoap_wss, Aiocoap, SecureWebSocket);
streams!(interop_californium_tcp, Californium, Tcp);
streams!(interop_californium_tls, Californium, Tls);
streams!(interop_gocoap_tcp, GoCoap, Tcp);
streams!(interop_gocoap_tls, GoCoap, Tls);

/// `carob try` on servers of the peers, over a lossy path.
mod interop_trial {
    use crate::installed::Peer;
    use crate::interop::cases::transfers::trial;

    #[test]
    fn trial_on_libcoap_over_a_lossy_path() {
        trial(Peer::Libcoap);
    }

    #[test]
    fn trial_on_aiocoap_over_a_lossy_path() {
        trial(Peer::Aiocoap);
    }

    #[test]
    fn trial_on_californium_over_a_lossy_path() {
        trial(Peer::Californium);
    }
}

/// The peers among themselves: when this fails, the path or the peers are at fault, not Carob.
mod interop_harness {
    #[test]
    fn peers_reach_each_other_through_the_lossy_path() {
        crate::interop::cases::transfers::peers_alone();
    }
}
