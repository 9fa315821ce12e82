//! Feeds paths of resources, and requested paths.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob::fuzzing::paths(data));
