//! CBOR as diagnostic notation (RFC 8949 8).
//!
//! minicbor reads; its notation is not used, because it prints strings unescaped, and these
//! come from the network and go to a terminal.

use std::fmt::Write as _;

use minicbor::Decoder;
use minicbor::data::Type;

/// Items in one another, at most; deeper ones are not shown.
const DEPTH: usize = 64;

/// Error: the item is not well-formed CBOR, or nested too deeply.
#[derive(Debug)]
pub(super) struct Unreadable;

impl From<minicbor::decode::Error> for Unreadable {
    fn from(_: minicbor::decode::Error) -> Self {
        Self
    }
}

/// Each item of a CBOR sequence; CBOR alone is a sequence of one.
pub(super) fn diagnostic(bytes: &[u8]) -> Result<Vec<String>, Unreadable> {
    let mut decoder = Decoder::new(bytes);
    let mut items = Vec::new();
    while decoder.position() < bytes.len() {
        let mut text = String::new();
        item(&mut decoder, &mut text, 0)?;
        items.push(text);
    }
    Ok(items)
}

/// Bytes as a byte string.
pub(super) fn byte_string(bytes: &[u8]) -> String {
    let mut text = String::new();
    hex(&mut text, bytes);
    text
}

fn item(decoder: &mut Decoder<'_>, text: &mut String, depth: usize) -> Result<(), Unreadable> {
    if depth > DEPTH {
        return Err(Unreadable);
    }
    let deeper = depth + 1;
    match decoder.datatype()? {
        Type::Bool => add(text, decoder.bool()?),
        Type::Null => {
            decoder.null()?;
            text.push_str("null");
        }
        Type::Undefined => {
            decoder.undefined()?;
            text.push_str("undefined");
        }
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => add(text, decoder.u64()?),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::Int => {
            add(text, i128::from(decoder.int()?));
        }
        Type::F16 => float(text, half(decoder)?),
        // The printed number reads back as the same 32 bits.
        Type::F32 => match decoder.f32()? {
            short if short.is_finite() => add(text, format_args!("{short:?}")),
            other => float(text, other.into()),
        },
        Type::F64 => float(text, decoder.f64()?),
        Type::Simple => add(text, format_args!("simple({})", decoder.simple()?)),
        Type::Bytes => hex(text, decoder.bytes()?),
        Type::String => quote(text, decoder.str()?),
        Type::BytesIndef => {
            let chunks: Result<Vec<_>, _> = decoder.bytes_iter()?.collect();
            chunked(text, "''_", &chunks?, hex);
        }
        Type::StringIndef => {
            let chunks: Result<Vec<_>, _> = decoder.str_iter()?.collect();
            chunked(text, "\"\"_", &chunks?, quote);
        }
        Type::Tag => {
            add(text, format_args!("{}(", decoder.tag()?.as_u64()));
            item(decoder, text, deeper)?;
            text.push(')');
        }
        Type::Array | Type::ArrayIndef => {
            let count = decoder.array()?;
            text.push_str(if count.is_some() { "[" } else { "[_ " });
            each(decoder, text, count, |decoder, text| {
                item(decoder, text, deeper)
            })?;
            text.push(']');
        }
        Type::Map | Type::MapIndef => {
            let count = decoder.map()?;
            text.push_str(if count.is_some() { "{" } else { "{_ " });
            each(decoder, text, count, |decoder, text| {
                item(decoder, text, deeper)?;
                text.push_str(": ");
                item(decoder, text, deeper)
            })?;
            text.push('}');
        }
        Type::Break | Type::Unknown(_) => return Err(Unreadable),
    }
    Ok(())
}

