//! Iterates over the scripts of `streams.bin`, for tests that include this file by its path.

const BYTES: &[u8] = include_bytes!("streams.bin");

/// The scripts in the order of the file.
pub(crate) fn scripts() -> impl Iterator<Item = &'static [u8]> {
    let mut rest = BYTES;
    core::iter::from_fn(move || {
        let (&length, after) = rest.split_first_chunk::<2>()?;
        let (script, after) = after.split_at(usize::from(u16::from_le_bytes(length)));
        rest = after;
        Some(script)
    })
}
