//! The capture of a simulated run: raw IP packets in a pcapng file, at virtual times.
//!
//! Packets are shown as the end sees them that sends again what is lost: the clients over UDP, the
//! server over TCP. Both ends in one file would make each packet a retransmission of itself, since
//! analysers do not distinguish interfaces of one conversation.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use carob_lab::run::{Captured, Content, RunRecord};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, PcapError};

use crate::failure::{Failure, Kind};

/// The resolution of times: 10^-9 s, which is the only one the writer knows.
const NANOSECONDS: u8 = 9;
/// The directions of a packet (pcapng, epb_flags).
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Writes the packets of a run; the run began at the epoch.
pub(super) fn write(path: &Path, record: &RunRecord, about: &str) -> Result<(), Failure> {
    let file = File::create(path).map_err(|error| Failure::file("write", path, &error))?;
    write_all(BufWriter::new(file), record, about).map_err(|error| match error {
        PcapError::IoError(error) => Failure::file("write", path, &error),
        error => Failure::new(
            Kind::File,
            format_args!("cannot write {}: {error}", path.display()),
        ),
    })
}

/// An interface for each host: clients have the numbers of hosts, the server comes last.
fn write_all(file: BufWriter<File>, record: &RunRecord, about: &str) -> Result<(), PcapError> {
    let clients = record.flows.len() as u32;
    let program = concat!("carob ", env!("CARGO_PKG_VERSION"));
    let section = SectionHeaderBlock {
        options: vec![
            SectionHeaderOption::Comment(about.to_owned().into()),
            SectionHeaderOption::UserApplication(program.into()),
        ],
        ..SectionHeaderBlock::default()
    };
    let mut writer = PcapNgWriter::with_section_header(file, section)?;
    for host in 0..=clients {
        let name = if host == clients {
            "server".to_owned()
        } else {
            format!("client {host}")
        };
        writer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::RAW,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(name.into()),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        })?;
    }
    for captured in record.packets.iter().filter(|c| is_shown(c, clients)) {
        writer.write_pcapng_block(block(captured, clients))?;
    }
    writer.get_mut().flush().map_err(PcapError::IoError)
}

/// Returns true if the packets were captured at the end that retransmits.
fn is_shown(captured: &Captured, clients: u32) -> bool {
    let at_server = captured.host == clients;
    matches!(captured.content, Content::Segment(_)) == at_server
}

fn block(captured: &Captured, clients: u32) -> EnhancedPacketBlock<'static> {
    let packet = captured.packet(clients);
    let direction = if captured.is_outgoing() {
        OUTBOUND
    } else {
        INBOUND
    };
    EnhancedPacketBlock {
        interface_id: captured.host,
        timestamp: Duration::from_micros(captured.at.as_micros()),
        original_len: packet.len() as u32,
        data: Cow::Owned(packet),
        options: vec![EnhancedPacketOption::Flags(direction)],
    }
}
