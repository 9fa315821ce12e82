//! Catches a panic of a thread together with its message, and continues.
//!
//! A server does the same with a panicking handler and responds with 5.00. Values are dropped during unwinding. Where
//! panics cannot unwind, the program aborts instead.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

static DROPPED: AtomicBool = AtomicBool::new(false);

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DROPPED.store(true, Ordering::SeqCst);
    }
}

fn main() -> ExitCode {
    let thread = std::thread::spawn(|| {
        let _guard = Guard;
        let index = std::env::args().count() + 7;
        [0_u8; 4][std::hint::black_box(index)]
    });
    let message = match thread.join() {
        Ok(_) => "no panic".to_owned(),
        Err(panic) => (panic.downcast_ref::<String>().cloned()).unwrap_or_default(),
    };
    let caught = message.starts_with("index out of bounds");
    let dropped = DROPPED.load(Ordering::SeqCst);
    println!("caught: {message}; values dropped: {dropped}");
    if caught && dropped { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
