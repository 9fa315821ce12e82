//! The capture: messages in a pcapng file, as Wireshark reads it.
//!
//! What goes over a connection is shown as CoAP over plain TCP, whatever it was wrapped in: we see
//! messages before they are encrypted and after. Messages of a DTLS session are on a separate
//! interface, in the form of Wireshark's export of decrypted messages: with the addresses and
//! ports, but without their headers, since the port would mark them as encrypted.
//!
//! We never see the headers our messages travel with, so these are our own: right in addresses,
//! ports, lengths and checksums, and of TCP in sequence numbers.

use carob_sim::tcp::Segment;
use carob_sim::tcp::segment::Flags;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use carob::{Datagram, Scheme};
use carob_proto::codec::Framing;
use carob_proto::codec::frame::write_frame;
use carob_sim::packet;
use carob_sim::pcapng::{Direction, Packet, RAW_IP, UPPER_PDU, Writer};

use crate::failure::Failure;
use crate::printer;

/// The interfaces: packets, and the content of secured packets.
const PLAIN: u32 = 0;
const DECRYPTED: u32 = 1;

pub(super) struct Capture {
    writer: Writer<BufWriter<File>>,
    path: PathBuf,
    /// The time of day at which the endpoint's clock began.
    epoch: Option<Duration>,
    /// The local address towards the peer of the last look-up.
    route: Option<(IpAddr, IpAddr)>,
    /// True if the interface of decrypted datagrams has been described.
    decrypts: bool,
    /// Bytes received and sent on the connection with a peer.
    said: BTreeMap<SocketAddr, (u32, u32)>,
    failed: bool,
}

/// Bytes of a stream in one segment; real ones were cut elsewhere.
const SEGMENT: usize = 1_400;

/// Connections whose place in the stream is known. At the limit all are forgotten, and their
/// captures restart.
const CONNECTIONS: usize = 4_096;

impl Capture {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let file =
            super::create_private(path).map_err(|error| Failure::file("write", path, &error))?;
        begin(file)
            .map(|writer| Self {
                writer,
                path: path.to_owned(),
                epoch: None,
                route: None,
                decrypts: false,
                said: BTreeMap::new(),
                failed: false,
            })
            .map_err(|error| Failure::file("write", path, &error))
    }

    pub(super) fn see(&mut self, datagram: &Datagram<'_>) {
        if self.failed {
            return;
        }
        if let Err(error) = self.write(datagram) {
            self.failed = true;
            let path = self.path.display();
            printer::remark(&format!(
                "the capture ends here: cannot write {path}: {error}"
            ));
        }
    }

    fn write(&mut self, datagram: &Datagram<'_>) -> io::Result<()> {
        let epoch = *self.epoch.get_or_insert_with(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.unwrap_or_default().saturating_sub(datagram.at)
        });
        let (own, peer) = (self.own_address(datagram), datagram.peer);
        let (from, to, direction) = if datagram.incoming {
            (peer, own, Direction::Inbound)
        } else {
            (own, peer, Direction::Outbound)
        };
        let mut packets = Vec::new();
        let (mut interface, mut comment) = (PLAIN, None);
        if datagram.scheme == Scheme::Coap {
            packets.push(packet::udp(from, to, false, datagram.bytes));
        } else if datagram.scheme == Scheme::Coaps {
            if !std::mem::replace(&mut self.decrypts, true) {
                self.writer.interface("carob, decrypted", UPPER_PDU)?;
            }
            packets.push(exported(from, to, "coap", datagram.bytes));
            (interface, comment) = (DECRYPTED, Some("went through a DTLS session"));
        } else {
            let mut framed = Vec::with_capacity(datagram.bytes.len() + 2);
            write_frame(Framing::Stream, datagram.bytes, &mut framed);
            if self.said.len() >= CONNECTIONS && !self.said.contains_key(&datagram.peer) {
                self.said.clear();
            }
            let (theirs, ours) = self.said.entry(datagram.peer).or_default();
            let (mine, other) = if datagram.incoming {
                (theirs, ours)
            } else {
                (ours, theirs)
            };
            for piece in framed.chunks(SEGMENT) {
                let segment = Segment {
                    seq: *mine,
                    ack: *other,
                    flags: Flags::PSH | Flags::ACK,
                    window: u16::MAX,
                    payload: Bytes::copy_from_slice(piece),
                    ..Segment::default()
                };
                packets.push(packet::tcp(from, to, &segment));
                *mine = mine.wrapping_add(piece.len() as u32);
            }
        }
        for packet in packets {
            self.writer.packet(&Packet {
                interface,
                at: epoch + datagram.at,
                direction,
                comment,
                bytes: &packet,
            })?;
        }
        // A process that is killed leaves whole packets in the file.
        self.writer.flush()
    }

    /// The local address of a datagram; for an unbound socket, chosen by the system.
    fn own_address(&mut self, datagram: &Datagram<'_>) -> SocketAddr {
        let Datagram { local, peer, .. } = *datagram;
        if !local.ip().is_unspecified() && local.is_ipv4() == peer.is_ipv4() {
            return local;
        }
        let own = match self.route {
            Some((to, own)) if to == peer.ip() => own,
            _ => {
                let own = address_towards(peer);
                self.route = Some((peer.ip(), own));
                own
            }
        };
        (own, local.port()).into()
    }
}

fn begin(file: File) -> io::Result<Writer<BufWriter<File>>> {
    let program = concat!("carob ", env!("CARGO_PKG_VERSION"));
    let mut writer = Writer::new(BufWriter::new(file), program, None)?;
    writer.interface("carob", RAW_IP)?;
    writer.flush()?;
    Ok(writer)
}

/// The address the system would send from; connecting a UDP socket sends nothing.
fn address_towards(peer: SocketAddr) -> IpAddr {
    let any: IpAddr = if peer.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let chosen = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(peer)?;
        socket.local_addr()
    };
    chosen().map_or(any, |address| address.ip())
}

/// Packet of a datagram without headers, for Wireshark. Tags before it name its dissector and both
/// addresses (Wireshark's Exported PDU, link type 252).
fn exported(from: SocketAddr, to: SocketAddr, reader: &str, payload: &[u8]) -> Vec<u8> {
    const READER: u16 = 12;
    const PORT_TYPE: u16 = 24;
    const PORT_TYPE_UDP: u32 = 3;
    const PORTS: [u16; 2] = [25, 26];
    const END: u16 = 0;
    let mut bytes = Vec::with_capacity(64 + payload.len());
    let mut tag = |tag: u16, value: &[u8]| {
        let padded = value.len().next_multiple_of(4);
        bytes.extend_from_slice(&tag.to_be_bytes());
        bytes.extend_from_slice(&(padded as u16).to_be_bytes());
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len() + padded - value.len(), 0);
    };
    tag(READER, reader.as_bytes());
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            tag(20, &from.octets());
            tag(21, &to.octets());
        }
        (from, to) => {
            tag(22, &packet::in_v6(from).octets());
            tag(23, &packet::in_v6(to).octets());
        }
    }
    tag(PORT_TYPE, &PORT_TYPE_UDP.to_be_bytes());
    for (number, port) in PORTS.into_iter().zip([from.port(), to.port()]) {
        tag(number, &u32::from(port).to_be_bytes());
    }
    tag(END, &[]);
    bytes.extend_from_slice(payload);
    bytes
}
