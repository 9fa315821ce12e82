//! Limits of an analysis, with the behaviour at each: memory does not grow with the file.

/// Bytes of one captured packet. A longer one means that the file is damaged.
pub const PACKET_BYTES_MAX: usize = 262_144;
/// Bytes of a pcapng block, options included. A longer one that holds no packet is skipped.
pub const BLOCK_BYTES_MAX: usize = 512 << 10;
/// Interfaces of a pcapng section. Packets of further ones are skipped and counted.
pub const INTERFACES_MAX: usize = 4_096;
/// Bytes of a line of an event log. Longer ones are skipped and counted.
pub const LINE_BYTES_MAX: usize = 65_536;
/// Damaged places that are described; further ones are counted.
pub const DAMAGES_MAX: usize = 16;
/// IPv6 extension headers of a packet. A packet with more is skipped and counted.
pub const EXTENSION_HEADERS_MAX: usize = 8;
/// Fragmented packets that wait for further fragments. At it, the oldest is counted as incomplete.
pub const FRAGMENTED_MAX: usize = 256;
/// Fragments of a packet. Further ones are counted, and the packet stays incomplete.
pub const FRAGMENTED_PIECES_MAX: usize = 512;
/// Packets, and messages in them, among which those seen more than once are searched. At it, the oldest is
/// analysed at once.
pub const SIGHTINGS_MAX: usize = 4_096;
/// Pairs of peers with a capture between them, by the directions of packets. At it, further ones are not remembered.
pub const BETWEEN_MAX: usize = 4_096;

/// Pairs of peers. At it, messages of further pairs are counted, and not analysed.
pub const CONVERSATIONS_MAX: usize = 4_096;
/// Exchanges that may still get a transmission or a reply. At it, the oldest is concluded early.
pub const EXCHANGES_MAX: usize = 32_768;
/// Transmissions, and replies, of an exchange whose times are kept. Further ones are counted.
pub const TRANSMISSIONS_MAX: usize = 32;
/// Block-wise transfers under way. At it, the least recently started is concluded as incomplete.
pub const TRANSFERS_MAX: usize = 2_048;
/// Block-wise transfers that are listed; the rest is in the totals.
pub const TRANSFERS_LISTED: usize = 1_000;
/// Observations. At it, further ones are counted as requests only.
pub const OBSERVATIONS_MAX: usize = 4_096;
/// Round trips kept with their sizes for the link model and the figures (a uniform sample).
pub const SAMPLES_MAX: usize = 8_192;

/// DTLS sessions whose keys are kept. At it, records of further sessions are counted, and not decrypted.
pub const DTLS_SESSIONS_MAX: usize = 4_096;
/// Bytes of the handshake messages of a session, headers included. A session with more is not decrypted by a pre-shared key.
pub const HANDSHAKE_BYTES_MAX: usize = 16 << 10;
/// Lines of a key log. A longer one is refused.
pub const KEY_LOG_LINES_MAX: usize = 1_000_000;

/// Time after its last message at which an exchange is concluded: EXCHANGE_LIFETIME of RFC 7252
/// section 4.8.2, in microseconds.
pub const EXCHANGE_LIFETIME_US: u64 = 247_000_000;
