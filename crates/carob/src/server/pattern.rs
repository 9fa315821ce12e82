//! The paths of resources: literal segments, parameters, and a rest.

use std::fmt;

/// A path as a program writes it, such as `/sensors/{id}/value` or `/files/*`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    segments: Vec<Segment>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// This text and no other.
    Literal(String),
    /// Any one segment, under a name.
    Parameter(String),
    /// All further segments, be there none.
    Rest,
}

impl Pattern {
    /// The pattern of paths without a resource of their own.
    pub(super) fn anything() -> Self {
        Self {
            segments: vec![Segment::Rest],
        }
    }

    /// Reads a path; what is wrong with it.
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

    /// Which segment of a request's path is this parameter.
    pub(super) fn place_of(&self, parameter: &str) -> Option<usize> {
        self.segments
            .iter()
            .position(|segment| matches!(segment, Segment::Parameter(name) if name == parameter))
    }

    /// Segments of a request's path before the rest; all of them if there is none.
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
    fn literals_parameters_and_a_rest_are_told_apart() {
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
    fn what_cannot_be_a_path_says_why() {
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
