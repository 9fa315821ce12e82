//! Facts about what messages look like.

use carob_proto::codec::frame::{FrameHead, write_frame};
use carob_proto::codec::{BlockSize, Framing};

/// A stream message without a token, with `length` bytes after its header.
fn head(length: &str) -> Option<(u64, FrameHead)> {
    let length: usize = length.parse().ok()?;
    // Longer ones than 16 MiB are not made.
    if length > 1 << 24 {
        return None;
    }
    let mut message = vec![0x40, 0x45, 0, 1];
    message.resize(4 + length, 0xff);
    let mut out = Vec::new();
    write_frame(Framing::Stream, &message, &mut out);
    Some((length as u64, FrameHead::parse(&out).ok()??))
}

pub(super) fn length_bytes(length: &str) -> Option<f64> {
    let (length, head) = head(length)?;
    if head.length != length {
        return Some(-1.0);
    }
    // The first byte and the code.
    Some(f64::from(head.head_length) - 2.0)
}

pub(super) fn header_bytes(length: &str) -> Option<f64> {
    Some(f64::from(head(length)?.1.head_length))
}

pub(super) fn block_bytes(which: &str) -> Option<f64> {
    let sizes = (0..=u8::MAX).filter_map(BlockSize::from_szx);
    let sizes: Vec<usize> = sizes
        .filter(|s| !s.is_bert())
        .map(BlockSize::bytes)
        .collect();
    match which {
        "least" => sizes.iter().min().map(|&bytes| bytes as f64),
        "most" => sizes.iter().max().map(|&bytes| bytes as f64),
        "sizes" => Some(sizes.len() as f64),
        _ => None,
    }
}
