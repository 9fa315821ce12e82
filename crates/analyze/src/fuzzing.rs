//! Fuzzing entry point: any file is analysed or refused. The fuzz target (`fuzz/`) and the test here
//! call the same function.
//!
//! There only for tests and with `--cfg fuzzing`, which `cargo fuzz` sets.

#[cfg(test)]
#[path = "../../../vectors/corpus/replay.rs"]
mod replay;

use std::net::SocketAddr;

use crate::dtls::{Decryptor, is_dtls};
use crate::{DtlsSecrets, Options, analyze};

/// Keys of the sessions of the corpora.
fn secrets() -> DtlsSecrets {
    let log = format!("CLIENT_RANDOM {} {}", "00".repeat(32), "00".repeat(48));
    DtlsSecrets::default()
        .pre_shared_key("device", "secret-1")
        .key_log(&log)
        .unwrap_or_default()
}

/// Datagrams of two peers are decrypted or counted: each is a side, a little-endian `u16` length and that
/// many bytes.
pub fn decrypt(mut data: &[u8]) {
    let peers = [1, 2].map(|host| SocketAddr::from(([192, 0, 2, host], 5_684)));
    let (mut decryptor, secrets) = (Decryptor::default(), secrets());
    while let Some(([side, low, high], rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        let (payload, rest) = rest.split_at(length.min(rest.len()));
        data = rest;
        let [from, to] = if side % 2 == 0 {
            peers
        } else {
            [peers[1], peers[0]]
        };
        if is_dtls(payload) {
            for opened in decryptor.open([from, to], payload, &secrets) {
                assert!(opened.len() < payload.len());
            }
        }
    }
    let counts = decryptor.counts;
    assert!(counts.decrypted + counts.encrypted() <= counts.records);
}

/// A file is analysed or refused; counts agree with each other.
pub fn capture(data: &[u8]) {
    match analyze(data, &Options::default().secrets(secrets())) {
        Ok(analysis) => {
            let contents = &analysis.contents;
            assert!(contents.bytes <= data.len() as u64);
            assert!(contents.messages <= contents.packets);
            for flow in [&analysis.requests, &analysis.responses] {
                assert!(flow.answered + flow.unanswered + flow.open <= flow.exchanges);
                let spurious = flow.spurious.unwrap_or_default();
                assert!(spurious + flow.undecided <= flow.retransmissions);
            }
            assert!(analysis.findings().iter().all(|text| text.ends_with('.')));
            assert!(analysis.unknowns().iter().all(|text| text.ends_with('.')));
            if let Some(link) = &analysis.link {
                assert!(link.to_toml("fuzz").contains("[link]"));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::replay::replay;
    use super::{capture, decrypt};

    #[test]
    fn any_capture_is_analysed_or_refused() {
        replay("capture", 2_000, capture);
    }

    #[test]
    fn any_dtls_record_is_decrypted_or_counted() {
        replay("decrypt", 2_000, decrypt);
    }
}
