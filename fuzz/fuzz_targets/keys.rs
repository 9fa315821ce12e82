//! Feeds a file of pre-shared keys.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob::fuzzing::keys(data));
