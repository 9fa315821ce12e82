//! Conditional requests: If-Match and If-None-Match (RFC 7252 5.10.8).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use carob_proto::codec::{ETag, OptionNumber, OptionView};

use super::{Refusal, Request};

/// The state of a resource: its entity tag, or `None` if it does not exist; or the refusal if the
/// state is unknown.
type State = Result<Option<ETag>, Refusal>;

/// Source of a resource's state, for [`Resource::state_tag`](super::Resource::state_tag). Any
/// `async` function or closure from [`Request`] to an [`IntoState`] implements it.
///
/// ```
/// use carob::server::{Refusal, Request, Resource};
/// use carob::{Code, ETag};
///
/// async fn version(request: Request) -> Result<Option<ETag>, Refusal> {
///     let name = request.parameter("name").unwrap_or_default();
///     Ok((name == "config").then(|| ETag::of(b"version 3")))
/// }
///
/// let file = Resource::new().put(|_: Request| async { Code::CHANGED }).state_tag(version);
/// # let _ = file;
/// ```
pub trait StateTag: Send + Sync + 'static {
    /// Returns the entity tag of the resource that the request addresses, `None` if it does not
    /// exist, or a refusal. The request has all options, and its body unless that is received block
    /// by block.
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
        let state = self(request);
        Box::pin(async move { state.await.into_state() })
    }
}

/// Value that a [`StateTag`] returns: an [`ETag`], an `Option<ETag>` (`None`: the resource does not
/// exist), or a `Result` whose error refuses the request.
///
/// ```
/// use carob::server::{IntoState, Refusal};
/// use carob::ETag;
///
/// /// A version of a resource; 0 means none.
/// struct Version(u32);
///
/// impl IntoState for Version {
///     fn into_state(self) -> Result<Option<ETag>, Refusal> {
///         Ok((self.0 > 0).then(|| ETag::of(&self.0.to_be_bytes())))
///     }
/// }
/// ```
pub trait IntoState {
    /// Converts the value into an entity tag, into `None` if the resource does not exist, or into a
    /// refusal.
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

/// Adapter of a blocking function, run on a thread for blocking work.
pub(super) struct BlockingState<F>(pub(super) Arc<F>);

impl<F, S> StateTag for BlockingState<F>
where
    F: Fn(Request) -> S + Send + Sync + 'static,
    S: IntoState + 'static,
{
    fn state(&self, request: Request) -> Pin<Box<dyn Future<Output = State> + Send>> {
        let state_of = Arc::clone(&self.0);
        Box::pin(super::handler::on_thread(move || {
            state_of(request).into_state()
        }))
    }
}

/// Returns whether the conditions among some options hold in a state with one of these tags, or,
/// where there are none, for an absent resource.
pub(super) fn hold<'o>(
    options: impl Iterator<Item = OptionView<'o>>,
    exists: bool,
    is_current: impl Fn(&[u8]) -> bool,
) -> bool {
    let (mut asked, mut matched) = (false, false);
    for option in options {
        match option.number {
            // Also where If-Match is fulfilled: each condition must be (RFC 7252 5.10.8).
            OptionNumber::IF_NONE_MATCH if exists => return false,
            OptionNumber::IF_MATCH => {
                asked = true;
                // An empty value matches any state.
                matched |= exists && (option.value.is_empty() || is_current(option.value));
            }
            _ => {}
        }
    }
    // Of several If-Match values one suffices (RFC 7252 5.10.8.1).
    matched || !asked
}

#[cfg(test)]
mod tests {
    use carob_proto::codec::Options;

    use super::*;

    /// Evaluates the conditions for a resource with the tag `t`, and for an absent one.
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
