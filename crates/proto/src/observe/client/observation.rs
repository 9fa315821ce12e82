//! The state of an observation.

use crate::address::PeerIndex;
use crate::carrier::Carrier;
use crate::context::Context;
use crate::message_layer::tokens::OwnToken;
use crate::observe::Newest;
use crate::timers::TimerId;

/// An observation of this endpoint.
#[derive(Debug)]
pub(crate) struct Observation {
    /// The token of its registrations and notifications.
    pub(super) token: OwnToken,
    pub(super) timer: TimerId,
    pub(super) phase: Phase,
    /// The newest notification; `None` until the server has accepted the first registration.
    pub(super) newest: Option<Newest>,
    /// A notification is being reassembled.
    pub(super) arriving: bool,
    /// A notification has arrived since the last registration was sent.
    pub(super) heard: bool,
    /// Failed renewals since the last notification.
    pub(super) failures: u8,
}

impl Observation {
    /// Ends the observation of request `index`, which has ended.
    pub(crate) fn end(&self, cx: &mut Context, carrier: &mut Carrier, index: u32, peer: PeerIndex) {
        cx.timers.remove(self.timer);
        let token = &self.token.key;
        let removed = carrier.tokens.observations.remove(peer, token, index);
        debug_assert!(removed.is_some(), "the token of an observation is listed");
    }
}

/// The phase of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A registration is in progress.
    Registering,
    /// The timer runs until the newest state goes stale.
    Fresh,
    /// The timer runs until it is to be renewed.
    Stale,
    /// It is being deregistered.
    Ending,
}
