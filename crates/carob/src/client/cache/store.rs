//! Responses kept for later requests (RFC 7252 5.6): freshness, validation, and what goes first
//! when there is no more room. Time is an argument.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use carob_cc::time::Instant;
use carob_proto::codec::{Code, ETag, OptionNumber};
use carob_proto::message::Response;

use super::key::{Key, Target};

/// What a client's cache may hold. Beyond either, what was used longest ago goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Requests whose responses are kept.
    pub entries: usize,
    /// Bytes of all responses and of the requests they are kept for. A response that is larger is
    /// not kept.
    pub bytes: usize,
}

impl Default for CacheLimits {
    /// 256 requests, 1 MiB.
    fn default() -> Self {
        Self {
            entries: 256,
            bytes: 1 << 20,
        }
    }
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheUsage {
    /// Requests whose responses are kept.
    pub entries: usize,
    /// Bytes, as [`CacheLimits::bytes`] counts them.
    pub bytes: usize,
}

/// States of one resource kept for one request, so that any of them can be found valid again. At
/// the limit the oldest is forgotten.
const STATES: usize = 4;
/// Bytes that a response takes besides its options and body, about.
const OVERHEAD: usize = 256;

/// A response that is kept.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    response: Response,
    peer: SocketAddr,
    /// Until when it answers requests; nothing if it must be validated first.
    fresh_until: Option<Instant>,
}

impl Stored {
    /// By which it can be validated: errors cannot (RFC 7252 5.9.2, 5.9.3).
    pub(super) fn tag(&self) -> Option<ETag> {
        self.response
            .etag()
            .filter(|_| self.response.code.is_success())
    }

    fn bytes(&self) -> usize {
        OVERHEAD + self.response.options.encoded_len() + self.response.bytes().len()
    }
}

/// What is kept for a request.
#[derive(Debug)]
struct Entry {
    /// When it was used last, in the cache's own count.
    used: u64,
    bytes: usize,
    /// The current state first, then earlier ones that have a tag. Never empty.
    states: Vec<Stored>,
    /// How many notifications the cache had taken by the time this request's last one came.
    notified: u64,
}

/// What a look into the cache gives.
#[derive(Debug)]
pub(super) enum Found {
    /// The answer, its Max-Age the time it is still fresh for, and who gave it.
    Fresh(Response, SocketAddr),
    /// States that the server may find to be valid; maybe none.
    Stale(Vec<Stored>),
}

