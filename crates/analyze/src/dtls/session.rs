//! A session of DTLS 1.2 as far as its handshake was captured.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;

use super::secrets::{DtlsSecrets, RANDOM_BYTES};
use super::suite::{Keys, Suite};
use crate::limits::HANDSHAKE_BYTES_MAX;

/// Bytes of the header of a handshake message (RFC 6347 section 4.2.2).
const HEADER_BYTES: usize = 12;
/// Extension by which both peers use an extended master secret (RFC 7627 section 5.1).
const EXTENDED_MASTER_SECRET: u16 = 23;

/// Types of handshake messages.
mod kind {
    pub(super) const CLIENT_HELLO: u8 = 1;
    pub(super) const SERVER_HELLO: u8 = 2;
    pub(super) const HELLO_VERIFY_REQUEST: u8 = 3;
    pub(super) const SERVER_HELLO_DONE: u8 = 14;
    pub(super) const CLIENT_KEY_EXCHANGE: u8 = 16;
}

/// Reasons why the records of a session cannot be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The handshake was not captured, or not all of it.
    Handshake,
    /// Neither a key of this identity nor a line of the key log is known.
    Key,
    /// The suite has no reader.
    Suite,
}

/// A whole handshake message.
struct HandshakeMessage {
    kind: u8,
    body: Vec<u8>,
}

/// Side of the sender, and number of a handshake message.
type MessageKey = (usize, u16);

/// A message of which the first bytes were captured.
struct Partial {
    kind: u8,
    number: u16,
    length: usize,
    start: Vec<u8>,
}

/// The handshake and the keys of two peers.
pub(super) struct Session {
    pub(super) client: SocketAddr,
    client_random: [u8; RANDOM_BYTES],
    server_random: Option<[u8; RANDOM_BYTES]>,
    /// The suite; an error for one without a reader.
    suite: Option<Result<Suite, Missing>>,
    is_extended: bool,
    identity: Option<Vec<u8>>,
    /// From the last hello of the client to its key exchange.
    messages: BTreeMap<MessageKey, HandshakeMessage>,
    /// Bytes of the messages, headers included: messages may have no body.
    bytes: usize,
    partial: [Option<Partial>; 2],
    /// The keys; `None` until they are searched for.
    keys: Option<Result<Keys, Missing>>,
}

/// Fields of a message, read one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(field)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        let field = self.take(bytes)?;
        Some(field.iter().fold(0, |n, byte| n << 8 | usize::from(*byte)))
    }
}

impl Session {
    /// Begins a session with the random value of a client's hello.
    fn new(client: SocketAddr, client_random: [u8; RANDOM_BYTES]) -> Self {
        Self {
            client,
            client_random,
            server_random: None,
            suite: None,
            is_extended: false,
            identity: None,
            messages: BTreeMap::new(),
            bytes: 0,
            partial: [None, None],
            keys: None,
        }
    }

    /// The side of a sender: the client (0) or the server (1).
    pub(super) fn side(&self, from: SocketAddr) -> usize {
        usize::from(from != self.client)
    }

    /// The keys of the session.
    pub(super) fn keys(&mut self, secrets: &DtlsSecrets) -> Result<&Keys, Missing> {
        if self.keys.is_none() {
            self.keys = Some(self.derive(secrets));
            if matches!(self.keys, Some(Ok(_))) {
                self.messages = BTreeMap::new();
            }
        }
        match &self.keys {
            Some(Ok(keys)) => Ok(keys),
            Some(Err(missing)) => Err(*missing),
            None => Err(Missing::Handshake),
        }
    }

    fn derive(&self, secrets: &DtlsSecrets) -> Result<Keys, Missing> {
        let suite = self.suite.ok_or(Missing::Handshake)??;
        let server_random = self.server_random.as_ref().ok_or(Missing::Handshake)?;
        let randoms = [&self.client_random, server_random];
        if let Some(master) = secrets.master(&self.client_random) {
            return Ok(suite.keys(&master, randoms));
        }
        if !suite.is_psk {
            return Err(Missing::Key);
        }
        let identity = self.identity.as_ref().ok_or(Missing::Handshake)?;
        let key = secrets.key(identity).ok_or(Missing::Key)?;
        let transcript = if self.is_extended {
            Some(self.transcript().ok_or(Missing::Handshake)?)
        } else {
            None
        };
        let master = suite.master_of_key(key, randoms, transcript.as_deref());
        Ok(suite.keys(&master.ok_or(Missing::Key)?, randoms))
    }

