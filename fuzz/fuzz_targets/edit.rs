//! Feeds options to add to or remove from a message.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_proto::fuzzing::edit(data));
