//! Methods, conditional requests and resource discovery (RFC 6690).

use carob::Code;

use crate::interop::bench::{Bench, SMALL, assert_same};
use crate::interop::requests::Ask;

pub(crate) fn get(bench: &Bench) {
    let answer = bench.succeed(&Ask::get(bench.server.paths.hello));
    let length = answer.payload.len();
    assert!(length >= 32, "only {length} bytes");
}

pub(crate) fn put(bench: &Bench) {
    bench.store(SMALL);
    bench.assert_stored(SMALL);
    bench.store(b"replaced");
    bench.assert_stored(b"replaced");
}

pub(crate) fn post(bench: &Bench) {
    let paths = bench.server.paths;
    if let Some(echo) = paths.echo {
        let answer = bench.succeed(&Ask::post(echo).payload(SMALL));
        assert_same(&answer.payload, SMALL);
    } else {
        bench.succeed(&Ask::post(paths.store).payload(SMALL));
        bench.assert_stored(SMALL);
    }
}

pub(crate) fn delete(bench: &Bench) {
    let path = bench.server.paths.store;
    bench.store(SMALL);
    bench.succeed(&Ask::delete(path));
    bench.refuse(&Ask::get(path), "4.04");
    assert_eq!(bench.server.stored(), None, "the file is still there");
}

/// RFC 8132 2: FETCH has a body and the same responses as GET.
pub(crate) fn fetch(bench: &Bench) {
    let echo = bench.server.paths.echo.expect("offered with /echo only");
    let answer = bench.succeed(&Ask::new(Code::FETCH, echo).payload(SMALL));
    assert_same(&answer.payload, SMALL);
}

/// RFC 8132 3: PATCH is not idempotent; each request has an effect.
pub(crate) fn patch(bench: &Bench) {
    assert_patched(bench, Code::PATCH, &[SMALL, SMALL].concat());
}

/// RFC 8132 3: iPATCH is idempotent; a second request changes nothing.
pub(crate) fn ipatch(bench: &Bench) {
    assert_patched(bench, Code::IPATCH, SMALL);
}

/// Sends the patch twice. Without a stored representation, only the response is checked.
fn assert_patched(bench: &Bench, method: Code, expected: &[u8]) {
    if let Some(path) = bench.server.paths.patch {
        for _ in 0..2 {
            bench.succeed(&Ask::new(method, path).payload(SMALL));
        }
        let answer = bench.ask_directly(&Ask::get(path));
        assert_same(&answer.payload, expected);
    } else {
        let echo = bench.server.paths.echo.expect("offered with either only");
        let answer = bench.succeed(&Ask::new(method, echo).payload(SMALL));
        assert_same(&answer.payload, SMALL);
    }
}

/// RFC 7252 5.10.4: the requested format, or 4.06.
pub(crate) fn accept(bench: &Bench) {
    const CBOR: u16 = 60;
    const JSON: u16 = 50;
    let (path, json) = bench.negotiable();
    let answer = bench.succeed(&Ask::get(path).accept(JSON));
    assert_same(&answer.payload, json);
    bench.refuse(&Ask::get(path).accept(CBOR), "4.06");
}

/// RFC 7252 5.10.8.2: If-None-Match.
pub(crate) fn if_none_match(bench: &Bench) {
    let put = Ask::put(bench.server.paths.store).if_none_match();
    bench.succeed(&put.clone().payload(SMALL));
    bench.assert_stored(SMALL);
    bench.refuse(&put.payload(b"too late"), "4.12");
    bench.assert_stored(SMALL);
}

/// RFC 7252 5.10.8.1: If-Match.
pub(crate) fn if_match(bench: &Bench) {
    let path = bench.server.paths.store;
    let put = Ask::put(path).payload(SMALL);
    // The empty value matches any representation; none exists yet.
    bench.refuse(&put.clone().if_match(b""), "4.12");
    bench.store(b"first");
    let first = bench.etag(path);
    bench.refuse(&put.clone().if_match(b"other"), "4.12");
    bench.assert_stored(b"first");
    bench.succeed(&put.clone().if_match(&first));
    bench.assert_stored(SMALL);
    bench.refuse(&Ask::delete(path).if_match(&first), "4.12");
    bench.assert_stored(SMALL);
}

/// RFC 7252 5.10.6.2: 2.03 without a payload while the entity tag matches.
pub(crate) fn validate(bench: &Bench) {
    let path = bench.server.paths.store;
    bench.store(SMALL);
    let first = bench.etag(path);
    let get = Ask::get(path);
    let same = bench.ask(&get.clone().etag(&first));
    assert!(same.succeeded_with("2.03"), "{}", same.said);
    assert_same(&same.payload, b"");
    bench.store(b"another state");
    let other = bench.ask(&get.clone().etag(&first));
    assert!(other.succeeded_with("2.05"), "{}", other.said);
    assert_same(&other.payload, b"another state");
}

/// RFC 6690 4.1: filters by one attribute, whose value may end in an asterisk.
pub(crate) fn filter(bench: &Bench) {
    let (filter, expected) = bench.server.paths.filter;
    let all = bench.discover(None);
    let found = bench.discover(Some(filter));
    assert_eq!(targets(&found), expected, "{found}");
    assert!(
        targets(&all).len() > expected.len(),
        "nothing was left out: {all}"
    );
}

/// Link targets in alphabetical order.
fn targets(links: &str) -> Vec<&str> {
    let mut targets: Vec<_> = links
        .split('<')
        .skip(1)
        .filter_map(|rest| rest.split('>').next())
        .collect();
    targets.sort_unstable();
    targets
}
