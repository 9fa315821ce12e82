//! Records of runs as bytes: every number in as many bytes as it needs (LEB128).

use carob_cc::time::{Duration, Instant};
use carob_sim::link::Counters;
use carob_sim::spec::{Closing, FlowRecord, LinkRecord, Recovery, RoundTrips, RunRecord};

/// A record without its recordings.
pub(super) fn write(record: &RunRecord) -> Vec<u8> {
    let mut out = Vec::new();
    // Every field is named, so that a new one cannot be forgotten.
    let RunRecord {
        flows,
        link,
        ended,
        events_handled,
        trace_hash,
        events: _,
        events_unrecorded,
        log: _,
        packets: _,
        bins: _,
    } = record;
    let LinkRecord {
        down,
        up,
        useless_down,
        useless_up,
    } = link;
    for number in [
        ended.as_micros(),
        *events_handled,
        *trace_hash,
        *events_unrecorded,
        *useless_down,
        *useless_up,
    ] {
        number_to(&mut out, number);
    }
    counters_to(&mut out, down);
    counters_to(&mut out, up);
    number_to(&mut out, flows.len() as u64);
    for flow in flows {
        flow_to(&mut out, flow);
    }
    out
}

/// The record that was written; nothing if these are other bytes.
pub(super) fn read(bytes: &[u8]) -> Option<RunRecord> {
    let mut from = bytes;
    let [
        ended,
        events_handled,
        trace_hash,
        events_unrecorded,
        useless_down,
        useless_up,
    ] = numbers(&mut from)?;
    let down = counters(&mut from)?;
    let up = counters(&mut from)?;
    let count = number(&mut from)?;
    let flows: Option<Vec<FlowRecord>> = (0..count).map(|_| flow(&mut from)).collect();
    let record = RunRecord {
        flows: flows?,
        link: LinkRecord {
            down,
            up,
            useless_down,
            useless_up,
        },
        ended: Instant::from_micros(ended),
        events_handled,
        trace_hash,
        events_unrecorded,
        ..RunRecord::default()
    };
    from.is_empty().then_some(record)
}

fn flow_to(out: &mut Vec<u8>, flow: &FlowRecord) {
    let FlowRecord {
        started,
        finished,
        setup,
        body_bytes,
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
        rtt: _,
        rto_init: _,
        rto: _,
    } = flow;
    for number in [
        started.as_micros(),
        *body_bytes,
        u64::from(*exchanges),
        u64::from(*failed),
        *transmissions,
        *retransmissions,
        *spurious,
        *timeouts,
        *packets,
        *header_bytes,
        stall.as_micros(),
        u64::from(round_trips.count),
        round_trips.sum.as_micros(),
    ] {
        number_to(out, number);
    }
    option_to(out, finished.map(Instant::as_micros));
    option_to(out, setup.map(Duration::as_micros));
    option_to(out, *handshake_retransmissions);
    option_to(out, *segments);
    option_to(out, rto_median.map(Duration::as_micros));
    option_to(out, closing.map(|closing| closing.packets));
    if let Some(Closing { packets: _, time }) = closing {
        number_to(out, time.as_micros());
    }
    option_to(out, recovery.map(|recovery| recovery.entered));
    if let Some(Recovery {
        entered: _,
        time,
        first_timeout,
        rto_peak,
    }) = recovery
    {
        number_to(out, time.as_micros());
        option_to(out, first_timeout.map(Duration::as_micros));
        number_to(out, rto_peak.as_micros());
    }
    number_to(out, transmissions_per_exchange.len() as u64);
    for count in transmissions_per_exchange {
        number_to(out, u64::from(*count));
    }
}

