//! TD_COAP_LINK: discovery (RFC 6690).

use carob::link_format::{Link, Links};
use carob::{Code, OptionNumber};

use crate::plugtest::bench::{Bench, Setup, Start};
use crate::plugtest::clients::Ask;

const CORE: &str = "/.well-known/core";
const LINK_FORMAT: u32 = 40;

/// Requests a list of links; returns the application's result.
async fn list(bench: &Bench, path: &str) -> String {
    let before = bench.wire().exchanges().len();
    let answer = bench.ask(&Ask::get(path)).await;
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
async fn filtered(start: &Start, query: &str) -> String {
    let bench = start.bench(Setup::PLAIN).await;
    list(&bench, &format!("{CORE}?{query}")).await
}

pub(super) async fn all(start: &Start) {
    let bench = start.bench(Setup::PLAIN).await;
    let text = list(&bench, CORE).await;
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

pub(super) async fn of_type(start: &Start) {
    let text = filtered(start, "rt=Type1").await;
    assert_eq!(targets(&links(&text)), ["/link1", "/link3"]);
}

pub(super) async fn with_type(start: &Start) {
    let text = filtered(start, "rt=*").await;
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

pub(super) async fn one_of_two_types(start: &Start) {
    let text = filtered(start, "rt=Type2").await;
    let links = links(&text);
    assert_eq!(targets(&links), ["/link1", "/link2"]);
    assert!(
        links.iter().all(|link| words(link, "rt").len() == 2),
        "{text}"
    );
}

pub(super) async fn interface_prefix(start: &Start) {
    let text = filtered(start, "if=If*").await;
    assert_eq!(targets(&links(&text)), ["/link1", "/link2"]);
}

pub(super) async fn with_size(start: &Start) {
    let text = filtered(start, "sz=*").await;
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

pub(super) async fn target(start: &Start) {
    let text = filtered(start, "href=/link1").await;
    assert_eq!(targets(&links(&text)), ["/link1"]);
}

pub(super) async fn target_prefix(start: &Start) {
    let text = filtered(start, "href=/link*").await;
    assert_eq!(targets(&links(&text)), ["/link1", "/link2", "/link3"]);
}

pub(super) async fn hierarchy(start: &Start) {
    let bench = start.bench(Setup::PLAIN).await;
    let text = list(&bench, CORE).await;
    let all = links(&text);
    let collection = all.iter().find(|link| link.target() == "/path");
    assert_eq!(words(collection.expect("/path"), "ct"), ["40"]);
    let text = list(&bench, "/path").await;
    let members = ["/path/sub1", "/path/sub2", "/path/sub3"];
    assert!(
        members
            .iter()
            .all(|path| targets(&links(&text)).contains(path))
    );
    let member = bench.ask(&Ask::get(members[0])).await;
    assert_eq!((&*member.code, member.text()), ("2.05", members[0]));
}
