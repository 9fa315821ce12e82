//! Cached responses (RFC 7252 5.6): freshness, validation and eviction. Time is an argument.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use carob_cc::time::Instant;
use carob_proto::codec::{Code, ETag, OptionNumber};
use carob_proto::message::Response;

use super::key::{Key, Target};

/// Limits of a client's response cache. At either limit, the least recently used entry is evicted.
/// Default: 256 entries, 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Number of distinct requests with cached responses.
    pub entries: usize,
    /// Bytes of all cached responses and of their request keys. A response that exceeds it is not
    /// cached.
    pub bytes: usize,
}

impl Default for CacheLimits {
    /// Returns 256 entries and 1 MiB.
    fn default() -> Self {
        Self {
            entries: 256,
            bytes: 1 << 20,
        }
    }
}

/// Usage of a client's response cache ([`Client::cache_usage`](crate::Client::cache_usage)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheUsage {
    /// Number of distinct requests with cached responses.
    pub entries: usize,
    /// Bytes, counted as for [`CacheLimits::bytes`].
    pub bytes: usize,
}

/// Stored states of one resource per request, any of which can be validated. At the limit the
/// oldest is evicted.
const STATES: usize = 4;
/// Estimated overhead of a response in bytes, besides options and body.
const OVERHEAD: usize = 256;

/// A cached response.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    response: Response,
    peer: SocketAddr,
    /// The end of its freshness; `None` if it must be validated first.
    fresh_until: Option<Instant>,
}

impl Stored {
    /// Returns the tag for validation; errors have none (RFC 7252 5.9.2, 5.9.3).
    pub(super) fn tag(&self) -> Option<ETag> {
        self.response
            .etag()
            .filter(|_| self.response.code.is_success())
    }

    fn bytes(&self) -> usize {
        OVERHEAD + self.response.options.encoded_len() + self.response.bytes().len()
    }
}

/// The responses cached for a request.
#[derive(Debug)]
struct Entry {
    /// The use counter at its last use.
    used: u64,
    bytes: usize,
    /// The current state, then earlier ones with a tag. Never empty.
    states: Vec<Stored>,
    /// The notification counter at this request's latest notification.
    notified: u64,
}

/// The outcome of a lookup.
#[derive(Debug)]
pub(super) enum Found {
    /// A fresh response, with its remaining freshness as Max-Age, and its sender.
    Fresh(Response, SocketAddr),
    /// States to revalidate, possibly none.
    Stale(Vec<Stored>),
}

/// Counts of unsafe requests and of notifications at the time a request begins: its response may
/// describe a state before later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    changes: u64,
    notified: u64,
}

/// The cache.
#[derive(Debug)]
pub(super) struct Cache {
    limits: CacheLimits,
    entries: BTreeMap<Key, Entry>,
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    bytes: usize,
    changes: u64,
    notified: u64,
}

impl Cache {
    pub(super) fn new(limits: CacheLimits) -> Self {
        Self {
            limits,
            entries: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            changes: 0,
            notified: 0,
        }
    }

    pub(super) fn usage(&self) -> CacheUsage {
        CacheUsage {
            entries: self.entries.len(),
            bytes: self.bytes,
        }
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch {
            changes: self.changes,
            notified: self.notified,
        }
    }

    /// Looks up a response; with `reload`, a fresh one counts as stale.
    pub(super) fn find(&mut self, now: Instant, key: &Key, reload: bool) -> Found {
        let Some(Entry {
            states, notified, ..
        }) = self.take(key)
        else {
            return Found::Stale(Vec::new());
        };
        let fresh = states.first().and_then(|stored| {
            let left = stored.fresh_until.filter(|&until| now <= until)?.since(now);
            // Only a full option list rejects it; the age then remains.
            let mut response = stored.response.clone();
            let _ = response
                .options
                // Max-Age is what remains, and does not grow in a cache (RFC 7252 5.7.1).
                .set_uint(OptionNumber::MAX_AGE, left.as_secs() as u32);
            Some((response, stored.peer))
        });
        let tagged = states.iter().filter(|stored| stored.tag().is_some());
        let found = match fresh {
            Some((response, peer)) if !reload => Found::Fresh(response, peer),
            _ => Found::Stale(tagged.cloned().collect()),
        };
        self.put(key.clone(), states, notified);
        found
    }

