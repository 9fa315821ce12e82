//! Interoperability of Carob's client and server with other implementations.
//!
//! Peers run as separate processes on loopback: libcoap's example client and server, and programs on aiocoap,
//! Californium and go-coap (README.md in `interop/`). `cargo xtask peers` installs them. Cases of a missing peer are
//! skipped, unless `CAROB_REQUIRE_PEERS=1`, which makes them fail. `CAROB_INTEROP_TABLE=FILE` writes the results over
//! UDP as Markdown, `CAROB_STREAMS_TABLE=FILE` those over TCP, TLS and WebSocket (RFC 8323). The ETSI plugtests in
//! `plugtest/` use the same peers.
pub(crate) mod bench;
#[macro_use]
mod cases;
pub(crate) mod clients;

mod library;
pub(crate) mod matrix;
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

/// Tests of a peer: each case with its client and with its server.
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

/// Tests of a peer over connections: each case with its client and with its server.
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

/// Peers among themselves: a failure here is one of the path or the peers, not of Carob.
mod interop_harness {
    #[test]
    fn peers_interoperate_through_the_lossy_path() {
        crate::interop::cases::transfers::peers_alone();
    }
}
