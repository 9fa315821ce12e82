//! Feeds the head of an HTTP request for metrics.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob::fuzzing::scrape(data));
