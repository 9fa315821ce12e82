//! Feeds a WebSocket's handshake and frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| carob::fuzzing::websocket(data));
