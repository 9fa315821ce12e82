//! Values of arguments: what people may write, and what it means.

use std::net::SocketAddr;
use std::time::Duration;

use carob::{
    BadPrefix, BlockSize, Choice, NoResponse, OptionNumber, Prefix, Scheme, Settings,
    TransmissionProfile, UnknownProfile,
};
use carob_lab::scenario::keys::distance;
use carob_proto::codec::{OptionDefinition, OptionFormat};
use carob_proto::endpoint::{TOKEN_BYTES_MAX, can_count_retransmissions};

use crate::failure::{Failure, Kind};

/// An option as it will be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OptionValue {
    pub(crate) number: OptionNumber,
    pub(crate) value: Vec<u8>,
}

/// An entity tag, or any state there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Any,
    Is(Vec<u8>),
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let unit = "expected a time with its unit, such as 5s or 400ms";
    let duration: carob_cc::time::Duration = text.parse().map_err(|_| unit)?;
    if duration.is_zero() {
        return Err("expected a time longer than 0".into());
    }
    Ok(duration.into())
}

pub(crate) fn block_size(text: &str) -> Result<BlockSize, String> {
    let wrong = "expected 16, 32, 64, 128, 256, 512 or 1024";
    let bytes: usize = text.parse().map_err(|_| wrong)?;
    let size = BlockSize::from_bytes_at_most(bytes).filter(|size| size.bytes() == bytes);
    size.ok_or_else(|| wrong.into())
}

/// Bytes of a token.
pub(crate) fn token_length(text: &str) -> Result<u16, String> {
    let length = text.parse().ok();
    let most = TOKEN_BYTES_MAX;
    length
        .filter(|&length| usize::from(length) <= most)
        .ok_or_else(|| format!("expected a length in bytes, 0 to {most}"))
}

/// A prefix, or `all`.
pub(crate) fn aggregate(text: &str) -> Result<Prefix, String> {
    if text == "all" {
        return Ok(Prefix::ALL);
    }
    text.parse().map_err(|error: BadPrefix| error.to_string())
}

/// `PREFIX=on` or `PREFIX=off`.
pub(crate) fn amplification_limit(text: &str) -> Result<(Prefix, bool), String> {
    let wrong = "expected PREFIX=on or PREFIX=off, such as 10.0.0.0/8=on";
    let (prefix, on) = text.split_once('=').ok_or(wrong)?;
    let prefix = prefix
        .parse()
        .map_err(|error: BadPrefix| error.to_string())?;
    match on {
        "on" => Ok((prefix, true)),
        "off" => Ok((prefix, false)),
        _ => Err(wrong.into()),
    }
}

/// `NAME=VALUE` of a limit.
pub(crate) fn limit(text: &str) -> Result<(String, usize), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("expected NAME=VALUE, such as observers=1000")?;
    let name = name.trim().replace('-', "_");
    let all = crate::commands::serve::limits::all();
    if !all.iter().any(|limit| limit.name == name) {
        let names = all.iter().map(|limit| limit.name);
        let near = nearest(&name, names.clone())
            .map(|near| format!("; did you mean {near}?"))
            .unwrap_or_default();
        let known = names.collect::<Vec<_>>().join(", ");
        return Err(format!(
            "no limit has the name \"{name}\"{near}; there are {known}"
        ));
    }
    let (digits, unit) = [("KiB", 10), ("MiB", 20), ("GiB", 30)]
        .into_iter()
        .find_map(|(unit, bits)| Some((value.strip_suffix(unit)?, bits)))
        .unwrap_or((value, 0));
    let number: Option<usize> = digits.trim().parse().ok();
    let number = number.and_then(|number| number.checked_mul(1 << unit));
    let wrong = || format!("{name} is a number: expected one such as 1000 or 64MiB");
    Ok((name.clone(), number.ok_or_else(wrong)?))
}

