//! What the observers of a subject are told: its state, and the format they were told first.

use crate::codec::{Code, ContentFormat};
use crate::message::Response;

/// A state as its notifications tell it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) response: Response,
    /// Tell it in CON messages.
    pub(crate) confirmable: bool,
}

/// The state of a subject, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Current {
    /// None until one was told, or if what was told of it is of no use to all.
    pub(super) state: Option<State>,
    format: FirstFormat,
}

/// The Content-Format that observers were told first, which all later states must have
/// (RFC 7641 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FirstFormat {
    /// No state was told but by its tag.
    #[default]
    Unknown,
    /// It is this, or it was left out.
    Known(Option<ContentFormat>),
}

impl FirstFormat {
    fn of(response: &Response) -> Self {
        match response.code {
            Code::VALID => Self::Unknown,
            _ => Self::Known(response.format()),
        }
    }
}

impl Current {
    /// Whether a response has the format that was told first.
    pub(super) fn suits(&self, response: &Response) -> bool {
        let format = FirstFormat::of(response);
        let unknown = [self.format, format].contains(&FirstFormat::Unknown);
        unknown || self.format == format
    }

    /// There is a new state to tell.
    pub(super) fn set(&mut self, state: State) {
        if self.format == FirstFormat::Unknown {
            self.format = FirstFormat::of(&state.response);
        }
        self.state = Some(state);
    }

    /// Notes what the only observer was told in answer to its registration: it begins anew with
    /// that.
    pub(super) fn begin_anew(&mut self) {
        self.format = FirstFormat::Unknown;
    }

    /// Keeps what an observer was told in answer to its registration, for those who must be told
    /// once more.
    pub(super) fn remember(&mut self, response: &Response) {
        let known = self.state.as_ref();
        let confirmable = known.is_some_and(|state| state.confirmable);
        match known.map(|state| &state.response) {
            Some(known) if response.code == Code::VALID => {
                // Who named another tag could not be told by this one. The state itself serves all.
                if known.code == Code::VALID && known.etag() != response.etag() {
                    self.state = None;
                }
            }
            _ => {
                let response = response.clone();
                self.set(State {
                    response,
                    confirmable,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::ETag;

    fn content(tag: u64) -> Response {
        Response::content(ContentFormat::TEXT_PLAIN, "x").with_etag(ETag::from(tag))
    }

    fn valid(tag: u64) -> Response {
        content(tag).validated().expect("it has a tag")
    }

    fn remembered(all: &[Response]) -> Option<(Code, Option<ETag>)> {
        let mut current = Current::default();
        for response in all {
            current.remember(response);
        }
        let state = current.state?;
        Some((state.response.code, state.response.etag()))
    }

    #[test]
    fn the_state_itself_is_kept_rather_than_its_tag() {
        let one = Some(ETag::from(1));
        assert_eq!(remembered(&[valid(1)]), Some((Code::VALID, one)));
        assert_eq!(remembered(&[valid(1), valid(1)]), Some((Code::VALID, one)));
        let kept = Some((Code::CONTENT, one));
        assert_eq!(remembered(&[valid(1), content(1)]), kept);
        assert_eq!(remembered(&[content(1), valid(1)]), kept);
        assert_eq!(remembered(&[content(1), valid(2)]), kept);
        assert_eq!(remembered(&[valid(1), valid(2)]), None, "of use to nobody");
        let newer = Some((Code::CONTENT, Some(ETag::from(2))));
        assert_eq!(remembered(&[content(1), content(2)]), newer);
    }

    #[test]
    fn a_tag_says_nothing_about_the_format() {
        let mut current = Current::default();
        current.remember(&valid(1));
        let json = Response::content(ContentFormat::JSON, "1");
        assert!(current.suits(&json));
        current.remember(&content(1));
        assert!(!current.suits(&json) && current.suits(&valid(2)));
        assert!(!current.suits(&Response::new(Code::CONTENT)));
    }
}
