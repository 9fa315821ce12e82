//! Feeds datagrams of a DTLS session that `carob analyze` decrypts.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob_analyze::fuzzing::decrypt(data));
