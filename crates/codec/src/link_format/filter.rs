//! Query filtering of links (RFC 6690 4.1).

use super::{Link, Links};
use crate::uri::percent::percent_decoded;

/// One argument of a query, as in a Uri-Query option: percent-decoded. See [`matching`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter<'a> {
    name: &'a [u8],
    pattern: Pattern<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern<'a> {
    /// Any value or no value.
    Present,
    Exact(&'a [u8]),
    Prefix(&'a [u8]),
}

impl<'a> Filter<'a> {
    /// Parses an argument. Every text is valid; a `*` before the end is literal.
    pub fn new(argument: &'a [u8]) -> Self {
        let mut parts = argument.splitn(2, |&byte| byte == b'=');
        let name = parts.next().unwrap_or_default();
        let pattern = match parts.next() {
            None => Pattern::Present,
            Some([prefix @ .., b'*']) => Pattern::Prefix(prefix),
            Some(whole) => Pattern::Exact(whole),
        };
        Self { name, pattern }
    }

    /// Returns whether a link matches.
    pub fn matches(&self, link: &Link<'_>) -> bool {
        if self.name.is_empty() && self.pattern == Pattern::Present {
            return true;
        }
        if self.name == b"href" {
            let written = link.target().bytes();
            return self.pattern.fits(written.clone())
                || self.pattern.fits(percent_decoded(written));
        }
        // Only the first attribute of a name counts (see `Link::attribute`).
        let named = link
            .attributes()
            .find(|attribute| attribute.name.as_bytes().eq_ignore_ascii_case(self.name));
        match named.map(|attribute| attribute.value) {
            None => false,
            Some(None) => self.pattern.fits(core::iter::empty()),
            Some(Some(value)) => {
                self.pattern.fits(value.bytes())
                    || (self.is_list_attribute()
                        && value.words().any(|w| self.pattern.fits(w.bytes())))
            }
        }
    }

    fn is_list_attribute(&self) -> bool {
        const LISTS: [&[u8]; 5] = [b"rel", b"rev", b"rt", b"if", b"ct"];
        LISTS
            .iter()
            .any(|name| self.name.eq_ignore_ascii_case(name))
    }
}

impl Pattern<'_> {
    fn fits(self, mut bytes: impl Iterator<Item = u8>) -> bool {
        let mut begins = |wanted: &[u8]| wanted.iter().all(|&byte| bytes.next() == Some(byte));
        match self {
            Self::Present => true,
            Self::Prefix(prefix) => begins(prefix),
            Self::Exact(whole) => begins(whole) && bytes.next().is_none(),
        }
    }
}

/// Returns the links of a text that match every argument of a query, each as in a Uri-Query option
/// (percent-decoded); all links without an argument.
///
/// - `rt=temperature` matches links with that value of the attribute, in whatever case its name is
///   written; `rt=temperature*` matches a prefix of the value, `rt=*` every value.
/// - Attributes that hold a list (`rel`, `rev`, `rt`, `if`, `ct`) match if one value does.
/// - `href=/sensors*` matches the target, as written or percent-decoded.
/// - A missing attribute never matches.
/// - `obs`, an argument without `=`, matches links that have the attribute. RFC 6690 leaves it
///   undefined; this interpretation serves attributes without a value.
/// - An empty argument, as in a URI that ends with `?`, matches all links.
///
/// RFC 6690 4.1 defines one argument; of several all must match, as in RFC 9176 6.2. The text ends
/// at the first syntax error.
pub fn matching<'t, 'q, I>(text: &'t str, query: I) -> impl Iterator<Item = Link<'t>>
where
    I: IntoIterator<Item = &'q [u8]> + Clone,
{
    let fits = move |link: &Link<'_>| {
        let mut query = query.clone().into_iter();
        query.all(|argument| Filter::new(argument).matches(link))
    };
    Links::new(text).map_while(Result::ok).filter(fits)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const TEXT: &str = "</sensors>;ct=40;title=\"Sensor Index\",\
        </sensors/temp>;rt=\"temperature-c core.s\";if=sensor;obs,\
        </a%20b>;ct=\"0 50\";RT=\"light\";rt=\"second\"";

    fn targets(query: &[&str]) -> Vec<&'static str> {
        let query = query.iter().map(|argument| argument.as_bytes());
        matching(TEXT, query).map(|link| link.target()).collect()
    }

    #[test]
    fn a_value_is_matched_whole_unless_a_star_ends_the_pattern() {
        assert_eq!(targets(&["href=/sensors"]), ["/sensors"]);
        assert_eq!(targets(&["href=/sensors*"]), ["/sensors", "/sensors/temp"]);
        assert_eq!(targets(&["title=Sensor"]), [""; 0]);
        assert_eq!(targets(&["title=Sensor*"]), ["/sensors"]);
        assert_eq!(targets(&["title=*Index"]), [""; 0], "only at the end");
        assert_eq!(targets(&["rt=*"]), ["/sensors/temp", "/a%20b"]);
    }

    #[test]
    fn list_attribute_matches_by_word_and_text_does_not() {
        assert_eq!(targets(&["rt=core.s"]), ["/sensors/temp"]);
        assert_eq!(targets(&["rt=core*"]), ["/sensors/temp"]);
        assert_eq!(targets(&["rt=temperature-c core.s"]), ["/sensors/temp"]);
        assert_eq!(targets(&["rt=core"]), [""; 0]);
        assert_eq!(targets(&["ct=50"]), ["/a%20b"]);
        assert_eq!(targets(&["title=Index"]), [""; 0]);
    }

    #[test]
    fn absent_attribute_matches_nothing() {
        assert_eq!(targets(&["foo=*"]), [""; 0]);
        assert_eq!(targets(&["foo="]), [""; 0]);
        assert_eq!(targets(&["=*"]), [""; 0]);
        assert_eq!(
            targets(&["rt=second"]),
            [""; 0],
            "the first of a name counts"
        );
    }

    #[test]
    fn valueless_attribute_is_matched_by_name() {
        assert_eq!(targets(&["obs"]), ["/sensors/temp"]);
        assert_eq!(targets(&["obs=*"]), ["/sensors/temp"]);
        assert_eq!(targets(&["obs="]), ["/sensors/temp"]);
        assert_eq!(targets(&["obs=1"]), [""; 0]);
    }

    #[test]
    fn of_several_arguments_all_must_match() {
        assert_eq!(targets(&["href=/s*", "ct=40"]), ["/sensors"]);
        assert_eq!(targets(&["href=/s*", "ct=41"]), [""; 0]);
        assert_eq!(targets(&[]).len(), 3);
        assert_eq!(targets(&[""]).len(), 3);
    }

    #[test]
    fn a_target_is_found_encoded_or_not() {
        assert_eq!(targets(&["href=/a b"]), ["/a%20b"]);
        assert_eq!(targets(&["href=/a%20b"]), ["/a%20b"]);
    }

    #[test]
    fn names_are_matched_in_any_case_and_values_are_not() {
        assert_eq!(targets(&["Rt=light"]), ["/a%20b"]);
        assert_eq!(targets(&["rt=LIGHT"]), [""; 0]);
    }
}