    /// The messages from the hello of the client to its key exchange, as if none had been in fragments
    /// (RFC 6347 section 4.2.6). `None` if one of them was not captured.
    fn transcript(&self) -> Option<Vec<u8>> {
        let of = |side: usize| {
            let all: Vec<(u16, &HandshakeMessage)> = self
                .messages
                .range((side, 0)..=(side, u16::MAX))
                .map(|((_, number), message)| (*number, message))
                .collect();
            let mut pairs = all.windows(2);
            let is_whole = pairs.all(|pair| pair[0].0 + 1 == pair[1].0);
            is_whole.then_some(all)
        };
        let (client, server) = (of(0)?, of(1)?);
        // The hello with the cookie is the last one.
        let is_hello = |message: &(u16, &HandshakeMessage)| message.1.kind == kind::CLIENT_HELLO;
        let hello = client.iter().rposition(is_hello)?;
        let (hello, others) = client[hello..].split_first()?;
        // A certificate's proof follows the key exchange.
        let is_exchange =
            |message: &(u16, &HandshakeMessage)| message.1.kind == kind::CLIENT_KEY_EXCHANGE;
        let others = &others[..=others.iter().position(is_exchange)?];
        let is_whole = server.first()?.1.kind == kind::SERVER_HELLO
            && server.last()?.1.kind == kind::SERVER_HELLO_DONE;
        if !is_whole {
            return None;
        }
        let mut all = Vec::with_capacity(self.bytes);
        for (number, message) in [*hello]
            .into_iter()
            .chain(server)
            .chain(others.iter().copied())
        {
            let length = u32::try_from(message.body.len()).ok()?.to_be_bytes();
            all.push(message.kind);
            all.extend(&length[1..]);
            all.extend(number.to_be_bytes());
            all.extend([0; 3]);
            all.extend(&length[1..]);
            all.extend(&message.body);
        }
        Some(all)
    }

    fn see(&mut self, key: MessageKey, message: HandshakeMessage) {
        // Captures may have packets of both directions in another order: the key exchange alone is no end.
        let is_done = matches!(self.keys, Some(Ok(_)));
        let bytes = self.bytes + HEADER_BYTES + message.body.len();
        let is_full = bytes > HANDSHAKE_BYTES_MAX;
        if is_done || is_full || message.kind == kind::HELLO_VERIFY_REQUEST {
            return;
        }
        let Entry::Vacant(place) = self.messages.entry(key) else {
            return;
        };
        let message = place.insert(message);
        self.bytes = bytes;
        let mut fields = Fields(&message.body);
        match (key.0, message.kind) {
            (1, kind::SERVER_HELLO) => {
                let body = message.body.clone();
                self.server_hello(&body);
            }
            (0, kind::CLIENT_KEY_EXCHANGE) => {
                let identity = fields.number(2).and_then(|length| fields.take(length));
                self.identity = Some(identity.unwrap_or_default().to_vec());
            }
            // Other messages bring no key and no suite.
            _ if !matches!(self.keys, Some(Err(Missing::Handshake))) => return,
            _ => {}
        }
        // This message may have the missing part.
        self.keys = None;
    }

    fn server_hello(&mut self, body: &[u8]) {
        let mut fields = Fields(body);
        let read = |fields: &mut Fields<'_>| {
            fields.take(2)?;
            let random: [u8; RANDOM_BYTES] = fields.take(RANDOM_BYTES)?.try_into().ok()?;
            let session = fields.number(1)?;
            fields.take(session)?;
            let suite = fields.number(2)? as u16;
            fields.take(1)?;
            Some((random, suite))
        };
        let Some((random, suite)) = read(&mut fields) else {
            return;
        };
        self.server_random = Some(random);
        self.suite = Some(Suite::of(suite).ok_or(Missing::Suite));
        // Extensions may be left out.
        if fields.number(2).is_none() {
            return;
        }
        while let Some(number) = fields.number(2) {
            self.is_extended |= number as u16 == EXTENDED_MASTER_SECRET;
            let content = fields.number(2).and_then(|length| fields.take(length));
            if content.is_none() {
                return;
            }
        }
    }

    /// Adds a fragment; returns the message if it is whole now. Fragments that leave a gap are dropped:
    /// a retransmission has them again.
    fn assemble(&mut self, side: usize, fragment: &Fragment<'_>) -> Option<HandshakeMessage> {
        let kind = fragment.kind;
        let message = |body: Vec<u8>| HandshakeMessage { kind, body };
        if fragment.bytes.len() == fragment.length {
            return Some(message(fragment.bytes.to_vec()));
        }
        let slot = &mut self.partial[side];
        let is_same = slot.as_ref().is_some_and(|partial| {
            (partial.kind, partial.number, partial.length)
                == (fragment.kind, fragment.number, fragment.length)
        });
        if !is_same {
            if fragment.offset > 0 || fragment.length > HANDSHAKE_BYTES_MAX {
                return None;
            }
            *slot = Some(Partial {
                kind: fragment.kind,
                number: fragment.number,
                length: fragment.length,
                start: Vec::new(),
            });
        }
        let partial = slot.as_mut()?;
        let known = partial.start.len().checked_sub(fragment.offset)?;
        partial.start.extend(fragment.bytes.get(known..)?);
        if partial.start.len() < partial.length {
            return None;
        }
        let whole = slot.take()?;
        (whole.start.len() == whole.length).then(|| message(whole.start))
    }
}

