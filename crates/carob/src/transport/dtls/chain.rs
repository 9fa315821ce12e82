//! The certificate chain of a peer (RFC 5246 7.4.2). The library returns only the first
//! certificate, so the others are read from the plaintext handshake.
//!
//! They need no separate proof: each is verified by the signature of the next, and the library
//! verifies possession of the first one's key. A forged fragment makes the handshake fail, as any
//! forged handshake message does.

use std::ops::Range;

use crate::transport::dtls::record::{HANDSHAKE_HEADER, Record};

/// Handshake type of a Certificate message (RFC 5246 7.4).
const CERTIFICATE: u8 = 11;
/// Longest message in bytes; longer ones are ignored.
const MESSAGE_BYTES: usize = 16 << 10;
/// Gaps between received fragments at most; further fragments wait for a retransmission.
const GAPS: usize = 16;
/// Certificates after the first at most; further ones are ignored.
const CERTIFICATES: usize = 8;

/// The reassembly of a Certificate message.
#[derive(Debug, Default)]
pub(super) struct Chain {
    message: Vec<u8>,
    number: u16,
    /// Received ranges, ordered and not adjacent.
    covered: Vec<Range<usize>>,
    certificates: Vec<Vec<u8>>,
}

impl Chain {
    /// Reads the fragments of a Certificate message in a plaintext record.
    pub(super) fn read(&mut self, record: &Record<'_>) {
        if record.epoch != 0 || !record.is_handshake() {
            return;
        }
        let mut rest = record.body;
        while let Some((header, body)) = rest.split_at_checked(HANDSHAKE_HEADER) {
            let [total, offset, length] = [1, 6, 9].map(|at| {
                u32::from_be_bytes([0, header[at], header[at + 1], header[at + 2]]) as usize
            });
            let Some((fragment, after)) = body.split_at_checked(length) else {
                return;
            };
            if header[0] == CERTIFICATE {
                let number = u16::from_be_bytes([header[4], header[5]]);
                self.take(number, total, offset, fragment);
            }
            rest = after;
        }
    }

    /// The certificates after `own`, the first one (DER); empty until the message is complete.
    pub(super) fn after(&self, own: &[u8]) -> &[Vec<u8>] {
        match self.certificates.split_first() {
            Some((first, others)) if first == own => others,
            _ => &[],
        }
    }

    fn take(&mut self, number: u16, total: usize, offset: usize, fragment: &[u8]) {
        // The peer is not authenticated yet: what it can make this endpoint store is bounded.
        if !self.certificates.is_empty() || total > MESSAGE_BYTES {
            return;
        }
        if self.message.len() != total || self.number != number {
            self.message = vec![0; total];
            self.number = number;
            self.covered.clear();
        }
        let end = offset + fragment.len();
        let Some(place) = self.message.get_mut(offset..end) else {
            return;
        };
        let touches = |of: &Range<usize>| of.start <= end && offset <= of.end;
        let first = self.covered.iter().position(touches);
        // Fragments with gaps between them would each cost an entry.
        if first.is_none() && self.covered.len() >= GAPS {
            return;
        }
        place.copy_from_slice(fragment);
        let mut all = offset..end;
        self.covered.retain(|of| {
            let joined = touches(of);
            if joined {
                all = all.start.min(of.start)..all.end.max(of.end);
            }
            !joined
        });
        self.covered.push(all);
        if matches!(&self.covered[..], [all] if *all == (0..total)) {
            self.certificates = certificates(&self.message);
            (self.message, self.covered) = (Vec::new(), Vec::new());
        }
    }
}

/// The certificates of a message, up to the first malformed one.
fn certificates(message: &[u8]) -> Vec<Vec<u8>> {
    let part = |bytes: &[u8]| -> Option<(Vec<u8>, usize)> {
        let [a, b, c] = *bytes.first_chunk()?;
        let end = 3 + u32::from_be_bytes([0, a, b, c]) as usize;
        Some((bytes.get(3..end)?.to_vec(), end))
    };
    let Some((list, _)) = part(message) else {
        return Vec::new();
    };
    let mut at = 0;
    std::iter::from_fn(|| {
        let (certificate, length) = part(&list[at..])?;
        at += length;
        Some(certificate)
    })
    .take(1 + CERTIFICATES)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::dtls::record;

    /// A Certificate message's body with these.
    fn message(all: &[&[u8]]) -> Vec<u8> {
        let part = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[1..], bytes].concat();
        let list: Vec<u8> = all.iter().flat_map(|bytes| part(bytes)).collect();
        part(&list)
    }

    /// A record with this fragment of it.
    fn fragment(message: &[u8], part: Range<usize>) -> Vec<u8> {
        let mut record = record::handshake(CERTIFICATE, 0xfd, 3, 2, &message[part.clone()]);
        let header = record::RECORD_HEADER;
        record[header + 1..header + 4].copy_from_slice(&(message.len() as u32).to_be_bytes()[1..]);
        record[header + 6..header + 9].copy_from_slice(&(part.start as u32).to_be_bytes()[1..]);
        record
    }

    fn read(chain: &mut Chain, datagram: &[u8]) {
        record::records(datagram).for_each(|record| chain.read(&record));
    }

    #[test]
    fn chain_certificates_are_read_in_any_fragment_order() {
        let message = message(&[&[1; 300], &[2; 500], &[3; 40]]);
        let parts = [0..200, 200..201, 201..700, 600..message.len()];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
            let mut chain = Chain::default();
            for part in order {
                assert!(chain.after(&[1; 300]).is_empty());
                read(&mut chain, &fragment(&message, parts[part].clone()));
            }
            assert_eq!(chain.after(&[1; 300]), [vec![2; 500], vec![3; 40]]);
            assert!(chain.after(&[2; 500]).is_empty(), "it is not the first");
        }
    }

    #[test]
    fn invalid_chain_keeps_no_certificates_within_limits() {
        let mut chain = Chain::default();
        let long = vec![0; MESSAGE_BYTES + 1];
        read(&mut chain, &fragment(&long, 0..10));
        assert!(chain.message.is_empty());
        let sound = message(&[&[1; 900]]);
        for n in 0..100 {
            read(&mut chain, &fragment(&sound, n * 8..n * 8 + 4));
        }
        assert_eq!(chain.covered.len(), GAPS);
        for broken in [&[][..], &[0, 0, 9], &[0, 0, 4, 0, 0, 9, 1], &[255; 40]] {
            let mut chain = Chain::default();
            read(&mut chain, &fragment(broken, 0..broken.len()));
            assert!(chain.after(&[]).is_empty());
        }
        let many = message(&[&[7][..]; 40]);
        let mut chain = Chain::default();
        read(&mut chain, &fragment(&many, 0..many.len()));
        assert_eq!(chain.after(&[7]).len(), CERTIFICATES);
    }
}
