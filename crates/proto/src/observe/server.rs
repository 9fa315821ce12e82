//! Registrations of observers (RFC 7641 4.1).

use core::net::SocketAddr;

use crate::cache_key::CacheKey;
use crate::carrier::Carrier;
use crate::codec::{BlockSize, TokenKey};
use crate::context::Context;
use crate::event::IncomingId;
use crate::observe::observers::Registration;
use crate::observe::{Observe, Subject};
use crate::server::Server;
use crate::server::request_table::RegistrationState;
use crate::trace::TraceEvent;

impl Server {
    /// Registers the sender of a request as an observer of `subject`. Returns whether it is
    /// registered.
    ///
    /// To be called before the resource's state is read, so that no change is missed between the
    /// two. A request without Observe, or at a limit, is not registered; it gets an ordinary
    /// response (RFC 7641 4.1). [`respond`](Self::respond) with an error removes the observer
    /// again.
    pub(crate) fn observe(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: IncomingId,
        subject: Subject,
    ) -> bool {
        let Some(slot) = self.incoming.find(id) else {
            return false;
        };
        // A request for a later block fetches the rest of a notification, and registers nothing
        // (RFC 7959 2.6).
        if slot.observe != Some(Observe::Register) || slot.terms.wanted.offset > 0 {
            return false;
        }
        if !slot.is_connected(carrier) {
            return false; // observations go with their connection (RFC 8323 7.4)
        }
        let (from, token) = (slot.from, slot.token);
        if needs_validation(cx, carrier, from, &token) {
            let (none, challenged) = (RegistrationState::None, RegistrationState::Challenged);
            // The response becomes a challenge: an observation sends a victim many messages for one
            // forged request.
            self.incoming.change_registration(id, none, challenged);
            return false;
        }
        if !has_quota(cx, carrier, from, &token) {
            return false;
        }
        let Some(slot) = self.incoming.find(id) else {
            return false;
        };
        let (message, size) = (slot.message(), slot.terms.wanted.size);
        let key = CacheKey::of_transfer(&message);
        let long_token = token.is_long().then(|| message.token().as_slice());
        let registration = RegistrationOf {
            from,
            token,
            long_token: long_token.unwrap_or_default(),
            size,
            key: &key,
        };
        let listed = register(cx, carrier, subject, &registration);
        if listed {
            self.incoming.slots[id.index as usize].registration = RegistrationState::Observing;
        }
        listed
    }

    /// Undoes [`observe`](Self::observe) for a request without a response yet, which then has no
    /// Observe option.
    pub(crate) fn unobserve(&mut self, cx: &mut Context, carrier: &mut Carrier, id: IncomingId) {
        let Some(incoming) = self.incoming(id) else {
            return;
        };
        let (from, token) = (incoming.from, cx.token_key(incoming.message.token()));
        let (observing, none) = (RegistrationState::Observing, RegistrationState::None);
        if self.incoming.change_registration(id, observing, none) {
            carrier.deregister(cx, from, &token);
        }
    }
}

/// A registration to add.
struct RegistrationOf<'a> {
    from: SocketAddr,
    token: TokenKey,
    /// The bytes of a token longer than its key; otherwise empty.
    long_token: &'a [u8],
    size: BlockSize,
    key: &'a [u8],
}

/// Returns whether a peer observes with this token.
fn is_listed(carrier: &Carrier, from: SocketAddr, token: &TokenKey) -> bool {
    carrier.peers.find(from).is_some_and(|peer| {
        let first = carrier.peers[peer].first_observer;
        carrier.notifications.observers.find(first, token).is_some()
    })
}

/// Returns whether a source has reached its quota of observations.
fn is_above_quota(cx: &Context, carrier: &Carrier, from: SocketAddr) -> bool {
    let held = carrier
        .notifications
        .shares
        .of(cx.quota_policy.source(from));
    held >= cx.quota_policy.quota(cx.config.limits.observers)
}

fn has_quota(cx: &Context, carrier: &Carrier, from: SocketAddr, token: &TokenKey) -> bool {
    is_listed(carrier, from, token) || !is_above_quota(cx, carrier, from)
}

/// Adds an observer; false if a table is full.
fn register(
    cx: &mut Context,
    carrier: &mut Carrier,
    subject: Subject,
    registration: &RegistrationOf<'_>,
) -> bool {
    let &RegistrationOf {
        from,
        token,
        long_token,
        size,
        key,
    } = registration;
    let Ok(peer) = carrier.peer_of_message(cx, from) else {
        return false;
    };
    let first = carrier.peers[peer].first_observer;
    if let Some(before) = carrier.notifications.observers.find(first, &token)
        && carrier.notifications.observers.subject(before) != subject
    {
        // A token names one observation of an endpoint: a new registration replaces it (RFC
        // 7641 4.1).
        carrier.remove_observer(cx, before);
    }
    let registration = Registration {
        peer,
        token,
        long_token,
        size,
        key,
    };
    let listed = carrier.notifications.observers.len();
    let head = &mut carrier.peers[peer].first_observer;
    let registered =
        (carrier.notifications.observers).register(cx.now, subject, registration, head);
    if registered.is_none() {
        return false;
    }
    // A renewed registration is the same entry (RFC 7641 4.1), which is counted already.
    if carrier.notifications.observers.len() > listed {
        carrier.peers[peer].users += 1;
        let source = cx.quota_policy.source(from);
        carrier.notifications.shares.add(source, 1);
        cx.trace(from, TraceEvent::Observed);
    }
    true
}

/// Returns whether an address must be validated before it observes: its notifications could be
/// directed at a victim (RFC 7641 7), or the last slots are for validated addresses.
fn needs_validation(cx: &Context, carrier: &Carrier, from: SocketAddr, token: &TokenKey) -> bool {
    if carrier.admission.is_limited(cx, from) {
        return true;
    }
    let (held, limit) = (
        carrier.notifications.observers.len(),
        cx.config.limits.observers,
    );
    // A full table lists nobody, so that a challenge would be in vain.
    let above_watermark = held < limit && cx.quota_policy.is_above_watermark(held, limit);
    above_watermark
        && !is_listed(carrier, from, token)
        && !is_above_quota(cx, carrier, from)
        && !carrier.admission.is_validated(cx, from)
}
