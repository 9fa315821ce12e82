//! Feeds blocks of bodies in any order, to a server and to a client.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_proto::fuzzing::bodies(data));
