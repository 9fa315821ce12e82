//! Short fuzzing in an ordinary test that includes this file by its path: the corpus of a target, and
//! mutations of it. Their seed is fixed, so that failures repeat.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::vec::Vec;

/// Maximum length of a mutated input, in bytes.
const LONGEST: usize = 4_096;

/// SplitMix64 (Steele et al. 2014).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// The inputs of `NAME.bin`: each is a little-endian `u16` length, then its bytes.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/corpus");
    let file = root.join(std::format!("{target}.bin"));
    let bytes = fs::read(&file);
    let bytes = bytes.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let (mut rest, mut all) = (&bytes[..], Vec::new());
    while let Some((length, after)) = rest.split_first_chunk() {
        let (input, after) = after.split_at(usize::from(u16::from_le_bytes(*length)));
        all.push(input.to_vec());
        rest = after;
    }
    assert!(!all.is_empty(), "{} is empty", file.display());
    all
}

/// A mutation of an input of the corpus.
fn drawn(corpus: &[Vec<u8>], draws: &mut Draws) -> Vec<u8> {
    let mut input = corpus[draws.below(corpus.len())].clone();
    for _ in 0..=draws.below(6) {
        let at = draws.below(input.len() + 1);
        match draws.below(7) {
            0 if at < input.len() => input[at] ^= 1 << draws.below(8),
            1 if at < input.len() => input[at] = draws.next() as u8,
            2 => input.insert(at, draws.next() as u8),
            3 => {
                let end = (at + draws.below(16)).min(input.len());
                input.drain(at..end);
            }
            4 => {
                let end = (at + draws.below(16)).min(input.len());
                let again = input[at..end].to_vec();
                input.splice(at..at, again);
            }
            5 => input.truncate(at),
            _ => {
                let other = &corpus[draws.below(corpus.len())];
                input.truncate(at);
                input.extend_from_slice(&other[draws.below(other.len() + 1)..]);
            }
        }
    }
    input.truncate(LONGEST);
    input
}

/// Passes the corpus of `target` and `count` mutations to `body`. An input that makes it panic is printed in
/// escaped bytes, for a test or for the corpus.
pub(crate) fn replay(target: &str, count: usize, body: fn(&[u8])) {
    let corpus = corpus(target);
    let mut draws = Draws(0x6361_726f_6266_757a);
    let drawn: Vec<Vec<u8>> = (0..count).map(|_| drawn(&corpus, &mut draws)).collect();
    for input in corpus.iter().chain(&drawn) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(input))) {
            std::eprintln!("{target} fails with {}", input.escape_ascii());
            resume_unwind(panic);
        }
    }
}
