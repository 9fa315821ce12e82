//! Any text at all as the value of an argument: it is read, or refused with words; never a panic.

#[path = "../../../../vectors/corpus/replay.rs"]
mod replay;

use std::time::Duration;

use carob_proto::codec::{OptionFormat, Options};

use super::values;
use crate::formats;

/// The first byte chooses the kind of value.
fn value(data: &[u8]) {
    let Some((&kind, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = core::str::from_utf8(text) else {
        return;
    };
    let refused = |words: String| assert!(!words.is_empty(), "{text:?}");
    match kind % 13 {
        0 => match values::duration(text) {
            Ok(duration) => assert!(duration > Duration::ZERO),
            Err(words) => refused(words),
        },
        1 => match values::block_size(text) {
            Ok(size) => assert_eq!(text.parse(), Ok(size.bytes())),
            Err(words) => refused(words),
        },
        2 => match values::aggregate(text) {
            Ok(prefix) => assert_eq!(values::aggregate(&prefix.to_string()), Ok(prefix)),
            Err(words) => refused(words),
        },
        3 => match values::amplification_limit(text) {
            Ok((prefix, on)) => {
                let written = format!("{prefix}={}", if on { "on" } else { "off" });
                assert_eq!(values::amplification_limit(&written), Ok((prefix, on)));
            }
            Err(words) => refused(words),
        },
        4 => match values::limit(text) {
            Ok((name, value)) => {
                let written = format!("{name}={value}");
                assert_eq!(values::limit(&written), Ok((name, value)));
            }
            Err(words) => refused(words),
        },
        5 => values::no_response(text).map_or_else(refused, drop),
        6 => values::count_option(text).map_or_else(refused, drop),
        7 => match values::etag(text) {
            Ok(tag) => assert!((1..=8).contains(&tag.len())),
            Err(words) => refused(words),
        },
        8 => values::tag(text).map_or_else(refused, drop),
        9 => match values::option(text) {
            Ok(option) => {
                let format = option.number.definition().map(|known| known.format);
                let hex = text.contains("=0x");
                assert!(hex || format != Some(OptionFormat::Uint) || option.value.len() <= 4);
                // It fits a message, or is refused when it is put into one.
                let _ = Options::new().push(option.number, &option.value);
            }
            Err(words) => refused(words),
        },
        10 => {
            if let Err(failure) = values::controller(text) {
                assert!(!failure.message.is_empty());
            }
        }
        11 => match values::path(text) {
            Ok(path) => assert!(path.starts_with('/')),
            Err(words) => refused(words),
        },
        _ => formats::parse(text).map_or_else(refused, drop),
    }
}

#[test]
fn any_value_of_an_argument_is_read_or_refused() {
    replay::replay("values", 5_000, value);
}
