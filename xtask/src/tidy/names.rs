//! Abolished names of types and modules, each with the field's term to use, and functions with long
//! names.

use super::{
    Finding,
    ratchet::Ratchet,
    rust_source::{code, located_tokens},
    tree::Tree,
};

/// Abolished names of structs, enums, traits, type aliases and unions, with the name to use.
const TYPES: &[(&str, &str)] = &[
    ("What", "the event's or item's noun: `TraceEvent`"),
    ("Why", "`FailureCause`, `RefusalBody`"),
    ("Wanted", "`RequestedBlock`"),
    ("Given", "`PeerEcho`"),
    ("Kept", "`CachedResponse`"),
    ("Said", "`DtlsOutput`"),
    ("Broken", "an error type: `DtlsError`"),
    ("NoSession", "`SessionClosed`"),
    ("Ears", "`Taps`"),
    ("Ways", "`TransportSet`"),
    ("Turns", "`Block1Queue`"),
    ("Told", "`ObservationUpdate`"),
    ("Heard", "`ObservationUpdate`"),
    ("Teller", "`UpdateSender`"),
    ("Views", "`ObservedRepresentations`"),
    ("Asked", "`CacheRequest`, `Negotiation`"),
    ("Looked", "`Lookup`"),
    ("Missed", "`Revalidation`"),
    ("Keeper", "`CacheWriter`"),
    ("Offered", "`MediaType`"),
    ("Happening", "`Event`"),
    ("Unfit", "`ConfigError`"),
    ("Odd", "`UnexpectedAnswer`"),
    ("Trouble", "`ErrorKind`"),
    ("Wrong", "`ErrorCounts`"),
    ("Impossible", "`RunSetupError`"),
    ("Undone", "`MeasureError`"),
    ("Recency", "`LruList`"),
    ("Sharing", "`QuotaPolicy`"),
    ("Shares", "`QuotaTable`"),
    ("Paced", "`Bucket`"),
    ("Standing", "`AddressState`"),
    ("Unkept", "`StatelessChallenge`"),
    ("Pauses", "`RetryAfterTable`"),
    ("Similar", "`RequestClass`"),
    ("Sending", "`RequestConfig`"),
    ("Unanswered", "`ResponseSuppressed`"),
    ("Assemblies", "`Reassembler`"),
    ("Assembled", "`ReassemblyStep`"),
    ("Bodies", "`ResponseCache`"),
    ("Repeatable", "`Idempotency`"),
    ("Leisurely", "`DelayedGroupResponse`"),
    ("Gathering", "`MulticastRequest`"),
    ("Gathered", "`MulticastResponses`"),
    ("Reliable", "`StreamConfig`"),
    ("Memo", "`ExchangeState`"),
    ("Lasting", "`NonIdempotentEntry`"),
    ("Telling", "`FanOut`"),
];

/// Abolished names of modules, with the name to use.
const MODULES: &[(&str, &str)] = &[
    ("ways", "`transport_set`"),
    ("ears", "`taps`"),
    ("turns", "`block1_queue`"),
    ("pauses", "`retry_after`"),
    ("recency", "`lru`"),
    ("overload", "`admission`"),
    ("unanswered", "`no_response`"),
    ("views", "`observed_representations`"),
    ("unpublished", "`metrics_disabled`"),
    ("lookalike", "`synthetic_testbed`"),
    ("marks", "`footnotes`"),
    ("packed", "`record_codec`"),
    ("kept", "`stored_verdicts`"),
    ("ours", "`measured`"),
    ("printed", "`published`"),
    ("circle", "`node_timeline`"),
    ("by_number", "`line_plot`"),
    ("lanes", "`slots`"),
    ("tally", "`counters`"),
];

/// Longest name of a function, tests included.
const FUNCTION_NAME_MAX: usize = 60;

/// Words that declare a type.
const TYPE_WORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// Abolished names that may still be declared in each place.
const ALLOWANCES: &[(&str, usize)] = &[];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, ALLOWANCES)
}

fn check_against(tree: &Tree, allowances: &[(&str, usize)]) -> Vec<Finding> {
    let mut violations = Vec::new();
    for (path, text) in tree.texts_of("rs") {
        let code = code(text, false);
        let tokens = located_tokens(&code);
        for pair in tokens.windows(2) {
            let (word, name) = (pair[0].text, pair[1].text);
            if word == "fn" && name.len() > FUNCTION_NAME_MAX {
                let length = name.len();
                let message = format!(
                    "`{name}` has {length} characters, more than {FUNCTION_NAME_MAX}: name the \
                     condition and the result"
                );
                violations.push(Finding::at_line(path, pair[1].line, message));
            }
            let table = match word {
                "mod" => MODULES,
                _ if TYPE_WORDS.contains(&word) => TYPES,
                _ => continue,
            };
            if let Some((_, instead)) = table.iter().find(|(known, _)| *known == name) {
                let message =
                    format!("`{word} {name}`: name it by the field's term, such as {instead}");
                violations.push(Finding::at_line(path, pair[1].line, message));
            }
        }
    }
    let ratchet = Ratchet {
        table: "xtask/src/tidy/names.rs",
        allowances,
    };
    ratchet.judge(&violations)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        check_against(&Tree::of(&[("crates/a/src/x.rs", text)]), &[]).len()
    }

    #[test]
    fn each_abolished_type_is_found() {
        for (name, _) in TYPES {
            for word in TYPE_WORDS {
                assert_eq!(found(&format!("pub {word} {name}<T> {{}}")), 2, "{name}");
            }
        }
    }

    #[test]
    fn each_abolished_module_is_found_inline_and_as_a_file() {
        for (name, _) in MODULES {
            assert_eq!(found(&format!("mod {name};")), 2);
            assert_eq!(found(&format!("pub mod {name} {{}}")), 2);
        }
    }

    #[test]
    fn function_names_have_a_longest_length() {
        let named = |length| format!("#[test]\nfn {}() {{}}", "f".repeat(length));
        assert_eq!(found(&named(FUNCTION_NAME_MAX)), 0);
        assert_eq!(found(&named(FUNCTION_NAME_MAX + 1)), 2);
    }

    #[test]
    fn other_names_comments_and_variants_are_fine() {
        let text = "// struct What\nstruct Whatever;\nenum E { Kept, Told }\nfn ways() {}";
        assert_eq!(found(text), 0);
    }
}
