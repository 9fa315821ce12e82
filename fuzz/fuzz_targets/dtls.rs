//! Feeds datagrams to the checks in front of the DTLS library: records, and a ClientHello.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob::fuzzing::dtls(data));
