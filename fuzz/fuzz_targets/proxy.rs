//! Feeds options of a request to a proxy.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_proto::fuzzing::proxy(data));
