//! Decryption of captured DTLS 1.2 records with pre-shared keys or a key log.

mod secrets;
mod session;
mod suite;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;

use crate::limits::DTLS_SESSIONS_MAX;
pub use secrets::{DtlsSecrets, KeyLogError};
use session::{Missing, Session};

/// Bytes of the header of a record (RFC 6347 section 4.1).
const HEADER_BYTES: usize = 13;

/// Types of records.
mod content {
    pub(super) const HANDSHAKE: u8 = 22;
    pub(super) const APPLICATION_DATA: u8 = 23;
    pub(super) const WITH_CONNECTION_ID: u8 = 25;
}

/// DTLS records of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DtlsRecords {
    /// Records of all types.
    pub records: u64,
    /// Records with application data that were decrypted.
    pub decrypted: u64,
    /// Records with application data of sessions for which no key was given.
    pub without_key: u64,
    /// Records with application data whose session's handshake is not in the capture.
    pub without_handshake: u64,
    /// Records with application data of suites and versions without a reader: with CBC, with
    /// connection IDs, and DTLS 1.3.
    pub unsupported: u64,
    /// Records with application data that the keys do not fit, or that are cut short or damaged.
    pub failed: u64,
    /// Records with application data of sessions beyond
    /// [`DTLS_SESSIONS_MAX`](crate::limits::DTLS_SESSIONS_MAX).
    pub beyond_limit: u64,
}

impl DtlsRecords {
    /// Records with application data that were not decrypted.
    pub fn encrypted(&self) -> u64 {
        self.without_key
            + self.without_handshake
            + self.unsupported
            + self.failed
            + self.beyond_limit
    }
}

/// True for a datagram of DTLS 1.0 or 1.2 (RFC 6347 section 4.1).
pub(crate) fn is_dtls(payload: &[u8]) -> bool {
    matches!(payload, [20..=26, 0xfe, 0xfd | 0xff, ..])
}

/// True for an encrypted record of DTLS 1.3 (RFC 9147 section 4). No CoAP message begins so.
pub(crate) fn is_dtls_1_3(payload: &[u8]) -> bool {
    matches!(payload, [0x20..=0x3f, ..])
}

/// Sessions of a capture.
#[derive(Default)]
pub(crate) struct Decryptor {
    sessions: BTreeMap<[SocketAddr; 2], Option<Session>>,
    pub(crate) counts: DtlsRecords,
}

impl std::fmt::Debug for Decryptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decryptor")
            .field("sessions", &self.sessions.len())
            .field("counts", &self.counts)
            .finish()
    }
}

impl Decryptor {
    /// Counts an encrypted record of DTLS 1.3.
    pub(crate) fn unsupported(&mut self) {
        self.counts.records += 1;
        self.counts.unsupported += 1;
    }

    /// Handles the records of a datagram; returns the messages in those that can be decrypted.
    pub(crate) fn open(
        &mut self,
        [from, to]: [SocketAddr; 2],
        mut payload: &[u8],
        secrets: &DtlsSecrets,
    ) -> Vec<Vec<u8>> {
        let mut opened = Vec::new();
        if payload.len() < HEADER_BYTES {
            self.counts.records += 1;
        }
        while let Some((header, rest)) = payload.split_first_chunk::<HEADER_BYTES>() {
            self.counts.records += 1;
            let length = usize::from(u16::from_be_bytes([header[11], header[12]]));
            let epoch = u16::from_be_bytes([header[3], header[4]]);
            let Some((body, rest)) = rest.split_at_checked(length) else {
                // Cut short by the capture, or damaged.
                self.counts.failed += u64::from(header[0] == content::APPLICATION_DATA);
                break;
            };
            payload = rest;
            match header[0] {
                content::HANDSHAKE if epoch == 0 => self.handshake([from, to], body, secrets),
                content::APPLICATION_DATA => {
                    opened.extend(self.application([from, to], header, body, secrets));
                }
                content::WITH_CONNECTION_ID => self.counts.unsupported += 1,
                _ => {}
            }
        }
        opened
    }

    fn handshake(&mut self, [from, to]: [SocketAddr; 2], body: &[u8], secrets: &DtlsSecrets) {
        if secrets.is_empty() {
            return;
        }
        let peers = sorted(from, to);
        if self.sessions.len() >= DTLS_SESSIONS_MAX && !self.sessions.contains_key(&peers) {
            return;
        }
        session::handshake(self.sessions.entry(peers).or_default(), from, body);
    }

    fn application(
        &mut self,
        [from, to]: [SocketAddr; 2],
        header: &[u8; HEADER_BYTES],
        body: &[u8],
        secrets: &DtlsSecrets,
    ) -> Option<Vec<u8>> {
        let counts = &mut self.counts;
        if secrets.is_empty() {
            counts.without_key += 1;
            return None;
        }
        let is_full = self.sessions.len() >= DTLS_SESSIONS_MAX;
        let session = self.sessions.get_mut(&sorted(from, to));
        let Some(session) = session.and_then(Option::as_mut) else {
            let count = if is_full {
                &mut counts.beyond_limit
            } else {
                &mut counts.without_handshake
            };
            *count += 1;
            return None;
        };
        let side = session.side(from);
        match session.keys(secrets) {
            Ok(keys) => {
                let found = keys.open(side, header, body);
                let count = match found {
                    Some(_) => &mut counts.decrypted,
                    None => &mut counts.failed,
                };
                *count += 1;
                found
            }
            Err(missing) => {
                let count = match missing {
                    Missing::Handshake => &mut counts.without_handshake,
                    Missing::Key => &mut counts.without_key,
                    Missing::Suite => &mut counts.unsupported,
                };
                *count += 1;
                None
            }
        }
    }
}

fn sorted(from: SocketAddr, to: SocketAddr) -> [SocketAddr; 2] {
    if from <= to { [from, to] } else { [to, from] }
}
