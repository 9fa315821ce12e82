//! Feeds a capture or an event log for `carob analyze`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_analyze::fuzzing::capture(data));