/// How many requests have changed resources, and how many notifications have come, by the time a
/// request begins: what it brings may be of a state before those that come later.
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

    /// Looks for a response; with `reload`, one that must be validated even if it is fresh.
    pub(super) fn find(&mut self, now: Instant, key: &Key, reload: bool) -> Found {
        let Some(Entry {
            states, notified, ..
        }) = self.take(key)
        else {
            return Found::Stale(Vec::new());
        };
        let fresh = states.first().and_then(|stored| {
            let left = stored.fresh_until.filter(|&until| now <= until)?.since(now);
            // Nothing but a list filled to its limit refuses it; then the age stays as it was.
            let mut response = stored.response.clone();
            let _ = response
                .options
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

    /// Takes the response to a request that began at `epoch`. A notification that has come since
    /// stays: nothing says that the response is newer (RFC 7641 3.4).
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

    /// Takes what an observation is told: nothing that came before is newer (RFC 7641 3.3.1).
    pub(super) fn notify(&mut self, now: Instant, key: Key, response: Response, peer: SocketAddr) {
        self.notified += 1;
        let epoch = self.epoch();
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.notified = self.notified;
        }
        self.replace(now, epoch, key, response, peer);
    }

    /// Keeps a response if it may be kept. Either way, what was kept is not fresh any more.
    fn replace(
        &mut self,
        now: Instant,
        epoch: Epoch,
        key: Key,
        mut response: Response,
        peer: SocketAddr,
    ) {
        // Who asks without it must not be answered with it (RFC 7641 2).
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
        states.splice(0..0, new.filter(fits));
        self.put(key, states, notified);
    }

    /// Takes a 2.03: the state that it names, with its options updated, is the current one again.
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
            // It must name one (RFC 7252 5.9.1.3); where there was but one, it is clear which.
            (None, [only]) => only,
            (None, _) => return None,
        };
        let response = updated(&stored.response, valid);
        self.insert(now, epoch, key, response.clone(), peer);
        Some(response)
    }

    /// Something has changed this resource: what is kept of it must be validated (RFC 7252
    /// 5.9.1.1, 5.9.1.2, 5.9.1.4).
    pub(super) fn invalidate(&mut self, target: &Target) {
        self.changes += 1;
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
            states.retain(|stored| stored.tag().is_some());
            for stored in &mut states {
                stored.fresh_until = None;
            }
            self.put(key, states, notified);
        }
    }

    /// Whether a response may be kept, and how long it is fresh.
    ///
    /// By RFC 7252 5.9, 2.05 may, and all errors; of these, only those are kept here that say for
    /// how long: with the default of 60 s, a failure of a moment would last a minute. 2.01, 2.02
    /// and 2.04 may not, and unknown codes of success must not (5.6).
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
        // What was on its way while something was changed may be of the state before.
        let fresh = !age.is_zero() && epoch.changes == self.changes;
        let stored = Stored {
            response,
            peer,
            fresh_until: fresh.then(|| now + age.into()),
        };
        let useful = fresh || stored.tag().is_some();
        (may_be_kept && useful).then_some(stored)
    }

    /// Takes out what is kept for a request.
    fn take(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&entry.used);
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// Puts in what is to be kept for a request, as used last, and makes room.
    fn put(&mut self, key: Key, mut states: Vec<Stored>, notified: u64) {
        states.truncate(STATES);
        let size = |states: &[Stored]| {
            let all: usize = states.iter().map(Stored::bytes).sum();
            key.bytes() + all
        };
        while size(&states) > self.limits.bytes && states.pop().is_some() {}
        if states.is_empty() {
            return;
        }
        self.uses += 1;
        let (used, bytes) = (self.uses, size(&states));
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
    }
}

