//! Keys are erased before their memory is released.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::process::Command;

use carob::dtls::{PreSharedKey, PskStore};

const LENGTH: usize = 64;
/// XORed with keys, so that the test itself has no plain copy.
const MASK: u8 = 0x2a;

/// A masked key of printable bytes.
fn masked(seed: u8) -> [u8; LENGTH] {
    let byte = |n: usize| b'A' + ((n * 7 + usize::from(seed) * 11) % 26) as u8;
    std::array::from_fn(|n| byte(n) ^ MASK)
}

/// Counts occurrences of a key in this process's writable memory.
fn copies(masked: &[u8; LENGTH]) -> usize {
    // The start is skipped: an allocator overwrites it on free.
    let wanted = &masked[24..LENGTH];
    let memory = File::open("/proc/self/mem").unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut found = 0;
    let mut piece = vec![0_u8; 1 << 20];
    for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let mut at = u64::from_str_radix(start, 16).unwrap();
        let end = u64::from_str_radix(end, 16).unwrap();
        while at < end {
            let length = piece.len().min((end - at) as usize);
            if memory.read_exact_at(&mut piece[..length], at).is_err() {
                break;
            }
            // Masked in place, so that this buffer is no occurrence itself.
            piece[..length].iter_mut().for_each(|byte| *byte ^= MASK);
            let first = |byte: &&usize| piece[**byte..length].starts_with(wanted);
            let starts = 0..length.saturating_sub(wanted.len() - 1);
            found += starts.collect::<Vec<_>>().iter().filter(first).count();
            at += length as u64;
        }
    }
    found
}

/// Calls `make` with a key file, which is overwritten afterwards.
fn with_file<T>(masked: &[u8; LENGTH], make: impl FnOnce(&str) -> T) -> T {
    let mut file = String::with_capacity(128);
    file.push_str("device:");
    file.extend(masked.iter().map(|byte| char::from(byte ^ MASK)));
    let made = make(&file);
    let mut file = file.into_bytes();
    file.fill(0);
    std::hint::black_box(&file);
    made
}

/// Environment variable that marks the child process with the key.
const ALONE: &str = "CAROB_ZEROIZED_ALONE";

/// Runs in a child process: the test binary's hundreds of megabytes would all be scanned.
#[test]
fn slow_dropped_key_is_erased_from_memory() {
    if std::env::var_os(ALONE).is_some() {
        return dropped_keys_are_nowhere();
    }
    let name = "zeroized::slow_dropped_key_is_erased_from_memory";
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let output = alone.env(ALONE, "1").args(["--exact", name]).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

fn dropped_keys_are_nowhere() {
    let one = masked(1);
    let key = with_file(&one, |file| PreSharedKey::read_all(file).expect("a key"));
    assert!(copies(&one) > 0, "the key is found while it is there");
    let copy = key.clone();
    drop(key);
    assert!(copies(&one) > 0, "its copy is there");
    drop(copy);
    assert_eq!(copies(&one), 0);
    let other = masked(2);
    let store = with_file(&other, |file| PskStore::from_text(file).expect("keys"));
    assert!(copies(&other) > 0);
    drop(store);
    assert_eq!(copies(&other), 0);
}
