//! Observing resources (RFC 7641), both roles.
//!
//! - [`freshness`]: a client tells newer notifications from older ones that arrive late;
//! - `observers`: a server's list of who observes what, and how far each has been told;
//! - `state`: what they are told.
//!
//! These are plain state: no message is built or sent here. The [endpoint](crate::endpoint)
//! does that, under the peer's controller.

pub mod freshness;
pub(crate) mod observers;
pub(crate) mod state;

/// The value of the Observe option in a request (RFC 7641 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observe {
    /// 0: add me to the list of observers, or refresh my place in it.
    Register,
    /// 1: take me off the list.
    Deregister,
}

impl Observe {
    /// The option's value.
    pub const fn value(self) -> u32 {
        match self {
            Self::Register => 0,
            Self::Deregister => 1,
        }
    }

    /// What a value in a request means; nothing for values that no document assigns, which are
    /// ignored as an elective option's are.
    pub const fn from_value(value: u32) -> Option<Self> {
        match value {
            0 => Some(Self::Register),
            1 => Some(Self::Deregister),
            _ => None,
        }
    }
}

/// What is observed: an application's number for one representation of one resource.
///
/// Observers of one subject are told the same thing. So requests whose answers differ, by query
/// or by Accept, belong to different subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(pub u64);
