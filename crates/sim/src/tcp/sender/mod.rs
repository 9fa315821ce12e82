//! The sending half: transmission, loss recovery, and the congestion window.
//!
//! The structure follows Linux's `tcp_input.c`, in whose terms RFC 6582, 6675 and 6937 can all
//! be expressed: a scoreboard of segments, a state ([`State`]), and a pipe that excludes lost and
//! received segments. Where the letter of an RFC differs, a setting selects it. Mechanisms:
//! [`scoreboard`] (marks), `recovery` (states), `transmit` (next segment), [`rate`] (delivery
//! rates).
//!
//! Not modelled: F-RTO, tail loss probes, RACK's timer, undoing of reductions (Eifel, DSACK), the
//! rescue retransmission of RFC 6675, MTU probing.

mod buffer;
mod rate;
mod recovery;
mod scoreboard;
mod transmit;

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};

use super::congestion::{self, Congestion, SSTHRESH_NONE, State, Window};
use super::counters::{Counters, POINTS_MAX, Point, SenderEvent};
use super::estimator::Estimator;
use super::segment::{IP_HEADER, TCP_HEADER};
use super::settings::TcpSettings;
use crate::random::Stream;
use buffer::SendBuffer;
use rate::Rate;
use scoreboard::Scoreboard;

/// An ACK, in positions.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckInput<'a> {
    pub(super) now: Instant,
    pub(super) ack: u64,
    pub(super) window: u64,
    /// True if it carried neither data nor SYN nor FIN.
    pub(super) bare: bool,
    pub(super) sack: &'a [(u64, u64)],
    /// The round-trip time from its timestamp.
    pub(super) echoed: Option<Duration>,
    pub(super) congestion_echo: bool,
}

/// The effect of a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimedOut {
    /// No timer was due.
    No,
    /// A segment must be sent.
    Sends,
    /// Too many consecutive timeouts: the connection has failed.
    GaveUp,
}

#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of independent mechanisms"
)]
pub(super) struct Sender {
    settings: TcpSettings,
    buffer: SendBuffer,
    board: Scoreboard,
    /// The first unacknowledged position.
    pub(super) una: u64,
    /// The next position to send.
    pub(super) nxt: u64,
    /// Position of the FIN, once the application has closed.
    fin: Option<u64>,
    peer_window: u64,
    /// Payload of a full segment.
    mss: u64,
    header_bytes: u32,
    sack: bool,
    window: Window,
    module: Box<dyn Congestion>,
    state: State,
    /// The next position to send at entry of the state ("recover").
    recover: u64,
    prr: Prr,
    /// Retransmit the first outstanding segment, regardless of the window.
    force: bool,
    /// Send a window probe of a byte.
    probe: bool,
    /// The next ACK of new data is the first of this recovery.
    first_partial: bool,
    /// Segments sent by limited transmit (RFC 3042).
    limited_sent: u32,
    /// The threshold of duplicate ACKs for a loss.
    threshold: u32,
    /// Duplicates since a timeout, for the variant without the careful check.
    strays: u32,
    recovery_began: Instant,
    pub(super) estimator: Estimator,
    timer: Option<Instant>,
    /// Timeouts since the last acknowledgment of new data.
    retries: u32,
    rate: Rate,
    /// Deliveries that duplicates announced before a timeout cleared them.
    announced: u32,
    /// The earliest time of the next transmission by pacing.
    next_departure: Instant,
    /// True if pacing delayed a transmission.
    paced: bool,
    last_sent_at: Instant,
    /// True if the window was full in this round; and the maximum of outstanding data in it.
    window_limited: bool,
    most_outstanding: u32,
    usage_until: u64,
    /// The next new segment reports the reduction to the peer (CWR).
    pub(super) cwr_pending: bool,
    pub(super) counters: Counters,
    points: Vec<Point>,
    points_most: u32,
}

/// State of proportional rate reduction (RFC 6937 3).
#[derive(Clone, Copy, Debug, Default)]
struct Prr {
    flight: u32,
    delivered: u32,
    out: u32,
}

impl Sender {
    pub(super) fn new(settings: &TcpSettings, stream: &Stream) -> Self {
        let window = Window {
            cwnd: settings.initial_window,
            ssthresh: SSTHRESH_NONE,
            count: 0,
        };
        let header_bytes = IP_HEADER + TCP_HEADER;
        Self {
            settings: *settings,
            buffer: SendBuffer::new(settings.send_buffer),
            board: Scoreboard::default(),
            una: 0,
            nxt: 0,
            fin: None,
            peer_window: 0,
            mss: u64::from(settings.mss),
            header_bytes,
            sack: false,
            window,
            module: congestion::build(
                settings,
                Instant::ZERO,
                settings.mss,
                header_bytes,
                &window,
                None,
                stream,
            ),
            state: State::Open,
            recover: 0,
            prr: Prr::default(),
            force: false,
            probe: false,
            first_partial: false,
            limited_sent: 0,
            threshold: settings.dup_ack_threshold,
            strays: 0,
            recovery_began: Instant::ZERO,
            estimator: Estimator::new(settings),
            timer: None,
            retries: 0,
            rate: Rate::new(settings.rate_sample),
            announced: 0,
            next_departure: Instant::ZERO,
            paced: false,
            last_sent_at: Instant::ZERO,
            window_limited: false,
            most_outstanding: 0,
            usage_until: 0,
            cwr_pending: false,
            counters: Counters::default(),
            points: Vec::new(),
            points_most: 0,
        }
    }

