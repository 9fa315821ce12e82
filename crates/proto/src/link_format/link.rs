//! A link that was read: its target and attributes.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt::{self, Write as _};

use super::parser::Cursor;
use crate::codec::ContentFormat;

/// A link: where it leads, and what is said about that (RFC 6690 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    pub(super) source: &'a str,
    pub(super) target: &'a str,
    pub(super) attributes: &'a str,
}

/// Something said about a link's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its name, such as `rt`; its case does not matter.
    pub name: &'a str,
    /// Its value, if it has one.
    pub value: Option<Value<'a>>,
}

/// The value of an attribute, as it was written between its quotes: with escapes (RFC 2616 2.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Value<'a>(pub(super) &'a str);

impl<'a> Link<'a> {
    /// The whole link as it was written.
    pub fn source(&self) -> &'a str {
        self.source
    }

    /// Where it leads: a URI reference, percent-encoded, such as `/sensors/temp`.
    pub fn target(&self) -> &'a str {
        self.target
    }

    /// What is said about it, in the order of the text.
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes(Cursor::new(self.attributes))
    }

    /// The first attribute of a name. Further ones do not count: `rel`, `rt`, `if`, `sz`, `ct` and
    /// `title` may be there once only (RFC 6690 2 and 3, RFC 7252 7.2.1).
    pub fn attribute(&self, name: &str) -> Option<Attribute<'a>> {
        self.attributes()
            .find(|attribute| attribute.name.eq_ignore_ascii_case(name))
    }

    /// The value of the first attribute of a name, if it has one.
    pub fn value(&self, name: &str) -> Option<Value<'a>> {
        self.attribute(name)?.value
    }

    /// The relation types: `hosts` if nothing is said (RFC 6690 2.2).
    pub fn relations(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        self.value("rel").unwrap_or(Value("hosts")).words()
    }

    /// What the link leads away from, if that is not the list's own base (RFC 6690 2.1).
    pub fn anchor(&self) -> Option<Cow<'a, str>> {
        self.value("anchor").map(Value::to_str)
    }

    /// The resource types (RFC 6690 3.1).
    pub fn resource_types(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        self.words("rt")
    }

    /// The interface descriptions (RFC 6690 3.2).
    pub fn interfaces(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        self.words("if")
    }

    /// The content formats that can be had (RFC 7252 7.2.1); what is no number of one is passed
    /// over.
    pub fn content_formats(&self) -> impl Iterator<Item = ContentFormat> + use<'a> {
        self.words("ct")
            .filter_map(|word| word.0.parse().ok().map(ContentFormat))
    }

    /// The largest size expected, in bytes (RFC 6690 3.3).
    pub fn size(&self) -> Option<u64> {
        self.value("sz")?.0.parse().ok()
    }

    /// Whether it is worth observing (RFC 7641 6).
    pub fn is_observable(&self) -> bool {
        self.attribute("obs").is_some()
    }

    /// The space-separated values of an attribute; none if it is not there.
    pub fn words(&self, name: &str) -> impl Iterator<Item = Value<'a>> + use<'a> {
        self.value(name).into_iter().flat_map(Value::words)
    }
}

impl<'a> Value<'a> {
    /// The text, copied only if it has escapes.
    pub fn to_str(self) -> Cow<'a, str> {
        if self.0.contains('\\') {
            Cow::Owned(self.chars().collect::<String>())
        } else {
            Cow::Borrowed(self.0)
        }
    }

    /// The values of a space-separated list, as `rt`, `if`, `rel` and `ct` have them.
    pub fn words(self) -> impl Iterator<Item = Self> + use<'a> {
        self.0.split(' ').filter(|word| !word.is_empty()).map(Self)
    }

    fn chars(self) -> impl Iterator<Item = char> {
        let mut all = self.0.chars();
        core::iter::from_fn(move || match all.next() {
            Some('\\') => all.next(),
            other => other,
        })
    }

    /// The bytes of the text.
    pub(super) fn bytes(self) -> impl Iterator<Item = u8> {
        let mut all = self.0.bytes();
        core::iter::from_fn(move || match all.next() {
            Some(b'\\') => all.next(),
            other => other,
        })
    }
}

impl PartialEq<str> for Value<'_> {
    fn eq(&self, text: &str) -> bool {
        self.bytes().eq(text.bytes())
    }
}

impl PartialEq<&str> for Value<'_> {
    fn eq(&self, text: &&str) -> bool {
        *self == **text
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chars().try_for_each(|char| f.write_char(char))
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_str())
    }
}

/// The attributes of a link, in the order of the text.
#[derive(Clone, Debug)]
pub struct Attributes<'a>(Cursor<'a>);

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        self.0.skip_blanks();
        // The text was checked when the link was read, so that only its end is left to find.
        self.0.attribute().ok()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::Links;
    use super::*;

    fn one(text: &str) -> Link<'_> {
        let mut links = Links::new(text);
        let link = links.next().expect("there is one").expect("it can be read");
        assert_eq!(links.next(), None);
        link
    }

    #[test]
    fn what_is_said_about_a_resource_can_be_asked_by_meaning() {
        let link = one("</x>;rt=\"a b\";if=c;ct=\"0 60 x\";sz=9;obs;anchor=\"/y\";rel=d");
        let texts = |words: Vec<Value<'_>>| -> Vec<String> {
            words
                .into_iter()
                .map(|word| word.to_str().into_owned())
                .collect()
        };
        assert_eq!(texts(link.resource_types().collect()), ["a", "b"]);
        assert_eq!(texts(link.interfaces().collect()), ["c"]);
        assert_eq!(texts(link.relations().collect()), ["d"]);
        assert!(
            link.content_formats()
                .eq([ContentFormat::TEXT_PLAIN, ContentFormat::CBOR])
        );
        assert_eq!(link.size(), Some(9));
        assert!(link.is_observable());
        // A value, or another one, means nothing (RFC 7641 6).
        assert!(one("</x>;obs=0").is_observable() && one("</x>;obs;obs=\"no\"").is_observable());
        assert_eq!(link.anchor().as_deref(), Some("/y"));
        let plain = one("</x>");
        assert_eq!(texts(plain.relations().collect()), ["hosts"]);
        assert!(!plain.is_observable() && plain.size().is_none() && plain.anchor().is_none());
    }

    #[test]
    fn escapes_are_undone_and_only_then_is_a_value_copied() {
        let link = one(r#"</x>;title="a \"b\" \\ é\é";rt=plain"#);
        let title = link.value("title").expect("it has one");
        assert_eq!(title, r#"a "b" \ éé"#);
        assert!(matches!(title.to_str(), Cow::Owned(text) if text == r#"a "b" \ éé"#));
        let plain = link.value("RT").expect("it has one");
        assert!(matches!(plain.to_str(), Cow::Borrowed("plain")));
    }

    #[test]
    fn the_first_attribute_of_a_name_counts() {
        assert_eq!(one("</x>;sz=1;SZ=2").size(), Some(1));
    }
}
