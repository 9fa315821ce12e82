//! The capture of a simulated run: raw IP packets in a pcapng file, at virtual times.
//!
//! Packets are shown as the retransmitting end sees them: the clients over UDP, the
//! server over TCP. Both ends in one file would make each packet a retransmission of itself, since
//! analysers do not distinguish interfaces of one conversation.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::time::Duration;

use carob_lab::run::{Captured, Content, RunRecord};
use carob_sim::pcapng::{Direction, Packet, RAW_IP, Writer};

use crate::failure::Failure;

/// Writes the packets of a run; the run began at the epoch.
pub(super) fn write(path: &Path, record: &RunRecord, about: &str) -> Result<(), Failure> {
    File::create(path)
        .and_then(|file| write_all(BufWriter::new(file), record, about))
        .map_err(|error| Failure::file("write", path, &error))
}

/// An interface for each host: clients have the numbers of hosts, the server comes last.
fn write_all(file: BufWriter<File>, record: &RunRecord, about: &str) -> io::Result<()> {
    let clients = record.flows.len() as u32;
    let program = concat!("carob ", env!("CARGO_PKG_VERSION"));
    let mut writer = Writer::new(file, program, Some(about))?;
    for host in 0..=clients {
        let name = if host == clients {
            "server".to_owned()
        } else {
            format!("client {host}")
        };
        writer.interface(&name, RAW_IP)?;
    }
    for captured in record.packets.iter().filter(|c| is_shown(c, clients)) {
        writer.packet(&Packet {
            interface: captured.host,
            at: Duration::from_micros(captured.at.as_micros()),
            direction: if captured.is_outgoing() {
                Direction::Outbound
            } else {
                Direction::Inbound
            },
            comment: None,
            bytes: &captured.packet(clients),
        })?;
    }
    writer.flush()
}

/// Returns true if the packets were captured at the end that retransmits.
fn is_shown(captured: &Captured, clients: u32) -> bool {
    let at_server = captured.host == clients;
    matches!(captured.content, Content::Segment(_)) == at_server
}
