//! Compares the registry of assigned numbers with two other stacks, `coap-lite` and aiocoap
//! (`vectors/wire/aiocoap_numbers.toml`). Disagreements are listed here with reasons; a listed one that has disappeared
//! also fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use carob_codec::numbers::ContentFormatDefinition;
use carob_codec::{Code, ContentFormat, OptionDefinition, OptionFormat, OptionNumber};
use coap_lite::{CoapOption, MessageClass};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    version: String,
    option: Vec<OptionRow>,
    code: Vec<CodeRow>,
    content_format: Vec<ContentFormatRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionRow {
    number: u16,
    name: String,
    format: String,
    critical: bool,
    #[serde(rename = "unsafe")]
    unsafe_to_forward: bool,
    no_cache_key: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeRow {
    number: u8,
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContentFormatRow {
    number: u16,
    media_type: String,
    coding: String,
}

fn aiocoap() -> Tables {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/wire/aiocoap_numbers.toml");
    let text = fs::read_to_string(path).expect("table is readable");
    let tables: Tables = toml::from_str(&text).expect("table is TOML");
    assert_eq!(
        tables.version, "0.4.17",
        "the exceptions below are for one version"
    );
    tables
}

/// Options that only one side has, or whose formats differ.
const AIOCOAP_OPTION_EXCEPTIONS: &[(u16, &str)] = &[
    (
        5,
        "aiocoap gives If-None-Match its default format, opaque; RFC 7252 5.10.8.2 has it empty",
    ),
    (13, "Uri-Path-Abbrev is assigned by an Internet-Draft only"),
    (
        19,
        "aiocoap gives Q-Block1 its default format, opaque; RFC 9177 4.1 has uint",
    ),
    (
        21,
        "aiocoap gives EDHOC its default format, opaque; RFC 9668 3.1 has it empty",
    ),
    (
        31,
        "aiocoap gives Q-Block2 its default format, opaque; RFC 9177 4.1 has uint",
    ),
    (548, "Request-Hash is assigned by an Internet-Draft only"),
];

#[test]
fn options_agree_with_aiocoap() {
    let tables = aiocoap();
    let mut differing = BTreeSet::new();
    for row in &tables.option {
        let number = OptionNumber(row.number);
        assert_eq!(number.is_critical(), row.critical, "{}", row.name);
        assert_eq!(
            number.is_unsafe_to_forward(),
            row.unsafe_to_forward,
            "{}",
            row.name
        );
        assert_eq!(number.is_no_cache_key(), row.no_cache_key, "{}", row.name);
        let Some(ours) = number.definition() else {
            differing.insert(row.number);
            continue;
        };
        // Case-insensitive: aiocoap derives names from identifiers.
        assert!(
            ours.name.eq_ignore_ascii_case(&row.name),
            "{} is not {}",
            ours.name,
            row.name
        );
        let format = match ours.format {
            OptionFormat::Empty => "empty",
            OptionFormat::Opaque => "opaque",
            OptionFormat::Uint => "uint",
            OptionFormat::String => "string",
        };
        if format != row.format {
            differing.insert(row.number);
        }
    }
    for ours in OptionDefinition::ALL {
        if !tables.option.iter().any(|row| row.number == ours.number.0) {
            differing.insert(ours.number.0);
        }
    }
    let excepted: BTreeSet<_> = AIOCOAP_OPTION_EXCEPTIONS
        .iter()
        .map(|(number, _)| *number)
        .collect();
    assert_eq!(differing, excepted);
}

#[test]
fn codes_agree_with_aiocoap() {
    let tables = aiocoap();
    let theirs: Vec<_> = tables.code.iter().map(|row| Code(row.number)).collect();
    let ours: Vec<_> = Code::ALL.iter().map(|(code, _)| *code).collect();
    assert_eq!(ours, theirs);
    for row in &tables.code {
        // aiocoap derives names from identifiers, without hyphens.
        let name = Code(row.number)
            .name()
            .expect("in the table")
            .replace('-', " ");
        assert!(
            name.eq_ignore_ascii_case(&row.name),
            "{name} is not {}",
            row.name
        );
    }
}

/// Content formats that only one side has.
const AIOCOAP_CONTENT_FORMAT_EXCEPTIONS: &[(u16, &str)] = &[
    (
        64,
        "EDHOC's formats (RFC 9528) are younger than aiocoap's copy of the registry",
    ),
    (
        65,
        "EDHOC's formats (RFC 9528) are younger than aiocoap's copy of the registry",
    ),
    (
        836,
        "a temporary registration of an Internet-Draft, since registered under another name",
    ),
];

#[test]
fn content_formats_agree_with_aiocoap() {
    let tables = aiocoap();
    let mut differing = BTreeSet::new();
    for row in &tables.content_format {
        let Some(ours) = ContentFormat(row.number).definition() else {
            differing.insert(row.number);
            continue;
        };
        assert_eq!(
            (ours.media_type, ours.coding),
            (&*row.media_type, &*row.coding)
        );
    }
    for ours in ContentFormatDefinition::ALL {
        if !tables
            .content_format
            .iter()
            .any(|row| row.number == ours.format.0)
        {
            differing.insert(ours.format.0);
        }
    }
    let excepted: BTreeSet<_> = AIOCOAP_CONTENT_FORMAT_EXCEPTIONS
        .iter()
        .map(|(number, _)| *number)
        .collect();
    assert_eq!(differing, excepted);
}

/// Options that `coap-lite` does not name.
const COAP_LITE_OPTION_EXCEPTIONS: &[(u16, &str)] = &[
    (16, "Hop-Limit (RFC 8768) is not among coap-lite's names"),
    (19, "Q-Block1 (RFC 9177) is not among coap-lite's names"),
    (21, "EDHOC (RFC 9668) is not among coap-lite's names"),
    (31, "Q-Block2 (RFC 9177) is not among coap-lite's names"),
    (252, "Echo (RFC 9175) is not among coap-lite's names"),
    (292, "Request-Tag (RFC 9175) is not among coap-lite's names"),
];

#[test]
fn options_agree_with_coap_lite() {
    let mut differing = BTreeSet::new();
    for number in 0..=u16::MAX {
        let ours = OptionNumber(number)
            .name()
            .map(|name| name.replace('-', ""));
        let theirs = match CoapOption::from(number) {
            CoapOption::Unknown(_) => None,
            known => Some(format!("{known:?}")),
        };
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                assert!(ours.eq_ignore_ascii_case(&theirs), "{ours} is not {theirs}");
            }
            (None, None) => {}
            _ => {
                differing.insert(number);
            }
        }
    }
    let excepted: BTreeSet<_> = COAP_LITE_OPTION_EXCEPTIONS
        .iter()
        .map(|(number, _)| *number)
        .collect();
    assert_eq!(differing, excepted);
}

