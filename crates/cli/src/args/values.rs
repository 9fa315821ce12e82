//! Parsers of the values of arguments.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use carob::{
    BadPrefix, BlockSize, Config, CongestionControl, NoResponse, OptionNumber, Prefix, Scheme,
};
use carob_proto::codec::{OptionDefinition, OptionFormat};
use carob_proto::endpoint::{TOKEN_BYTES_MAX, can_count_retransmissions};

use crate::failure::{Failure, Kind, did_you_mean};
use crate::limits;
use crate::program::registry;

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

/// A number of things of which there must be one.
pub fn at_least_one(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| "expected a whole number of at least 1".into())
}

/// An address to listen at for coap and coap+tcp.
pub(crate) fn coap_address(text: &str) -> Result<String, String> {
    address(text, 5683)
}

/// An address to listen at for coaps and coaps+tcp.
#[cfg(any(feature = "dtls", feature = "tls"))]
pub(crate) fn coaps_address(text: &str) -> Result<String, String> {
    address(text, 5684)
}

/// An address to listen at for coap+ws.
#[cfg(feature = "websocket")]
pub(crate) fn http_address(text: &str) -> Result<String, String> {
    address(text, 80)
}

/// An address to listen at for coaps+ws.
#[cfg(all(feature = "tls", feature = "websocket"))]
pub(crate) fn https_address(text: &str) -> Result<String, String> {
    address(text, 443)
}

/// An address, or a name of one, with this port unless it has its own.
fn address(text: &str, port: u16) -> Result<String, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port).to_string());
    }
    let expected = || format!("expected ADDRESS[:PORT], such as 127.0.0.1:{port} or [::]:{port}");
    if text.is_empty() {
        return Err(expected());
    }
    if text.starts_with('[') && text.ends_with(']') {
        return Ok(format!("{text}:{port}"));
    }
    match text.rsplit_once(':') {
        None => Ok(format!("{text}:{port}")),
        Some(("", _)) => Err(expected()),
        Some((_, number)) if number.parse::<u16>().is_ok() => Ok(text.to_owned()),
        Some((_, number)) => Err(format!(
            "\"{number}\" is not a port (0 to 65535); {}",
            expected()
        )),
    }
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

/// The highest rate that the engine's token buckets can enforce, in requests per second.
const RATE_MAX: usize = 1_000_000;

/// `NAME=VALUE` of a limit.
pub(crate) fn limit(text: &str) -> Result<(String, usize), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("expected NAME=VALUE, such as observers=1000")?;
    let name = name.trim().replace('-', "_");
    let all = limits::all();
    if !all.iter().any(|limit| limit.name == name) {
        let near = did_you_mean(&name, all.iter().map(|limit| limit.name));
        return Err(format!(
            "unknown limit \"{name}\"; {near}`carob serve --limits` lists all"
        ));
    }
    let (digits, unit) = [("KiB", 10), ("MiB", 20), ("GiB", 30)]
        .into_iter()
        .find_map(|(unit, bits)| Some((value.strip_suffix(unit)?, bits)))
        .unwrap_or((value, 0));
    let number: Option<usize> = digits.trim().parse().ok();
    let number = number.and_then(|number| number.checked_mul(1 << unit));
    let is_bytes = name.contains("bytes");
    let example = if is_bytes { "65536 or 64MiB" } else { "1000" };
    let wrong = || format!("{name} is a number: expected one such as {example}");
    let number = number.ok_or_else(wrong)?;
    if unit > 0 && !is_bytes {
        return Err(format!(
            "{name} is not in bytes: expected a number without a unit, such as 1000"
        ));
    }
    if name == "request_rate" && number > RATE_MAX {
        return Err(format!(
            "{name}: expected at most {RATE_MAX}, or 0 for no limit"
        ));
    }
    Ok((name, number))
}

/// Classes of responses to suppress, such as `2xx,5xx`, or `all`.
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
            let near = did_you_mean(name, names);
            format!("unknown option \"{name}\"; {near}any number from 0 to 65535 is accepted")
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

/// An address in the syntax of URIs.
pub(crate) fn authority(scheme: Scheme, address: SocketAddr) -> String {
    format!("{scheme}://{address}")
}

/// Config with a controller, if one is named.
pub(crate) fn timed(controller: Option<&str>) -> Result<Config, Failure> {
    match controller {
        Some(name) => Ok(Config::new().controller(self::controller(name)?)),
        None => Ok(Config::new()),
    }
}

/// The controller of a name.
pub(crate) fn controller(name: &str) -> Result<CongestionControl, Failure> {
    let entry = registry().find(name);
    entry.map(|entry| entry.choice()).map_err(|unknown| {
        let failure = Failure::new(Kind::Usage, format_args!("--cc: {unknown}"));
        failure.hint("`carob cc list` explains all")
    })
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
    fn an_address_to_listen_at_has_a_port() {
        for (given, read) in [
            ("127.0.0.1", "127.0.0.1:5683"),
            ("::1", "[::1]:5683"),
            ("[::]", "[::]:5683"),
            ("[fe80::1%2]", "[fe80::1%2]:5683"),
            ("localhost", "localhost:5683"),
            ("localhost:0", "localhost:0"),
            ("[::]:7", "[::]:7"),
        ] {
            assert_eq!(coap_address(given).as_deref(), Ok(read));
        }
        for wrong in ["", ":5683", "[::]:70000", "127.0.0.1:coap", "127.0.0.1:"] {
            assert!(coap_address(wrong).is_err(), "{wrong}");
        }
        #[cfg(any(feature = "dtls", feature = "tls"))]
        assert_eq!(coaps_address("::").as_deref(), Ok("[::]:5684"));
    }

    #[test]
    fn limits_in_bytes_alone_have_units() {
        assert_eq!(
            limit("upload-bytes=1KiB"),
            Ok(("upload_bytes".into(), 1_024))
        );
        assert_eq!(limit("observers=10"), Ok(("observers".into(), 10)));
        for wrong in [
            "observers=10MiB",
            "request_rate=1000001",
            "upload_bytes=1MB",
        ] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
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
    fn count_option_number_must_be_safe() {
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
        assert!(unknown.contains("did you mean \"Max-Age\"?"), "{unknown}");
    }
}
