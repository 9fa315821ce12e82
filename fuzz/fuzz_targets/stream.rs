//! Any sequence of pieces of streams, connections, requests, answers and time: no panic, limits
//! hold, and nothing is left when all connections have ended.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../vectors/corpus/stream_script.rs"]
mod stream_script;

fuzz_target!(|data: &[u8]| stream_script::run(data));
