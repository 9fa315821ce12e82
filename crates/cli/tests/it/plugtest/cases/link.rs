//! TD_COAP_LINK: discovery (RFC 6690).

use carob::link_format::{Link, Links};
use carob::{Code, OptionNumber};

use crate::interop::bench::Bench;
use crate::interop::requests::Ask;

const CORE: &str = "/.well-known/core";
const LINK_FORMAT: u32 = 40;

/// Requests a list of links; returns the application's result.
fn list(bench: &Bench, path: &str) -> String {
    let before = bench.wire().exchanges().len();
    let answer = bench.ask(&Ask::get(path));
    let exchanges = bench.wire().exchanges().split_off(before);
    let first = &exchanges[0];
    let query = path.split_once('?').map(|(_, query)| query.to_owned());
    let asked = first.request.texts(OptionNumber::URI_QUERY);
    assert_eq!(asked, query.into_iter().collect::<Vec<_>>());
    assert_eq!(first.response.code, Code::CONTENT);
    assert_eq!(first.response.format(), Some(LINK_FORMAT));
    assert_eq!((&*answer.code, answer.format), ("2.05", Some(LINK_FORMAT)));
    // A long list takes several blocks.
    let sent = exchanges.iter().flat_map(|e| e.response.payload.clone());
    assert_eq!(answer.payload, sent.collect::<Vec<_>>());
    answer.text().to_owned()
}

fn links(text: &str) -> Vec<Link<'_>> {
    let links: Result<Vec<_>, _> = Links::new(text).collect();
    links.expect("well-formed links")
}

fn targets<'t>(links: &[Link<'t>]) -> Vec<&'t str> {
    let mut targets: Vec<_> = links.iter().map(Link::target).collect();
    targets.sort_unstable();
    targets
}

fn words(link: &Link<'_>, attribute: &str) -> Vec<String> {
    let words = link.words(attribute);
    words.map(|word| word.to_str().into_owned()).collect()
}

/// Requests a filtered list of links.
fn filtered(bench: &Bench, query: &str) -> String {
    list(bench, &format!("{CORE}?{query}"))
}

/// A filtered list has these targets and no others.
pub(super) fn filtered_targets(bench: &Bench, query: &str, expected: &[&str]) {
    assert_eq!(targets(&links(&filtered(bench, query))), expected);
}

pub(super) fn all(bench: &Bench) {
    let text = list(bench, CORE);
    let there = targets(&links(&text)).join(" ");
    for path in [
        "/test",
        "/validate",
        "/separate",
        "/large",
        "/obs",
        "/link1",
        "/path",
    ] {
        assert!(there.split(' ').any(|t| t == path), "{path} not in {there}");
    }
}

pub(super) fn with_type(bench: &Bench) {
    let text = filtered(bench, "rt=*");
    let links = links(&text);
    assert!(
        links.iter().all(|link| !words(link, "rt").is_empty()),
        "{text}"
    );
    assert!(
        ["/link1", "/link2", "/link3", "/large", "/obs"]
            .iter()
            .all(|path| targets(&links).contains(path))
    );
}

pub(super) fn one_of_two_types(bench: &Bench) {
    let text = filtered(bench, "rt=Type2");
    let links = links(&text);
    assert_eq!(targets(&links), ["/link1", "/link2"]);
    assert!(
        links.iter().all(|link| words(link, "rt").len() == 2),
        "{text}"
    );
}

pub(super) fn with_size(bench: &Bench) {
    let text = filtered(bench, "sz=*");
    let links = links(&text);
    assert!(links.iter().all(|link| link.size().is_some()), "{text}");
    let sizes = links.iter().map(|link| (link.target(), link.size()));
    assert!(
        sizes
            .into_iter()
            .any(|large| large == ("/large", Some(1_280))),
        "{text}"
    );
    assert!(!targets(&links).contains(&"/separate"));
}

pub(super) fn hierarchy(bench: &Bench) {
    let text = list(bench, CORE);
    let all = links(&text);
    let collection = all.iter().find(|link| link.target() == "/path");
    assert_eq!(words(collection.expect("/path"), "ct"), ["40"]);
    let text = list(bench, "/path");
    let members = ["/path/sub1", "/path/sub2", "/path/sub3"];
    assert!(
        members
            .iter()
            .all(|path| targets(&links(&text)).contains(path))
    );
    let member = bench.ask(&Ask::get(members[0]));
    assert_eq!((&*member.code, member.text()), ("2.05", members[0]));
}
