//! `/.well-known/core`: the links of this server (RFC 6690 4).

use bytes::Bytes;
use carob_proto::codec::{Code, ContentFormat, ETag, OptionNumber};
use carob_proto::link_format::{LinkWriter, matching};
use carob_proto::message::{Payload, Response};

use super::router::Route;
use super::{Request, Resource};

/// Path of the link list (RFC 6690 7.1).
pub(super) const PATH: &str = "/.well-known/core";

/// The links of the listed resources at literal paths. A link leads to one resource, so a path with
/// parameters has none.
pub(super) fn links<'r>(routes: impl Iterator<Item = &'r Route>) -> String {
    let mut writer = LinkWriter::new();
    for Route { pattern, resource } in routes {
        if let Some(path) = pattern.literals().filter(|_| resource.is_listed()) {
            resource.describe(writer.path(path));
        }
    }
    writer.finish()
}

/// Serves a list: all of it, or the links that the query asks for (RFC 6690 4.1).
///
/// No match is 2.05 with an empty list, as libcoap has it: the list without links is a list, and
/// RFC 6690 4.1 wants silence in answer to groups only, which are not served here.
pub(super) fn resource(links: String) -> Resource {
    let links = Bytes::from(links);
    let list = move |request: Request| {
        let links = links.clone();
        async move { answer(&links, &request) }
    };
    Resource::new()
        .get_as(ContentFormat::LINK_FORMAT, list)
        .unlisted()
}

fn answer(links: &Bytes, request: &Request) -> Response {
    let query: Vec<&[u8]> = request.options().values(OptionNumber::URI_QUERY).collect();
    let mut response = Response::new(Code::CONTENT);
    // The same query gives the same list, so the engine need not cache it for later blocks.
    response.payload = Payload::Fixed(match core::str::from_utf8(links) {
        Ok(text) if !query.is_empty() => {
            let mut writer = LinkWriter::new();
            for link in matching(text, query.iter().copied()) {
                writer.copy(&link);
            }
            writer.finish().into()
        }
        _ => links.clone(),
    });
    let tag = ETag::of(response.bytes());
    response.with_etag(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::pattern::Pattern;
    use crate::server::{Notifier, Resource, fixed, get};

    fn listed(path: &str, resource: Resource) -> String {
        let route = Route {
            pattern: Pattern::parse(path).unwrap().into(),
            resource,
        };
        links([route].iter())
    }

    #[test]
    fn obs_attribute_occurs_once_without_a_value() {
        let changes = Notifier::new();
        let resource = || get(|_| async { "x" });
        let all = [
            resource().observable(&changes),
            resource().flag("obs"),
            resource().attribute("obs", "1").flag("OBS").flag("obs"),
            resource().attribute("obs", "1").observable(&changes),
        ];
        for resource in all {
            assert_eq!(listed("/a", resource), "</a>;obs");
        }
        assert_eq!(listed("/a", resource()), "</a>");
    }

    #[test]
    fn the_list_names_every_resource_with_its_attributes() {
        let hello = fixed("world")
            .attribute("title", "a \"greeting\"")
            .flag("obs");
        let slow = get(|_| async { "x" }).attribute("ct", "0 50");
        let hidden = fixed("").unlisted();
        let own = fixed("world").attribute("sz", "9");
        let all = [
            ("/hello", hello),
            ("/a b", slow),
            ("/hidden", hidden),
            ("/own", own),
            ("/many/{x}", fixed("x")),
        ];
        let all = all.map(|(path, resource)| Route {
            pattern: Pattern::parse(path).unwrap().into(),
            resource,
        });
        assert_eq!(
            links(all.iter()),
            "</hello>;title=\"a \\\"greeting\\\"\";obs;ct=0;sz=5,\
             </a%20b>;ct=\"0 50\",</own>;sz=9;ct=0"
        );
    }
}
