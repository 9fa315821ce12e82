//! Fuzz targets for every parser and table: `fuzz/` and the tests here call the same functions. A
//! function panics if a property does not hold.
//!
//! Compiled only for tests and with `--cfg fuzzing`, which `cargo fuzz` sets.

#![allow(clippy::missing_panics_doc, reason = "that is what they are for")]

mod bodies;
mod exchanges;
mod messages;
mod q_block;
#[cfg(test)]
#[path = "../../../../vectors/corpus/replay.rs"]
mod replay;
mod texts;

pub use bodies::bodies;
pub use exchanges::exchanges;
pub use messages::endpoint;
pub use messages::{decode, edit, frames};
pub use q_block::q_block;
pub use texts::{link_format, prefix, proxy, uri};

/// SplitMix64: random bits for engines, seeded from the input.
#[derive(Clone, Debug)]
pub(crate) struct Stream(pub(crate) u64);

impl carob_cc::random::Random for Stream {
    fn next_u32(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }
}

/// The input, taken from its beginning; zeros when it has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        byte
    }

    pub(crate) fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// All remaining bytes, but at most `most`.
    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A number of bytes given by the first one.
    pub(crate) fn piece(&mut self) -> &'a [u8] {
        let length = self.byte();
        self.bytes(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use super::replay::replay;
    use super::*;

    #[test]
    fn any_uri_is_refused_or_survives_being_written() {
        replay("uri", 5_000, uri);
    }

    #[test]
    fn any_prefix_is_refused_or_survives_being_written() {
        replay("prefix", 3_000, prefix);
    }

    #[test]
    fn any_links_are_refused_or_survive_being_written() {
        replay("link_format", 1_000, link_format);
    }

    #[test]
    fn any_proxy_options_are_refused_or_give_a_uri() {
        replay("proxy", 3_000, proxy);
    }

    #[test]
    fn any_datagram_is_refused_or_written_back() {
        replay("decode", 2_000, decode);
    }

    #[test]
    fn an_option_is_changed_in_any_message() {
        replay("edit", 5_000, edit);
    }

    #[test]
    fn any_pieces_of_a_stream_make_the_same_messages() {
        replay("frames", 3_000, frames);
    }

    #[test]
    fn bodies_are_reassembled_from_blocks_in_any_order() {
        replay("bodies", 2_000, bodies);
    }

    #[test]
    fn q_block_body_is_correct_under_loss() {
        replay("q_block", 4_000, q_block);
    }

    #[test]
    fn endpoint_stays_within_its_limits() {
        replay("endpoint", 1_000, endpoint);
    }

    #[test]
    fn every_request_between_two_endpoints_ends_and_none_runs_twice() {
        replay("exchanges", 2_000, exchanges);
    }
}
