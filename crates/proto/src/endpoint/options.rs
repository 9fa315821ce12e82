//! Which options a response may ask us to understand (RFC 7252 5.4).

use super::Endpoint;
use crate::codec::{MessageView, OptionNumber};

impl Endpoint {
    /// The first option of a response that must be understood and is not (RFC 7252 5.4.1): an
    /// unknown one, one of requests, one of a wrong length, or one too many.
    pub(super) fn not_understood(&self, response: &MessageView<'_>) -> Option<OptionNumber> {
        let mut last = None;
        for option in response.options() {
            let number = option.number;
            if number.is_critical() {
                let repeated = last == Some(number);
                let understood = match option.recognized() {
                    Some(definition) => {
                        let handled = matches!(number, OptionNumber::BLOCK1 | OptionNumber::BLOCK2)
                            || self.config.understood.contains(&number);
                        handled && (definition.repeatable || !repeated)
                    }
                    None => self.config.understood.contains(&number),
                };
                if !understood {
                    return Some(number);
                }
            }
            last = Some(number);
        }
        None
    }
}
