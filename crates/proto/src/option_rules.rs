//! Options permitted in a message to send, and options that must be understood in a response (RFC
//! 7252 5.4, 5.10).

use crate::codec::{Code, EncodeError, MessageView, OptionNumber, OptionView};
use crate::context::Context;

/// Returns whether a number is reserved for further Location-* options (RFC 7252 5.10.7). They are
/// elective, but must not be ignored with Location-Path or Location-Query, as they change the
/// location.
pub(crate) fn is_reserved_location(number: OptionNumber) -> bool {
    matches!(number.0, 128 | 132 | 136 | 140)
}

/// Returns whether the option is Location-Path or Location-Query.
pub(crate) fn is_location(number: OptionNumber) -> bool {
    matches!(
        number,
        OptionNumber::LOCATION_PATH | OptionNumber::LOCATION_QUERY
    )
}

/// Constraints of the options written so far on the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowed {
    last: Option<OptionNumber>,
    /// Uri-* options that Proxy-Uri excludes.
    uri: bool,
}

impl Allowed {
    /// Refuses an option that a message with this code must not carry.
    pub(crate) fn next(&mut self, code: Code, option: &OptionView<'_>) -> Result<(), EncodeError> {
        let number = option.number;
        let repeated = self.last == Some(number);
        let (placed, once) = if code.is_request() {
            (number.is_for_requests(), false)
        } else {
            // A response belongs to one state (RFC 7252 5.10.6.1).
            (number.is_for_responses(), number == OptionNumber::ETAG)
        };
        let repeatable = || !once && number.definition().is_none_or(|known| known.repeatable);
        let fits = match number {
            // RFC 7252 5.10.1, 5.10.7: in a URI they would be resolved away.
            OptionNumber::URI_PATH | OptionNumber::LOCATION_PATH => {
                !matches!(option.value, b"." | b"..")
            }
            // RFC 7252 5.10.2. The others have lower numbers, and were seen before.
            OptionNumber::PROXY_URI => !self.uri,
            _ => true,
        };
        if !placed || !fits || (repeated && !repeatable()) {
            return Err(EncodeError::NotAllowed(number));
        }
        self.last = Some(number);
        self.uri |= matches!(
            number,
            OptionNumber::URI_HOST
                | OptionNumber::URI_PORT
                | OptionNumber::URI_PATH
                | OptionNumber::URI_QUERY
        );
        Ok(())
    }
}

impl Context {
    /// Returns whether a critical option is understood: `handled` by the engine or listed by the
    /// application, of a permitted length, and not repeated against its definition (RFC 7252 5.4.3,
    /// 5.4.5).
    pub(crate) fn understands(
        &self,
        option: &OptionView<'_>,
        repeated: bool,
        handled: bool,
    ) -> bool {
        let own = || self.config.understood.contains(&option.number);
        match option.recognized() {
            Some(definition) => (handled || own()) && (definition.repeatable || !repeated),
            None => own(),
        }
    }

    /// Returns whether a proxy may forward a critical option: one that is safe to forward need not
    /// be understood (RFC 7252 5.7.1), but must be well-formed to be written again.
    pub(crate) fn passes(&self, option: &OptionView<'_>, repeated: bool, handled: bool) -> bool {
        let number = option.number;
        let well_formed = || match (number.definition(), option.recognized()) {
            (None, _) => true,
            (Some(known), Some(_)) => known.repeatable || !repeated,
            (Some(_), None) => false,
        };
        self.understands(option, repeated, handled)
            || (self.config.forwards && !number.is_unsafe_to_forward() && well_formed())
    }

    /// The first critical option of a response that is not understood (RFC 7252 5.4.1): unknown,
    /// defined for requests only, of a wrong length, or repeated.
    pub(crate) fn not_understood(&self, response: &MessageView<'_>) -> Option<OptionNumber> {
        let (mut last, mut located) = (None, false);
        for option in response.options() {
            let number = option.number;
            if number.is_critical() {
                let handled = matches!(
                    number,
                    OptionNumber::BLOCK1
                        | OptionNumber::BLOCK2
                        | OptionNumber::Q_BLOCK1
                        | OptionNumber::Q_BLOCK2
                );
                if !self.passes(&option, last == Some(number), handled) {
                    return Some(number);
                }
            } else if located && is_reserved_location(number) {
                return Some(number);
            }
            located |= is_location(number);
            last = Some(number);
        }
        None
    }
}
