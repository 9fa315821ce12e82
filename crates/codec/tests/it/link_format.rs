//! The CoRE Link Format: vectors (`vectors/wire/link_format.toml`) and properties.

use std::fs;
use std::path::Path;

use carob_codec::Uri;
use carob_codec::link_format::{Link, LinkWriter, Links, is_attribute_name, matching};
use proptest::collection::vec;
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    links: Vec<Read>,
    error: Vec<Refused>,
    filter: Vec<Filtered>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    origin: String,
    text: String,
    written: Option<String>,
    links: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    target: String,
    attributes: Vec<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    origin: String,
    text: String,
    expected: String,
    offset: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filtered {
    origin: String,
    text: String,
    query: Vec<String>,
    targets: Vec<String>,
}

fn vectors() -> Vectors {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/wire/link_format.toml");
    let text = fs::read_to_string(path).expect("vector file is readable");
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"))
}

fn entry(link: &Link<'_>) -> Entry {
    let attributes = link.attributes().map(|attribute| {
        let value = attribute.value.map(|value| value.to_str().into_owned());
        [attribute.name.to_owned()]
            .into_iter()
            .chain(value)
            .collect()
    });
    Entry {
        target: link.target().to_owned(),
        attributes: attributes.collect(),
    }
}

fn write(entries: &[Entry]) -> String {
    let mut writer = LinkWriter::new();
    for Entry { target, attributes } in entries {
        let mut link = writer.link(target);
        for attribute in attributes {
            link = match attribute.as_slice() {
                [name] => link.flag(name),
                [name, value] => link.attribute(name, value),
                other => panic!("no attribute: {other:?}"),
            };
        }
    }
    writer.finish()
}

fn read(text: &str) -> Vec<Entry> {
    Links::new(text)
        .map(|link| entry(&link.expect("it was written to be read")))
        .collect()
}

#[test]
fn lists_are_read_and_written() {
    for vector in vectors().links {
        assert_eq!(read(&vector.text), vector.links, "{}", vector.origin);
        let written = vector.written.as_ref().unwrap_or(&vector.text);
        assert_eq!(&write(&vector.links), written, "{}", vector.origin);
    }
}

#[test]
fn invalid_link_list_error_has_place_and_expectation() {
    for vector in vectors().error {
        let error = Links::new(&vector.text).find_map(Result::err);
        let error = error.unwrap_or_else(|| panic!("{}: {:?}", vector.origin, vector.text));
        let found = (format!("{:?}", error.expected), error.offset);
        assert_eq!(found, (vector.expected, vector.offset), "{}", vector.origin);
    }
    let error = Links::from_bytes(b"</a>;title=\"\xff\"").expect_err("it is not UTF-8");
    assert_eq!(error.to_string(), "expected UTF-8 at byte 12");
}

#[test]
fn a_query_picks_links() {
    for vector in vectors().filter {
        let query = vector.query.iter().map(String::as_bytes);
        let targets: Vec<_> = matching(&vector.text, query).map(|l| l.target()).collect();
        assert_eq!(targets, vector.targets, "{}", vector.origin);
    }
}

/// Reads as much as possible; all of it is part of the text and can be copied.
fn exercise(text: &str) {
    let mut writer = LinkWriter::new();
    let mut entries = Vec::new();
    for argument in [&b"href=/*"[..], b"rt=a", b"obs", b"\xff"] {
        assert!(matching(text, [argument]).all(|link| text.contains(link.source())));
    }
    for link in Links::new(text) {
        match link {
            Ok(link) => {
                assert!(text.contains(link.source()));
                entries.push(entry(&link));
                writer.copy(&link);
                let _ = (
                    link.size(),
                    link.content_formats().count(),
                    link.value("anchor"),
                );
            }
            Err(error) => assert!(error.offset <= text.len(), "{error} in {text:?}"),
        }
    }
    assert_eq!(read(&writer.finish()), entries);
}

#[test]
fn the_corpus_of_datagrams_is_survived() {
    for datagram in crate::reader::datagrams() {
        match Links::from_bytes(datagram) {
            Ok(_) => exercise(core::str::from_utf8(datagram).expect("it was read")),
            Err(error) => assert!(error.offset < datagram.len()),
        }
    }
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9!#$&+.^_`|~-]{1,6}\\*?"
}

fn attribute() -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        name().prop_map(|name| vec![name]),
        (name(), any::<String>()).prop_map(|(name, value)| vec![name, value]),
        (name(), "[0-9]{1,4}").prop_map(|(name, value)| vec![name, value]),
    ]
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let target = "[!#-;=?-~]{0,12}";
    let entry = (target, vec(attribute(), 0..5));
    vec(
        entry.prop_map(|(target, attributes)| Entry { target, attributes }),
        0..5,
    )
}

proptest! {
    #[test]
    fn written_links_are_parsed_again(entries in entries()) {
        prop_assert_eq!(read(&write(&entries)), entries);
    }

    #[test]
    fn any_path_is_written_so_that_its_uri_has_the_same_segments(
        segments in vec("[^/]{1,8}|[a-z/]{1,4}", 0..5),
    ) {
        prop_assume!(segments.iter().all(|segment| segment != "." && segment != ".."));
        let mut writer = LinkWriter::new();
        writer.path(&segments);
        let target = read(&writer.finish()).remove(0).target;
        let uri = Uri::parse(&format!("coap://h{target}")).expect("it is a path");
        prop_assert!(uri.path().eq(segments.iter()), "{}", target);
    }

    #[test]
    fn any_target_and_name_are_written_so_that_they_can_be_read(
        target in any::<String>(), name in any::<String>(), value in any::<String>(),
    ) {
        let mut writer = LinkWriter::new();
        writer.link(&target).attribute(&name, &value).flag(&name);
        let read = read(&writer.finish());
        prop_assert_eq!(read.len(), 1);
        prop_assert_eq!(read[0].attributes.len(), 2 * usize::from(is_attribute_name(&name)));
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        exercise(&text);
    }

    #[test]
    fn no_text_of_special_characters_makes_it_panic(text in "[</>;,=\"\\\\a* é\n]{0,24}") {
        exercise(&text);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..64)) {
        if let Ok(links) = Links::from_bytes(&bytes) {
            prop_assert!(links.count() <= bytes.len());
        }
    }
}