/// Classes of responses that are not wanted, such as `2xx,5xx`, or `all`.
pub(crate) fn no_response(text: &str) -> Result<NoResponse, String> {
    text.split(',')
        .try_fold(NoResponse::NONE, |sum, class| {
            Some(
                sum | match class {
                    "2xx" => NoResponse::SUCCESS,
                    "4xx" => NoResponse::CLIENT_ERROR,
                    "5xx" => NoResponse::SERVER_ERROR,
                    "all" => NoResponse::ALL,
                    _ => return None,
                },
            )
        })
        .ok_or_else(|| "expected 2xx, 4xx, 5xx, several with commas between, or all".into())
}

/// The number of an option that can count retransmissions.
pub(crate) fn count_option(text: &str) -> Result<OptionNumber, String> {
    let number = text.parse().map(OptionNumber).ok();
    number
        .filter(|number| can_count_retransmissions(*number))
        .ok_or_else(|| {
            "expected a number of 28 more than a multiple of 32 that is not assigned, \
            such as 65052 or 65084: elective, safe to forward, no cache key"
                .into()
        })
}

/// An entity tag: 1 to 8 bytes (RFC 7252 5.10.6), with or without 0x.
pub(super) fn etag(text: &str) -> Result<Vec<u8>, String> {
    let bytes = hex(text.strip_prefix("0x").unwrap_or(text));
    let fits = bytes.filter(|bytes| (1..=8).contains(&bytes.len()));
    fits.ok_or_else(|| "expected 1 to 8 bytes in hexadecimal, such as 9c31".into())
}

pub(super) fn tag(text: &str) -> Result<Tag, String> {
    if text.eq_ignore_ascii_case("any") {
        return Ok(Tag::Any);
    }
    etag(text)
        .map(Tag::Is)
        .map_err(|wrong| format!("{wrong}, or any"))
}

/// `NUMBER=VALUE`; the number may be a name, too.
pub(super) fn option(text: &str) -> Result<OptionValue, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("expected NUMBER=VALUE, such as 65000=0x01 or Hop-Limit=16")?;
    let by_name = || {
        let mut all = OptionDefinition::ALL.iter();
        all.find(|definition| definition.name.eq_ignore_ascii_case(name))
    };
    let number = match name.parse() {
        Ok(number) => OptionNumber(number),
        Err(_) => by_name().map(|known| known.number).ok_or_else(|| {
            let names = OptionDefinition::ALL
                .iter()
                .map(|definition| definition.name);
            let near = nearest(name, names)
                .map(|near| format!("; did you mean {near}?"))
                .unwrap_or_default();
            format!("no option has the name or number \"{name}\"{near}")
        })?,
    };
    let is_uint = || {
        number
            .definition()
            .is_some_and(|d| d.format == OptionFormat::Uint)
    };
    let value = if let Some(digits) = value.strip_prefix("0x") {
        hex(digits).ok_or("expected an even number of hexadecimal digits after 0x")?
    } else if is_uint() {
        let wrong =
            || format!("{number} is a number: expected one of up to 32 bits, or hex with 0x");
        let value: u32 = value.parse().map_err(|_| wrong())?;
        let bytes = value.to_be_bytes();
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        bytes[zeros..].to_vec()
    } else {
        value.into()
    };
    Ok(OptionValue { number, value })
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let digit = |n: usize| char::from(pair[n]).to_digit(16);
        u8::try_from(digit(0)? << 4 | digit(1)?).ok()
    };
    pairs.map(byte).collect()
}

/// An address as it is written in a URI.
pub(crate) fn authority(scheme: Scheme, address: SocketAddr) -> String {
    format!("{scheme}://{address}")
}

/// Settings with a profile, if there is one, and a controller that goes over it.
pub(crate) fn timed(
    profile: Option<TransmissionProfile>,
    controller: Option<&str>,
) -> Result<Settings, Failure> {
    let settings = profile.map_or_else(Settings::new, |profile| Settings::new().profile(profile));
    match controller {
        Some(name) => Ok(settings.controller(self::controller(name)?)),
        None => Ok(settings),
    }
}

