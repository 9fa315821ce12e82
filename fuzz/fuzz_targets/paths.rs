//! Feeds paths of resources, and paths that are asked for.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob::fuzzing::paths(data));
