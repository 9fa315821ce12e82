//! Routes from paths to resources.
//!
//! Paths without parameters are looked up in a hash table; all others in a tree of segments.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use carob_proto::codec::{Code, MessageView, OptionNumber, Options, Uri};
use carob_proto::endpoint::Delivery;
use carob_proto::message::Response;
use carob_proto::proxy::{self, Refused};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::pattern::{Pattern, Segment};
use super::{Notifier, Resource, discovery};
use crate::error::OpenError;

/// Resources by path.
#[derive(Debug)]
pub(crate) struct Router {
    /// Literal paths: their segments, each with its length before it.
    table: HashMap<Box<[u8]>, usize, FixedState>,
    tree: Tree,
    routes: Vec<Route>,
    fallback: Option<Route>,
    forward: Option<Forward>,
    /// Invalid paths, and their problems.
    problems: Vec<(String, String)>,
}

/// The requests that a proxy forwards.
pub(crate) struct Forward {
    /// The route of requests with Proxy-Uri or Proxy-Scheme; `None` for a pure reverse-proxy.
    route: Option<Route>,
    /// Decides whether a URI leads to this server.
    is_own: Box<dyn Fn(&Uri) -> bool + Send + Sync>,
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forward").finish_non_exhaustive()
    }
}

/// The destination of a request for a proxy.
#[derive(Debug)]
pub(crate) enum ForwardTarget<'r> {
    /// This server, for the resource of this URI.
    Own(Uri),
    Elsewhere(&'r Route),
}

static NO_PROXY: LazyLock<Response> = LazyLock::new(|| {
    let text = "this server does not forward to other hosts";
    Response::diagnostic(Code::PROXYING_NOT_SUPPORTED, text)
});

impl Forward {
    pub(crate) fn new(
        resource: Option<Resource>,
        is_own: impl Fn(&Uri) -> bool + Send + Sync + 'static,
    ) -> Self {
        let route = resource.map(|resource| Route {
            pattern: Arc::new(Pattern::anything()),
            resource,
        });
        Self {
            route,
            is_own: Box::new(is_own),
        }
    }

    /// Finds the destination of a request received at `local`; `None` if it is not for a proxy.
    /// Error: the response to a request without a destination.
    pub(crate) fn asked(
        &self,
        message: &MessageView<'_>,
        local: SocketAddr,
    ) -> Result<Option<ForwardTarget<'_>>, Box<Response>> {
        let for_proxy = [OptionNumber::PROXY_URI, OptionNumber::PROXY_SCHEME];
        if !for_proxy
            .iter()
            .any(|number| message.option(*number).is_some())
        {
            return Ok(None);
        }
        let options = Options::from_view(message)
            .map_err(|error| Box::new(Refused::from(error).response("")))?;
        match proxy::requested(&options, local) {
            Ok(Some(uri)) if (self.is_own)(&uri) => Ok(Some(ForwardTarget::Own(uri))),
            Ok(_) => match &self.route {
                Some(route) => Ok(Some(ForwardTarget::Elsewhere(route))),
                None => Err(Box::new(NO_PROXY.clone())),
            },
            Err(refused) => Err(Box::new(refused.response(""))),
        }
    }
}

/// A resource and its path.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) pattern: Arc<Pattern>,
    pub(crate) resource: Resource,
}

impl Default for Router {
    fn default() -> Self {
        // Paths are chosen by the application, so hashing needs no secret.
        let table = HashMap::with_hasher(FixedState::default());
        Self {
            table,
            tree: Tree::default(),
            routes: Vec::new(),
            fallback: None,
            forward: None,
            problems: Vec::new(),
        }
    }
}

impl Router {
    /// Adds a segment of a path to the key it is looked up by.
    pub(crate) fn push_segment(key: &mut Vec<u8>, segment: &[u8]) {
        // Lengths distinguish the segment "a/b" from "a" and "b".
        key.extend_from_slice(&(segment.len() as u16).to_be_bytes());
        key.extend_from_slice(segment);
    }