/// A fragment of a handshake message.
struct Fragment<'a> {
    kind: u8,
    number: u16,
    length: usize,
    offset: usize,
    bytes: &'a [u8],
}

/// The well-formed leading fragments of a record.
fn fragments(mut record: &[u8]) -> impl Iterator<Item = Fragment<'_>> {
    std::iter::from_fn(move || {
        let (header, rest) = record.split_at_checked(HEADER_BYTES)?;
        let mut fields = Fields(header);
        let kind = fields.number(1)? as u8;
        let length = fields.number(3)?;
        let number = fields.number(2)? as u16;
        let (offset, count) = (fields.number(3)?, fields.number(3)?);
        let (bytes, rest) = rest.split_at_checked(count)?;
        if offset + count > length {
            return None;
        }
        record = rest;
        Some(Fragment {
            kind,
            number,
            length,
            offset,
            bytes,
        })
    })
}

/// Handles a handshake record that is not encrypted. A client's hello with another random value begins
/// a session in the place of the one before.
pub(super) fn handshake(session: &mut Option<Session>, from: SocketAddr, record: &[u8]) {
    for fragment in fragments(record) {
        // Hellos of clients are in one piece: a server keeps no state before it has one with a cookie.
        if fragment.kind == kind::CLIENT_HELLO && fragment.bytes.len() == fragment.length {
            let random = fragment.bytes.get(2..2 + RANDOM_BYTES);
            let Some(random) = random.and_then(|bytes| bytes.try_into().ok()) else {
                continue;
            };
            let is_same = session
                .as_ref()
                .is_some_and(|known| known.client == from && known.client_random == random);
            if !is_same {
                *session = Some(Session::new(from, random));
            }
            if let Some(session) = session {
                // The hello with the cookie takes the place of the one without.
                let is_first = session.server_random.is_none();
                if is_first {
                    session.messages.clear();
                    session.bytes = 0;
                }
            }
        }
        if let Some(session) = session {
            let side = session.side(from);
            if let Some(message) = session.assemble(side, &fragment) {
                session.see((side, fragment.number), message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A whole handshake message.
    fn whole(kind: u8, number: u16, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32).to_be_bytes();
        let mut bytes = vec![kind];
        bytes.extend(&length[1..]);
        bytes.extend(number.to_be_bytes());
        bytes.extend([0; 3]);
        bytes.extend(&length[1..]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn messages_without_a_body_fill_a_handshake_by_their_headers() {
        let client = SocketAddr::from(([192, 0, 2, 1], 40_000));
        let mut session = None;
        handshake(
            &mut session,
            client,
            &whole(kind::CLIENT_HELLO, 0, &[7; 40]),
        );
        for number in 1..20_000 {
            handshake(&mut session, client, &whole(20, number, &[]));
        }
        let mut session = session.expect("a session");
        assert!(session.messages.len() <= HANDSHAKE_BYTES_MAX / HEADER_BYTES);
        assert!(session.bytes <= HANDSHAKE_BYTES_MAX, "{}", session.bytes);
        // The keys are derived once: a further message beyond the limit brings nothing.
        let secrets = DtlsSecrets::default();
        assert!(session.keys(&secrets).is_err());
        session.see(
            (0, 30_000),
            HandshakeMessage {
                kind: 20,
                body: Vec::new(),
            },
        );
        assert!(session.keys.is_some(), "the keys are derived again");
    }

    #[test]
    fn a_missing_key_is_searched_for_after_a_key_exchange_alone() {
        let peers = [1, 2].map(|host| SocketAddr::from(([192, 0, 2, host], 40_000)));
        let mut session = None;
        handshake(
            &mut session,
            peers[0],
            &whole(kind::CLIENT_HELLO, 0, &[7; 40]),
        );
        let mut hello = vec![0xfe, 0xfd];
        hello.extend([1; RANDOM_BYTES]);
        // TLS_PSK_WITH_AES_128_CCM_8.
        hello.extend([0, 0xc0, 0xa8, 0]);
        handshake(
            &mut session,
            peers[1],
            &whole(kind::SERVER_HELLO, 0, &hello),
        );
        let exchange = whole(kind::CLIENT_KEY_EXCHANGE, 1, b"\0\x01a");
        handshake(&mut session, peers[0], &exchange);
        let session = session.as_mut().expect("a session");
        let secrets = DtlsSecrets::default();
        assert!(matches!(session.keys(&secrets), Err(Missing::Key)));
        session.see(
            (0, 2),
            HandshakeMessage {
                kind: 20,
                body: Vec::new(),
            },
        );
        assert!(session.keys.is_some(), "no further message brings a key");
        let exchange = HandshakeMessage {
            kind: kind::CLIENT_KEY_EXCHANGE,
            body: b"\0\x01b".to_vec(),
        };
        session.see((0, 3), exchange);
        assert!(session.keys.is_none(), "a key exchange may bring it");
    }
}
