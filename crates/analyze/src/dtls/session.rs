//! A session of DTLS 1.2 as far as its handshake was captured.

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
    side: usize,
    kind: u8,
    number: u16,
    body: Vec<u8>,
}

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
    messages: Vec<HandshakeMessage>,
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
            messages: Vec::new(),
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
                self.messages = Vec::new();
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
            let mut all: Vec<&HandshakeMessage> = self
                .messages
                .iter()
                .filter(|message| message.side == side)
                .collect();
            all.sort_by_key(|message| message.number);
            let mut pairs = all.windows(2);
            let is_whole = pairs.all(|pair| pair[0].number + 1 == pair[1].number);
            is_whole.then_some(all)
        };
        let (client, server) = (of(0)?, of(1)?);
        // The hello with the cookie is the last one.
        let is_hello = |message: &&HandshakeMessage| message.kind == kind::CLIENT_HELLO;
        let hello = client.iter().rposition(is_hello)?;
        let (hello, others) = client[hello..].split_first()?;
        // A certificate's proof follows the key exchange.
        let is_exchange = |message: &&HandshakeMessage| message.kind == kind::CLIENT_KEY_EXCHANGE;
        let others = &others[..=others.iter().position(is_exchange)?];
        let is_whole = server.first()?.kind == kind::SERVER_HELLO
            && server.last()?.kind == kind::SERVER_HELLO_DONE;
        if !is_whole {
            return None;
        }
        let mut all = Vec::with_capacity(self.bytes);
        for message in [*hello]
            .into_iter()
            .chain(server)
            .chain(others.iter().copied())
        {
            let length = u32::try_from(message.body.len()).ok()?.to_be_bytes();
            all.push(message.kind);
            all.extend(&length[1..]);
            all.extend(message.number.to_be_bytes());
            all.extend([0; 3]);
            all.extend(&length[1..]);
            all.extend(&message.body);
        }
        Some(all)
    }

    fn see(&mut self, message: HandshakeMessage) {
        let is_known = self
            .messages
            .iter()
            .any(|known| (known.side, known.number) == (message.side, message.number));
        // Captures may have packets of both directions in another order: the key exchange alone is no end.
        let is_done = matches!(self.keys, Some(Ok(_)));
        if is_known || is_done || message.kind == kind::HELLO_VERIFY_REQUEST {
            return;
        }
        if self.bytes + message.body.len() > HANDSHAKE_BYTES_MAX {
            return;
        }
        // What was missing may be in this message.
        self.keys = None;
        match (message.side, message.kind) {
            (1, kind::SERVER_HELLO) => self.server_hello(&message.body),
            (0, kind::CLIENT_KEY_EXCHANGE) => {
                let mut fields = Fields(&message.body);
                let identity = fields.number(2).and_then(|length| fields.take(length));
                self.identity = Some(identity.unwrap_or_default().to_vec());
            }
            _ => {}
        }
        self.bytes += message.body.len();
        self.messages.push(message);
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
        let message = |body: Vec<u8>| HandshakeMessage {
            side,
            kind: fragment.kind,
            number: fragment.number,
            body,
        };
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

/// The fragments of a record, as far as they are well-formed.
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
                session.see(message);
            }
        }
    }
}
