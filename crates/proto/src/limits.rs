//! Resource limits of an endpoint: each with its name, its default, and the behaviour at the limit,
//! in one place. Programs with configurable limits read [`Limits::ALL`].

use crate::tables::quota::QuotaPolicy;

/// A limit, for configuration by name.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The name, as in [`Limits`].
    pub name: &'static str,
    /// The quantity limited, and the behaviour at the limit.
    pub about: &'static [&'static str],
    /// Reads its value.
    pub get: fn(&Limits) -> usize,
    /// Sets its value.
    pub set: fn(&mut Limits, usize),
}

impl Limit {
    /// Returns the default value.
    pub fn default(&self) -> usize {
        (self.get)(&Limits::default())
    }
}

macro_rules! limits {
    ($($(#[doc = $about:literal])+ $name:ident: $default:expr,)+) => {
        /// Limits of an endpoint's tables, each with the behaviour at the limit.
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
            /// All limits, in the order of the documentation.
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
    /// Bytes of the longest token in a received request, 8 to 1024. Beyond it: 4.00, and over a
    /// connection, whose CSM announces the limit, Abort (RFC 8974 2.2).
    ///
    /// 64 bytes suffice for a client, or a proxy, that keeps the state of a request in its token:
    /// an IPv6 address, a port, a token and Message ID of its own client's, a time, a number and a
    /// MAC.
    token_bytes: 64,
    /// Peers whose support of tokens longer than 8 bytes is known. At the limit, the oldest entry is
    /// evicted and its peer tested again.
    token_peers: 4_096,
    /// Peers that messages originate to. At the limit, the least recently used is evicted, unvalidated
    /// ones first. If all are in use or were sent to within EXCHANGE_LIFETIME, new requests fail
    /// with `PeersFull`.
    peers: 65_536,
    /// Requests of this endpoint in progress or waiting, all peers together. At the limit: `RequestsFull`.
    requests: 65_536,
    /// Messages waiting for one peer. At the limit: `QueueFull`.
    queue: 1_024,
    /// Received requests without a response yet. At the limit, CON requests are answered 5.03 and NON
    /// requests dropped.
    incoming: 16_384,
    /// Bytes of those requests. At the limit, CON requests are answered 5.03 and NON requests dropped.
    incoming_bytes: 64 << 20,
    /// Separate responses waiting to be sent or acknowledged. At the limit, further ones are sent once as
    /// NON and not kept; over a connection they are dropped.
    responses: 65_536,
    /// Idempotent messages kept to detect duplicates. At the limit, the oldest is evicted.
    dedup_idempotent: 16_384,
    /// Non-idempotent messages kept to detect duplicates. At the limit, new ones are answered 5.03. Up to
    /// half of it also holds the last blocks of request bodies; beyond that they count as
    /// idempotent.
    dedup_non_idempotent: 65_536,
    /// Request bodies being received block by block. At the limit, new ones are answered 5.03.
    uploads: 1_024,
    /// Bytes of one request body. Beyond it: 4.13 with the limit in Size1.
    upload_bytes: 16 << 20,
    /// Bytes of all request bodies, from their first block until their response; a Q-Block1 block ahead of
    /// a missing one counts 96 bytes more. Beyond it: 5.03.
    all_upload_bytes: 64 << 20,
    /// Response bodies cached while peers read them. At the limit, the least recently used is evicted.
    bodies: 1_024,
    /// Bytes of all those bodies. At the limit, the least recently used is evicted.
    body_bytes: 64 << 20,
    /// Bytes of a response body reassembled for the application. Beyond it the request fails with
    /// `TooLarge`; larger bodies can be streamed.
    download_bytes: 64 << 20,
    /// Blocks of one body in flight at most, regardless of the controller.
    blocks_in_flight: 64,
    /// Blocks of one Q-Block body received ahead of a missing one. Beyond it, blocks are ignored, and
    /// requested again later.
    blocks_ahead: 2_048,
    /// Results of Q-Block1 bodies kept for repeated blocks. At the limit, the oldest is evicted, and a
    /// repeated block of its body begins another.
    q_block_results: 256,
    /// Peers known to support Q-Block, or to lack it. At the limit, the oldest entry is evicted and its
    /// peer tested again.
    q_block_peers: 4_096,
    /// Observers of this endpoint's resources, all peers together. At the limit, a registration gets the
    /// representation but no notifications (RFC 7641 4.1).
    observers: 32_768,
    /// Observations of this endpoint's resources by one peer. At the limit, a registration gets the
    /// representation but no notifications.
    observers_of_peer: 256,
    /// Bytes of the requests of observers, equal ones counted once, and of their tokens longer than
    /// 8 bytes. At the limit, a registration gets the representation but no notifications.
    observer_bytes: 16 << 20,
    /// With [`NotificationQueue::Queue`](crate::endpoint::NotificationQueue::Queue), notifications
    /// queued for one peer, at least 1. At the limit, a new one is dropped.
    notifications_of_peer: 10,
    /// With [`NotificationQueue::Queue`](crate::endpoint::NotificationQueue::Queue), notifications
    /// queued, all peers together. At the limit, a new one is dropped unless its peer's queue is empty.
    notifications: 1_000,
    /// Validated addresses. At the limit, the least recently used is evicted and must be validated again.
    validated: 16_384,
    /// Resources paused after a 4.29 of their server, all peers together. At the limit, expired entries
    /// are evicted; a further resource is not paused.
    pauses: 1_024,
    /// Responses to multicast requests waiting for their random delay. At the limit, others are not sent.
    delayed_responses: 1_024,
    /// Responses to one multicast request of this endpoint. At the limit, further ones are dropped.
    multicast_responses: 4_096,
    /// Connections, where peers are connections. At the limit, the least recently used is closed; if all
    /// are in use, a new one is refused. On Linux drivers lower it to what RLIMIT_NOFILE leaves
    /// after a reserve of a quarter.
    connections: 16_384,
    /// Bytes of incomplete messages on all connections. At the limit, the connection whose message would
    /// exceed it is aborted.
    partial_bytes: 64 << 20,
    /// Bytes waiting to be written on all connections. Beyond it, drivers that track them end
    /// connections: first closed ones still being written to, then those above an equal share.
    unsent_bytes: 64 << 20,
    /// Percent of a shared table that one source may hold: of received requests, separate responses,
    /// non-idempotent messages, bodies in both directions, results of Q-Block1 bodies, observations,
    /// connections and their incomplete messages; in a server, of handlers and handshakes, too. At the limit, the source is treated as at
    /// the table's limit. 100: all of it.
    source_share: 50,
    /// Bits of an IPv6 address that identify a source; of IPv4 addresses, all do, and the port
    /// never does.
    source_prefix: 64,
    /// Percent of a shared table open to unvalidated addresses: of received requests,
    /// non-idempotent messages, bodies being received, observations and, in a server, handlers.
    /// Above it they are challenged first (4.01 with Echo), regardless of the anti-amplification
    /// limit; and no peer or response is kept for them. 100: all of it.
    unvalidated_share: 75,
    /// Requests per second of one source, in the long run. Beyond it: 4.29 with Max-Age, at up to
    /// the same rate, and silence beyond that; to NON requests, silence. 0: any number.
    request_rate: 0,
    /// Requests of one source at once, before its rate counts.
    request_burst: 1_000,
    /// Sources with rate limit state. At the limit, the least recently used is evicted, unvalidated ones
    /// first.
    sources: 16_384,
    /// Seconds of Max-Age in a 5.03, randomized up to twice as many, so that clients rejected
    /// together do not retry together.
    retry_after: 5,
}

impl Limits {
    /// Returns the limit of this name.
    pub fn named(name: &str) -> Option<&'static Limit> {
        Self::ALL.iter().find(|limit| limit.name == name)
    }
}

/// The policy of the tables that sources share.
impl From<&Limits> for QuotaPolicy {
    fn from(limits: &Limits) -> Self {
        Self {
            of_source: limits.source_share.min(100) as u8,
            of_unvalidated: limits.unvalidated_share.min(100) as u8,
            prefix: limits.source_prefix.min(128) as u8,
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
