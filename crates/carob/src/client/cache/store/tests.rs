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

    /// Stores a 2.03 response that validates the stale ones.
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
fn response_is_fresh_for_max_age_or_60_s() {
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
fn max_age_of_zero_permits_validation_only() {
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
fn cacheable_codes_follow_rfc_7252_5_9() {
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
fn valid_response_refreshes_named_entry_and_its_options() {
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
fn earlier_states_revalidate_and_the_oldest_is_evicted() {
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
fn unmatched_2_03_validates_nothing() {
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
fn change_invalidates_entries_of_its_target_only() {
    let mut cache = Cache::new(PLENTY);
    let (target_a, mut options) = target("a");
    options.set_uint(OptionNumber::ACCEPT, 50).unwrap();
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
fn response_to_request_before_a_change_is_not_fresh() {
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
fn new_response_replaces_a_fresh_one() {
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
fn notification_is_cached_without_observe() {
    let mut cache = Cache::new(PLENTY);
    let told = |text: &str| {
        let mut response = content(text);
        response.options.set_uint(OptionNumber::OBSERVE, 7).unwrap();
        response
    };
    cache.notify(at(100), key("a"), told("one"), peer());
    let Found::Fresh(found, _) = cache.find(at(160), &key("a"), false) else {
        panic!("it is fresh for 60 s")
    };
    assert!(!found.options.contains(OptionNumber::OBSERVE));
    // An unsafe request makes it stale; a notification after that is fresh.
    cache.invalidate(&target("a").0);
    assert_eq!(cache.look(160, "a"), Err(vec![]));
    cache.notify(at(161), key("a"), told("two"), peer());
    assert_eq!(cache.look(161, "a"), Ok(("two".into(), 60)));
    cache.notify(at(162), key("a"), Response::new(Code::NOT_FOUND), peer());
    assert_eq!(cache.look(162, "a"), Err(vec![]), "the last word");
    cache.check();
}

#[test]
fn earlier_response_does_not_replace_notification() {
    let mut cache = Cache::new(PLENTY);
    cache.keep(0, "a", content("zero"));
    let epoch = cache.epoch();
    cache.notify(at(1), key("a"), content("new"), peer());
    cache.insert(at(2), epoch, key("a"), content("old"), peer());
    assert_eq!(cache.look(2, "a"), Ok(("new".into(), 59)));
    cache.keep(3, "a", content("newest"));
    assert_eq!(cache.look(3, "a"), Ok(("newest".into(), 60)));
    // The other request received no notification.
    cache.insert(at(3), epoch, key("b"), content("b"), peer());
    assert!(cache.look(3, "b").is_ok());
    cache.check();
}

#[test]
fn least_recently_used_entry_is_evicted_first() {
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
fn cache_bytes_are_bounded() {
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
