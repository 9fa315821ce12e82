//! A request as a handler gets it.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use carob_proto::blockwise::Wanted;
use carob_proto::codec::{Code, ContentFormat, ETag, OptionNumber, Options, Scheme};

use super::{Pattern, conditions};
use crate::dtls::PeerIdentity;

/// A request received.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) method: Code,
    pub(crate) options: Options,
    pub(crate) payload: Bytes,
    pub(crate) peer: SocketAddr,
    pub(crate) scheme: Scheme,
    pub(crate) wanted: Wanted,
    pub(crate) to_group: bool,
    pub(crate) route: Arc<Pattern>,
    pub(crate) identity: Option<Arc<PeerIdentity>>,
}

impl Request {
    /// The method.
    pub fn method(&self) -> Code {
        self.method
    }

    /// All options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The whole body; empty for an upload handler, which gets it in parts.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Who asks.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// How it came: the scheme of the URIs that lead where it arrived.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Who that is, where requests come in DTLS sessions; nothing with other transports.
    pub fn peer_identity(&self) -> Option<&PeerIdentity> {
        self.identity.as_deref()
    }

    /// Whether it was sent to a group that the server is in ([`join`](super::ServerBuilder::join)).
    /// Then the response leaves at a random moment, and none does that is an error or a representation
    /// of nothing, unless the request's No-Response option says otherwise.
    pub fn is_to_group(&self) -> bool {
        self.to_group
    }

    /// The path's segments, as sent: they may hold anything, `..` and `/` included.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.options.values(OptionNumber::URI_PATH)
    }

    /// The segment that a parameter of the resource's path stands for: with `/sensors/{id}`, that
    /// of `id`. Nothing if the path has no parameter of that name.
    ///
    /// It is text, and not empty: other segments are not at this path.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let segment = self.segments().nth(self.route.place_of(name)?)?;
        core::str::from_utf8(segment).ok()
    }

    /// The segments that the `*` at the end of the resource's path stands for, as sent; all of them
    /// for [`fallback`](super::ServerBuilder::fallback), none where the path has no `*`.
    pub fn rest(&self) -> impl Iterator<Item = &[u8]> {
        self.segments().skip(self.route.before_rest())
    }

    /// The value of the query's first argument of a name: `C` if that is `unit=C` and the name
    /// `unit`. Nothing if there is none or it is not UTF-8.
    ///
    /// Options carry no percent-encoding, so there is none to undo (RFC 7252 5.10.1).
    pub fn query_value(&self, name: &str) -> Option<&str> {
        let value = self.query().find_map(|argument| {
            let after = argument.strip_prefix(name.as_bytes())?;
            after.strip_prefix(b"=")
        });
        core::str::from_utf8(value?).ok()
    }

    /// The query's arguments, such as `unit=C`.
    pub fn query(&self) -> impl Iterator<Item = &[u8]> {
        self.options.values(OptionNumber::URI_QUERY)
    }

    /// The format of the body, if told.
    pub fn format(&self) -> Option<ContentFormat> {
        let number = self.options.uint(OptionNumber::CONTENT_FORMAT)?;
        u16::try_from(number).ok().map(ContentFormat)
    }

    /// The format asked for, if any.
    pub fn accept(&self) -> Option<ContentFormat> {
        let number = self.options.uint(OptionNumber::ACCEPT)?;
        u16::try_from(number).ok().map(ContentFormat)
    }

    /// The entity tags of the representations that the client has (RFC 7252 5.10.6.2). A 2.05
    /// with one of them becomes 2.03 by itself.
    pub fn etags(&self) -> impl Iterator<Item = ETag> {
        self.options
            .values(OptionNumber::ETAG)
            .filter_map(ETag::new)
    }

    /// Checks If-Match and If-None-Match (RFC 7252 5.10.8) against a state of the resource: its entity
    /// tag, or nothing if it is not there. True for a request without these options.
    ///
    /// A handler that changes a state which others change at the same time checks again under its
    /// lock, and answers 4.12 ([`Refusal::precondition_failed`](super::Refusal::precondition_failed))
    /// if this is false.
    pub fn preconditions_hold(&self, state: Option<ETag>) -> bool {
        let is_current = |value: &[u8]| state.is_some_and(|tag| tag.as_slice() == value);
        conditions::hold(self.options.iter(), state.is_some(), is_current)
    }

    /// The part of the response's body that is asked for, for handlers that answer with
    /// [`Payload::Part`](crate::Payload::Part). A handler that gives the whole need not look.
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }
}
