//! Records of runs as few bytes: every number in as many as it needs (LEB128).

use carob_cc::time::{Duration, Instant};
use carob_sim::hash::fnv1a;
use carob_sim::link::Counters;
use carob_sim::mesh::record::{Histogram, MacCounters, MeshBin, MeshRecord, NodeRecord, Traced};
use carob_sim::spec::{
    Closing, FlowRecord, LinkRecord, NotificationBin, NotificationRecord, Recovery, RoundTrips,
    RunRecord, Sends, ServerRecord, Subscriber,
};

/// A record without its recordings, packed.
#[derive(Clone, Debug)]
pub(crate) struct EncodedRecord(Box<[u8]>);

impl EncodedRecord {
    /// Packs a record.
    pub(crate) fn of(record: &RunRecord) -> Self {
        let mut out = Vec::new();
        record.put(&mut out);
        Self(out.into())
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

fn unpack(bytes: &[u8]) -> Option<RunRecord> {
    let mut from = bytes;
    let record = RunRecord::take(&mut from)?;
    from.is_empty().then_some(record)
}

/// A number that changes when fields come, go, or change their order or type: bytes are read only
/// by a program that has the same.
pub(crate) fn layout() -> u64 {
    let mut names = String::new();
    RunRecord::name(&mut names);
    fnv1a(names.as_bytes())
}

/// A type with a binary encoding.
trait Field: Sized {
    /// Appends its bytes.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes it from the front; nothing if there is something else.
    fn take(from: &mut &[u8]) -> Option<Self>;
    /// Appends what it is made of, in words.
    fn name(out: &mut String);
}

/// Packs a struct field by field, in this order. All are named, those that are not kept
/// (`without`) too, so that a new one cannot be forgotten.
macro_rules! fields {
    ($type:ident { $($kept:ident),+ $(,)? } $(without { $($left:ident),+ $(,)? })?) => {
        impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($kept,)+ $($($left: _,)+)? } = self;
                $($kept.put(out);)+
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                $(let $kept = Field::take(from)?;)+
                Some(Self { $($kept,)+ $($($left: Default::default(),)+)? })
            }

            fn name(out: &mut String) {
                /// The name of a field's type, which is known from the field only.
                fn of<S, T: Field>(_: impl Fn(S) -> T, out: &mut String) {
                    T::name(out);
                }
                $(
                    out.push_str(concat!(" ", stringify!($kept), ":"));
                    of(|whole: Self| whole.$kept, out);
                )+
                out.push(';');
            }
        }
    };
}

fields!(RunRecord {
    flows,
    others,
    responses,
    other_responses,
    link,
    server,
    notifications,
    mesh,
    ended,
    events_handled,
    trace_hash,
    events_unrecorded,
} without { events, log, packets, bins });

fields!(LinkRecord {
    down,
    up,
    useless_down,
    useless_up,
});

fields!(Counters {
    offered,
    dropped_full,
    dropped_early,
    marked,
    lost,
    delivered,
    bytes_sent,
    queue_bytes_peak,
});

fields!(FlowRecord {
    started,
    finished,
    ended,
    setup,
    answered,
    unanswered,
    answered_at_once,
    body_bytes,
    received_bytes,
    exchanges,
    failed,
    transmissions,
    retransmissions,
    spurious,
    timeouts,
    handshake_retransmissions,
    segments,
    packets,
    header_bytes,
    closing,
    recovery,
    stall,
    round_trips,
    rto_median,
    transmissions_per_exchange,
} without { rtt, rto_init, rto });

fields!(ServerRecord {
    handled,
    repeated,
    dropped,
    queue_peak,
    busy,
});

fields!(NotificationRecord {
    subscribers,
    bin_width,
    bins,
    sends,
});

fields!(Subscriber {
    generated,
    unlisted,
    dropped,
    superseded,
    unsent,
    sent,
    received,
    confirmable,
    retransmissions,
    abandoned,
    link_dropped,
    link_lost,
    delay,
    delay_max,
} without { rto });

fields!(NotificationBin {
    generated,
    received,
    dropped,
    link_dropped,
    link_lost,
    rtos,
    rto_sum,
    rto_min,
    rto_max,
});

fields!(Sends {
    spans,
    packets,
    squares,
    products,
    peak,
});

fields!(MeshRecord {
    nodes,
    duration,
    burst_at,
    counted_bytes,
    bin_width,
    bins,
    delay,
    burst_delay,
    near_burst_delay,
    rto_init,
    rto,
    rttvar_weak,
    rtt_weak,
    traced,
    trace,
});

fields!(NodeRecord {
    generated,
    app_drops,
    sent,
    received,
    answered,
    failed,
    unfinished,
    transmissions,
    retransmissions,
    spurious,
    confirmable,
    rtos,
    rto_sum,
    mac,
    route_drops,
    own_route_drops,
    reassembly_drops,
    control,
    parent_resets,
    orphan,
    orphan_longest,
    repairs,
    rank,
    parent,
    etx,
    hops,
    neighbours,
});

fields!(MacCounters {
    offered,
    queue_drops,
    no_ack_drops,
    channel_drops,
    transmissions,
    busy,
    acknowledgements,
    collisions,
    losses,
    duplicates,
    discarded,
    queued_max,
});

fields!(MeshBin {
    generated,
    received,
    delay,
    parent_resets,
    rtos,
    rto_sum,
});

fields!(Traced {
    at,
    rank,
    parent,
    etx,
    rto,
    retransmissions,
});

fields!(Histogram {
    count,
    sum,
    max,
    bins,
});

fields!(RoundTrips { count, sum });
fields!(Closing { packets, time });
fields!(Recovery {
    entered,
    time,
    first_timeout,
    rto_peak,
});

impl Field for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut number = *self;
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let mut all = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = from.split_first()?;
            *from = rest;
            all |= Self::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(all);
            }
        }
        None
    }

    fn name(out: &mut String) {
        out.push_str("u64");
    }
}

/// Packs a type as a `u64`: how it becomes one, and is made of one.
macro_rules! as_u64 {
    ($($type:ident: $to:expr, $of:expr;)+) => {
        $(impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $to(*self).put(out);
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                $of(u64::take(from)?)
            }

            fn name(out: &mut String) {
                out.push_str(stringify!($type));
            }
        })+
    };
}

as_u64! {
    u16: u64::from, |number| Self::try_from(number).ok();
    u32: u64::from, |number| Self::try_from(number).ok();
    Instant: Self::as_micros, |micros| Some(Self::from_micros(micros));
    Duration: Self::as_micros, |micros| Some(Self::from_micros(micros));
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        match byte {
            0 => Some(None),
            1 => Some(Some(T::take(from)?)),
            _ => None,
        }
    }

    fn name(out: &mut String) {
        out.push('?');
        T::name(out);
    }
}

impl<T: Field> Field for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        T::take(from).map(Self::new)
    }

    fn name(out: &mut String) {
        T::name(out);
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        for one in self {
            one.put(out);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let count = u64::take(from)?;
        (0..count).map(|_| T::take(from)).collect()
    }

    fn name(out: &mut String) {
        out.push('*');
        T::name(out);
    }
}

#[cfg(test)]
mod tests {
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
    fn the_layout_names_every_field_with_its_type() {
        let mut names = String::new();
        RunRecord::name(&mut names);
        let flow = "flows:* started:Instant finished:?Instant ended:Instant setup:?Duration";
        assert!(names.trim().starts_with(flow), "{names}");
        let counts = "transmissions_per_exchange:*u32;";
        assert!(names.contains(counts), "{names}");
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
