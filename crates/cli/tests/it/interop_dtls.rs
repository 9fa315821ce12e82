//! DTLS interoperability, as client and as server: with libcoap on OpenSSL and on GnuTLS, go-coap and Californium. Covers
//! pre-shared keys, server and client certificates, and with libcoap also loss and duplication.
//!
//! Cases of a missing library are skipped, unless `CAROB_REQUIRE_PEERS=1`, which makes them fail. Results:
//! `docs/evidence/interoperability.md`.
#![cfg(unix)]

use std::time::Duration;

use crate::installed::{Peer, is_on_path};
use crate::interop::bench::{Bench, can_run};
use crate::interop::matrix::Column;
use crate::interop::path::Faults;
use crate::interop::requests::Ask;
use crate::interop::transport::Credentials::{self, *};
use crate::interop::transport::Transport;
use crate::process::{LIMIT, until};

/// With this seed, a handshake loses datagrams and succeeds.
const SEED: u64 = 20;
const HELLO: &str = "hello, this is 32 bytes of text\n";
const NONE: Faults = Faults {
    loss: 0,
    duplication: 0,
    reordering: 0,
};
const LOSSY: Faults = Faults {
    loss: 156,
    duplication: 234,
    reordering: 0,
};

/// The body of the first response that has one.
fn body(bench: &Bench, tries: usize, ask: &Ask) -> String {
    let mut last = None;
    for _ in 0..tries {
        match bench.try_ask(ask) {
            Ok(answer) if !answer.payload.is_empty() => {
                assert!(answer.is_success(), "{}", answer.said);
                return answer.text().to_owned();
            }
            other => last = Some(other),
        }
    }
    panic!("no response to {ask:?}: {last:?}");
}

/// Tests libcoap on a TLS library as client and as server.
fn libcoap(library: &'static str, credentials: Credentials, faults: Faults) {
    let mut programs = ["client", "server"]
        .map(|end| format!("coap-{end}-{library}"))
        .into_iter();
    if !programs.all(|program| is_on_path(&program)) {
        let required = std::env::var_os("CAROB_REQUIRE_PEERS").is_some_and(|value| value == "1");
        assert!(!required, "libcoap on {library} is missing");
        return crate::skipped(&format!(
            "libcoap on {library} (apt-get install libcoap3-bin)"
        ));
    }
    let over = Transport::Dtls {
        credentials,
        library,
    };
    let bench = Bench::of_column(Column::their_client(Peer::Libcoap, over));
    bench.interpose(faults);
    // libcoap's client gives up a handshake after about five seconds; two losses may take longer.
    let tries = if faults.loss > 0 { 6 } else { 1 };
    let limit = Duration::from_secs(50);
    let get = Ask::get("hello").limit(limit);
    assert_eq!(body(&bench, tries, &get), HELLO);
    let post = Ask::post("echo").payload(b"over DTLS").limit(limit);
    assert_eq!(body(&bench, tries, &post), "over DTLS");

    let bench = Bench::of_column(Column::our_client(Peer::Libcoap, over));
    bench.interpose_drawn(faults, SEED);
    let hello = body(&bench, 1, &Ask::get(""));
    assert!(
        hello.starts_with("This is a test server made with libcoap"),
        "{hello}"
    );
}

/// Tests the program on another library as client and as server.
fn programs(peer: Peer, credentials: Credentials) {
    if !can_run(&[peer]) {
        return;
    }
    let over = Transport::Dtls {
        credentials,
        library: "",
    };
    for column in [
        Column::their_client(peer, over),
        Column::our_client(peer, over),
    ] {
        let bench = Bench::of_column(column);
        let get = Ask::get("hello");
        if bench.is_our_client() {
            // The peers' servers print nothing when they are ready; earlier requests fail with ECONNREFUSED.
            until(LIMIT, "listening server", || bench.try_ask(&get).ok());
            let hello = body(&bench, 1, &get);
            assert!(hello.starts_with("hello from "), "{hello}");
        } else {
            assert_eq!(body(&bench, 1, &get), HELLO);
        }
        let large = bench.ask(&Ask::get("large"));
        assert_eq!((&*large.code, large.payload.len()), ("2.05", 1 << 20));
    }
}

mod openssl {
    use super::*;

    calls! {
        with_a_key: libcoap("openssl", PreSharedKey, NONE);
        with_the_servers_certificate: libcoap("openssl", ServerCertificate, NONE);
        with_certificates_on_both_sides: libcoap("openssl", BothCertificates, NONE);
        with_a_key_through_loss_and_duplication: libcoap("openssl", PreSharedKey, LOSSY);
        with_certificates_on_both_sides_through_loss_and_duplication: libcoap("openssl", BothCertificates, LOSSY);
    }
}

mod gnutls {
    use super::*;

    calls! {
        with_a_key: libcoap("gnutls", PreSharedKey, NONE);
        with_the_servers_certificate: libcoap("gnutls", ServerCertificate, NONE);
        with_certificates_on_both_sides: libcoap("gnutls", BothCertificates, NONE);
        with_a_key_through_loss_and_duplication: libcoap("gnutls", PreSharedKey, LOSSY);
        with_certificates_on_both_sides_through_loss_and_duplication: libcoap("gnutls", BothCertificates, LOSSY);
    }
}

mod go_coap {
    use super::*;

    calls! {
        with_a_key: programs(Peer::GoCoap, PreSharedKey);
        with_the_servers_certificate: programs(Peer::GoCoap, ServerCertificate);
        with_certificates_on_both_sides: programs(Peer::GoCoap, BothCertificates);
    }
}

mod californium {
    use super::*;

    calls! {
        with_a_key: programs(Peer::Californium, PreSharedKey);
        with_the_servers_certificate: programs(Peer::Californium, ServerCertificate);
        with_certificates_on_both_sides: programs(Peer::Californium, BothCertificates);
    }
}
