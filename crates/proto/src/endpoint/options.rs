//! Which options a message may have, for its sender, and which of a response we must understand
//! (RFC 7252 5.4, 5.10).

use super::Endpoint;
use crate::codec::{Code, EncodeError, MessageView, OptionNumber, OptionView};

/// Numbers reserved for more Location-* options (RFC 7252 5.10.7): elective, but not to be
/// overlooked beside Location-Path or Location-Query, as the location would be another.
pub(super) fn is_reserved_location(number: OptionNumber) -> bool {
    matches!(number.0, 128 | 132 | 136 | 140)
}

/// Whether this is an option that those add to.
pub(super) fn is_location(number: OptionNumber) -> bool {
    matches!(
        number,
        OptionNumber::LOCATION_PATH | OptionNumber::LOCATION_QUERY
    )
}

/// What the options written so far say about the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowed {
    last: Option<OptionNumber>,
    /// Uri-* options that Proxy-Uri excludes.
    uri: bool,
}

impl Allowed {
    /// Refuses an option that a message with this code must not carry.
    pub(super) fn next(&mut self, code: Code, option: &OptionView<'_>) -> Result<(), EncodeError> {
        let number = option.number;
        let repeated = self.last == Some(number);
        let (placed, once) = if code.is_request() {
            (number.is_for_requests(), false)
        } else {
            // A response is of one state (RFC 7252 5.10.6.1).
            (number.is_for_responses(), number == OptionNumber::ETAG)
        };
        let repeatable = || !once && number.definition().is_none_or(|known| known.repeatable);
        let fits = match number {
            OptionNumber::URI_PATH | OptionNumber::LOCATION_PATH => {
                !matches!(option.value, b"." | b"..")
            }
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

impl Endpoint {
    /// Whether a critical option is understood: `handled` by the engine or the application's own,
    /// of a length that is permitted, and not one too many (RFC 7252 5.4.3, 5.4.5).
    pub(super) fn understands(
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

    /// The same for who may pass the message on: what need not be understood for that is let
    /// through (RFC 7252 5.7.1), unless it is malformed, so that it could not be written again.
    pub(super) fn passes(&self, option: &OptionView<'_>, repeated: bool, handled: bool) -> bool {
        let number = option.number;
        let well_formed = || match (number.definition(), option.recognized()) {
            (None, _) => true,
            (Some(known), Some(_)) => known.repeatable || !repeated,
            (Some(_), None) => false,
        };
        self.understands(option, repeated, handled)
            || (self.config.forwards && !number.is_unsafe_to_forward() && well_formed())
    }

    /// The first option of a response that must be understood and is not (RFC 7252 5.4.1): an
    /// unknown one, one of requests, one of a wrong length, or one too many.
    pub(super) fn not_understood(&self, response: &MessageView<'_>) -> Option<OptionNumber> {
        let (mut last, mut located) = (None, false);
        for option in response.options() {
            let number = option.number;
            if number.is_critical() {
                let handled = matches!(number, OptionNumber::BLOCK1 | OptionNumber::BLOCK2);
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
