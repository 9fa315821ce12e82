//! What nothing may exceed: every limit of an endpoint with its name, its default, and what happens at
//! it, written once. Programs that let their users set limits read [`Limits::ALL`].

use crate::shares::Sharing;

/// A limit, for those who set limits by their names.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Its name, as in [`Limits`].
    pub name: &'static str,
    /// What it limits, and what happens at it.
    pub about: &'static [&'static str],
    /// Its value in these limits.
    pub get: fn(&Limits) -> usize,
    /// Gives it another.
    pub set: fn(&mut Limits, usize),
}

impl Limit {
    /// Its default.
    pub fn default(&self) -> usize {
        (self.get)(&Limits::default())
    }
}

macro_rules! limits {
    ($($(#[doc = $about:literal])+ $name:ident: $default:expr,)+) => {
        /// Limits of an endpoint's tables, each with what happens at it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Limits {
            $($(#[doc = $about])+ pub $name: usize,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        impl Limits {
            /// All of them, in the order in which they are documented.
            pub const ALL: &'static [Limit] = &[
                $(Limit {
                    name: stringify!($name),
                    about: &[$($about),+],
                    get: |limits| limits.$name,
                    set: |limits, value| limits.$name = value,
                },)+
            ];
        }
    };
}

limits! {
    /// Bytes of the longest token that a request may have, 8 to 1024. Beyond it: 4.00, and over a
    /// connection, whose CSM has said so, Abort (RFC 8974 2.2).
    ///
    /// 64 is room for a client, or a proxy, that keeps the state of a request in its token: an IPv6
    /// address, a port, a token and Message ID of its own client's, a time, a number and a MAC.
    token_bytes: 64,
    /// Peers of which it is remembered whether they take tokens longer than 8 bytes. At it, the one
    /// found out about first is forgotten, and tried again.
    token_peers: 4_096,
    /// Peers we originate messages to. At it, the one sent to longest ago makes room, first of those
    /// that have not shown where they are; if all are in use or were sent to within
    /// EXCHANGE_LIFETIME, new requests fail with `PeersFull`.
    peers: 65_536,
    /// Requests of our own under way or waiting, all peers together. At it: `RequestsFull`.
    requests: 65_536,
    /// Messages waiting for one peer. At it: `QueueFull`.
    queue: 1_024,
    /// Requests received and not yet answered. At it, CON requests are answered 5.03 and NON
    /// requests dropped.
    incoming: 16_384,
    /// Bytes of those requests. Likewise.
    incoming_bytes: 64 << 20,
    /// Responses in messages of their own that wait to be sent or acknowledged. At it, further ones
    /// are sent once and not kept, as NON; over a connection they are dropped.
    responses: 65_536,
    /// Repeatable messages remembered for duplicates. At it, the oldest is forgotten.
    recent: 16_384,
    /// Unrepeatable messages remembered for duplicates. At it, new ones are answered 5.03. Up to half of
    /// it also remembers the last blocks of request bodies; beyond that they are among the repeatable.
    lasting: 65_536,
    /// Request bodies being received block by block. At it, new ones are answered 5.03.
    uploads: 1_024,
    /// Bytes of one request body. Beyond it: 4.13 with the limit in Size1.
    upload_bytes: 16 << 20,
    /// Bytes of all request bodies, from their first block until they are answered. Beyond it: 5.03.
    all_upload_bytes: 64 << 20,
    /// Response bodies kept while peers read them. At it, the one used longest ago is forgotten.
    bodies: 1_024,
    /// Bytes of all those bodies. At it, likewise.
    body_bytes: 64 << 20,
    /// Bytes of a response body put together for the application. Beyond it the request fails
    /// with `TooLarge`; read larger bodies as a stream.
    download_bytes: 64 << 20,
    /// Blocks of one body in flight at most, whatever the controller allows.
    blocks_in_flight: 64,
    /// Observations of our resources, all peers together. At it, who asks for another gets the
    /// resource's state and no notifications (RFC 7641 4.1).
    observers: 32_768,
    /// Observations of our resources by one peer. At it, likewise.
    observers_of_peer: 256,
    /// Bytes of the requests by which resources are observed, those that are alike counted once, and
    /// of their tokens longer than 8 bytes. At it, likewise.
    observer_bytes: 16 << 20,
    /// With [`NotificationQueue::Queue`](super::NotificationQueue::Queue), notifications that wait for
    /// one peer, at least 1. At it, a new one is dropped.
    notifications_of_peer: 10,
    /// With [`NotificationQueue::Queue`](super::NotificationQueue::Queue), notifications that wait, all
    /// peers together. Likewise, but for a peer for which none waits.
    notifications: 1_000,
    /// Sources that have shown that they are where they say they are. At it, the one used longest ago
    /// must show it again.
    validated: 16_384,
    /// Resources that are not asked for because their server has had too many requests (4.29), all
    /// peers together. At it, those whose time is over are forgotten; a further one is asked for as
    /// before.
    pauses: 1_024,
    /// Responses to requests to groups that wait for their moment. At it, others are not sent.
    leisurely: 1_024,
    /// Responses to one request of ours to a group. At it, further ones are dropped.
    gathered: 4_096,
    /// Connections, where peers are such. At it, the one unused longest is closed; if all are in
    /// use, a new one is refused. On Linux drivers lower it to what RLIMIT_NOFILE leaves after a reserve
    /// of a quarter.
    connections: 16_384,
    /// Bytes of incomplete messages on all connections. At it, the connection whose message would
    /// exceed it is aborted.
    partial_bytes: 64 << 20,
    /// Bytes that wait to be written on all connections. Beyond it, drivers that know end connections:
    /// first those that were closed and are still written to, then those that hold more than an equal
    /// part.
    unsent_bytes: 64 << 20,
    /// Percent of a shared table that one source may hold: of requests received, unrepeatable
    /// messages, bodies in both directions, observations, connections and their incomplete messages;
    /// in a server, of handlers and handshakes, too. At it, that source meets what all meet at the
    /// table's limit. 100: all of it.
    source_share: 50,
    /// Bits of an IPv6 address that make a source; of IPv4 addresses, all do, and of neither the port.
    source_prefix: 64,
    /// Percent of a shared table that is open to sources that have not shown where they are: of
    /// requests received, unrepeatable messages, bodies being received, observations and, in a server,
    /// handlers. Above it they are challenged first (4.01 with Echo), whatever the amplification limit
    /// says; and of peers and responses, none is kept for them. 100: all of it.
    unvalidated_share: 75,
    /// Requests a second of one source, in the long run. Beyond it: 4.29 with Max-Age, as often as
    /// requests are allowed, and silence beyond that; to NON requests, silence. 0: any number.
    request_rate: 0,
    /// Requests of one source at once, before its rate counts.
    request_burst: 1_000,
    /// Sources whose rates are remembered. At it, the one heard of longest ago is forgotten, first of
    /// those that have not shown where they are.
    sources: 16_384,
    /// Seconds after which it is worth trying again after a 5.03, as Max-Age says; up to twice as many,
    /// so that those refused at once do not come back at once.
    retry_after: 5,
}

impl Limits {
    /// The limit of this name.
    pub fn named(name: &str) -> Option<&'static Limit> {
        Self::ALL.iter().find(|limit| limit.name == name)
    }

    /// How tables are shared.
    pub fn sharing(&self) -> Sharing {
        Sharing {
            of_source: self.source_share.min(100) as u8,
            of_unvalidated: self.unvalidated_share.min(100) as u8,
            prefix: self.source_prefix.min(128) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_and_set_by_its_name() {
        let mut limits = Limits::default();
        for (n, limit) in Limits::ALL.iter().enumerate() {
            assert_eq!((limit.get)(&limits), limit.default(), "{}", limit.name);
            (limit.set)(&mut limits, n);
            assert_eq!((limit.get)(&limits), n, "{}", limit.name);
            assert!(!limit.about.is_empty());
        }
        let named = Limits::named("observers").expect("it is one");
        assert_eq!(named.default(), Limits::default().observers);
        assert!(Limits::named("observer").is_none());
    }
}
