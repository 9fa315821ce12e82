//! Segments on the link.

use crate::capture::{Captured, Content};
use crate::link::Verdict;
use crate::spec::Recording;
use crate::tcp::Segment;
use crate::tcp::segment::Ecn;
use crate::trace::{SegmentTag, What};

use super::super::{DOWN, Happening, UP, World};
use super::SERVER;

/// A segment on its way.
#[derive(Debug, Default)]
pub(super) struct Travelling {
    slot: u32,
    /// The connection, which may be gone when it arrives: its client, and how many that made before.
    client: u32,
    number: u32,
    to: usize,
    tag: Option<SegmentTag>,
    segment: Segment,
}

impl World<'_> {
    /// A segment reaches an end.
    pub(in crate::world) fn segment_arrives(&mut self, place: u32) {
        let Travelling {
            slot,
            client,
            number,
            to,
            tag,
            segment,
        } = std::mem::take(&mut self.connections.travelling[place as usize]);
        self.connections.travelling_free.push(place);
        let server = self.server_of(client);
        let (here, there) = if to == SERVER {
            (server, client)
        } else {
            (client, server)
        };
        if let Some(segment) = tag {
            self.trace
                .add(self.now, here, What::SegmentArrived { segment });
        }
        self.capture_segment(here, there, here, &segment, number);
        let now = self.now;
        let connection = &mut self.connections.all[slot as usize];
        if connection.client != client || connection.number != number || connection.is_gone {
            return; // of a connection that is gone
        }
        connection.ends[to].socket.handle_segment(now, &segment);
        self.drain_socket(slot, to);
        self.settle();
    }

    pub(super) fn offer_segment(&mut self, slot: u32, which: usize, mut segment: Segment) {
        let (here, there) = self.hosts_of(slot, which);
        let now = self.now;
        let connection = &mut self.connections.all[slot as usize];
        let (client, number) = (connection.client, connection.number);
        let (tag, again) = connection.tag(which, there, &segment);
        connection.note_closing(now, &segment);
        let end_of_data = tag.seq.wrapping_add(u32::from(tag.data));
        let end = &mut connection.ends[which];
        let is_spurious = again && tag.data > 0 && end.carried.has(tag.seq, end_of_data);
        end.spurious += u64::from(is_spurious);
        self.trace.add(
            now,
            here,
            What::Segment {
                segment: tag,
                again,
            },
        );
        self.capture_segment(here, here, there, &segment, number);
        let header = segment.wire_bytes() - u32::from(tag.data);
        self.count_packets(client, 1, header.into());
        let way = if which == SERVER { DOWN } else { UP };
        let direction = if way == DOWN {
            &mut self.link.down
        } else {
            &mut self.link.up
        };
        let capable = segment.ecn != Ecn::NotCapable;
        let verdict = direction.offer_packet(now, segment.wire_bytes(), capable);
        if let Verdict::Deliver { departed, .. } | Verdict::Lost { departed } = verdict {
            let bytes = segment.wire_bytes();
            self.useless[way] += u64::from(if is_spurious { bytes } else { 0 });
            if way == DOWN {
                self.bin_carried(departed, bytes, is_spurious);
            }
        }
        let (at, marked) = match verdict {
            Verdict::Deliver { at, marked, .. } => (at, marked),
            Verdict::DropFull => {
                let segment = tag;
                return self.trace.add(now, here, What::SegmentDropFull { segment });
            }
            Verdict::Lost { .. } => {
                let segment = tag;
                return self.trace.add(now, here, What::SegmentLost { segment });
            }
        };
        if marked {
            segment.ecn = Ecn::Experienced;
        }
        let all = &mut self.connections;
        if tag.data > 0 {
            let end = all.end(slot, which);
            end.carried.add(tag.seq, end_of_data);
        }
        let travelling = Travelling {
            slot,
            client,
            number,
            to: 1 - which,
            tag: Some(SegmentTag { peer: here, ..tag }),
            segment,
        };
        let place = if let Some(place) = all.travelling_free.pop() {
            all.travelling[place as usize] = travelling;
            place
        } else {
            all.travelling.push(travelling);
            all.travelling.len() as u32 - 1
        };
        let arrival = Happening::Segment { place };
        self.queue.push_in_order(way, at, arrival);
    }

    /// Keeps a segment that passes by host `at`, if packets are recorded.
    fn capture_segment(&mut self, at: u32, from: u32, to: u32, segment: &Segment, number: u32) {
        if self.is_capturing() {
            self.captured.push(Captured {
                at: self.now,
                host: at,
                from,
                to,
                restarts: number,
                content: Content::Segment(segment.clone()),
            });
        }
    }

    /// Whether another packet is to be kept.
    pub(in crate::world) fn is_capturing(&self) -> bool {
        let most = self.spec.record.packets.min(Recording::PACKETS_MAX);
        self.captured.len() < most as usize
    }
}
