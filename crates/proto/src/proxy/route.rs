//! Routes of a reverse-proxy: its paths and their origins'.

use alloc::string::String;
use alloc::vec::Vec;

use super::Refused;
use crate::codec::{OptionNumber, Options, OptionsError, Uri};

/// A path prefix of a reverse proxy, and its origin server (RFC 7252 5.7.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The segments of the path prefix.
    pub prefix: Vec<String>,
    /// The URI that replaces the prefix.
    pub origin: Uri,
}

impl Route {
    /// The segments of the origin's own path, without the empty one at the end of `coap://h/a/`.
    fn base(&self) -> impl Iterator<Item = &str> + Clone {
        let segments: Vec<&str> = self.origin.path().collect();
        let length = match segments.last() {
            Some(&"") => segments.len() - 1,
            _ => segments.len(),
        };
        segments.into_iter().take(length)
    }

    /// Returns the URI at the origin for a request.
    ///
    /// # Errors
    ///
    /// [`Refused::Malformed`] if path or query cannot be part of a URI.
    pub fn target(&self, request: &Options) -> Result<Uri, Refused> {
        let rest = request
            .values(OptionNumber::URI_PATH)
            .skip(self.prefix.len());
        let query = request.values(OptionNumber::URI_QUERY);
        let joined = self.origin.below(rest, query);
        joined.map_err(|_| Refused::Malformed(OptionNumber::URI_PATH))
    }

    /// Translates Location-* options to this side; a location elsewhere is removed (RFC 7252
    /// 5.10.7).
    ///
    /// # Errors
    ///
    /// [`OptionsError`] if the options become too large.
    pub fn locate(&self, response: &mut Options) -> Result<(), OptionsError> {
        if !response.contains(OptionNumber::LOCATION_PATH) {
            return Ok(());
        }
        let path: Vec<Vec<u8>> = response
            .values(OptionNumber::LOCATION_PATH)
            .map(<[u8]>::to_vec)
            .collect();
        response.remove(OptionNumber::LOCATION_PATH);
        let base: Vec<&str> = self.base().collect();
        let within = base.len() <= path.len()
            && base
                .iter()
                .zip(&path)
                .all(|(own, there)| own.as_bytes() == there.as_slice());
        if !within {
            response.remove(OptionNumber::LOCATION_QUERY);
            return Ok(());
        }
        let prefix = self.prefix.iter().map(String::as_bytes);
        let rest = path.iter().skip(base.len()).map(Vec::as_slice);
        for segment in prefix.chain(rest) {
            response.push(OptionNumber::LOCATION_PATH, segment)?;
        }
        Ok(())
    }

    /// Returns the path on this side of a target in the origin's list of links (RFC 6690). `None`
    /// outside the route; an absolute URI is unchanged.
    pub fn link(&self, target: &str) -> Option<String> {
        let Some(path) = target.strip_prefix('/') else {
            return target.contains("://").then(|| target.into());
        };
        let mut base = String::new();
        for segment in self.base() {
            base.push_str(segment);
            base.push('/');
        }
        let mut link = String::new();
        for segment in &self.prefix {
            link.push('/');
            link.push_str(segment);
        }
        let rest = match path.strip_prefix(base.as_str()) {
            Some(rest) => rest,
            None if base.strip_suffix('/') == Some(path) => "",
            None => return None,
        };
        if !rest.is_empty() || link.is_empty() {
            link.push('/');
            link.push_str(rest);
        }
        Some(link)
    }
}