    pub(crate) fn add(&mut self, path: &str, resource: Resource) {
        let pattern = match Pattern::parse(path) {
            Ok(pattern) => Arc::new(pattern),
            Err(problem) => return self.problems.push((path.to_owned(), problem)),
        };
        let next = self.routes.len();
        let place = match pattern.literals() {
            Some(segments) => {
                let mut key = Vec::new();
                for segment in segments {
                    Self::push_segment(&mut key, segment.as_bytes());
                }
                *self.table.entry(key.into()).or_insert(next)
            }
            None => self.tree.add(pattern.segments(), next),
        };
        let route = Route { pattern, resource };
        match self.routes.get_mut(place) {
            // The last of two routes with one path counts.
            Some(taken) => *taken = route,
            None => self.routes.push(route),
        }
    }

    pub(crate) fn set_fallback(&mut self, resource: Resource) {
        let pattern = Arc::new(Pattern::anything());
        self.fallback = Some(Route { pattern, resource });
    }

    pub(crate) fn set_forward(&mut self, forward: Forward) {
        self.forward = Some(forward);
    }

    /// The forwarding rule, if this is a proxy.
    pub(crate) fn forward(&self) -> Option<&Forward> {
        self.forward.as_ref()
    }

    /// Finds the route of a path: a literal one before one with a parameter, that before a rest,
    /// from the first segment on; then the fallback. The root has no segments, or a single empty
    /// one.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&Route> {
        // A single empty segment is the root, like no segment (RFC 7252 6.5).
        let key = if key == [0, 0] { &[] } else { key };
        match self.table.get(key).copied().or_else(|| self.tree.find(key)) {
            Some(place) => self.routes.get(place),
            None => self.fallback.as_ref(),
        }
    }

    /// The notifiers of all resources.
    pub(crate) fn notifiers(&self) -> impl Iterator<Item = &Notifier> {
        let all = self.routes.iter().chain(&self.fallback);
        all.filter_map(|route| route.resource.notifier())
    }

    pub(crate) fn has_uploads(&self) -> bool {
        let mut all = self.routes.iter().chain(&self.fallback);
        all.any(|route| route.resource.has_uploads())
    }

    /// Decides for the engine whether a body is delivered whole or streamed.
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
                Some(route) if route.resource.uploads(message.code()) => Delivery::Streamed,
                _ => Delivery::Atomic,
            }
        }
    }

    /// Validates the routes, and adds `/.well-known/core` unless it exists.
    pub(crate) fn finish(&mut self) -> Result<(), OpenError> {
        if let Some((path, problem)) = self.problems.pop() {
            return Err(OpenError::Resource { path, problem });
        }
        for Route { pattern, resource } in &self.routes {
            if let Some(name) = resource.bad_attribute() {
                let path = pattern.to_string();
                let problem = format!("\"{name}\" cannot be the name of an attribute");
                return Err(OpenError::Resource { path, problem });
            }
        }
        let own = |route: &Route| route.pattern.to_string() == discovery::PATH;
        if !self.routes.iter().any(own) {
            let links = discovery::links(self.routes.iter());
            self.add(discovery::PATH, discovery::resource(links));
        }
        Ok(())
    }
}

/// Paths with parameters, segment by segment.
#[derive(Debug)]
struct Tree {
    /// The first is the root.
    nodes: Vec<Node>,
}

/// A path prefix: its next segments, and the routes that end here.
#[derive(Debug, Default)]
struct Node {
    literals: BTreeMap<Box<[u8]>, usize>,
    parameter: Option<usize>,
    /// The route of all further segments.
    rest: Option<usize>,
    /// The route that ends here.
    route: Option<usize>,
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
        }
    }
}

impl Tree {
    /// Adds a path unless one that matches the same is there; the route of either.
    fn add(&mut self, segments: &[Segment], route: usize) -> usize {
        let mut at = 0;
        for segment in segments {
            let new = self.nodes.len();
            let node = &mut self.nodes[at];
            at = match segment {
                Segment::Literal(text) => {
                    *node.literals.entry(text.as_bytes().into()).or_insert(new)
                }
                Segment::Parameter(_) => *node.parameter.get_or_insert(new),
                Segment::Rest => return *node.rest.get_or_insert(route),
            };
            if at == new {
                self.nodes.push(Node::default());
            }
        }
        *self.nodes[at].route.get_or_insert(route)
    }

