//! Fuzzing entry point: any file is analysed or refused. The fuzz target (`fuzz/`) and the test here
//! call the same function.
//!
//! There only for tests and with `--cfg fuzzing`, which `cargo fuzz` sets.

#[cfg(test)]
#[path = "../../../vectors/corpus/replay.rs"]
mod replay;

use crate::{Options, analyze};

/// A file is analysed or refused; counts agree with each other.
pub fn capture(data: &[u8]) {
    match analyze(data, &Options::default()) {
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
    use super::capture;
    use super::replay::replay;

    #[test]
    fn any_capture_is_analysed_or_refused() {
        replay("capture", 2_000, capture);
    }
}
