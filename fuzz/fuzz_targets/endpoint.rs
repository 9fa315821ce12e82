//! Feeds datagrams from four peers, answers that fit what was last sent, requests, cancellations, time.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_proto::fuzzing::endpoint(data));
