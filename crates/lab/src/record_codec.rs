//! Records of runs in `postcard`: every number takes the bytes it needs (LEB128).

use carob_sim::hash::fnv1a;
use carob_sim::spec::RunRecord;
use postcard::ser_flavors::Flavor;

use crate::layout;

/// A record without its recordings, packed.
#[derive(Clone, Debug)]
pub(crate) struct EncodedRecord(Box<[u8]>);

impl EncodedRecord {
    /// Packs a record.
    pub(crate) fn of(record: &RunRecord) -> Self {
        let bytes = postcard::serialize_with_flavor(record, Bytes(Vec::with_capacity(512)));
        Self(bytes.expect("every length is known").into())
    }

    /// A record that was packed before; nothing if these are other bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        unpack(bytes).map(|_| Self(bytes.into()))
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The record.
    pub(crate) fn record(&self) -> RunRecord {
        unpack(&self.0).expect("it was packed, or was seen to unpack")
    }
}

/// Bytes that are appended one by one: most numbers take one or two, for which a call of `memcpy`
/// takes longer.
struct Bytes(Vec<u8>);

impl Flavor for Bytes {
    type Output = Vec<u8>;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
    }
}

fn unpack(bytes: &[u8]) -> Option<RunRecord> {
    let (record, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(record)
}

/// A number that changes when fields come, go, or change their name, order or type: bytes are read
/// only by a program that has the same.
pub(crate) fn layout() -> u64 {
    fnv1a(layout::of::<RunRecord>().as_bytes())
}

#[cfg(test)]
mod tests {
    use carob_cc::time::{Duration, Instant};
    use carob_sim::link::Counters;
    use carob_sim::mesh::record::{
        Histogram, MacCounters, MeshBin, MeshRecord, NodeRecord, Traced,
    };
    use carob_sim::spec::{
        Closing, FlowRecord, LinkRecord, NotificationBin, NotificationRecord, Recovery, RoundTrips,
        Sends, ServerRecord, Subscriber,
    };

    use super::*;

    /// A record in which every field differs from its default and from the others.
    fn record() -> RunRecord {
        let mut next = 1_u64;
        let mut n = || {
            next = next.wrapping_mul(3).wrapping_add(1);
            next
        };
        let mut flow = |whole: bool| FlowRecord {
            started: Instant::from_micros(n()),
            finished: whole.then(|| Instant::from_micros(n())),
            ended: Instant::from_micros(n()),
            setup: whole.then(|| Duration::from_micros(n())),
            answered: n() as u32,
            unanswered: n() as u32,
            answered_at_once: n() as u32,
            body_bytes: n(),
            received_bytes: n(),
            exchanges: n() as u32,
            failed: n() as u32,
            transmissions: n(),
            retransmissions: n(),
            spurious: n(),
            timeouts: n(),
            handshake_retransmissions: whole.then(&mut n),
            segments: whole.then(&mut n),
            packets: n(),
            header_bytes: n(),
            closing: whole.then(|| Closing {
                packets: n(),
                time: Duration::from_micros(n()),
            }),
            recovery: whole.then(|| Recovery {
                entered: n(),
                time: Duration::from_micros(n()),
                first_timeout: Some(Duration::from_micros(n())),
                rto_peak: Duration::from_micros(n()),
            }),
            stall: Duration::from_micros(n()),
            round_trips: RoundTrips {
                count: n() as u32,
                sum: Duration::from_micros(n()),
            },
            rto_median: whole.then(|| Duration::from_micros(n())),
            transmissions_per_exchange: vec![0, 7, n() as u32],
            ..FlowRecord::default()
        };
        let flows = vec![flow(true), flow(false), FlowRecord::default()];
        let others = vec![flow(true)];
        let mut counters = || Counters {
            offered: n(),
            dropped_full: n(),
            dropped_early: n(),
            marked: n(),
            lost: n(),
            delivered: n(),
            bytes_sent: n(),
            queue_bytes_peak: n(),
            policed: n(),
            corrupted: n(),
            reordered: n(),
            duplicated: n(),
        };
        let [down, up] = [counters(), counters()];
        let mut subscriber = || Subscriber {
            generated: n(),
            unlisted: n(),
            dropped: n(),
            superseded: n(),
            unsent: n(),
            sent: n(),
            received: n(),
            confirmable: n(),
            retransmissions: n(),
            abandoned: n(),
            link_dropped: n(),
            link_lost: n(),
            delay: Duration::from_micros(n()),
            delay_max: Duration::from_micros(n()),
            rto: Vec::new(),
        };
        let subscribers = vec![subscriber(), subscriber()];
        let bin = NotificationBin {
            generated: n(),
            received: n(),
            dropped: n(),
            link_dropped: n(),
            link_lost: n(),
            rtos: n() as u32,
            rto_sum: Duration::from_micros(n()),
            rto_min: Duration::from_micros(n()),
            rto_max: Duration::from_micros(n()),
        };
        let sends = Sends {
            spans: n(),
            packets: n(),
            squares: n(),
            products: n(),
            peak: n(),
        };
        let mesh = mesh(&mut n);
        RunRecord {
            devices: vec![carob_sim::link::DeviceRecord {
                send: Duration::from_micros(n()),
                receive: Duration::from_micros(n()),
                listen: Duration::from_micros(n()),
                idle: Duration::from_micros(n()),
                sleep: Duration::from_micros(n()),
                energy_uj: n(),
            }],
            response_times: vec![Duration::from_micros(7), Duration::from_micros(n())],
            mesh: Some(Box::new(mesh)),
            notifications: Some(NotificationRecord {
                subscribers,
                bin_width: Duration::from_micros(n()),
                bins: vec![bin],
                sends,
            }),
            flows,
            others,
            link: LinkRecord {
                down,
                up,
                useless_down: n(),
                useless_up: n(),
            },
            server: Some(ServerRecord {
                handled: n(),
                repeated: n(),
                dropped: n(),
                queue_peak: n() as u32,
                busy: Duration::from_micros(n()),
            }),
            ended: Instant::from_micros(n()),
            events_handled: n(),
            trace_hash: u64::MAX,
            events_unrecorded: n(),
            ..RunRecord::default()
        }
    }

    /// A wireless network of which the same is true.
    fn mesh(n: &mut impl FnMut() -> u64) -> MeshRecord {
        let mac = MacCounters {
            offered: n(),
            queue_drops: n(),
            no_ack_drops: n(),
            channel_drops: n(),
            transmissions: n(),
            busy: n(),
            acknowledgements: n(),
            collisions: n(),
            losses: n(),
            duplicates: n(),
            discarded: n(),
            queued_max: n() as u16,
        };
        let node = NodeRecord {
            generated: n(),
            app_drops: n(),
            sent: n(),
            received: n(),
            answered: n(),
            failed: n(),
            unfinished: n(),
            transmissions: n(),
            retransmissions: n(),
            spurious: n(),
            confirmable: n(),
            rtos: n() as u32,
            rto_sum: Duration::from_micros(n()),
            round_trips: n() as u32,
            round_trip_sum: Duration::from_micros(n()),
            stopped_at: Some(Duration::from_micros(n())),
            mac,
            route_drops: n(),
            own_route_drops: n(),
            reassembly_drops: n(),
            control: n(),
            parent_resets: n(),
            orphan: Duration::from_micros(n()),
            orphan_longest: Duration::from_micros(n()),
            repairs: n(),
            rank: n() as u16,
            parent: Some(n() as u16),
            etx: n() as u32,
            hops: Some(n() as u16),
            neighbours: n() as u16,
        };
        let bin = MeshBin {
            generated: n() as u32,
            received: n() as u32,
            delay: Duration::from_micros(n()),
            parent_resets: n() as u32,
            rtos: n() as u32,
            rto_sum: Duration::from_micros(n()),
        };
        let traced = Traced {
            at: Instant::from_micros(n()),
            rank: n() as u16,
            parent: Some(n() as u16),
            etx: n() as u32,
            rto: Duration::from_micros(n()),
            retransmissions: n() as u32,
        };
        let mut histogram = || {
            let mut histogram = Histogram::default();
            for _ in 0..3 {
                histogram.add(Duration::from_micros(n() % 1_000_000));
            }
            histogram
        };
        let [delay, burst_delay, near_burst_delay] = [(); 3].map(|()| histogram());
        let [rto_init, rto, rttvar_weak, rtt_weak] = [(); 4].map(|()| histogram());
        MeshRecord {
            nodes: vec![node, NodeRecord::default()],
            duration: Duration::from_micros(n()),
            burst_at: Some(Duration::from_micros(n())),
            counted_bytes: n() as u16,
            bin_width: Duration::from_secs(1),
            bins: vec![bin, MeshBin::default()],
            delay,
            burst_delay,
            near_burst_delay,
            rto_init,
            rto,
            rttvar_weak,
            rtt_weak,
            traced: 9,
            trace: vec![traced],
        }
    }

    #[test]
    fn what_is_packed_unpacks() {
        for record in [record(), RunRecord::default()] {
            let packed = EncodedRecord::of(&record);
            assert_eq!(packed.record(), record);
            let again = EncodedRecord::from_bytes(packed.bytes()).expect("the same bytes");
            assert_eq!(again.record(), record);
        }
    }

    #[test]
    fn layout_names_kept_fields_with_their_types() {
        let names = layout::of::<RunRecord>();
        let flow = "RunRecord{flows:*FlowRecord{started:Instant{micros:u64,},finished:?Instant{";
        assert!(names.starts_with(flow), "{names}");
        assert!(
            names.contains("transmissions_per_exchange:*u32,}"),
            "{names}"
        );
        assert!(names.contains("parent:?u16,etx:u32,"), "{names}");
        assert!(!names.contains("packets:*"), "{names}");
    }

    #[test]
    fn no_part_of_it_and_nothing_longer_is_taken_for_a_record() {
        let packed = EncodedRecord::of(&record());
        let bytes = packed.bytes();
        for end in 0..bytes.len() {
            assert_eq!(unpack(&bytes[..end]), None, "{end}");
        }
        let longer = [bytes, &[0]].concat();
        assert_eq!(unpack(&longer), None);
        assert_eq!(unpack(&[0xff; 40]), None);
    }
}