fn flow(from: &mut &[u8]) -> Option<FlowRecord> {
    let [
        started,
        body_bytes,
        exchanges,
        failed,
        transmissions,
        retransmissions,
        spurious,
        timeouts,
        packets,
        header_bytes,
        stall,
        trips,
        trips_sum,
    ] = numbers(from)?;
    let [finished, setup] = [option(from)?, option(from)?];
    let [handshake_retransmissions, segments] = [option(from)?, option(from)?];
    let rto_median = option(from)?;
    let closing = match option(from)? {
        Some(packets) => Some(Closing {
            packets,
            time: Duration::from_micros(number(from)?),
        }),
        None => None,
    };
    let recovery = match option(from)? {
        Some(entered) => Some(Recovery {
            entered,
            time: Duration::from_micros(number(from)?),
            first_timeout: option(from)?.map(Duration::from_micros),
            rto_peak: Duration::from_micros(number(from)?),
        }),
        None => None,
    };
    let lengths = number(from)?;
    let lengths = (0..lengths).map(|_| u32::try_from(number(from)?).ok());
    let transmissions_per_exchange = lengths.collect::<Option<Vec<u32>>>()?;
    Some(FlowRecord {
        started: Instant::from_micros(started),
        finished: finished.map(Instant::from_micros),
        setup: setup.map(Duration::from_micros),
        body_bytes,
        exchanges: exchanges.try_into().ok()?,
        failed: failed.try_into().ok()?,
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
        stall: Duration::from_micros(stall),
        round_trips: RoundTrips {
            count: trips.try_into().ok()?,
            sum: Duration::from_micros(trips_sum),
        },
        rto_median: rto_median.map(Duration::from_micros),
        transmissions_per_exchange,
        ..FlowRecord::default()
    })
}

fn counters_to(out: &mut Vec<u8>, counters: &Counters) {
    let Counters {
        offered,
        dropped_full,
        dropped_early,
        marked,
        lost,
        delivered,
        bytes_sent,
        queue_bytes_peak,
    } = counters;
    for number in [
        offered,
        dropped_full,
        dropped_early,
        marked,
        lost,
        delivered,
        bytes_sent,
        queue_bytes_peak,
    ] {
        number_to(out, *number);
    }
}

fn counters(from: &mut &[u8]) -> Option<Counters> {
    let [
        offered,
        dropped_full,
        dropped_early,
        marked,
        lost,
        delivered,
        bytes_sent,
        queue_bytes_peak,
    ] = numbers(from)?;
    Some(Counters {
        offered,
        dropped_full,
        dropped_early,
        marked,
        lost,
        delivered,
        bytes_sent,
        queue_bytes_peak,
    })
}

fn number_to(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn number(from: &mut &[u8]) -> Option<u64> {
    let mut all = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        all |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(all);
        }
    }
    None
}

fn numbers<const N: usize>(from: &mut &[u8]) -> Option<[u64; N]> {
    let mut all = [0; N];
    for one in &mut all {
        *one = number(from)?;
    }
    Some(all)
}

fn option_to(out: &mut Vec<u8>, value: Option<u64>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        number_to(out, value);
    }
}

/// The outer option is nothing if it cannot be read.
#[allow(
    clippy::option_option,
    reason = "one says whether there is a value, the other whether it could be read"
)]
fn option(from: &mut &[u8]) -> Option<Option<u64>> {
    let (&byte, rest) = from.split_first()?;
    *from = rest;
    match byte {
        0 => Some(None),
        1 => Some(Some(number(from)?)),
        _ => None,
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
            setup: whole.then(|| Duration::from_micros(n())),
            body_bytes: n(),
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
        RunRecord {
            flows,
            link: LinkRecord {
                down,
                up,
                useless_down: n(),
                useless_up: n(),
            },
            ended: Instant::from_micros(n()),
            events_handled: n(),
            trace_hash: u64::MAX,
            events_unrecorded: n(),
            ..RunRecord::default()
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let record = record();
        let bytes = write(&record);
        assert_eq!(read(&bytes), Some(record));
        let nothing = RunRecord::default();
        assert_eq!(read(&write(&nothing)), Some(nothing));
    }

    #[test]
    fn no_part_of_it_and_nothing_longer_is_taken_for_a_record() {
        let bytes = write(&record());
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), None, "{end}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(read(&longer), None);
        assert_eq!(read(&[0xff; 40]), None);
    }
}
