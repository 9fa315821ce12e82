//! Runs the controller contract: the input selects a controller and supplies all random draws of the trial.
#![no_main]

use carob_cc::contract::Trial;
use carob_cc::random::Random;
use carob_cc::registry::entries;
use libfuzzer_sys::fuzz_target;

/// The input, four bytes a draw; nothing is left when it has ended.
struct Input<'a>(&'a [u8]);

impl Random for Input<'_> {
    fn next_u32(&mut self) -> u32 {
        let (draw, rest) = self.0.split_first_chunk().unwrap_or((&[0; 4], &[]));
        self.0 = rest;
        u32::from_le_bytes(*draw)
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&which, rest)) = data.split_first() else {
        return;
    };
    let all: Vec<_> = entries().collect();
    let entry = &all[usize::from(which) % all.len()];
    let mut trial = Trial::new(entry.build(), entry.build(), entry.shrinks)
        .with_parameters(entry.suggested.apply(Default::default()));
    let mut input = Input(rest);
    while !input.0.is_empty() {
        if let Err(breach) = trial.step(&mut input) {
            panic!("{}: {breach}\n{trial:#?}", entry.name);
        }
    }
});
