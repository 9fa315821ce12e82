//! Honours Max-Age of 4.29 Too Many Requests (RFC 8516 4).
//!
//! The pause is the Max-Age, limited to [`Config::pause_max`], since a 4.29 can be forged. It
//! applies to requests of the same method to the same resource only.
//!
//! [`Config::pause_max`]: super::super::Config::pause_max

use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};
use hashbrown::HashMap;

use crate::cache_key::CacheKey;
use crate::carrier::Carrier;
use crate::client::Client;
use crate::codec::Code;
use crate::context::{Context, Owner};
use crate::message::{DEFAULT_MAX_AGE, Request};
use crate::tables::keyed_hash::KeyedState;

/// The requests a pause applies to: a peer, a method and a resource.
type RequestClass = (SocketAddr, Code, Vec<u8>);

/// Pauses by class of request.
#[derive(Debug)]
pub(crate) struct RetryAfterTable {
    until: HashMap<RequestClass, Instant, KeyedState>,
    limit: usize,
}

impl RetryAfterTable {
    pub(crate) fn new(seed: u64, limit: usize) -> Self {
        Self {
            until: HashMap::with_hasher(KeyedState::with_seed(seed)),
            limit,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.until.len()
    }

    /// Records a pause. At the limit expired pauses are evicted; if none is expired, it is not
    /// recorded.
    fn note(&mut self, now: Instant, similar: RequestClass, until: Instant) {
        if self.until.len() >= self.limit {
            self.until.retain(|_, until| *until > now);
        }
        if self.until.len() < self.limit || self.until.contains_key(&similar) {
            let end = self.until.entry(similar).or_insert(until);
            // Responses may be reordered; the longer pause is the safe one.
            *end = until.max(*end);
        }
        debug_assert!(self.until.len() <= self.limit);
    }

    /// The end of the pause for such requests.
    fn find(&mut self, now: Instant, peer: SocketAddr, request: &Request) -> Option<Instant> {
        if self.until.is_empty() {
            return None; // most clients, always
        }
        let similar = similar(peer, request);
        let until = *self.until.get(&similar)?;
        if until > now {
            return Some(until);
        }
        self.until.remove(&similar);
        None
    }
}

fn similar(peer: SocketAddr, request: &Request) -> RequestClass {
    (peer, request.code, CacheKey::of_resource(&request.options))
}

impl Client {
    /// Handles a 4.29 response.
    pub(crate) fn on_too_many_requests(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        max_age: Option<u32>,
    ) {
        let Some(operation) = self.operations.get(index as usize) else {
            return;
        };
        let named = max_age.map(|seconds| Duration::from_secs(u64::from(seconds)));
        let pause = named.unwrap_or_else(|| DEFAULT_MAX_AGE.into());
        // Without security a 4.29 can be forged, and must not silence a client for Max-Age, up
        // to 136 years.
        let pause = pause.min(cx.config.pause_max);
        if !pause.is_zero() {
            let peer = carrier.peers[operation.peer].address;
            let similar = similar(peer, &operation.request);
            self.retry_after.note(cx.now, similar, cx.now + pause);
        }
    }

    /// Returns whether a request must wait for the end of a pause; it is then sent by a timer.
    pub(crate) fn defer_until_retry_after(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
    ) -> bool {
        let operation = &mut self.operations[index as usize];
        let peer = carrier.peers[operation.peer].address;
        let until = self.retry_after.find(cx.now, peer, &operation.request);
        let Some(until) = until else {
            return false;
        };
        let timers = &mut cx.timers;
        let timer = *operation
            .pause
            .get_or_insert_with(|| timers.add(Owner::Paused(index)));
        debug_assert!(until > cx.now, "the pause is over");
        timers.set(timer, until);
        true
    }

    /// Ends a pause, unless it was extended.
    pub(crate) fn on_retry_after_timer(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
    ) {
        let operation = &mut self.operations[index as usize];
        if let Some(timer) = operation.pause.take() {
            cx.timers.remove(timer);
        }
        if self.operations[index as usize].exchanges.is_empty() {
            self.advance(cx, carrier, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn peer(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 5683))
    }

    fn get(path: &str) -> Request {
        Request::get().with_path(path).expect("a short path fits")
    }

    #[test]
    fn a_full_table_notes_no_more_until_something_is_over() {
        let mut pauses = RetryAfterTable::new(1, 2);
        for (path, end) in [("a", 10), ("b", 20), ("c", 30)] {
            pauses.note(at(0), similar(peer(0), &get(path)), at(end));
        }
        assert_eq!(pauses.len(), 2);
        assert_eq!(pauses.find(at(0), peer(0), &get("c")), None);
        assert_eq!(pauses.find(at(0), peer(0), &get("b")), Some(at(20)));
        pauses.note(at(15), similar(peer(0), &get("c")), at(30));
        assert_eq!(pauses.find(at(15), peer(0), &get("c")), Some(at(30)));
        assert_eq!(pauses.find(at(15), peer(0), &get("a")), None);
    }

    #[test]
    fn a_pause_is_made_longer_and_not_shorter() {
        let mut pauses = RetryAfterTable::new(1, 2);
        for end in [10, 30, 20] {
            pauses.note(at(0), similar(peer(0), &get("a")), at(end));
        }
        assert_eq!(pauses.find(at(0), peer(0), &get("a")), Some(at(30)));
        assert_eq!(pauses.find(at(0), peer(1), &get("a")), None, "another peer");
        assert_eq!(pauses.find(at(30), peer(0), &get("a")), None);
        assert_eq!(pauses.len(), 0);
    }
}
