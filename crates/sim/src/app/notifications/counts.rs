//! Notification counters by client and over time.

use carob_cc::evidence::Kind;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::Type;
use carob_proto::trace::TraceEvent;

use crate::engine::network::Fate;
use crate::spec::Sample;
use crate::spec::notifications::{
    LAG, NotificationBin, NotificationRecord, Notifications, Sends, Subscriber,
};

/// Bin width of [`Sends`].
const SPAN: Duration = Duration::from_millis(100);

/// The counters of a run, from its first round on.
#[derive(Debug)]
pub(super) struct Counts {
    begin: Instant,
    bin: Duration,
    samples: usize,
    pub(super) record: NotificationRecord,
    last_rto: Vec<Option<Duration>>,
    /// Packets with notifications in each span.
    sends: Vec<u16>,
}

impl Counts {
    pub(super) fn new(
        workload: &Notifications,
        begin: Instant,
        clients: u32,
        samples: u32,
    ) -> Self {
        let spans = |width: Duration| workload.duration.as_micros().div_ceil(width.as_micros());
        let clients = clients as usize;
        Self {
            begin,
            bin: workload.bin,
            samples: samples as usize,
            record: NotificationRecord {
                subscribers: vec![Subscriber::default(); clients],
                bin_width: workload.bin,
                bins: vec![NotificationBin::default(); spans(workload.bin) as usize],
                sends: Sends::default(),
            },
            last_rto: vec![None; clients],
            sends: vec![0; spans(SPAN) as usize],
        }
    }

    pub(super) fn has_begun(&self, now: Instant) -> bool {
        now >= self.begin
    }

    fn bin_at(&mut self, at: Instant) -> Option<&mut NotificationBin> {
        let since = at.since(self.begin).as_micros();
        let index = since / self.bin.as_micros();
        self.record.bins.get_mut(index as usize)
    }

    /// Counts a round of a client's resources; the server lists it as observer of `listed` of them.
    pub(super) fn generated(&mut self, now: Instant, client: u32, resources: u32, listed: u32) {
        let subscriber = &mut self.record.subscribers[client as usize];
        subscriber.generated += u64::from(resources);
        subscriber.unlisted += u64::from(resources.saturating_sub(listed));
        if let Some(bin) = self.bin_at(now) {
            bin.generated += u64::from(resources);
        }
    }

    /// Counts a transmission offered to the link.
    pub(super) fn offered(&mut self, now: Instant, client: u32, fate: Fate) {
        let span = now.since(self.begin).as_micros() / SPAN.as_micros();
        if let Some(count) = self.sends.get_mut(span as usize) {
            *count = count.saturating_add(1);
        }
        let subscriber = &mut self.record.subscribers[client as usize];
        let (dropped, lost) = (
            u64::from(fate == Fate::Dropped),
            u64::from(fate == Fate::Lost),
        );
        subscriber.link_dropped += dropped;
        subscriber.link_lost += lost;
        if let Some(bin) = self.bin_at(now) {
            bin.link_dropped += dropped;
            bin.link_lost += lost;
        }
    }

    /// Counts the reception of a notification of the round at `generated`.
    pub(super) fn received(&mut self, now: Instant, client: u32, generated: Instant) {
        let subscriber = &mut self.record.subscribers[client as usize];
        let delay = now.since(generated);
        subscriber.received += 1;
        subscriber.delay += delay;
        subscriber.delay_max = subscriber.delay_max.max(delay);
        // In the bin of its generation, so that a bin's ratio of received to generated is at most 1.
        if let Some(bin) = self.bin_at(generated) {
            bin.received += 1;
        }
    }

    /// Counts a trace event of the server about a client.
    pub(super) fn on_server_trace(&mut self, now: Instant, client: u32, what: &TraceEvent) {
        let subscriber = &mut self.record.subscribers[client as usize];
        match what {
            TraceEvent::Sent {
                retransmissions: 0,
                kind,
                purpose: Kind::Notification,
                ..
            } => {
                subscriber.sent += 1;
                subscriber.confirmable += u64::from(*kind == Type::Confirmable);
            }
            TraceEvent::Sent {
                purpose: Kind::Notification,
                ..
            } => subscriber.retransmissions += 1,
            TraceEvent::Superseded { .. } => subscriber.sent += 1,
            TraceEvent::Abandoned { .. } => subscriber.abandoned += 1,
            TraceEvent::NotificationDropped => {
                subscriber.dropped += 1;
                if let Some(bin) = self.bin_at(now) {
                    bin.dropped += 1;
                }
            }
            TraceEvent::Answered {
                rto: Some(rto),
                retransmissions,
                ..
            } => {
                let is_new = self.last_rto[client as usize].replace(*rto) != Some(*rto);
                if is_new && subscriber.rto.len() < self.samples {
                    subscriber.rto.push(Sample {
                        at: now,
                        value: *rto,
                        attempts: retransmissions.saturating_add(1),
                    });
                }
            }
            _ => {}
        }
    }

    /// Records the server's RTO towards a client at the end of the bin before `now`.
    pub(super) fn rto(&mut self, now: Instant, rto: Duration) {
        // Bins exclude their end, so `now` is in the next one.
        let Some(bin) = self.bin_at(now - Duration::from_micros(1)) else {
            return;
        };
        bin.rto_min = if bin.rtos == 0 {
            rto
        } else {
            bin.rto_min.min(rto)
        };
        bin.rto_max = bin.rto_max.max(rto);
        bin.rtos += 1;
        bin.rto_sum += rto;
    }

    /// Records the messages queued for a client at the end of the run.
    pub(super) fn unsent(&mut self, client: u32, waiting: u64) {
        let subscriber = &mut self.record.subscribers[client as usize];
        subscriber.unsent = waiting;
        let accounted = subscriber.unlisted + subscriber.dropped + subscriber.sent + waiting;
        subscriber.superseded = subscriber.generated.saturating_sub(accounted);
    }

    pub(super) fn into_record(mut self) -> NotificationRecord {
        let lag = (LAG.as_micros() / SPAN.as_micros()) as usize;
        let sends = &mut self.record.sends;
        sends.spans = self.sends.len() as u64;
        for (k, count) in self.sends.iter().enumerate() {
            let count = u64::from(*count);
            let later = self.sends.get(k + lag).copied().unwrap_or(0);
            sends.packets += count;
            sends.squares += count * count;
            sends.products += count * u64::from(later);
            sends.peak = sends.peak.max(count);
        }
        self.record
    }
}