/// A stored response after a 2.03: its age is the new one, and options that are safe to forward
/// are replaced by those that came (RFC 7252 5.9.1.3).
fn updated(stored: &Response, valid: &Response) -> Response {
    let mut response = stored.clone();
    response.options.remove(OptionNumber::MAX_AGE);
    let mut last = None;
    for option in &valid.options {
        let number = option.number;
        if number.is_unsafe_to_forward() && number != OptionNumber::MAX_AGE {
            continue;
        }
        if last != Some(number) {
            response.options.remove(number);
        }
        last = Some(number);
        if response.options.push(number, option.value).is_err() {
            // More than any message carries; what there is of them counts.
            break;
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Duration;
    use carob_proto::codec::{ContentFormat, Options};

    use super::*;

    const PLENTY: CacheLimits = CacheLimits {
        entries: 100,
        bytes: 100_000,
    };

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    fn peer() -> SocketAddr {
        ([127, 0, 0, 1], 5683).into()
    }

    fn target(path: &str) -> (Target, Options) {
        let mut options = Options::new();
        options
            .push(OptionNumber::URI_PATH, path.as_bytes())
            .unwrap();
        (Target::new("coap://h:5683", &options), options)
    }

    fn key(path: &str) -> Key {
        let (target, options) = target(path);
        Key::new(target, Code::GET, &options, b"").unwrap()
    }

    fn content(text: &str) -> Response {
        Response::content(ContentFormat::TEXT_PLAIN, text.to_owned())
    }

    fn secs(secs: u64) -> core::time::Duration {
        core::time::Duration::from_secs(secs)
    }

    impl Cache {
        fn keep(&mut self, now: u64, path: &str, response: Response) {
            let epoch = self.epoch();
            self.insert(at(now), epoch, key(path), response, peer());
        }

        /// The text that is fresh and for how long; or the tags to be validated.
        fn look(&mut self, now: u64, path: &str) -> Result<(String, u64), Vec<ETag>> {
            match self.find(at(now), &key(path), false) {
                Found::Fresh(response, _) => {
                    let text = String::from_utf8_lossy(response.bytes()).into_owned();
                    Ok((text, response.max_age().as_secs()))
                }
                Found::Stale(states) => Err(states.iter().filter_map(Stored::tag).collect()),
            }
        }

        /// What a 2.03 makes of the states that are stale.
        fn hear_valid(&mut self, now: u64, path: &str, valid: &Response) -> Option<Response> {
            let (epoch, key) = (self.epoch(), key(path));
            let Found::Stale(states) = self.find(at(now), &key, true) else {
                panic!("it was to be reloaded")
            };
            self.validate(at(now), epoch, key, &states, valid, peer())
        }

        fn check(&self) {
            let bytes: usize = self.entries.values().map(|entry| entry.bytes).sum();
            assert_eq!(self.bytes, bytes);
            assert_eq!(self.by_use.len(), self.entries.len());
            assert!(self.bytes <= self.limits.bytes && self.entries.len() <= self.limits.entries);
        }
    }

    #[test]
    fn a_response_is_fresh_as_long_as_it_says_or_60_s() {
        let mut cache = Cache::new(PLENTY);
        cache.keep(100, "a", content("a"));
        cache.keep(100, "b", content("b").with_max_age(secs(5)));
        assert_eq!(cache.look(100, "a"), Ok(("a".into(), 60)));
        assert_eq!(cache.look(105, "b"), Ok(("b".into(), 0)));
        assert_eq!(cache.look(106, "b"), Err(vec![]));
        assert_eq!(cache.look(160, "a"), Ok(("a".into(), 0)));
        assert_eq!(cache.look(161, "a"), Err(vec![]));
        assert_eq!(cache.look(100, "c"), Err(vec![]));
    }

    #[test]
    fn a_max_age_of_zero_keeps_it_for_validation_only() {
        let mut cache = Cache::new(PLENTY);
        cache.keep(0, "a", content("a").with_max_age(secs(0)));
        assert_eq!(cache.look(0, "a"), Err(vec![]));
        assert!(cache.entries.is_empty(), "nothing could validate it");
        cache.keep(
            0,
            "a",
            content("a").with_max_age(secs(0)).with_etag(7.into()),
        );
        assert_eq!(cache.look(0, "a"), Err(vec![7.into()]));
    }

    #[test]
    fn codes_are_kept_as_rfc_7252_5_9_allows() {
        let mut cache = Cache::new(PLENTY);
        let aged = |code| Response::new(code).with_max_age(secs(9)).with_payload("x");
        for code in [
            Code::CREATED,
            Code::DELETED,
            Code::CHANGED,
            Code::CONTINUE,
            Code(0x5e),
        ] {
            cache.keep(0, "a", aged(code));
            assert_eq!(cache.look(0, "a"), Err(vec![]), "{code:?}");
        }
        for code in [
            Code::NOT_FOUND,
            Code::SERVICE_UNAVAILABLE,
            Code::TOO_MANY_REQUESTS,
        ] {
            cache.keep(0, "a", aged(code).with_etag(7.into()));
            assert_eq!(cache.look(9, "a"), Ok(("x".into(), 0)), "{code:?}");
            assert_eq!(cache.look(10, "a"), Err(vec![]), "errors are not validated");
            cache.keep(0, "b", Response::new(code));
            assert_eq!(cache.look(0, "b"), Err(vec![]), "no age, so not kept");
        }
    }

    #[test]
    fn a_2_03_makes_the_state_it_names_fresh_again_and_updates_its_options() {
        let mut cache = Cache::new(PLENTY);
        let note = OptionNumber(65_004);
        let (safe, unsafe_one) = (note, OptionNumber(65_002));
        assert!(!safe.is_unsafe_to_forward() && unsafe_one.is_unsafe_to_forward());
        let mut first = content("one").with_etag(1.into()).with_max_age(secs(5));
        first.options.push(safe, b"old").unwrap();
        first.options.push(safe, b"older").unwrap();
        cache.keep(0, "a", first);
        let mut valid = Response::new(Code::VALID).with_etag(1.into());
        valid.options.push(safe, b"new").unwrap();
        valid.options.push(unsafe_one, b"x").unwrap();
        let now = cache.hear_valid(10, "a", &valid).unwrap();
        assert_eq!((now.code, &now.bytes()[..]), (Code::CONTENT, &b"one"[..]));
        assert_eq!(
            now.format(),
            Some(ContentFormat::TEXT_PLAIN),
            "not named, so as it was"
        );
        assert!(now.options.values(safe).eq([b"new"]));
        assert!(!now.options.contains(unsafe_one));
        assert_eq!(
            cache.look(70, "a"),
            Ok(("one".into(), 0)),
            "60 s, as nothing was said"
        );
        cache.check();
    }

    #[test]
    fn earlier_states_are_found_valid_again_and_the_oldest_is_forgotten() {
        let mut cache = Cache::new(PLENTY);
        for state in 0..6_u64 {
            let response = content(&state.to_string()).with_etag(state.into());
            cache.keep(state, "a", response.with_max_age(secs(0)));
        }
        let tags = [5, 4, 3, 2].map(ETag::from).to_vec();
        assert_eq!(cache.look(9, "a"), Err(tags));
        let valid = Response::new(Code::VALID).with_etag(3.into());
        assert_eq!(cache.hear_valid(9, "a", &valid).unwrap().bytes(), "3");
        assert_eq!(cache.look(9, "a"), Ok(("3".into(), 60)));
        let tags = [3, 5, 4, 2].map(ETag::from).to_vec();
        assert_eq!(cache.look(99, "a"), Err(tags));
        cache.check();
    }

    #[test]
    fn a_2_03_that_names_nothing_we_have_validates_nothing() {
        let mut cache = Cache::new(PLENTY);
        cache.keep(0, "a", content("a").with_etag(1.into()));
        let other = Response::new(Code::VALID).with_etag(9.into());
        assert_eq!(cache.hear_valid(99, "a", &other), None);
        let nameless = Response::new(Code::VALID);
        assert!(
            cache.hear_valid(99, "a", &nameless).is_some(),
            "there is but one"
        );
        cache.keep(99, "a", content("b").with_etag(2.into()));
        assert_eq!(
            cache.hear_valid(99, "a", &nameless),
            None,
            "it may be either"
        );
    }

    #[test]
    fn a_state_that_is_forgotten_meanwhile_can_still_be_validated() {
        let mut cache = Cache::new(CacheLimits {
            entries: 1,
            ..PLENTY
        });
        cache.keep(
            0,
            "a",
            content("a").with_etag(1.into()).with_max_age(secs(0)),
        );
        let Found::Stale(states) = cache.find(at(1), &key("a"), false) else {
            panic!("it is stale")
        };
        cache.keep(1, "b", content("b"));
        assert_eq!(cache.look(1, "a"), Err(vec![]));
        let (epoch, valid) = (
            cache.epoch(),
            Response::new(Code::VALID).with_etag(1.into()),
        );
        let found = cache.validate(at(2), epoch, key("a"), &states, &valid, peer());
        assert_eq!(found.unwrap().bytes(), "a");
    }

    #[test]
    fn a_change_makes_all_that_is_kept_of_the_target_stale_and_nothing_else() {
        let mut cache = Cache::new(PLENTY);
        let (target_a, mut options) = target("a");
        options.push_uint(OptionNumber::ACCEPT, 50).unwrap();
        let json = Key::new(target_a.clone(), Code::GET, &options, b"").unwrap();
        let fetch = Key::new(target_a.clone(), Code::FETCH, &options, b"q").unwrap();
        for key in [json.clone(), fetch.clone()] {
            let epoch = cache.epoch();
            cache.insert(at(0), epoch, key, content("a").with_etag(1.into()), peer());
        }
        cache.keep(0, "a", content("a"));
        cache.keep(0, "b", content("b"));
        cache.keep(0, "", content("root"));
        cache.invalidate(&target_a);
        for key in [json, fetch] {
            let found = cache.find(at(0), &key, false);
            assert!(matches!(found, Found::Stale(states) if states.len() == 1));
        }
        assert_eq!(
            cache.look(0, "a"),
            Err(vec![]),
            "it has no tag, so it is of no use"
        );
        assert_eq!(cache.look(0, "b"), Ok(("b".into(), 60)));
        assert_eq!(cache.look(0, ""), Ok(("root".into(), 60)));
        cache.check();
    }

    #[test]
    fn what_was_under_way_during_a_change_is_not_taken_for_fresh() {
        let mut cache = Cache::new(PLENTY);
        let epoch = cache.epoch();
        cache.invalidate(&target("a").0);
        cache.insert(
            at(0),
            epoch,
            key("a"),
            content("old").with_etag(1.into()),
            peer(),
        );
        assert_eq!(cache.look(0, "a"), Err(vec![1.into()]));
        cache.insert(at(0), epoch, key("a"), content("old"), peer());
        assert_eq!(cache.look(0, "a"), Err(vec![1.into()]));
    }

    #[test]
    fn a_new_response_takes_the_place_of_a_fresh_one() {
        let mut cache = Cache::new(PLENTY);
        cache.keep(0, "a", content("old").with_etag(1.into()));
        assert!(
            matches!(cache.find(at(0), &key("a"), true), Found::Stale(states) if states.len() == 1)
        );
        cache.keep(1, "a", content("new"));
        assert_eq!(cache.look(1, "a"), Ok(("new".into(), 60)));
        cache.keep(1, "a", Response::new(Code::NOT_FOUND));
        assert_eq!(cache.look(1, "a"), Err(vec![1.into()]));
    }

    #[test]
    fn what_an_observation_tells_is_kept_without_its_number() {
        let mut cache = Cache::new(PLENTY);
        let told = |text: &str| {
            let mut response = content(text);
            response
                .options
                .push_uint(OptionNumber::OBSERVE, 7)
                .unwrap();
            response
        };
        cache.notify(at(100), key("a"), told("one"), peer());
        let Found::Fresh(found, _) = cache.find(at(160), &key("a"), false) else {
            panic!("it is fresh for 60 s")
        };
        assert!(!found.options.contains(OptionNumber::OBSERVE));
        // A change makes it stale; what is told after that is fresh.
        cache.invalidate(&target("a").0);
        assert_eq!(cache.look(160, "a"), Err(vec![]));
        cache.notify(at(161), key("a"), told("two"), peer());
        assert_eq!(cache.look(161, "a"), Ok(("two".into(), 60)));
        cache.notify(at(162), key("a"), Response::new(Code::NOT_FOUND), peer());
        assert_eq!(cache.look(162, "a"), Err(vec![]), "the last word");
        cache.check();
    }

    #[test]
    fn a_notification_is_not_replaced_by_what_was_asked_for_before_it_came() {
        let mut cache = Cache::new(PLENTY);
        cache.keep(0, "a", content("zero"));
        let epoch = cache.epoch();
        cache.notify(at(1), key("a"), content("new"), peer());
        cache.insert(at(2), epoch, key("a"), content("old"), peer());
        assert_eq!(cache.look(2, "a"), Ok(("new".into(), 59)));
        cache.keep(3, "a", content("newest"));
        assert_eq!(cache.look(3, "a"), Ok(("newest".into(), 60)));
        // Of another request, nothing was told.
        cache.insert(at(3), epoch, key("b"), content("b"), peer());
        assert!(cache.look(3, "b").is_ok());
        cache.check();
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let mut cache = Cache::new(CacheLimits {
            entries: 3,
            ..PLENTY
        });
        for path in ["a", "b", "c"] {
            cache.keep(0, path, content(path));
        }
        assert!(cache.look(0, "a").is_ok());
        cache.keep(0, "d", content("d"));
        let kept = ["a", "b", "c", "d"].map(|path| cache.look(0, path).is_ok());
        assert_eq!(kept, [true, false, true, true]);
        cache.check();
    }

    #[test]
    fn bytes_are_bounded_whatever_comes() {
        let limits = CacheLimits {
            entries: 1_000,
            bytes: 10_000,
        };
        let mut cache = Cache::new(limits);
        for n in 0..2_000_u64 {
            let body = "x".repeat((n * 37 % 4_001) as usize);
            let path = (n * 7 % 31).to_string();
            cache.keep(n, &path, content(&body).with_etag(n.into()));
            cache.check();
        }
        assert!(
            cache.bytes > limits.bytes / 2,
            "room is used: {}",
            cache.bytes
        );
        cache.keep(0, "large", content(&"x".repeat(10_000)));
        assert_eq!(cache.look(0, "large"), Err(vec![]), "too large to be kept");
        assert!(
            cache.bytes > limits.bytes / 2,
            "and nothing was dropped for it"
        );
        let mut none = Cache::new(CacheLimits {
            entries: 0,
            bytes: 0,
        });
        none.keep(0, "a", content("a"));
        assert_eq!(none.look(0, "a"), Err(vec![]));
    }
}
