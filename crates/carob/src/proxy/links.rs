//! Discovery at a reverse-proxy: the link lists of its origins, rewritten to its own paths.
//!
//! The routes alone do not show the resources behind them, so the lists are merged. An origin
//! without a response within the timeout is left out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use carob_proto::codec::{Code, ContentFormat, ETag, OptionNumber, Uri};
use carob_proto::link_format::{LinkWriter, Links, matching};
use carob_proto::message::Response;
use carob_proto::proxy::Route;
use futures_util::future::join_all;

use super::forwarder::Forwarder;
use crate::server::{Request, Resource};

/// Path of the link list (RFC 6690 7.1).
pub(super) const PATH: &str = "/.well-known/core";
/// Timeout of a request for an origin's list.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest list of an origin, in bytes; a longer one is left out.
const LIST_BYTES: usize = 64 << 10;
/// Hop-Limit of requests for lists. Among proxies that list each other, requests multiply at each
/// hop.
const HOPS: u8 = 4;
/// Longest freshness of the joint list: an origin that was left out may be back.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The merged list.
pub(super) fn resource(forwarder: Arc<Forwarder>, routes: Vec<Route>) -> Resource {
    let routes = Arc::new(routes);
    let list = move |request: Request| {
        let (forwarder, routes) = (Arc::clone(&forwarder), Arc::clone(&routes));
        async move { list(&forwarder, &routes, &request).await }
    };
    Resource::new()
        .get_as(ContentFormat::LINK_FORMAT, list)
        .unlisted()
}

async fn list(forwarder: &Forwarder, routes: &[Route], request: &Request) -> Response {
    let hops = forwarder
        .hop_limit(request.options())
        .map(|hops| hops.min(HOPS));
    // Each origin once, whatever routes lead there.
    let origin = |route: &Route| {
        let uri = &route.origin;
        format!("{}://{}:{}", uri.scheme(), uri.host(), uri.port())
    };
    let mut lists: BTreeMap<String, Option<String>> = BTreeMap::new();
    // Without hops left, the list lacks the origins' links; 5.08 (RFC 8768 3) is for
    // requests that are forwarded, and this resource is the proxy's own.
    if let Ok(hops) = hops {
        lists.extend(routes.iter().map(|route| (origin(route), None)));
        let requests = lists.iter_mut().map(|(origin, list)| async move {
            *list = fetch(forwarder, origin, hops).await;
        });
        // At once: silent origins cost one timeout together, not one each.
        join_all(requests).await;
    }
    let mut writer = LinkWriter::new();
    for route in routes {
        let list = lists.get(&origin(route)).and_then(Option::as_deref);
        let readable = |link: &Result<_, _>| link.is_ok();
        for link in Links::new(list.unwrap_or_default())
            // Behind a syntax error, nobody knows where the next link begins.
            .take_while(readable)
            .flatten()
        {
            let Some(target) = route.link(link.target()) else {
                continue;
            };
            let mut entry = writer.link(&target);
            for attribute in link.attributes() {
                entry = match attribute.value {
                    Some(value) => entry.attribute(attribute.name, &value.to_str()),
                    None => entry.flag(attribute.name),
                };
            }
        }
    }
    let text = writer.finish();
    let query: Vec<&[u8]> = request.query().collect();
    // Not at the origins, because a filter may name the proxy's targets (RFC 6690 4.1).
    let text = if query.is_empty() {
        text
    } else {
        let mut writer = LinkWriter::new();
        for link in matching(&text, query.iter().copied()) {
            writer.copy(&link);
        }
        writer.finish()
    };
    let tag = ETag::of(text.as_bytes());
    Response::content(ContentFormat::LINK_FORMAT, text)
        .with_etag(tag)
        .with_max_age(MAX_AGE)
}

/// Requests an origin's list; `None` without a usable response.
async fn fetch(forwarder: &Forwarder, origin: &str, hops: u8) -> Option<String> {
    let uri: Uri = format!("{origin}{PATH}").parse().ok()?;
    let request = forwarder
        .lists()
        .get(uri)
        .accept(ContentFormat::LINK_FORMAT)
        .uint_option(OptionNumber::HOP_LIMIT, hops.into())
        .timeout(TIMEOUT);
    let reply = request.send().await.ok()?;
    let usable = reply.code == Code::CONTENT && reply.bytes().len() <= LIST_BYTES;
    reply.text().filter(|_| usable).map(str::to_owned)
}
