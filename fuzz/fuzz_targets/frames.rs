//! Feeds a stream in pieces (RFC 8323).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_proto::fuzzing::frames(data));
