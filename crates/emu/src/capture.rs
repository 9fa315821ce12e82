//! Packet capture at both ends of links, as a pcapng file for Wireshark.
//!
//! Each link has two interfaces, `<label> server` and `<label> client`. An outgoing packet is
//! captured when it is read from the device, before queue, delay and loss; an incoming one when it
//! is delivered. So a packet that the link dropped or lost is at one interface only.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use carob_sim::pcapng::{Direction, Packet, RAW_IP, Writer};

use crate::Error;
use crate::engine::{Side, now_ns};

/// Queue limit of packets for the file; further packets are left out and counted.
pub const CAPTURE_QUEUE_PACKETS: usize = 1 << 16;

const REMEDY: &str = "choose another path for the capture";

/// A packet for the file.
#[derive(Debug)]
struct TappedPacket {
    interface: u32,
    direction: Direction,
    at_ns: u64,
    packet: Box<[u8]>,
}

/// The engine's end of the capture: never waits for the file.
#[derive(Debug)]
pub(crate) struct Tap {
    queue: SyncSender<TappedPacket>,
    left_out: u64,
}

impl Tap {
    pub(crate) fn sent(&mut self, link: usize, side: Side, at_ns: u64, packet: &[u8]) {
        self.see(link, side, Direction::Outbound, at_ns, packet);
    }

    pub(crate) fn received(&mut self, link: usize, side: Side, at_ns: u64, packet: &[u8]) {
        self.see(link, side, Direction::Inbound, at_ns, packet);
    }

    fn see(&mut self, link: usize, side: Side, direction: Direction, at_ns: u64, packet: &[u8]) {
        let seen = TappedPacket {
            interface: 2 * link as u32 + u32::from(side == Side::Client),
            direction,
            at_ns,
            packet: packet.into(),
        };
        if self.queue.try_send(seen).is_err() {
            self.left_out += 1;
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // The writer counts received packets; the number of those left out travels in the same
        // queue.
        if self.left_out > 0 {
            let _ = self.queue.send(TappedPacket {
                interface: u32::MAX,
                direction: Direction::Inbound,
                at_ns: self.left_out,
                packet: Box::default(),
            });
        }
    }
}

/// The results of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Packets in the file.
    pub packets: u64,
    /// Packets left out because the queue was full.
    pub left_out: u64,
}

/// The writer of the file, on a separate thread.
#[derive(Debug)]
pub(crate) struct Capture {
    thread: JoinHandle<io::Result<Captured>>,
    path: PathBuf,
}

impl Capture {
    /// Starts a file for links of these labels.
    pub(crate) fn start<'a>(
        path: &Path,
        labels: impl Iterator<Item = &'a str>,
    ) -> Result<(Self, Tap), Error> {
        let failed = |error| capture_error(path, error);
        let file = File::create(path).map_err(failed)?;
        let writer = begin(file, labels).map_err(failed)?;
        let (queue, seen) = sync_channel(CAPTURE_QUEUE_PACKETS);
        // The time of day at the monotonic clock's zero.
        let epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .saturating_sub(Duration::from_nanos(now_ns()));
        let thread = thread::Builder::new()
            .name("capture".into())
            .spawn(move || write(writer, epoch, &seen))
            .map_err(|error| Error::system("start the capture's thread", error, "free memory"))?;
        let capture = Self {
            thread,
            path: path.to_owned(),
        };
        Ok((capture, Tap { queue, left_out: 0 }))
    }

    /// Waits until all packets are in the file. The tap must have been dropped.
    pub(crate) fn finish(self) -> Result<Captured, Error> {
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(|error| capture_error(&self.path, error))
    }
}

fn capture_error(path: &Path, error: io::Error) -> Error {
    Error::system(format!("write {}", path.display()), error, REMEDY)
}

fn begin<'a>(
    file: File,
    labels: impl Iterator<Item = &'a str>,
) -> io::Result<Writer<BufWriter<File>>> {
    let program = concat!("carob ", env!("CARGO_PKG_VERSION"));
    let mut writer = Writer::new(BufWriter::new(file), program, None)?;
    for label in labels {
        for side in ["server", "client"] {
            writer.interface(&format!("{label} {side}"), RAW_IP)?;
        }
    }
    Ok(writer)
}

fn write(
    mut writer: Writer<BufWriter<File>>,
    epoch: Duration,
    queue: &Receiver<TappedPacket>,
) -> io::Result<Captured> {
    let mut captured = Captured::default();
    while let Ok(seen) = queue.recv() {
        if seen.interface == u32::MAX {
            captured.left_out = seen.at_ns;
            continue;
        }
        writer.packet(&Packet {
            interface: seen.interface,
            at: epoch + Duration::from_nanos(seen.at_ns),
            direction: seen.direction,
            comment: None,
            bytes: &seen.packet,
        })?;
        captured.packets += 1;
    }
    writer.flush()?;
    Ok(captured)
}

#[cfg(test)]
mod tests {
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
    use pcap_file::pcapng::{Block, PcapNgReader};

    use super::*;

    #[test]
    fn packets_are_at_their_interface_with_their_time() {
        let path = std::env::temp_dir().join(format!("carob-emu-{}.pcapng", std::process::id()));
        let (capture, mut tap) = Capture::start(&path, ["a", "b"].into_iter()).unwrap();
        tap.sent(1, Side::Server, 1_000, &[0x45; 20]);
        tap.received(1, Side::Client, 3_000, &[0x45; 20]);
        drop(tap);
        let captured = capture.finish().unwrap();
        assert_eq!((captured.packets, captured.left_out), (2, 0));

        let mut reader = PcapNgReader::new(File::open(&path).unwrap()).unwrap();
        let (mut names, mut packets) = (Vec::new(), Vec::new());
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(interface) => {
                    let Some(InterfaceDescriptionOption::IfName(name)) = interface.options.first()
                    else {
                        panic!("an interface without a name");
                    };
                    names.push(name.to_string());
                }
                Block::EnhancedPacket(packet) => {
                    packets.push((packet.interface_id, packet.timestamp));
                }
                _ => {}
            }
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(names, ["a server", "a client", "b server", "b client"]);
        assert_eq!((packets[0].0, packets[1].0), (2, 3));
        let apart = packets[1].1.saturating_sub(packets[0].1);
        assert_eq!(apart, Duration::from_micros(2));
    }
}
