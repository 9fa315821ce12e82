//! Connection costs of a client's flow.

use carob_cc::time::{Duration, Instant};

use crate::spec::{FlowRecord, Recovery, Sample};
use crate::tcp::Socket;

use super::super::Engine;
use super::super::host::Flow;
use super::super::network::Network;
use super::{CLIENT, SERVER};

impl<N: Network> Engine<'_, N> {
    /// Adds the costs of a client's connection to its flow, once.
    pub(crate) fn count_connection(&mut self, flow: &mut Flow, client: u32) {
        let now = self.now;
        let Some(slot) = self.connections.current(client) else {
            return;
        };
        let both = self.group(client).spec.workload.requests().request_bytes > 0;
        let connection = &mut self.connections.all[slot as usize];
        if std::mem::replace(&mut connection.counted, true) {
            return;
        }
        let flow = &mut flow.record;
        let server = &connection.ends[SERVER].socket;
        // Segments of small requests are left out, so that counters describe the transfer of bodies.
        let counted = if both {
            &[SERVER, CLIENT][..]
        } else {
            &[SERVER]
        };
        let mut segments = 0;
        for end in counted.iter().map(|which| &connection.ends[*which]) {
            let counters = end.socket.counters();
            segments += counters.data_segments;
            flow.retransmissions += counters.retransmissions;
            let new = counters.data_segments - counters.retransmissions;
            flow.exchanges += u32::try_from(new).unwrap_or(u32::MAX);
            flow.timeouts += counters.timeouts;
            flow.spurious += end.spurious;
        }
        flow.transmissions += segments;
        *flow.segments.get_or_insert(0) += segments;
        let again = |which: usize| {
            connection.ends[which]
                .socket
                .counters()
                .handshake_retransmissions
        };
        *flow.handshake_retransmissions.get_or_insert(0) +=
            u64::from(again(CLIENT)) + u64::from(again(SERVER));
        let counters = server.counters();
        let recovery = flow.recovery.get_or_insert_with(Recovery::default);
        recovery.entered += counters.recoveries;
        recovery.time += counters.in_recovery;
        let first = counters.first_timeout.map(|at| at.since(flow.started));
        recovery.first_timeout = recovery.first_timeout.or(first);
        recovery.rto_peak = recovery.rto_peak.max(counters.rto_peak);
        sample_timer(flow, server, now);
    }
}

/// Adds the retransmission timeouts of a socket's history at each change.
fn sample_timer(flow: &mut FlowRecord, socket: &Socket, now: Instant) {
    let mut last: Option<Duration> = None;
    for point in socket.points().iter().filter(|point| point.at <= now) {
        if last != Some(point.rto) {
            last = Some(point.rto);
            flow.rto.push(Sample {
                at: point.at,
                value: point.rto,
                attempts: 1,
            });
        }
    }
}