    /// Completes the handshake: `mss` bytes of payload at most, `options` bytes of options in every
    /// segment, and a round-trip time unless the handshake had retransmissions.
    #[expect(
        clippy::too_many_arguments,
        reason = "what a handshake settles, all at once"
    )]
    pub(super) fn establish(
        &mut self,
        now: Instant,
        mss: u32,
        options: u32,
        sack: bool,
        window: u64,
        rtt: Option<Duration>,
        stream: &Stream,
    ) {
        let lost = self.counters.handshake_retransmissions;
        self.una = 1;
        self.nxt = 1;
        self.recover = 0;
        self.mss = u64::from(mss);
        self.header_bytes = IP_HEADER + TCP_HEADER + options;
        self.sack = sack;
        self.peer_window = window;
        if lost > 0 && !self.settings.rto_after_handshake_loss.is_zero() {
            // RFC 6298 5.7
            self.estimator
                .restart(self.settings.rto_after_handshake_loss);
        } else {
            self.estimator.restart(self.settings.rto_initial);
        }
        if let Some(rtt) = rtt {
            self.estimator.sample(rtt, 1, 1);
            self.rate.saw_rtt(rtt);
        }
        if lost > self.settings.window_handshake_losses {
            self.window.cwnd = 1; // RFC 5681 3.1
        }
        self.timer = None;
        self.last_sent_at = now;
        self.module = congestion::build(
            &self.settings,
            now,
            mss,
            self.header_bytes,
            &self.window,
            self.estimator.srtt(),
            stream,
        );
        self.board.marked = self.module.wants_losses().then(Vec::new);
    }

    /// Appends as much of `data` as the buffer has room for.
    pub(super) fn write(&mut self, now: Instant, data: Bytes) -> usize {
        if self.fin.is_some() {
            return 0;
        }
        // Before the data is in the buffer, as in Linux's `tcp_sendmsg`: both ask whether the sender had run out
        // of data.
        self.check_application_limit();
        self.restart_after_idle(now);
        self.buffer.write(self.una, data)
    }

    /// Free space in bytes.
    pub(super) fn room(&self) -> u64 {
        if self.fin.is_some() {
            return 0;
        }
        self.buffer.room(self.una)
    }

    /// Sends a FIN after all written data.
    pub(super) fn close(&mut self) {
        let end = self.buffer.end();
        self.fin.get_or_insert(end);
    }

    /// Returns whether the FIN was acknowledged.
    pub(super) fn fin_acknowledged(&self) -> bool {
        self.fin.is_some_and(|fin| self.una > fin)
    }

    /// Returns whether all written data was acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.board.is_empty() && self.una >= self.buffer.end()
    }

    /// The time of the next [`handle_timeout`](Self::handle_timeout) or transmission.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let pacing = self.paced.then_some(self.next_departure);
        match (self.timer, pacing) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Window and threshold.
    pub(super) fn window(&self) -> Window {
        self.window
    }

    /// The loss recovery state.
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Segments in flight by the best estimate.
    pub(super) fn pipe(&self) -> u32 {
        self.board.pipe()
    }

    /// The counters, the running recovery included.
    pub(super) fn counters(&self, now: Instant) -> Counters {
        let mut counters = self.counters;
        counters.rto_peak = self.estimator.peak;
        if self.state == State::Recovery {
            counters.in_recovery += now.since(self.recovery_began);
        }
        counters
    }

    /// The clock of our timestamps, in milliseconds (RFC 7323 5.4), never 0.
    #[expect(
        clippy::unused_self,
        reason = "every connection may have a clock of its own"
    )]
    pub(super) fn clock(&self, now: Instant) -> u32 {
        (now.as_micros() / 1_000) as u32 | 1 << 31
    }

    /// Records up to `most` points.
    pub(super) fn record(&mut self, most: u32) {
        self.points_most = most.min(POINTS_MAX);
    }

    pub(super) fn points(&self) -> &[Point] {
        &self.points
    }

    fn note(&mut self, at: Instant, what: SenderEvent, seq: u64) {
        if self.points.len() < self.points_most as usize {
            self.points.push(Point {
                at,
                what,
                seq,
                cwnd: self.window.cwnd,
                ssthresh: self.window.ssthresh,
                pipe: self.board.pipe(),
                rto: self.estimator.rto(),
                srtt: self.estimator.srtt(),
            });
        }
    }
}

#[cfg(test)]
mod tests;
