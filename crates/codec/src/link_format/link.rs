//! A parsed link: its target and attributes.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt::{self, Write as _};

use super::parser::Cursor;
use crate::ContentFormat;

/// A link: its target and attributes (RFC 6690 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    pub(super) source: &'a str,
    pub(super) target: &'a str,
    pub(super) attributes: &'a str,
}

/// A target attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// The name, such as `rt`; case does not matter.
    pub name: &'a str,
    /// The value, if there is one.
    pub value: Option<Value<'a>>,
}

/// The value of an attribute, as written between quotes: with escapes (RFC 2616 2.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Value<'a>(pub(super) &'a str);

impl<'a> Link<'a> {
    /// Returns the whole link as written.
    pub fn source(&self) -> &'a str {
        self.source
    }

    /// Returns the target: a URI reference, percent-encoded, such as `/sensors/temp`.
    pub fn target(&self) -> &'a str {
        self.target
    }

    /// Returns the attributes, in the order of the text.
    pub fn attributes(&self) -> impl Iterator<Item = Attribute<'a>> + Clone + use<'a> {
        Attributes(Cursor::new(self.attributes))
    }

    /// Returns the first attribute of a name. Others are ignored: `rel`, `rt`, `if`, `sz`, `ct` and
    /// `title` may occur only once (RFC 6690 2 and 3, RFC 7252 7.2.1).
    pub fn attribute(&self, name: &str) -> Option<Attribute<'a>> {
        self.attributes()
            .find(|attribute| attribute.name.eq_ignore_ascii_case(name))
    }

    /// Returns the value of the first attribute of a name, if it has one.
    pub fn value(&self, name: &str) -> Option<Value<'a>> {
        self.attribute(name)?.value
    }

    /// Returns the available content formats (RFC 7252 7.2.1); values that are not numbers are
    /// skipped.
    pub fn content_formats(&self) -> impl Iterator<Item = ContentFormat> + use<'a> {
        self.words("ct")
            .filter_map(|word| word.0.parse().ok().map(ContentFormat))
    }

    /// Returns the largest size expected, in bytes (RFC 6690 3.3).
    pub fn size(&self) -> Option<u64> {
        self.value("sz")?.0.parse().ok()
    }

    /// Returns whether the resource is worth observing (RFC 7641 6).
    pub fn is_observable(&self) -> bool {
        self.attribute("obs").is_some()
    }

    /// Returns the space-separated values of an attribute; none if it is absent.
    pub fn words(&self, name: &str) -> impl Iterator<Item = Value<'a>> + use<'a> {
        self.value(name).into_iter().flat_map(Value::words)
    }
}

impl<'a> Value<'a> {
    /// Returns the text, copied only if it has escapes.
    pub fn to_str(self) -> Cow<'a, str> {
        if self.0.contains('\\') {
            Cow::Owned(self.chars().collect::<String>())
        } else {
            Cow::Borrowed(self.0)
        }
    }

    /// Returns the values of a space-separated list, as `rt`, `if`, `rel` and `ct` have them.
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
pub(super) struct Attributes<'a>(Cursor<'a>);

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        self.0.skip_blanks();
        // The text was checked when the link was parsed, so only its end remains to be found.
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
    fn link_attributes_have_accessors() {
        let link = one("</x>;rt=\"a b\";if=c;ct=\"0 60 x\";sz=9;obs;anchor=\"/y\";rel=d");
        let texts = |words: Vec<Value<'_>>| -> Vec<String> {
            words
                .into_iter()
                .map(|word| word.to_str().into_owned())
                .collect()
        };
        assert_eq!(texts(link.words("rt").collect()), ["a", "b"]);
        assert_eq!(texts(link.words("if").collect()), ["c"]);
        assert!(
            link.content_formats()
                .eq([ContentFormat::TEXT_PLAIN, ContentFormat::CBOR])
        );
        assert_eq!(link.size(), Some(9));
        assert!(link.is_observable());
        // A value or a repetition has no meaning (RFC 7641 6).
        assert!(one("</x>;obs=0").is_observable() && one("</x>;obs;obs=\"no\"").is_observable());
        assert_eq!(link.value("anchor").expect("it has one"), "/y");
        let plain = one("</x>");
        assert_eq!(texts(plain.words("rt").collect()), [""; 0]);
        assert!(!plain.is_observable() && plain.size().is_none());
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
    fn first_attribute_of_a_name_is_used() {
        assert_eq!(one("</x>;sz=1;SZ=2").size(), Some(1));
    }
}
