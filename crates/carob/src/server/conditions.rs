//! Requests that are to be carried out in a certain state of the resource only: If-Match and
//! If-None-Match (RFC 7252 5.10.8).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use carob_proto::codec::{ETag, OptionNumber, OptionView};

use super::{Refusal, Request};

/// The state of a resource: its entity tag, nothing if it is not there; or why that cannot be told.
type State = Result<Option<ETag>, Refusal>;

/// Tells the state of a resource: any async function from a request to an [`IntoState`].
pub trait StateTag: Send + Sync + 'static {
    /// The state of what this request is about. It has the request's options, and its body if
    /// that is not taken block by block.
    fn state(
        &self,
        request: Request,
    ) -> Pin<Box<dyn Future<Output = Result<Option<ETag>, Refusal>> + Send>>;
}

impl<F, A> StateTag for F
where
    F: Fn(Request) -> A + Send + Sync + 'static,
    A: Future<Output: IntoState> + Send + 'static,
{
    fn state(&self, request: Request) -> Pin<Box<dyn Future<Output = State> + Send>> {
        let told = self(request);
        Box::pin(async move { told.await.into_state() })
    }
}

/// What tells the state of a resource.
pub trait IntoState {
    /// Its entity tag, nothing if the resource is not there; or what refuses the request.
    fn into_state(self) -> Result<Option<ETag>, Refusal>;
}

impl IntoState for Option<ETag> {
    fn into_state(self) -> State {
        Ok(self)
    }
}

impl IntoState for ETag {
    fn into_state(self) -> State {
        Ok(Some(self))
    }
}

impl<T: IntoState, E: Into<Refusal>> IntoState for Result<T, E> {
    fn into_state(self) -> State {
        self.map_err(Into::into)?.into_state()
    }
}

/// A function that blocks its thread, on a thread that may be blocked.
pub(super) struct BlockingState<F>(pub(super) Arc<F>);

impl<F, S> StateTag for BlockingState<F>
where
    F: Fn(Request) -> S + Send + Sync + 'static,
    S: IntoState + 'static,
{
    fn state(&self, request: Request) -> Pin<Box<dyn Future<Output = State> + Send>> {
        let tell = Arc::clone(&self.0);
        Box::pin(super::handler::on_thread(move || {
            tell(request).into_state()
        }))
    }
}

/// Whether the conditions among some options hold: in a state with one of these tags, or, where
/// there are none, in that of absence.
pub(super) fn hold<'o>(
    options: impl Iterator<Item = OptionView<'o>>,
    exists: bool,
    is_current: impl Fn(&[u8]) -> bool,
) -> bool {
    let (mut asked, mut matched) = (false, false);
    for option in options {
        match option.number {
            OptionNumber::IF_NONE_MATCH if exists => return false,
            OptionNumber::IF_MATCH => {
                asked = true;
                // An empty value stands for any state.
                matched |= exists && (option.value.is_empty() || is_current(option.value));
            }
            _ => {}
        }
    }
    matched || !asked
}

#[cfg(test)]
mod tests {
    use carob_proto::codec::Options;

    use super::*;

    /// Whether the conditions hold for a resource with the tag `t`, and for none.
    fn in_states(conditions: &[(OptionNumber, &[u8])]) -> (bool, bool) {
        let mut options = Options::new();
        for (number, value) in conditions {
            options.push(*number, value).unwrap();
        }
        (
            hold(options.iter(), true, |tag| tag == b"t"),
            hold(options.iter(), false, |_| false),
        )
    }

    #[test]
    fn conditions_hold_as_rfc_7252_5_10_8_has_it() {
        let (if_match, if_none_match) = (OptionNumber::IF_MATCH, OptionNumber::IF_NONE_MATCH);
        assert_eq!(in_states(&[]), (true, true));
        assert_eq!(in_states(&[(if_match, b"t")]), (true, false));
        assert_eq!(in_states(&[(if_match, b"u")]), (false, false));
        assert_eq!(
            in_states(&[(if_match, b"u"), (if_match, b"t")]),
            (true, false)
        );
        assert_eq!(in_states(&[(if_match, b"")]), (true, false));
        assert_eq!(in_states(&[(if_none_match, b"")]), (false, true));
        assert_eq!(
            in_states(&[(if_match, b"t"), (if_none_match, b"")]),
            (false, false),
            "never both"
        );
    }
}
