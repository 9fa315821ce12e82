//! Feeds an option set or taken out of a message.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_proto::fuzzing::edit(data));
