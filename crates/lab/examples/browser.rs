//! The default comparison without files and threads, for a browser or Node.
//!
//! `cargo xtask test wasm` builds it for wasm32 and compares its rows with those of the command:
//! the same numbers, to the last bit. `browser.mjs` beside it loads it.

#![allow(unsafe_code, reason = "exported names are unsafe attributes")]

use std::cell::RefCell;

use carob_lab::engine;
use carob_lab::run::{Plan, Selection};
use carob_lab::scenario::{Scenario, builtin};

thread_local! {
    static OUTPUT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the default comparison with so many seeds. Returns the length of the output in bytes: a row
/// of JSON for each run, or a line that begins with `error: `.
#[unsafe(no_mangle)]
pub extern "C" fn carob_compare(seeds: u32) -> usize {
    let text = compare(seeds.into()).unwrap_or_else(|error| format!("error: {error}\n"));
    OUTPUT.with_borrow_mut(|output| {
        *output = text;
        output.len()
    })
}

/// Address of the output of the last comparison. It is valid until the next one.
#[unsafe(no_mangle)]
pub extern "C" fn carob_output() -> *const u8 {
    OUTPUT.with_borrow(|output| output.as_ptr())
}

fn compare(seeds: u64) -> Result<String, Box<dyn std::error::Error>> {
    let (file, _) = builtin::find(builtin::DEFAULT).ok_or("there is no default scenario")?;
    let scenario = Scenario::read(file.name, file.text, &[])?;
    let selection = Selection {
        seeds: Some(seeds),
        ..Selection::default()
    };
    let outcome = Plan::new(&scenario, &selection)?;
    let outcome = outcome.execute(engine::run, |_, _| {})?;
    let mut text = String::new();
    for row in outcome.each() {
        text += &serde_json::to_string(&row)?;
        text.push('\n');
    }
    Ok(text)
}
