//! The resources named in the test descriptions.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use carob::link_format::LinkWriter;
use carob::server::{Notifier, Refusal, Request, Resource, ServerBuilder, fixed, get};
use carob::{Code, ContentFormat, Response};

use super::observed::{Observed, Ticking};
use super::stored::{Content, Stored};

/// Processing time of `/separate`: longer than servers delay an acknowledgement.
const SEPARATE: Duration = Duration::from_millis(600);
/// Length of `/large`: 20 blocks of 64 bytes.
const LARGE_BYTES: usize = 1_280;
const LINE_BYTES: usize = 64;
/// Resources created by POST to `/large-create`. At the limit, the oldest is removed.
const CREATED: usize = 64;

/// Adds all resources. Observable ones change every `tick` until the second value is dropped.
pub(crate) fn all(builder: ServerBuilder, tick: Duration) -> (ServerBuilder, Ticking) {
    let mut ticking = Ticking::new();
    let text = |text: &'static str| Some(Content::text(text));
    let created = Stored::new(None);
    let test = Stored::new(text("a resource to be tested")).resource();
    let builder = builder
        .resource("/test", create_by_post(test, &created))
        .resource("/location1/location2/location3", created.resource())
        .resource("/seg1/seg2/seg3", fixed("three segments down"))
        .resource("/query", get(query))
        .resource("/separate", get(separate))
        .resource("/location-query", Resource::new().post(location_query))
        .resource("/multi-format", multi_format())
        .resource("/validate", Stored::new(text("at first, this")).resource())
        .resource("/create1", Stored::new(None).resource())
        .resource("/large", large())
        .resource(
            "/large-update",
            Stored::new(Some(Content::text(lines(LARGE_BYTES)))).resource(),
        )
        .resource("/large-post", Resource::new().post(upper_case));
    let builder = large_create(links(builder));
    (observable(builder, tick, &mut ticking), ticking)
}

/// Adds POST to `/test`, which creates another resource.
fn create_by_post(test: Resource, created: &Stored) -> Resource {
    let created = created.clone();
    test.post(move |request: Request| {
        created.set(Content::of(&request));
        let response = Response::new(Code::CREATED);
        ready(located(
            response.with_location_path("location1/location2/location3"),
        ))
    })
}

/// The literal locations here always fit.
fn located<E>(response: Result<Response, E>) -> Result<Response, Refusal> {
    response.map_err(|_| Refusal::internal_server_error("the location does not fit"))
}

/// Returns the query arguments, one per line.
async fn query(request: Request) -> String {
    let arguments: Vec<_> = request.query().map(String::from_utf8_lossy).collect();
    format!("asked for:\n{}", arguments.join("\n"))
}

async fn separate(_: Request) -> &'static str {
    tokio::time::sleep(SEPARATE).await;
    "sorry for the delay"
}

async fn location_query(_: Request) -> Result<Response, Refusal> {
    let response = Response::new(Code::CREATED).with_location_query("first=1");
    located(response.and_then(|response| response.with_location_query("second=2")))
}

fn multi_format() -> Resource {
    Resource::new()
        .fixed_as(ContentFormat::TEXT_PLAIN, "in words")
        .fixed_as(ContentFormat::XML, "<in>marks</in>")
        .fixed_as(ContentFormat::JSON, "{\"in\":\"objects\"}")
        .fixed_as(
            ContentFormat::CBOR,
            Bytes::from_static(b"\xa1\x62in\x65bytes"),
        )
}

/// Text of `bytes` bytes whose lines contain their number.
fn lines(bytes: usize) -> String {
    let width = LINE_BYTES - 1;
    let numbered = (0..bytes / LINE_BYTES).map(|i| format!("{:<width$}\n", format!("line {i}")));
    numbered.collect()
}

fn large() -> Resource {
    fixed(lines(LARGE_BYTES)).attribute("rt", "block")
}

/// Returns the payload in capitals, so that the response is as long as the request.
async fn upper_case(request: Request) -> Result<Response, Refusal> {
    let text = std::str::from_utf8(request.payload())?.to_uppercase();
    let mut response = Content::text(text).response();
    response.code = Code::CHANGED;
    Ok(response)
}

/// Adds `/large-create`, where POST creates `/large-create/N`.
fn large_create(builder: ServerBuilder) -> ServerBuilder {
    #[derive(Default)]
    struct Created {
        count: u64,
        newest: VecDeque<(u64, Content)>,
    }
    let created = Arc::new(Mutex::new(Created::default()));
    let there = Arc::clone(&created);
    let create = move |request: Request| {
        let mut created = created.lock().unwrap_or_else(PoisonError::into_inner);
        created.count += 1;
        let number = created.count;
        if created.newest.len() == CREATED {
            created.newest.pop_front();
        }
        created.newest.push_back((number, Content::of(&request)));
        let path = format!("large-create/{number}");
        ready(located(
            Response::new(Code::CREATED).with_location_path(&path),
        ))
    };
    let read = move |request: Request| {
        let there = there.lock().unwrap_or_else(PoisonError::into_inner);
        let named = request.parameter("number").and_then(|n| n.parse().ok());
        let mut newest = there.newest.iter();
        let found = newest.find(|(number, _)| Some(*number) == named);
        let answer = found.map(|(_, content)| content.response());
        ready(answer.ok_or_else(|| Refusal::not_found("not created yet, or forgotten")))
    };
    builder
        .resource("/large-create", Resource::new().post(create))
        .resource("/large-create/{number}", get(read))
}

/// Resources for link format cases: overlapping resource types and interfaces, and a collection that lists its members.
fn links(builder: ServerBuilder) -> ServerBuilder {
    let mut builder = builder;
    for (path, types, interface) in [
        ("/link1", "Type1 Type2", "If1"),
        ("/link2", "Type2 Type3", "If2"),
        ("/link3", "Type1 Type3", "foo"),
    ] {
        let link = get(|_: Request| ready("a target of links"));
        let link = link.attribute("rt", types).attribute("if", interface);
        builder = builder.resource(path, link);
    }
    let members = ["/path/sub1", "/path/sub2", "/path/sub3"];
    let mut list = LinkWriter::new();
    for path in members {
        list.path(path.split('/').skip(1)).attribute("if", "sub");
        let member = get(move |_: Request| ready(path)).unlisted();
        builder = builder.resource(path, member);
    }
    let collection = Response::new(Code::CONTENT).with_payload(Bytes::from(list.finish()));
    let collection = collection.with_format(ContentFormat::LINK_FORMAT);
    builder.resource("/path", fixed(collection))
}

fn observable(builder: ServerBuilder, tick: Duration, ticking: &mut Ticking) -> ServerBuilder {
    let confirmable = |show| Observed::new(Notifier::confirmable(), tick, show);
    let unconfirmed = Observed::new(Notifier::new(), tick, short);
    builder
        .resource("/obs", confirmable(short).resource(ticking))
        .resource("/obs-non", unconfirmed.resource(ticking))
        .resource("/obs-large", confirmable(long).resource(ticking))
        .resource("/obs-pumping", confirmable(pumping).resource(ticking))
}

fn short(ticks: u64) -> String {
    format!("tick {ticks}")
}

/// Slightly more than four blocks of 64 bytes, all different after each tick.
fn long(ticks: u64) -> String {
    let line = format!("tick {ticks} ");
    line.repeat(270 / line.len())
}

/// Alternates between one block and several.
fn pumping(ticks: u64) -> String {
    if ticks.is_multiple_of(2) {
        short(ticks)
    } else {
        long(ticks)
    }
}
