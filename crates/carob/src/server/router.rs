//! From a path to its resource.

use std::cell::RefCell;
use std::sync::Arc;

use carob_proto::codec::{MessageView, OptionNumber};
use carob_proto::endpoint::Delivery;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{Resource, discovery};
use crate::error::OpenError;

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

    /// Makes it ready to serve: checks it, and adds `/.well-known/core` unless that is there.
    pub(crate) fn finish(&mut self) -> Result<(), OpenError> {
        for (segments, resource) in &self.resources {
            if let Some(name) = resource.bad_attribute() {
                let path = segments.iter().flat_map(|segment| ["/", segment]).collect();
                let problem = format!("\"{name}\" cannot be the name of an attribute");
                return Err(OpenError::Resource { path, problem });
            }
        }
        let own = |path: &[String]| path == [".well-known", "core"];
        if !self.resources.iter().any(|(path, _)| own(path)) {
            let links = discovery::links(
                self.resources
                    .iter()
                    .map(|(segments, resource)| (segments.as_slice(), resource)),
            );
            self.add(discovery::PATH, discovery::resource(links));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::fixed;

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
}
