//! Feeds a scenario file, and an override.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_lab::fuzzing::scenario(data));
