//! Feeds actions of two endpoints over a bad network: requests, observations, notifications, bodies, cancellations, restarts, sleep, time.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_proto::fuzzing::exchanges(data));
