//! Requests that a peer has had too many of wait (RFC 8516 4).
//!
//! A 4.29 says for how long: its Max-Age, but no longer than [`Config::pause_max`], since anybody
//! might have sent it. Until then requests of the same method to the same resource wait, and
//! nothing else does.
//!
//! [`Config::pause_max`]: super::super::Config::pause_max

use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};
use hashbrown::HashMap;

use super::turns::resource_bytes;
use crate::codec::Code;
use crate::endpoint::{Endpoint, Owner};
use crate::keyed_hash::KeyedState;
use crate::message::{DEFAULT_MAX_AGE, Request};

/// What a peer has had too many of: requests of a method to a resource.
type Similar = (SocketAddr, Code, Vec<u8>);

/// What is not to be asked for before a time.
#[derive(Debug)]
pub(in crate::endpoint) struct Pauses {
    until: HashMap<Similar, Instant, KeyedState>,
    limit: usize,
}

impl Pauses {
    pub(in crate::endpoint) fn new(seed: u64, limit: usize) -> Self {
        Self {
            until: HashMap::with_hasher(KeyedState::with_seed(seed)),
            limit,
        }
    }

    pub(in crate::endpoint) fn len(&self) -> usize {
        self.until.len()
    }

    /// Notes a pause. At the limit, those that are over make room; if none is, it is not noted.
    fn note(&mut self, now: Instant, similar: Similar, until: Instant) {
        if self.until.len() >= self.limit {
            self.until.retain(|_, until| *until > now);
        }
        if self.until.len() < self.limit || self.until.contains_key(&similar) {
            let end = self.until.entry(similar).or_insert(until);
            *end = until.max(*end);
        }
    }

    /// Until when such requests are to wait.
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

fn similar(peer: SocketAddr, request: &Request) -> Similar {
    (peer, request.code, resource_bytes(&request.options))
}

impl Endpoint {
    /// A request was answered 4.29.
    pub(in crate::endpoint) fn note_too_many(
        &mut self,
        now: Instant,
        index: u32,
        max_age: Option<u32>,
    ) {
        let Some(operation) = self.operations.get(index as usize) else {
            return;
        };
        let named = max_age.map(|seconds| Duration::from_secs(u64::from(seconds)));
        let pause = named.unwrap_or_else(|| DEFAULT_MAX_AGE.into());
        let pause = pause.min(self.config.pause_max);
        if !pause.is_zero() {
            let peer = self.peers[operation.peer].address;
            let similar = similar(peer, &operation.request);
            self.pauses.note(now, similar, now + pause);
        }
    }

    /// Whether a request is to wait because its peer has had too many like it; if so, it goes on
    /// by itself when it may.
    pub(super) fn waits_out_pause(&mut self, now: Instant, index: u32) -> bool {
        let operation = &mut self.operations[index as usize];
        let peer = self.peers[operation.peer].address;
        let until = self.pauses.find(now, peer, &operation.request);
        let Some(until) = until else {
            return false;
        };
        let timers = &mut self.timers;
        let timer = *operation
            .pause
            .get_or_insert_with(|| timers.add(Owner::Paused(index)));
        timers.set(timer, until);
        true
    }

    /// A pause is over, unless it has been made longer.
    pub(in crate::endpoint) fn handle_pause_timer(&mut self, now: Instant, index: u32) {
        let operation = &mut self.operations[index as usize];
        if let Some(timer) = operation.pause.take() {
            self.timers.remove(timer);
        }
        if self.operations[index as usize].exchanges.is_empty() {
            self.advance(now, index);
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
        let mut pauses = Pauses::new(1, 2);
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
        let mut pauses = Pauses::new(1, 2);
        for end in [10, 30, 20] {
            pauses.note(at(0), similar(peer(0), &get("a")), at(end));
        }
        assert_eq!(pauses.find(at(0), peer(0), &get("a")), Some(at(30)));
        assert_eq!(pauses.find(at(0), peer(1), &get("a")), None, "another peer");
        assert_eq!(pauses.find(at(30), peer(0), &get("a")), None);
        assert_eq!(pauses.len(), 0);
    }
}
