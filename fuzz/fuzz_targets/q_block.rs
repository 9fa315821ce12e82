//! Feeds blocks and reports of a body by Q-Block1 to its sender and its receiver.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_proto::fuzzing::q_block(data));