    fn find(&self, key: &[u8]) -> Option<usize> {
        self.find_below(0, key)
    }

    /// Recursive search. The depth is bounded by the longest route, and no node is visited twice.
    fn find_below(&self, at: usize, key: &[u8]) -> Option<usize> {
        let node = self.nodes.get(at)?;
        let Some((segment, after)) = split(key) else {
            return node.route.or(node.rest);
        };
        let literal = || self.find_below(*node.literals.get(segment)?, after);
        let parameter = || {
            let named = !segment.is_empty() && core::str::from_utf8(segment).is_ok();
            self.find_below(node.parameter.filter(|_| named)?, after)
        };
        // The most specific route first; the walk is as deep as the longest pattern.
        literal().or_else(parameter).or(node.rest)
    }
}

/// The first segment of a key, and the others.
fn split(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = key.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::fixed;

    fn key(path: &str) -> Vec<u8> {
        let mut key = Vec::new();
        for segment in path.split('/').skip(1) {
            Router::push_segment(&mut key, segment.as_bytes());
        }
        key
    }

    /// A router for these paths, and the one that answers.
    fn router(paths: &[&str]) -> impl Fn(&str) -> Option<String> {
        let mut router = Router::default();
        for path in paths {
            router.add(path, fixed("x"));
        }
        assert!(router.problems.is_empty());
        move |path| {
            router
                .find(&key(path))
                .map(|route| route.pattern.to_string())
        }
    }

    #[test]
    fn a_path_finds_its_resource_and_no_other() {
        let mut router = Router::default();
        router.add("/a/b", fixed("one"));
        router.add("/", fixed("root"));
        assert!(router.find(&key("/a/b")).is_some());
        assert!(router.find(&key("/a")).is_none());
        let mut slash = Vec::new();
        Router::push_segment(&mut slash, b"a/b");
        assert!(router.find(&slash).is_none(), "a slash within a segment");
        assert!(router.find(&[]).is_some());
        assert!(
            router.find(&key("/")).is_some(),
            "the root as an empty segment"
        );
    }

    #[test]
    fn literal_wins_over_parameter_and_wildcard() {
        let find = router(&["/s/{id}", "/s/all", "/s/*", "/s/{id}/value", "/{x}/all/y"]);
        let found = |path: &str| find(path).unwrap_or_default();
        assert_eq!(found("/s/all"), "/s/all");
        assert_eq!(found("/s/7"), "/s/{id}");
        assert_eq!(found("/s/7/value"), "/s/{id}/value");
        assert_eq!(
            found("/s/all/value"),
            "/s/{id}/value",
            "the literal leads no further"
        );
        assert_eq!(found("/s/7/other"), "/s/*");
        assert_eq!(found("/s"), "/s/*", "a rest of nothing");
        assert_eq!(found("/s/"), "/s/*", "a parameter is not empty");
        assert_eq!(found("/t/all/y"), "/{x}/all/y");
        assert_eq!(found("/s/all/y"), "/s/*", "an earlier literal comes first");
        assert_eq!(find("/t/all"), None);
    }

    #[test]
    fn path_parameter_must_be_utf_8() {
        let mut router = Router::default();
        router.add("/{x}", fixed("x"));
        let mut key = Vec::new();
        Router::push_segment(&mut key, &[0xff]);
        assert!(router.find(&key).is_none());
    }

    #[test]
    fn later_route_replaces_one_with_other_parameter_names() {
        let find = router(&["/a/{x}", "/a/{y}", "/{z}/*", "/{w}/*"]);
        assert_eq!(find("/a/1").as_deref(), Some("/a/{y}"));
        assert_eq!(find("/b/1").as_deref(), Some("/{w}/*"));
    }

    #[test]
    fn root_wildcard_does_not_shadow_literals() {
        let find = router(&["/*", "/a"]);
        assert_eq!(find("/a").as_deref(), Some("/a"));
        assert_eq!(find("/").as_deref(), Some("/*"));
        assert_eq!(find("/b/c/d").as_deref(), Some("/*"));
    }
}