/// A transmission profile.
pub(crate) fn profile(name: &str) -> Result<TransmissionProfile, String> {
    name.parse().map_err(|unknown: UnknownProfile| {
        let names = TransmissionProfile::ALL.map(TransmissionProfile::name);
        let near = nearest(name, names.into_iter());
        let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        format!("{unknown}{near}")
    })
}

/// The controller of a name.
pub(crate) fn controller(name: &str) -> Result<Choice, Failure> {
    Choice::named(name).map_err(|unknown| {
        let failure = Failure::new(Kind::Usage, format_args!("--cc: {unknown}"));
        failure.hint("`carob cc list` explains all")
    })
}

/// The name nearest to a wrong one, if any is near.
pub(crate) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let limit = wrong.chars().count().div_ceil(2);
    names
        .map(|name| (distance(&wrong, &name.to_lowercase()), name))
        .min()
        .filter(|(distance, _)| *distance <= limit)
        .map(|(_, name)| name)
}

/// A path on this server, without parameters.
pub(crate) fn path(text: &str) -> Result<String, String> {
    let literal = !text.contains(['{', '}', '*', '?', '#']);
    if literal && text.len() > 1 && text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("expected a path, such as /health".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_controller_finds_its_neighbour() {
        let near = |wrong| {
            let names = carob_cc::registry::entries().map(|entry| entry.name);
            nearest(wrong, names)
        };
        assert_eq!(near("cocoa-3"), Some("cocoa-03"));
        assert_eq!(near("Defualt"), Some("default"));
        assert_eq!(near("xyzzy-quux-frobnicate"), None);
    }

    #[test]
    fn times_need_units_and_block_sizes_are_powers_of_two() {
        assert_eq!(duration("400ms"), Ok(Duration::from_millis(400)));
        assert!(duration("5").is_err());
        assert!(duration("0s").is_err());
        assert_eq!(block_size("64").map(BlockSize::bytes), Ok(64));
        assert!(block_size("100").is_err());
        assert!(block_size("2048").is_err());
    }

    #[test]
    fn an_option_that_counts_must_harm_nobody() {
        assert_eq!(count_option("65084"), Ok(OptionNumber(65_084)));
        for wrong in ["", "28", "65000", "65536", "0xfe1c", "Size1"] {
            assert!(count_option(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn entity_tags_are_one_to_eight_bytes_of_hexadecimal() {
        assert_eq!(etag("9c31"), Ok(vec![0x9c, 0x31]));
        assert_eq!(etag("0x9C31"), Ok(vec![0x9c, 0x31]));
        assert_eq!(tag("any"), Ok(Tag::Any));
        for wrong in ["", "9", "9g", "+1", "0x", "010203040506070809"] {
            assert!(etag(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_are_text_hexadecimal_or_numbers() {
        let option = |text| option(text).map(|option| (option.number.0, option.value));
        assert_eq!(option("65000=some=text"), Ok((65000, b"some=text".into())));
        assert_eq!(option("65000=0x00ff"), Ok((65000, vec![0, 0xff])));
        assert_eq!(option("65000="), Ok((65000, vec![])));
        assert_eq!(option("max-age=300"), Ok((14, vec![1, 44])));
        assert_eq!(option("14=0"), Ok((14, vec![])));
        assert_eq!(option("Uri-Query=a=1"), Ok((15, b"a=1".into())));
        assert!(option("65536=x").is_err() && option("Max-Age=soon").is_err());
        assert!(option("65000").is_err() && option("65000=0xf").is_err());
        let unknown = option("Max-Ege=1").unwrap_err();
        assert!(unknown.contains("did you mean Max-Age?"), "{unknown}");
    }
}
