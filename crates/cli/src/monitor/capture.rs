//! The capture: messages in a pcapng file, as Wireshark reads it.
//!
//! What goes over a connection is shown as CoAP over plain TCP, whatever it was wrapped in: we see
//! messages before they are encrypted and after. What goes through a DTLS session is shown on an
//! interface of its own, as Wireshark exports what it has decrypted itself: with the addresses and
//! ports it had, but without their headers, of which the port would say that it is encrypted.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use carob::{Datagram, Scheme};
use carob_proto::codec::Framing;
use carob_proto::codec::frame::write_frame;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, PcapError};

use super::packet;
use crate::failure::{Failure, Kind};
use crate::printer;

/// The resolution of times: 10^-9 s, which is the only one the writer knows.
const NANOSECONDS: u8 = 9;
/// The directions of a packet (pcapng, epb_flags).
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// The interfaces: what is in packets, and what was in secured ones.
const PLAIN: u32 = 0;
const DECRYPTED: u32 = 1;

pub(super) struct Capture {
    writer: PcapNgWriter<BufWriter<File>>,
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

/// Connections whose place in the stream is known. At the limit all are forgotten, and their
/// captures begin anew.
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
            .map_err(|error| Failure::new(Kind::File, why(path, &error)))
    }

    pub(super) fn see(&mut self, datagram: &Datagram<'_>) {
        if self.failed {
            return;
        }
        if let Err(error) = self.write(datagram) {
            self.failed = true;
            let why = why(&self.path, &error);
            printer::remark(&format!("the capture ends here: {why}"));
        }
    }

    fn write(&mut self, datagram: &Datagram<'_>) -> Result<(), PcapError> {
        let epoch = *self.epoch.get_or_insert_with(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.unwrap_or_default().saturating_sub(datagram.at)
        });
        let (own, peer) = (self.own_address(datagram), datagram.peer);
        let (from, to, direction) = if datagram.incoming {
            (peer, own, INBOUND)
        } else {
            (own, peer, OUTBOUND)
        };
        let mut packets = Vec::new();
        let mut options = vec![EnhancedPacketOption::Flags(direction)];
        let mut interface_id = PLAIN;
        if datagram.scheme == Scheme::Coap {
            packets.push(packet::udp(from, to, datagram.bytes));
        } else if datagram.scheme == Scheme::Coaps {
            if !std::mem::replace(&mut self.decrypts, true) {
                describe(
                    &mut self.writer,
                    "carob, decrypted",
                    DataLink::WIRESHARK_UPPER_PDU,
                )?;
            }
            packets.push(packet::exported(from, to, "coap", datagram.bytes));
            options.push(EnhancedPacketOption::Comment(
                "went through a DTLS session".into(),
            ));
            interface_id = DECRYPTED;
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
            for piece in framed.chunks(packet::SEGMENT) {
                packets.push(packet::tcp(from, to, *mine, *other, piece));
                *mine = mine.wrapping_add(piece.len() as u32);
            }
        }
        for packet in packets {
            self.writer.write_pcapng_block(EnhancedPacketBlock {
                interface_id,
                timestamp: epoch + datagram.at,
                original_len: packet.len() as u32,
                data: Cow::Owned(packet),
                options: options.clone(),
            })?;
        }
        // A process that is killed leaves whole packets in the file.
        self.writer.get_mut().flush().map_err(PcapError::IoError)
    }

    /// The local address of a datagram; that of a socket bound to none, the system chose.
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

fn begin(file: File) -> Result<PcapNgWriter<BufWriter<File>>, PcapError> {
    let program = concat!("carob ", env!("CARGO_PKG_VERSION"));
    let section = SectionHeaderBlock {
        options: vec![SectionHeaderOption::UserApplication(program.into())],
        ..SectionHeaderBlock::default()
    };
    let mut writer = PcapNgWriter::with_section_header(BufWriter::new(file), section)?;
    describe(&mut writer, "carob", DataLink::RAW)?;
    writer.get_mut().flush().map_err(PcapError::IoError)?;
    Ok(writer)
}

/// Adds an interface; they are numbered as they come.
fn describe(
    writer: &mut PcapNgWriter<BufWriter<File>>,
    name: &'static str,
    linktype: DataLink,
) -> Result<(), PcapError> {
    writer.write_pcapng_block(InterfaceDescriptionBlock {
        linktype,
        snaplen: 0,
        options: vec![
            InterfaceDescriptionOption::IfName(name.into()),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ],
    })?;
    Ok(())
}

fn why(path: &Path, error: &PcapError) -> String {
    match error {
        PcapError::IoError(error) => format!("cannot write {}: {error}", path.display()),
        error => format!("cannot write {}: {error}", path.display()),
    }
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
