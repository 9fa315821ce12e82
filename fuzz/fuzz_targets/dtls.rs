//! Feeds datagrams before the DTLS library sees them: records, and a ClientHello.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob::fuzzing::dtls(data));
