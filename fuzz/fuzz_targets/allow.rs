//! Feeds allow patterns of a proxy, and URIs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob::fuzzing::allow(data));
