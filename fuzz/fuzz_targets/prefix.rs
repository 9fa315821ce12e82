//! Feeds prefixes of addresses, and an address.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_proto::fuzzing::prefix(data));
