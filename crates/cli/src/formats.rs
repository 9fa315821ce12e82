//! Content formats by the names people give them, and by the extensions of files.

use std::path::Path;

use carob::ContentFormat;
use carob_proto::codec::numbers::ContentFormatDefinition;

use crate::failure::did_you_mean;
use crate::output;

/// Names that do not follow from a media type.
const ALIASES: &[(&str, ContentFormat)] = &[
    ("text", ContentFormat::TEXT_PLAIN),
    ("link", ContentFormat::LINK_FORMAT),
    ("octets", ContentFormat::OCTET_STREAM),
];

/// Extensions of files and their content formats.
const EXTENSIONS: &[(&str, ContentFormat)] = &[
    ("txt", ContentFormat::TEXT_PLAIN),
    ("text", ContentFormat::TEXT_PLAIN),
    ("md", ContentFormat::TEXT_PLAIN),
    ("log", ContentFormat::TEXT_PLAIN),
    ("csv", ContentFormat::TEXT_PLAIN),
    ("json", ContentFormat::JSON),
    ("xml", ContentFormat::XML),
    ("cbor", ContentFormat::CBOR),
    ("senml", ContentFormat::SENML_JSON),
    ("senmlc", ContentFormat::SENML_CBOR),
    ("wlnk", ContentFormat::LINK_FORMAT),
    ("exi", ContentFormat::EXI),
    ("js", ContentFormat::JAVASCRIPT),
    ("css", ContentFormat::TEXT_CSS),
    ("svg", ContentFormat::IMAGE_SVG),
    ("png", ContentFormat::IMAGE_PNG),
    ("jpg", ContentFormat::IMAGE_JPEG),
    ("jpeg", ContentFormat::IMAGE_JPEG),
    ("gif", ContentFormat::IMAGE_GIF),
];

/// The format of a file by its extension, if that is known.
pub(crate) fn of_file(name: &Path) -> Option<ContentFormat> {
    let extension = name.extension()?.to_str()?;
    let known = EXTENSIONS
        .iter()
        .find(|(known, _)| extension.eq_ignore_ascii_case(known));
    known.map(|(_, format)| *format)
}

/// Reads a format: a number, a media type, or a short name.
pub(crate) fn parse(text: &str) -> Result<ContentFormat, String> {
    if let Ok(number) = text.parse() {
        return Ok(ContentFormat(number));
    }
    let by_name = || names().find(|(name, _)| text.eq_ignore_ascii_case(name));
    if let Some(format) = ContentFormat::by_media_type(text).or_else(|| Some(by_name()?.1)) {
        return Ok(format);
    }
    Err(unknown(text))
}

/// Every short name: the media type's own without its first half and its parameters.
fn names() -> impl Iterator<Item = (&'static str, ContentFormat)> {
    let rows = ContentFormatDefinition::ALL;
    let derived = rows.iter().filter_map(|row| {
        // Formats that differ in a parameter need the whole media type, or the number.
        let plain = row.coding.is_empty() && !row.media_type.contains(';');
        let (_, name) = row.media_type.split_once('/')?;
        plain.then_some((name, row.format))
    });
    ALIASES.iter().copied().chain(derived)
}

/// An error with the known formats, and those with a similar name.
fn unknown(text: &str) -> String {
    let typed = text.rsplit('/').next().unwrap_or_default();
    let near = did_you_mean(typed, names().map(|(name, _)| name));
    let near = near.trim_end();
    let near = if near.is_empty() {
        String::new()
    } else {
        format!("; {near}")
    };
    let all = output::filled(names().map(|(name, _)| name), 76).join("\n  ");
    format!(
        "unknown format \"{text}\"{near}\n\n\
         A format is a number, a media type such as application/cbor, or one of\n  {all}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_numbers_media_types_and_short_names() {
        for (text, format) in [
            ("60", ContentFormat::CBOR),
            ("61000", ContentFormat(61000)),
            ("cbor", ContentFormat::CBOR),
            ("JSON", ContentFormat::JSON),
            ("application/json", ContentFormat::JSON),
            ("text", ContentFormat::TEXT_PLAIN),
            ("text/plain", ContentFormat::TEXT_PLAIN),
            ("text/plain; charset=utf-8", ContentFormat::TEXT_PLAIN),
            ("link", ContentFormat::LINK_FORMAT),
            ("link-format", ContentFormat::LINK_FORMAT),
            ("octets", ContentFormat::OCTET_STREAM),
            ("xml", ContentFormat::XML),
            ("senml+json", ContentFormat::SENML_JSON),
            ("png", ContentFormat::IMAGE_PNG),
        ] {
            assert_eq!(parse(text), Ok(format), "{text}");
        }
    }

    #[test]
    fn short_names_of_formats_are_unique() {
        let mut all: Vec<_> = names().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup_by_key(|(name, _)| *name);
        assert_eq!(all.len(), count);
    }

    #[test]
    fn unknown_format_error_lists_names() {
        let text = parse("application/jsn").unwrap_err();
        assert!(text.contains("did you mean \"json\""), "{text}");
        assert!(
            text.contains("senml+cbor") && text.contains("octets"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        let far = parse("completely-different-thing").unwrap_err();
        assert!(!far.contains("did you mean"), "{far}");
        assert!(parse("65536").is_err());
    }

    #[test]
    fn file_extension_gives_the_format() {
        let of = |name| of_file(Path::new(name));
        assert_eq!(of("a.JSON"), Some(ContentFormat::JSON));
        assert_eq!(of("a.tar.gz"), None);
        assert_eq!(of("json"), None);
    }
}
