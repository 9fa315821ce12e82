//! Segments on the link.

use carob_cc::time::Instant;

use crate::capture::{Captured, Content};
use crate::link::{DOWN, Verdict};
use crate::tcp::Segment;
use crate::tcp::segment::Ecn;
use crate::trace::{SegmentTag, SimEvent};

use super::super::application::{Application, Applications};
use super::super::network::Network;
use super::super::{Engine, Event};
use super::SERVER;

/// A segment in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct SegmentInFlight {
    slot: u32,
    /// The connection, which may be closed at arrival: its client, and the number of that client's
    /// earlier ones.
    client: u32,
    server: u32,
    number: u32,
    to: usize,
    tag: Option<SegmentTag>,
    segment: Segment,
}

impl<N: Network> Engine<'_, N> {
    /// Delivers a segment to an end.
    pub(in crate::engine) fn segment_arrives(
        &mut self,
        applications: &mut Applications<N>,
        place: u32,
    ) {
        let SegmentInFlight {
            slot,
            client,
            server,
            number,
            to,
            tag,
            segment,
        } = std::mem::take(&mut self.connections.in_flight[place as usize]);
        self.connections.in_flight_free.push(place);
        let (here, there) = if to == SERVER {
            (server, client)
        } else {
            (client, server)
        };
        if let Some(segment) = tag {
            self.trace
                .add(self.now, here, SimEvent::SegmentArrived { segment });
        }
        self.capture_segment(here, there, here, &segment, number);
        let now = self.now;
        let connection = &mut self.connections.all[slot as usize];
        if connection.client != client || connection.number != number || connection.is_gone {
            return; // of a connection that is gone
        }
        connection.ends[to].socket.handle_segment(now, &segment);
        let application = &mut *applications[usize::from(self.hosts[here as usize].application)];
        self.drain_socket(application, slot, to);
        self.settle(application);
    }

    pub(super) fn offer_segment(
        &mut self,
        application: &mut dyn Application<N>,
        slot: u32,
        which: usize,
        mut segment: Segment,
    ) {
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
            SimEvent::Segment {
                segment: tag,
                again,
            },
        );
        self.capture_segment(here, here, there, &segment, number);
        let header = segment.wire_bytes() - u32::from(tag.data);
        if let Some(flow) = application.flow(client)
            && !flow.done
        {
            flow.record.packets += 1;
            flow.record.header_bytes += u64::from(header);
        }
        let capable = segment.ecn != Ecn::NotCapable;
        let from_server = which == SERVER;
        let bytes = segment.wire_bytes();
        if self.is_link_out() {
            let segment = tag;
            return self.trace.add(now, here, SimEvent::SegmentLost { segment });
        }
        let offered = self
            .network
            .offer_segment(now, client, from_server, bytes, capable);
        let Some((way, verdict)) = offered else {
            return;
        };
        if let Verdict::Deliver { departed, .. } | Verdict::Lost { departed } = verdict {
            self.useless[way] += u64::from(if is_spurious { bytes } else { 0 });
            if way == DOWN {
                self.bin_carried(departed, bytes, is_spurious);
            }
        }
        let (at, marked, duplicated) = match verdict {
            Verdict::Deliver {
                at,
                marked,
                duplicated,
                ..
            } => (at, marked, duplicated),
            Verdict::DropFull => {
                let segment = tag;
                return self
                    .trace
                    .add(now, here, SimEvent::SegmentDropFull { segment });
            }
            Verdict::Lost { .. } => {
                let segment = tag;
                return self.trace.add(now, here, SimEvent::SegmentLost { segment });
            }
        };
        if marked {
            segment.ecn = Ecn::Experienced;
        }
        let all = &mut self.connections;
        // Only of segments that arrive: the retransmission of a lost one is not spurious.
        if tag.data > 0 {
            let end = all.end(slot, which);
            end.carried.add(tag.seq, end_of_data);
        }
        let in_flight = SegmentInFlight {
            slot,
            client,
            server: if from_server { here } else { there },
            number,
            to: 1 - which,
            tag: Some(SegmentTag { peer: here, ..tag }),
            segment,
        };
        let copy = duplicated.then(|| in_flight.clone());
        self.launch(way, at, in_flight);
        if let Some(copy) = copy {
            self.launch(way, at, copy);
        }
    }

    /// Schedules the arrival of a segment.
    fn launch(&mut self, way: usize, at: Instant, in_flight: SegmentInFlight) {
        let all = &mut self.connections;
        let place = if let Some(place) = all.in_flight_free.pop() {
            all.in_flight[place as usize] = in_flight;
            place
        } else {
            all.in_flight.push(in_flight);
            all.in_flight.len() as u32 - 1
        };
        let arrival = Event::Segment { place };
        self.queue.push_in_order(way, at, arrival);
    }

    /// Captures a segment that passes host `at`, if packets are recorded.
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
}
