//! Observing resources (RFC 7641), both roles.
//!
//! - `freshness`: a client discards notifications that arrive out of order;
//! - `observers`: a server's list of observers, with the version last sent to each;
//! - `state`: the representation that notifications carry.
//!
//! These modules hold state only: they neither build nor send messages. The
//! [endpoint](crate::endpoint) does that, under the peer's controller.

pub(crate) mod freshness;
pub(crate) mod observers;
pub(crate) mod state;

/// The value of the Observe option in a request (RFC 7641 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observe {
    /// 0: registers the client in the list of observers, or refreshes the entry.
    Register,
    /// 1: removes the client from the list.
    Deregister,
}

impl Observe {
    /// The option's value.
    pub(crate) const fn value(self) -> u32 {
        match self {
            Self::Register => 0,
            Self::Deregister => 1,
        }
    }

    /// Decodes a value in a request. `None` for unassigned values, which are ignored like an
    /// elective option.
    pub(crate) const fn from_value(value: u32) -> Option<Self> {
        match value {
            0 => Some(Self::Register),
            1 => Some(Self::Deregister),
            _ => None,
        }
    }
}

/// The observed representation of a resource, by a number of the application.
///
/// All observers of a subject receive the same notifications. Requests with different
/// representations, by query or by Accept, need different subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(pub u64);