/// The members of an array or map, until their number is reached or they are broken off.
fn each(
    decoder: &mut Decoder<'_>,
    text: &mut String,
    count: Option<u64>,
    mut one: impl FnMut(&mut Decoder<'_>, &mut String) -> Result<(), Unreadable>,
) -> Result<(), Unreadable> {
    let mut done = 0;
    while count.is_none_or(|count| done < count) {
        if count.is_none() && decoder.datatype()? == Type::Break {
            decoder.skip()?;
            break;
        }
        if done > 0 {
            text.push_str(", ");
        }
        one(decoder, text)?;
        done += 1;
    }
    Ok(())
}

fn chunked<T: Copy>(text: &mut String, none: &str, chunks: &[T], one: impl Fn(&mut String, T)) {
    if chunks.is_empty() {
        return text.push_str(none);
    }
    text.push_str("(_ ");
    for (n, chunk) in chunks.iter().enumerate() {
        if n > 0 {
            text.push_str(", ");
        }
        one(text, *chunk);
    }
    text.push(')');
}

fn add(text: &mut String, what: impl std::fmt::Display) {
    let written = write!(text, "{what}");
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

fn hex(text: &mut String, bytes: &[u8]) {
    text.push_str("h'");
    for byte in bytes {
        add(text, format_args!("{byte:02x}"));
    }
    text.push('\'');
}

fn float(text: &mut String, number: f64) {
    match number {
        n if n.is_nan() => text.push_str("NaN"),
        f64::INFINITY => text.push_str("Infinity"),
        f64::NEG_INFINITY => text.push_str("-Infinity"),
        n => add(text, format_args!("{n:?}")),
    }
}

/// A number of 16 bits (RFC 8949 appendix D); minicbor reads those only with a further crate.
fn half(decoder: &mut Decoder<'_>) -> Result<f64, Unreadable> {
    let start = decoder.position();
    let bytes = decoder
        .input()
        .get(start + 1..start + 3)
        .ok_or(Unreadable)?;
    decoder.set_position(start + 3);
    let bits = u16::from_be_bytes([bytes[0], bytes[1]]);
    let (exponent, mantissa) = (bits >> 10 & 0x1f, f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => mantissa * 2_f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (mantissa + 1024.0) * 2_f64.powi(i32::from(exponent) - 25),
    };
    Ok(if bits >> 15 == 1 { -size } else { size })
}

/// A string as JSON has it, with nothing in it that a terminal obeys.
fn quote(text: &mut String, string: &str) {
    text.push('"');
    for c in string.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c.is_control() => add(text, format_args!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.map(byte).collect()
    }

    /// From RFC 8949 appendix A.
    #[test]
    fn examples_of_rfc_8949_are_formatted() {
        for (hex, text) in [
            ("00", "0"),
            ("1bffffffffffffffff", "18446744073709551615"),
            ("3bffffffffffffffff", "-18446744073709551616"),
            ("3903e7", "-1000"),
            ("f90000", "0.0"),
            ("f98000", "-0.0"),
            ("f93c00", "1.0"),
            ("fb3ff199999999999a", "1.1"),
            ("f97bff", "65504.0"),
            ("fa47c35000", "100000.0"),
            ("f90001", "5.960464477539063e-8"),
            ("f90400", "6.103515625e-5"),
            ("f9c400", "-4.0"),
            ("f97c00", "Infinity"),
            ("f97e00", "NaN"),
            ("fa7f800000", "Infinity"),
            ("fbfff0000000000000", "-Infinity"),
            ("f4", "false"),
            ("f6", "null"),
            ("f7", "undefined"),
            ("f0", "simple(16)"),
            ("c11a514b67b0", "1(1363896240)"),
            ("d818456449455446", "24(h'6449455446')"),
            ("40", "h''"),
            ("62225c", r#""\"\\""#),
            ("62c3bc", "\"ü\""),
            ("83010203", "[1, 2, 3]"),
            ("a26161016162820203", r#"{"a": 1, "b": [2, 3]}"#),
            ("5f42010243030405ff", "(_ h'0102', h'030405')"),
            ("7f657374726561646d696e67ff", r#"(_ "strea", "ming")"#),
            ("9fff", "[_ ]"),
            ("9f01820203ff", "[_ 1, [2, 3]]"),
            ("bf6346756ef563416d7421ff", r#"{_ "Fun": true, "Amt": -2}"#),
        ] {
            let items = diagnostic(&bytes(hex)).unwrap_or_else(|_| panic!("{hex}"));
            // RFC 8949 writes small numbers as JavaScript does.
            assert_eq!(items, [text.to_owned()], "{hex}");
        }
    }

    #[test]
    fn control_characters_in_cbor_are_escaped() {
        assert_eq!(
            diagnostic(&bytes("641b5b326a")).unwrap(),
            [r#""\u001b[2j""#]
        );
        assert_eq!(diagnostic(&bytes("62c29b")).unwrap(), [r#""\u009b""#]);
    }

    #[test]
    fn a_sequence_has_an_item_each() {
        assert_eq!(diagnostic(&bytes("0180")).unwrap(), ["1", "[]"]);
        assert!(diagnostic(b"").unwrap().is_empty());
    }

    #[test]
    fn truncated_or_deeply_nested_cbor_is_rejected() {
        for hex in [
            "18",
            "8201",
            "9f01",
            "5f",
            "ff",
            "a101",
            "f9",
            "f9ff",
            "1c",
            "9bffffffffffffffff",
        ] {
            assert!(diagnostic(&bytes(hex)).is_err(), "{hex}");
        }
        assert!(diagnostic(&vec![0x81; 100_000]).is_err());
        assert!(diagnostic(&vec![0xc1; 100_000]).is_err());
    }
}
