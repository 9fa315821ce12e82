//! Feeds datagrams from four peers, matching replies, requests, cancellations and time.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_proto::fuzzing::endpoint(data));
