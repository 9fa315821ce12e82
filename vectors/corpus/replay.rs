//! Does what fuzzing does, for a short while, in an ordinary test that includes this file by its path: a
//! target's corpus, and inputs drawn from it, the same ones each time.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::vec::Vec;

/// The longest input that is drawn.
const LONGEST: usize = 4_096;

/// SplitMix64.
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

/// The inputs of `NAME.bin`: each is a little-endian `u16` length and that many bytes.
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

/// One of the corpus, changed in some places.
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

/// Gives `body` the corpus of `target`, and `count` inputs drawn from it. One that makes it panic is printed
/// as the bytes that it is, so that it can be a test or a part of the corpus.
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