#[test]
fn codes_agree_with_coap_lite_except_signalling() {
    for byte in 0..=u8::MAX {
        let code = Code(byte);
        let theirs = match MessageClass::from(byte) {
            MessageClass::Reserved(_) => None,
            MessageClass::Empty => Some("Empty".to_owned()),
            MessageClass::Request(method) => Some(format!("{method:?}")),
            MessageClass::Response(status) => Some(format!("{status:?}")),
        };
        // coap-lite does not implement RFC 8323.
        let ours = code.name().filter(|_| !code.is_signalling());
        let ours = ours.map(|name| name.replace([' ', '-'], "").to_ascii_lowercase());
        assert_eq!(ours, theirs.map(|name| name.to_ascii_lowercase()), "{code}");
    }
}

/// Content formats that only one side has.
const COAP_LITE_CONTENT_FORMAT_EXCEPTIONS: &[(u16, &str)] = &[
    (
        64,
        "application/edhoc+cbor-seq (RFC 9528) is not in coap-lite",
    ),
    (
        65,
        "application/cid-edhoc+cbor-seq (RFC 9528) is not in coap-lite",
    ),
    (
        257,
        "application/concise-problem-details+cbor (RFC 9290) is not in coap-lite",
    ),
    (258, "application/swid+cbor (RFC 9393) is not in coap-lite"),
    (
        836,
        "a temporary registration of an Internet-Draft, since registered under another name",
    ),
];

#[test]
fn content_format_numbers_agree_with_coap_lite() {
    let differing: BTreeSet<_> = (0..=u16::MAX)
        .filter(|&number| {
            let theirs = coap_lite::ContentFormat::try_from(usize::from(number)).is_ok();
            ContentFormat(number).definition().is_some() != theirs
        })
        .collect();
    let excepted: BTreeSet<_> = COAP_LITE_CONTENT_FORMAT_EXCEPTIONS
        .iter()
        .map(|(number, _)| *number)
        .collect();
    assert_eq!(differing, excepted);
}
