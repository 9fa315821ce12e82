//! From a path to its resource, and the list of all (RFC 6690).

use core::fmt::Write as _;
use std::cell::RefCell;
use std::sync::Arc;

use carob_proto::codec::{ContentFormat, MessageView, OptionNumber};
use carob_proto::endpoint::Delivery;
use carob_proto::message::Response;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{Resource, resource};

/// Resources by path.
#[derive(Debug)]
pub(crate) struct Router {
    /// By the path's segments, each with its length before it.
    table: HashMap<Box<[u8]>, usize, FixedState>,
    resources: Vec<(Vec<String>, Resource)>,
    fallback: Option<Resource>,
}

impl Default for Router {
    fn default() -> Self {
        // Paths are the application's; nobody else can make them collide.
        let table = HashMap::with_hasher(FixedState::default());
        Self {
            table,
            resources: Vec::new(),
            fallback: None,
        }
    }
}

impl Router {
    /// Adds a segment of a path to the key it is looked up by.
    pub(crate) fn push_segment(key: &mut Vec<u8>, segment: &[u8]) {
        // Lengths keep "a/b" as one segment apart from "a" and "b".
        key.extend_from_slice(&(segment.len() as u16).to_be_bytes());
        key.extend_from_slice(segment);
    }

    pub(crate) fn add(&mut self, path: &str, resource: Resource) {
        let segments: Vec<String> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(str::to_owned)
            .collect();
        let mut key = Vec::new();
        for segment in &segments {
            Self::push_segment(&mut key, segment.as_bytes());
        }
        if let Some(&place) = self.table.get(key.as_slice()) {
            self.resources[place].1 = resource;
        } else {
            self.table.insert(key.into(), self.resources.len());
            self.resources.push((segments, resource));
        }
    }

    pub(crate) fn set_fallback(&mut self, resource: Resource) {
        self.fallback = Some(resource);
    }

    /// The resource at a path. The root has no segments, or a single empty one.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&Resource> {
        let key = if key == [0, 0] { &[] } else { key };
        match self.table.get(key) {
            Some(&place) => Some(&self.resources[place].1),
            None => self.fallback.as_ref(),
        }
    }

    pub(crate) fn has_uploads(&self) -> bool {
        let all = self
            .resources
            .iter()
            .map(|(_, resource)| resource)
            .chain(&self.fallback);
        all.into_iter().any(Resource::has_uploads)
    }

    /// The engine's question, whether a body is wanted block by block, answered.
    pub(crate) fn delivery(
        self: &Arc<Self>,
    ) -> impl Fn(&MessageView<'_>) -> Delivery + Send + 'static {
        let (router, key) = (Arc::clone(self), RefCell::new(Vec::new()));
        move |message| {
            let mut key = key.borrow_mut();
            key.clear();
            for segment in message.values(OptionNumber::URI_PATH) {
                Self::push_segment(&mut key, segment);
            }
            match router.find(&key) {
                Some(resource) if resource.uploads(message.code()) => Delivery::Streamed,
                _ => Delivery::Atomic,
            }
        }
    }

    /// Adds `/.well-known/core`, unless it is there.
    pub(crate) fn list(&mut self) {
        const PATH: &str = "/.well-known/core";
        if self
            .resources
            .iter()
            .any(|(path, _)| path.as_slice() == [".well-known", "core"])
        {
            return;
        }
        let links = Response::content(ContentFormat::LINK_FORMAT, self.links());
        self.add(PATH, resource::fixed(links).unlisted());
    }

    /// All listed resources in the link format (RFC 6690 2).
    fn links(&self) -> String {
        let mut links = String::new();
        for (segments, resource) in &self.resources {
            let Some(attributes) = resource.link_attributes() else {
                continue;
            };
            if !links.is_empty() {
                links.push(',');
            }
            links.push('<');
            if segments.is_empty() {
                links.push('/');
            }
            for segment in segments {
                links.push('/');
                push_encoded(&mut links, segment);
            }
            links.push('>');
            for (name, value) in attributes {
                let number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
                let written = if number {
                    write!(links, ";{name}={value}")
                } else {
                    write!(links, ";{name}=\"{quoted}\"")
                };
                debug_assert!(written.is_ok(), "writing to a string does not fail");
            }
        }
        links
    }
}

/// Percent-encodes what is not unreserved in a URI (RFC 3986 2.3).
fn push_encoded(text: &mut String, segment: &str) {
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(byte.into());
        } else {
            let written = write!(text, "%{byte:02X}");
            debug_assert!(written.is_ok(), "writing to a string does not fail");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{fixed, get};

    fn key(segments: &[&str]) -> Vec<u8> {
        let mut key = Vec::new();
        for segment in segments {
            Router::push_segment(&mut key, segment.as_bytes());
        }
        key
    }

    #[test]
    fn a_path_finds_its_resource_and_no_other() {
        let mut router = Router::default();
        router.add("/a/b", fixed("one"));
        router.add("/", fixed("root"));
        assert!(router.find(&key(&["a", "b"])).is_some());
        assert!(router.find(&key(&["a"])).is_none());
        assert!(
            router.find(&key(&["a/b"])).is_none(),
            "a slash within a segment"
        );
        assert!(router.find(&key(&[])).is_some());
        assert!(
            router.find(&key(&[""])).is_some(),
            "the root written as an empty segment"
        );
    }

    #[test]
    fn the_list_names_every_resource_with_its_attributes() {
        let mut router = Router::default();
        router.add(
            "/hello",
            fixed("world").attribute("title", "a \"greeting\""),
        );
        router.add("/a b", get(|_| async { "x" }));
        router.add("/hidden", fixed("").unlisted());
        assert_eq!(
            router.links(),
            "</hello>;title=\"a \\\"greeting\\\"\";ct=0;sz=5,</a%20b>"
        );
    }
}
