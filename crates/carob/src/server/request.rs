//! A request as a handler gets it.

use std::net::SocketAddr;

use bytes::Bytes;
use carob_proto::blockwise::Wanted;
use carob_proto::codec::{Code, ContentFormat, OptionNumber, Options};

/// A request received.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) method: Code,
    pub(crate) options: Options,
    pub(crate) payload: Bytes,
    pub(crate) peer: SocketAddr,
    pub(crate) wanted: Wanted,
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

    /// The path's segments, as sent: they may hold anything, `..` and `/` included.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.options.values(OptionNumber::URI_PATH)
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

    /// The part of the response's body that is asked for, for handlers that answer with
    /// [`Payload::Part`](crate::Payload::Part). A handler that gives the whole need not look.
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }
}
