//! Plaintext parts of DTLS records: headers and unencrypted handshake messages (RFC 6347 4.1).

/// Lengths of the headers of records and of handshake messages, in bytes.
pub(crate) const RECORD_HEADER: usize = 13;
pub(crate) const HANDSHAKE_HEADER: usize = 12;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

const SERVER_HELLO: u8 = 2;

/// A record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    kind: u8,
    pub(crate) epoch: u16,
    pub(crate) sequence: u64,
    pub(crate) body: &'a [u8],
}

impl Record<'_> {
    /// Length with header, in bytes.
    pub(crate) fn length(&self) -> usize {
        RECORD_HEADER + self.body.len()
    }

    pub(crate) fn is_handshake(&self) -> bool {
        self.kind == HANDSHAKE
    }

    pub(crate) fn is_change(&self) -> bool {
        self.kind == CHANGE_CIPHER_SPEC
    }

    /// The type of the handshake message in a plaintext record.
    pub(crate) fn message_type(&self) -> Option<u8> {
        let clear = self.epoch == 0 && self.is_handshake() && self.body.len() >= HANDSHAKE_HEADER;
        clear.then(|| self.body[0])
    }

    /// The number of that message.
    pub(crate) fn message_number(&self) -> Option<u16> {
        self.message_type()?;
        Some(u16::from_be_bytes([self.body[4], self.body[5]]))
    }

    /// The suite selected in a complete ServerHello (RFC 5246 7.4.1.3).
    pub(crate) fn chosen_suite(&self) -> Option<u16> {
        if self.message_type()? != SERVER_HELLO {
            return None;
        }
        let hello = &self.body[HANDSHAKE_HEADER..];
        // The session id follows the version and the random number.
        let suite = 35 + usize::from(*hello.get(34)?);
        let suite = hello.get(suite..suite + 2)?;
        Some(u16::from_be_bytes([suite[0], suite[1]]))
    }
}

/// Parses the first record of these bytes, of DTLS 1.0 or 1.2.
pub(crate) fn first(bytes: &[u8]) -> Option<Record<'_>> {
    let header: &[u8; RECORD_HEADER] = bytes.first_chunk()?;
    // A HelloVerifyRequest has version 1.0 (RFC 6347 4.2.1), as some ClientHellos do.
    let [kind, 0xfe, 0xff | 0xfd, ..] = *header else {
        return None;
    };
    let length = usize::from(u16::from_be_bytes([header[11], header[12]]));
    let mut sequence = [0; 8];
    sequence[2..].copy_from_slice(&header[5..11]);
    Some(Record {
        kind,
        epoch: u16::from_be_bytes([header[3], header[4]]),
        sequence: u64::from_be_bytes(sequence),
        // A record must be within its datagram (RFC 6347 4.1.1); the length is the sender's
        // word.
        body: bytes.get(RECORD_HEADER..RECORD_HEADER + length)?,
    })
}

/// Iterates over the records of a datagram up to the first invalid one.
pub(crate) fn records(mut datagram: &[u8]) -> impl Iterator<Item = Record<'_>> + Clone {
    std::iter::from_fn(move || {
        let record = first(datagram)?;
        datagram = &datagram[record.length()..];
        Some(record)
    })
}

/// Sets the sequence number of the first record.
pub(crate) fn number(bytes: &mut [u8], sequence: u64) {
    bytes[5..11].copy_from_slice(&sequence.to_be_bytes()[2..]);
}

/// A plaintext record.
fn clear(kind: u8, version: u8, sequence: u64, body: &[u8]) -> Vec<u8> {
    let mut record = vec![kind, 0xfe, version, 0, 0];
    record.extend_from_slice(&sequence.to_be_bytes()[2..]);
    // Records made here are shorter than a datagram.
    record.extend_from_slice(&(body.len() as u16).to_be_bytes());
    record.extend_from_slice(body);
    record
}

/// A plaintext fatal alert.
pub(crate) fn alert(sequence: u64, number: u8) -> Vec<u8> {
    clear(ALERT, 0xfd, sequence, &[2, number])
}

/// A handshake message in one record.
pub(crate) fn handshake(kind: u8, version: u8, sequence: u64, number: u16, body: &[u8]) -> Vec<u8> {
    let length = &(body.len() as u32).to_be_bytes()[1..];
    let mut message = vec![kind];
    message.extend_from_slice(length);
    message.extend_from_slice(&number.to_be_bytes());
    // Not fragmented: offset 0, and a fragment as long as the message (RFC 6347 4.2.2).
    message.extend_from_slice(&[0, 0, 0]);
    message.extend_from_slice(length);
    message.extend_from_slice(body);
    clear(HANDSHAKE, version, sequence, &message)
}
