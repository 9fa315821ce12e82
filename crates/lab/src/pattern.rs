//! Patterns of names: `*` matches any text.

/// Returns true if a text matches a pattern.
pub fn fits(text: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => text == pattern,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            let mut ends = (0..=rest.len()).filter(|at| rest.is_char_boundary(*at));
            ends.any(|at| fits(&rest[at..], after))
        }),
    }
}

/// Returns true for a pattern, false for a name.
pub fn is_pattern(text: &str) -> bool {
    text.contains('*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text() {
        for (text, pattern) in [
            ("cocoa-03", "cocoa-03"),
            ("cocoa-03", "*"),
            ("cocoa-03", "cocoa-*"),
            ("cocoa-03", "*-03"),
            ("long-1c-none-2500", "long-1c-*-2500"),
            ("long-1c-none-2500", "long-*-none-*"),
            ("ab", "a*b*"),
        ] {
            assert!(fits(text, pattern), "{text} {pattern}");
        }
        for (text, pattern) in [("cocoa-03", "cocoa"), ("cocoa-03", "fasor*"), ("ba", "a*b")] {
            assert!(!fits(text, pattern), "{text} {pattern}");
        }
    }
}