    /// Stores the response to a request that began at `epoch`. A later notification is kept,
    /// because the response may be older (RFC 7641 3.4).
    pub(super) fn insert(
        &mut self,
        now: Instant,
        epoch: Epoch,
        key: Key,
        response: Response,
        peer: SocketAddr,
    ) {
        let entry = self.entries.get(&key);
        if entry.is_none_or(|entry| entry.notified <= epoch.notified) {
            self.replace(now, epoch, key, response, peer);
        }
    }

    /// Stores the payload of a notification, which is newer than every response before it (RFC 7641
    /// 3.3.1).
    pub(super) fn notify(&mut self, now: Instant, key: Key, response: Response, peer: SocketAddr) {
        self.notified += 1;
        let epoch = self.epoch();
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.notified = self.notified;
        }
        self.replace(now, epoch, key, response, peer);
    }

    /// Stores a response if it is cacheable. In any case, earlier ones are no longer fresh.
    fn replace(
        &mut self,
        now: Instant,
        epoch: Epoch,
        key: Key,
        mut response: Response,
        peer: SocketAddr,
    ) {
        // A request without Observe must not get a response with it (RFC 7641 2).
        response.options.remove(OptionNumber::OBSERVE);
        let entry = self.take(&key);
        let before = entry.as_ref().map_or(0, |entry| entry.notified);
        let notified = before.max(epoch.notified);
        let mut states = entry.map_or_else(Vec::new, |entry| entry.states);
        let new = self.judge(now, epoch, response, peer);
        let tag = new.as_ref().and_then(Stored::tag);
        states.retain(|stored| stored.tag().is_some() && stored.tag() != tag);
        for stored in &mut states {
            stored.fresh_until = None;
        }
        let fits = |stored: &Stored| key.bytes() + stored.bytes() <= self.limits.bytes;
        // In front: the first state is the current one.
        states.splice(0..0, new.filter(fits));
        self.put(key, states, notified);
    }

    /// Processes a 2.03: the named state, with updated options, becomes the current one.
    pub(super) fn validate(
        &mut self,
        now: Instant,
        epoch: Epoch,
        key: Key,
        asked: &[Stored],
        valid: &Response,
        peer: SocketAddr,
    ) -> Option<Response> {
        let stored = match (valid.etag(), asked) {
            (Some(tag), _) => asked.iter().find(|stored| stored.tag() == Some(tag))?,
            // It must have a tag (RFC 7252 5.9.1.3); a missing one is unambiguous with a single
            // state.
            (None, [only]) => only,
            (None, _) => return None,
        };
        let response = updated(&stored.response, valid);
        self.insert(now, epoch, key, response.clone(), peer);
        Some(response)
    }

    /// Marks the responses of a changed resource as stale (RFC 7252 5.9.1.1, 5.9.1.2, 5.9.1.4).
    pub(super) fn invalidate(&mut self, target: &Target) {
        self.changes += 1;
        // Keys begin with the target, so that all requests for it are neighbours.
        let on = self.entries.range(Key::first_of(target)..);
        let keys: Vec<Key> = on
            .map(|(key, _)| key)
            .take_while(|key| key.is_of(target))
            .cloned()
            .collect();
        for key in keys {
            let Some(Entry {
                mut states,
                notified,
                ..
            }) = self.take(&key)
            else {
                continue; // it was there just now
            };
            // Without a tag a stale state cannot be validated, and is of no use.
            states.retain(|stored| stored.tag().is_some());
            for stored in &mut states {
                stored.fresh_until = None;
            }
            self.put(key, states, notified);
        }
    }

    /// Decides whether a response is cacheable, and its freshness lifetime.
    ///
    /// By RFC 7252 5.9, 2.05 and all errors are cacheable. Errors are stored only with an explicit
    /// Max-Age: the default of 60 s would prolong a short failure. 2.01, 2.02, 2.04 and unknown
    /// success codes are not cacheable (5.6).
    fn judge(
        &self,
        now: Instant,
        epoch: Epoch,
        response: Response,
        peer: SocketAddr,
    ) -> Option<Stored> {
        let may_be_kept = match response.code {
            Code::CONTENT => true,
            code => {
                matches!(code.class(), 4 | 5) && response.options.contains(OptionNumber::MAX_AGE)
            }
        };
        let age = response.max_age();
        // A response in flight during a change may describe the earlier state.
        let fresh = !age.is_zero() && epoch.changes == self.changes;
        let stored = Stored {
            response,
            peer,
            fresh_until: fresh.then(|| now + age.into()),
        };
        let useful = fresh || stored.tag().is_some();
        (may_be_kept && useful).then_some(stored)
    }

    /// Removes and returns the entry of a request.
    fn take(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        let listed = self.by_use.remove(&entry.used);
        debug_assert!(listed.as_ref() == Some(key), "an entry has a place by use");
        debug_assert!(self.bytes >= entry.bytes, "its bytes were counted");
        debug_assert!(!entry.states.is_empty(), "an entry has a state");
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// Checks the counts of entries and bytes.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.entries.len() == self.by_use.len());
        debug_assert!(self.entries.len() <= self.limits.entries);
        debug_assert!(self.bytes <= self.limits.bytes);
        debug_assert!(!self.entries.is_empty() || self.bytes == 0);
    }

    /// Stores the responses to a request as the most recently used entry, and evicts the least
    /// recently used ones at the limit.
    fn put(&mut self, key: Key, mut states: Vec<Stored>, notified: u64) {
        states.truncate(STATES);
        let size = |states: &[Stored]| {
            let all: usize = states.iter().map(Stored::bytes).sum();
            key.bytes() + all
        };
        // The oldest first; the current state is the last to go.
        while size(&states) > self.limits.bytes && states.pop().is_some() {}
        if states.is_empty() {
            return;
        }
        self.uses += 1;
        let (used, bytes) = (self.uses, size(&states));
        debug_assert!(!self.entries.contains_key(&key), "its entry was taken out");
        self.bytes += bytes;
        self.by_use.insert(used, key.clone());
        let entry = Entry {
            used,
            bytes,
            states,
            notified,
        };
        self.entries.insert(key, entry);
        while self.entries.len() > self.limits.entries || self.bytes > self.limits.bytes {
            let Some((_, oldest)) = self.by_use.first_key_value() else {
                return;
            };
            let oldest = oldest.clone();
            self.take(&oldest);
        }
        self.check_invariants();
    }
}

/// Updates a stored response by a 2.03: the age is reset, and options that are safe to forward are
/// replaced (RFC 7252 5.9.1.3).
fn updated(stored: &Response, valid: &Response) -> Response {
    let mut response = stored.clone();
    response.options.remove(OptionNumber::MAX_AGE);
    let mut last = None;
    for option in &valid.options {
        let number = option.number;
        // Max-Age is unsafe to forward by its number, but a 2.03 renews it (RFC 7252 5.9.1.3).
        if number.is_unsafe_to_forward() && number != OptionNumber::MAX_AGE {
            continue;
        }
        if last != Some(number) {
            response.options.remove(number);
        }
        last = Some(number);
        if response.options.push(number, option.value).is_err() {
            // More than any message carries; the options so far count.
            break;
        }
    }
    response
}

#[cfg(test)]
mod tests;
