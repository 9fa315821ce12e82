//! Path patterns of resources: literal segments, parameters, and a rest.

use std::fmt;

/// A path pattern, such as `/sensors/{id}/value` or `/files/*`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    segments: Vec<Segment>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// A literal segment.
    Literal(String),
    /// A named parameter: any one segment.
    Parameter(String),
    /// All further segments, possibly none.
    Rest,
}

impl Pattern {
    /// Returns the pattern of the fallback resource.
    pub(super) fn anything() -> Self {
        Self {
            segments: vec![Segment::Rest],
        }
    }

    /// Reads a path, or returns its error.
    pub(super) fn parse(path: &str) -> Result<Self, String> {
        let mut segments = Vec::new();
        for text in path.split('/').filter(|segment| !segment.is_empty()) {
            if segments.contains(&Segment::Rest) {
                return Err("nothing can follow \"*\"".into());
            }
            let segment = Segment::parse(text)?;
            if matches!(segment, Segment::Parameter(_)) && segments.contains(&segment) {
                return Err(format!("{text} occurs twice"));
            }
            segments.push(segment);
        }
        Ok(Self { segments })
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The segments, if all of them are literal.
    pub(super) fn literals(&self) -> Option<Vec<&str>> {
        let texts = self.segments.iter().map(|segment| match segment {
            Segment::Literal(text) => Some(text.as_str()),
            Segment::Parameter(_) | Segment::Rest => None,
        });
        texts.collect()
    }

    /// Returns the position of a parameter in a request's path.
    pub(super) fn place_of(&self, parameter: &str) -> Option<usize> {
        self.segments
            .iter()
            .position(|segment| matches!(segment, Segment::Parameter(name) if name == parameter))
    }

    /// Returns the number of segments before the rest, or of all without a rest.
    pub(super) fn before_rest(&self) -> usize {
        let rest = self.segments.iter().position(|s| *s == Segment::Rest);
        rest.unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.segments.is_empty() {
            return f.write_str("/");
        }
        self.segments.iter().try_for_each(|segment| match segment {
            Segment::Literal(text) => write!(f, "/{text}"),
            Segment::Parameter(name) => write!(f, "/{{{name}}}"),
            Segment::Rest => f.write_str("/*"),
        })
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Rest);
        }
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
        match inner {
            Some("") => Err("{} needs a name".into()),
            Some(name) if !name.contains(['{', '}']) => Ok(Self::Parameter(name.to_owned())),
            None if !text.contains(['{', '}']) => Ok(Self::Literal(text.to_owned())),
            _ => Err(format!("a parameter is a whole segment, unlike {text}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_parameters_and_wildcards_are_parsed() {
        let pattern = Pattern::parse("/a//{id}/b*/*").unwrap();
        let expected = [
            Segment::Literal("a".into()),
            Segment::Parameter("id".into()),
            Segment::Literal("b*".into()),
            Segment::Rest,
        ];
        assert_eq!(pattern.segments(), expected);
        assert_eq!(pattern.place_of("id"), Some(1));
        assert_eq!(pattern.place_of("a"), None);
        assert_eq!(pattern.before_rest(), 3);
        assert_eq!(pattern.literals(), None);
        assert_eq!(Pattern::parse("/").unwrap().literals(), Some(vec![]));
    }

    #[test]
    fn invalid_pattern_error_has_the_reason() {
        let problem = |path: &str| Pattern::parse(path).unwrap_err();
        assert_eq!(problem("/*/x"), "nothing can follow \"*\"");
        assert_eq!(problem("/{}"), "{} needs a name");
        assert_eq!(problem("/{a}/{a}"), "{a} occurs twice");
        for path in ["/x{a}", "/{a}x", "/{a", "/a}", "/{{a}}"] {
            assert!(
                problem(path).starts_with("a parameter is a whole segment"),
                "{path}"
            );
        }
    }
}
