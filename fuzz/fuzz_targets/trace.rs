//! Feeds a script for `carob cc trace`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_lab::fuzzing::trace(data));
