//! The state of a subject, as its notifications carry it, and their format.

use crate::block::RequestedBlock;
use crate::codec::{BlockSize, Code, ContentFormat, EncodeError, OptionNumber};
use crate::message::{Payload, Response};

/// A state as its notifications carry it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) response: Response,
    /// Its notifications are confirmable.
    pub(crate) confirmable: bool,
}

/// The current state of a subject, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Current {
    /// `None` before the first notification, or if that was not usable for all observers.
    pub(super) state: Option<State>,
    format: FirstFormat,
}

/// The Content-Format of the first notification, required of all later ones (RFC 7641 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FirstFormat {
    /// No state was sent except by its entity tag (2.03).
    #[default]
    Unknown,
    /// The Content-Format, or its absence.
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
    /// Returns whether a response has the first notification's format.
    pub(super) fn suits(&self, response: &Response) -> bool {
        let format = FirstFormat::of(response);
        // A 2.03 has no payload, and so no format that could differ.
        let unknown = [self.format, format].contains(&FirstFormat::Unknown);
        unknown || self.format == format
    }

    /// Sets a new state to send.
    pub(super) fn set(&mut self, state: State) {
        if self.format == FirstFormat::Unknown {
            self.format = FirstFormat::of(&state.response);
        }
        self.state = Some(state);
    }

    /// Restarts with the response to the only observer's registration.
    pub(super) fn restart(&mut self) {
        self.format = FirstFormat::Unknown;
    }

    /// Stores the response to a registration, for observers to be notified again.
    pub(super) fn remember(&mut self, response: &Response) {
        let known = self.state.as_ref();
        let confirmable = known.is_some_and(|state| state.confirmable);
        match known.map(|state| &state.response) {
            Some(known) if response.code == Code::VALID => {
                // Requests with other entity tags could not be answered by this one; the full state
                // serves all.
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

/// The beginning of a state for an observer with this block size: the replacement of the response,
/// if any, and the block of it.
///
/// A part read for one observer is cut to the blocks of another, or sent in its own.
pub(super) fn beginning(
    response: &Response,
    wanted: RequestedBlock,
) -> Result<(Option<Response>, RequestedBlock), EncodeError> {
    let mut wanted = wanted;
    let Payload::Part {
        offset,
        bytes,
        more,
        size: whole,
    } = &response.payload
    else {
        return Ok((None, wanted));
    };
    if *offset > 0 {
        // Observations concern the whole (RFC 7959 2.6).
        return Err(EncodeError::NotAllowed(OptionNumber::BLOCK2));
    }
    if *more {
        if wanted.size.is_bert() && BlockSize::BERT.fits(bytes.len(), true) {
            wanted.span = wanted.span.min(bytes.len());
            wanted.whole = wanted.span;
        } else {
            let own = BlockSize::from_bytes_at_most(bytes.len()).unwrap_or(BlockSize::MIN);
            wanted = RequestedBlock::block(0, own.min(wanted.size));
        }
    }
    let length = if *more || bytes.len() > wanted.whole {
        wanted.span
    } else {
        bytes.len()
    };
    let cut = (bytes.len() > length).then(|| Response {
        code: response.code,
        options: response.options.clone(),
        payload: Payload::Part {
            offset: 0,
            bytes: bytes.slice(..length),
            more: true,
            size: whole.or((!more).then_some(bytes.len() as u64)),
        },
    });
    Ok((cut, wanted))
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
    fn full_state_is_stored_rather_than_its_etag() {
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
    fn state_without_body_suits_any_format() {
        let mut current = Current::default();
        current.remember(&valid(1));
        let json = Response::content(ContentFormat::JSON, "1");
        assert!(current.suits(&json));
        current.remember(&content(1));
        assert!(!current.suits(&json) && current.suits(&valid(2)));
        assert!(!current.suits(&Response::new(Code::CONTENT)));
    }
}
