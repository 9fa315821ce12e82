//! Rows of runs from the page and from the command.

/// The first line in which two texts differ, counted from 0. Nothing equals an empty text.
pub(super) fn first_difference(one: &str, other: &str) -> Option<usize> {
    if one.is_empty() {
        return Some(0);
    }
    let mut pairs = one.lines().zip(other.lines());
    let different = pairs.position(|(one, other)| one != other);
    let (lines, others) = (one.lines().count(), other.lines().count());
    different.or((lines != others).then_some(lines.min(others)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_or_is_missing_is_found() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(1));
        assert_eq!(first_difference("a\nb\n", "a\n"), Some(1));
        assert_eq!(first_difference("", ""), Some(0));
    }
}
