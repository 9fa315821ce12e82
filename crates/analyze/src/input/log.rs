//! Carob's event logs: one JSON object a line (`--log` of the commands, `carob lab run --log`).
//!
//! Events become messages between the endpoint of the log and its peers. A log has no tokens, so
//! separate responses and blocks are not related to their requests.

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::net::{Ipv6Addr, SocketAddr};

use carob_codec::{Code, Type};
use serde::Deserialize;

use super::Direction;
use crate::limits::{CONVERSATIONS_MAX, LINE_BYTES_MAX};
use crate::message::Message;

/// Bytes of IPv4 and UDP headers, which a log does not count.
const HEADER_BYTES: u32 = 28;

/// The fields of a line that are evaluated.
#[derive(Deserialize)]
struct Line<'a> {
    at_us: u64,
    peer: String,
    #[serde(borrow)]
    event: std::borrow::Cow<'a, str>,
    id: Option<u16>,
    #[serde(rename = "type", borrow)]
    kind: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    purpose: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    code: Option<std::borrow::Cow<'a, str>>,
    bytes: Option<u32>,
    /// Present in logs of the simulator only.
    host: Option<u32>,
}

/// The state of a log's reading.
#[derive(Debug, Default)]
pub(crate) struct LogReader {
    /// Time of the last message received from a peer of a host.
    heard: BTreeMap<(u32, SocketAddr), u64>,
}

impl LogReader {
    /// Reads a line and hands on its message, if it has one.
    pub(crate) fn line(
        &mut self,
        line: &[u8],
        is_wanted: impl FnOnce(&str) -> bool,
        mut see: impl FnMut(&Message),
    ) -> Result<(), String> {
        let line: Line<'_> = serde_json::from_slice(line)
            .map_err(|error| format!("not an event of a log ({error})"))?;
        if !is_wanted(&line.peer) {
            return Ok(());
        }
        // The simulator names its peers by number.
        let peer = line.peer.parse().unwrap_or_else(|_| named(&line.peer));
        let host = line.host.unwrap_or(0);
        let Some(id) = line.id else { return Ok(()) };
        let heard = self.heard.get(&(host, peer)).copied();
        let kind = match line.kind.as_deref() {
            Some("CON") => Some(Type::Confirmable),
            Some("NON") => Some(Type::NonConfirmable),
            Some("ACK") => Some(Type::Acknowledgement),
            Some("RST") => Some(Type::Reset),
            _ => None,
        };
        // A log of the simulator has both ends: exchanges are read at their senders.
        let is_receiver = match line.event.as_ref() {
            "replied" => true,
            "received" => matches!(kind, Some(Type::Confirmable | Type::NonConfirmable)),
            _ => false,
        };
        if line.host.is_some() && is_receiver {
            return Ok(());
        }
        let code = line.code.as_deref().map(code_of);
        let is_request = line.purpose.as_deref() == Some("request");
        let message = match (line.event.as_ref(), kind) {
            ("sent", Some(kind)) => {
                let code = if is_request { Code::GET } else { Code::CONTENT };
                message(&line, host, peer, (true, kind, code, id))
            }
            ("replied", Some(kind)) => message(
                &line,
                host,
                peer,
                (true, kind, code.unwrap_or(Code::EMPTY), id),
            ),
            ("received", Some(kind)) => {
                if self.heard.len() >= CONVERSATIONS_MAX {
                    self.heard.clear();
                }
                self.heard.insert((host, peer), line.at_us);
                message(
                    &line,
                    host,
                    peer,
                    (false, kind, code.unwrap_or(Code::EMPTY), id),
                )
            }
            // Without a line for each message received, this is the reply.
            ("answered" | "answered_again", _) if heard != Some(line.at_us) => message(
                &line,
                host,
                peer,
                (false, Type::Acknowledgement, Code::CONTENT, id),
            ),
            _ => return Ok(()),
        };
        see(&message);
        Ok(())
    }
}

/// A message from or to the endpoint of the log.
fn message(
    line: &Line<'_>,
    host: u32,
    peer: SocketAddr,
    (is_sent, kind, code, id): (bool, Type, Code, u16),
) -> Message {
    let own = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let (from, to, direction) = if is_sent {
        (own, peer, Direction::Outbound)
    } else {
        (peer, own, Direction::Inbound)
    };
    let bytes = line.bytes.unwrap_or(0);
    Message {
        at: line.at_us,
        from,
        to,
        kind,
        code,
        id,
        token: u64::from(id),
        fingerprint: u64::from(code.0) << 2 | u64::from(kind == Type::Confirmable),
        resource: 0,
        bytes,
        packet_bytes: bytes + HEADER_BYTES,
        payload_bytes: 0,
        observe: None,
        block1: None,
        block2: None,
        interface: host,
        direction: Some(direction),
        ttl: 0,
    }
}

/// `2.05` as a code; 0.00 if it is none.
fn code_of(text: &str) -> Code {
    let parts = text.split_once('.').and_then(|(class, detail)| {
        let (class, detail): (u8, u8) = (class.parse().ok()?, detail.parse().ok()?);
        (class < 8 && detail < 32).then_some(Code(class << 5 | detail))
    });
    parts.unwrap_or(Code::EMPTY)
}

/// An address for a name: in the prefix of documentation, from its hash.
fn named(name: &str) -> SocketAddr {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let address = 0x2001_0db8_u128 << 96 | u128::from(hash);
    (Ipv6Addr::from(address), 5_683).into()
}

/// Skips the rest of a line that is too long; returns its bytes.
pub(crate) fn skip_line(file: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    let mut piece = Vec::new();
    loop {
        piece.clear();
        let read =
            io::Read::take(&mut *file, LINE_BYTES_MAX as u64).read_until(b'\n', &mut piece)?;
        skipped += read as u64;
        if read == 0 || piece.last() == Some(&b'\n') {
            return Ok(skipped);
        }
    }
}
