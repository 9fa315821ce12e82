//! TCP socket: states, handshake, closing, and segments in and out.
//!
//! **The contract.** After every input ([`connect`](Socket::connect), [`write`](Socket::write),
//! [`close`](Socket::close), [`handle_segment`](Socket::handle_segment),
//! [`handle_timeout`](Socket::handle_timeout), and [`read`](Socket::read), which may open the
//! window), drain [`poll`](Socket::poll) until [`Output::Wait`]; then wait for input or for the
//! deadline. `docs/adr/0001-sans-io-engine.md`.

mod input;
mod output;

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};

use super::congestion::{State as LossState, Window};
use super::counters::{Counters, Point};
use super::receiver::Receiver;
use super::segment::{Flags, Segment};
use super::sender::Sender;
use super::settings::{SettingsError, TcpSettings};
use crate::random::Stream;

/// The states of RFC 9293 3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No connection.
    Closed,
    /// Waiting for a SYN.
    Listen,
    /// A SYN was sent.
    SynSent,
    /// A SYN was received and a SYN-ACK sent.
    SynReceived,
    /// Data flows.
    Established,
    /// Closed by us; our FIN is not acknowledged.
    FinWait1,
    /// Closed by us; waiting for the peer's FIN.
    FinWait2,
    /// Closed by the peer.
    CloseWait,
    /// Closed by both at once; our FIN is not acknowledged.
    Closing,
    /// Closed by the peer, then by us; our FIN is not acknowledged.
    LastAck,
    /// Closed; late segments still get a reply.
    TimeWait,
}

/// An event for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is established.
    Connected,
    /// Bytes can be read.
    Readable,
    /// Bytes can be written, after an incomplete write.
    Writable,
    /// The peer has sent all its data.
    PeerClosed,
    /// Both directions are closed and acknowledged.
    Closed,
    /// The peer reset the connection, or refused it.
    Reset,
    /// Too many consecutive timeouts.
    TimedOut,
}

impl Event {
    /// In the order of delivery.
    const ALL: [Self; 7] = [
        Self::Connected,
        Self::Readable,
        Self::Writable,
        Self::PeerClosed,
        Self::Closed,
        Self::Reset,
        Self::TimedOut,
    ];
}

/// An output of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this segment.
    Transmit(Segment),
    /// Report this event to the application.
    Event(Event),
    /// Wait until this time, or for the next input.
    Wait(Option<Instant>),
}

/// The reason for refusing an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketError {
    /// The socket is not closed, so it cannot be opened.
    InUse,
}

impl core::fmt::Display for SocketError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the socket is in use")
    }
}

impl core::error::Error for SocketError {}

/// One end of one connection.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of independent mechanisms"
)]
pub struct Socket {
    settings: TcpSettings,
    stream: Stream,
    now: Instant,
    state: State,
    /// Our initial sequence number.
    local: u32,
    /// The peer's.
    remote: u32,
    sender: Sender,
    receiver: Receiver,
    /// Bits of [`Event::ALL`].
    events: u8,
    /// A segment to send before anything else: a RST, or the handshake's last ACK.
    answer: Option<Segment>,
    syn_due: bool,
    syn_was_sent: bool,
    ack_due: bool,
    /// The handshake's timer, or the end of TIME-WAIT.
    timer: Option<Instant>,
    opened_at: Instant,
    syn_sent_at: Instant,
    want_writable: bool,
    close_wanted: bool,
    options: NegotiatedOptions,
}

/// The negotiated options and their state.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of independent mechanisms"
)]
struct NegotiatedOptions {
    mss: u32,
    /// Window scale of outgoing and of incoming segments.
    scale_out: u8,
    scale_in: u8,
    sack: bool,
    timestamps: bool,
    ecn: bool,
    /// The peer's latest timestamp, to be echoed.
    echo: u32,
    /// Packets were marked: ECE on every ACK until the peer sends CWR.
    congestion_seen: bool,
}

impl Socket {
    /// Creates a closed socket; initial sequence number and random phases come from `stream`.
    pub fn new(settings: &TcpSettings, mut stream: Stream) -> Result<Self, SettingsError> {
        settings.check()?;
        let local = (stream.next_u64() >> 32) as u32;
        let options = NegotiatedOptions {
            mss: settings.mss,
            ..NegotiatedOptions::default()
        };
        Ok(Self {
            settings: *settings,
            sender: Sender::new(settings, &stream),
            receiver: Receiver::new(settings),
            stream,
            now: Instant::ZERO,
            state: State::Closed,
            local,
            remote: 0,
            events: 0,
            answer: None,
            syn_due: false,
            syn_was_sent: false,
            ack_due: false,
            timer: None,
            opened_at: Instant::ZERO,
            syn_sent_at: Instant::ZERO,
            want_writable: false,
            close_wanted: false,
            options,
        })
    }

    /// Opens the connection actively.
    pub fn connect(&mut self, now: Instant) -> Result<(), SocketError> {
        if self.state != State::Closed || self.sender.nxt != 0 {
            return Err(SocketError::InUse);
        }
        self.now = now;
        self.opened_at = now;
        self.state = State::SynSent;
        self.syn_due = true;
        // The SYN takes position 0.
        self.sender.nxt = 1;
        Ok(())
    }

    /// Listens for the single connection of this socket.
    pub fn listen(&mut self) -> Result<(), SocketError> {
        if self.state != State::Closed || self.sender.nxt != 0 {
            return Err(SocketError::InUse);
        }
        self.state = State::Listen;
        Ok(())
    }

    /// Buffers as much of `data` as fits, before the connection is established, too. After an
    /// incomplete write, [`Event::Writable`] reports free space.
    pub fn write(&mut self, now: Instant, data: Bytes) -> usize {
        self.now = self.now.max(now);
        if self.close_wanted || self.is_dead() {
            return 0;
        }
        let wanted = data.len();
        let accepted = self.sender.write(self.now, data);
        self.want_writable |= accepted < wanted;
        accepted
    }

    /// The next bytes in order, in pieces as they arrived; [`Event::PeerClosed`] reports the end of
    /// the stream.
    pub fn read(&mut self) -> Option<Bytes> {
        let bytes = self.receiver.read()?;
        // A peer that filled the window has nothing else to learn the free space from but its next probe.
        if self.receiver.window_opened() && self.is_synchronised() {
            self.ack_due = true;
        }
        Some(bytes)
    }

    /// Bytes that can be read.
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// Bytes that can be written.
    pub fn writable(&self) -> u64 {
        if self.close_wanted || self.is_dead() {
            return 0;
        }
        self.sender.room()
    }

    /// Closes our direction after the written data; the peer's data can still be read.
    pub fn close(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.close_wanted {
            return;
        }
        self.close_wanted = true;
        match self.state {
            State::Listen | State::SynSent | State::Closed => self.end(Event::Closed),
            State::SynReceived => self.sender.close(), // goes on once established
            State::Established => {
                self.sender.close();
                self.state = State::FinWait1;
            }
            State::CloseWait => {
                self.sender.close();
                self.state = State::LastAck;
            }
            _ => {}
        }
    }

    /// Resets the connection: sends a RST and drops all state.
    pub fn abort(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.is_synchronised() && self.state != State::TimeWait {
            self.answer = Some(self.bare(Flags::RST | Flags::ACK));
        }
        self.end(Event::Closed);
    }

    /// Handles the timeout announced by [`Output::Wait`].
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.timeouts();
    }

    /// Returns the next output; drain it until it waits.
    pub fn poll(&mut self) -> Output {
        if let Some(answer) = self.answer.take() {
            self.sender.counters.segments += 1;
            return Output::Transmit(answer);
        }
        if self.events != 0 {
            let bit = self.events.trailing_zeros();
            // Clears the lowest bit, so that events are reported in the order of `Event::ALL`.
            self.events &= self.events - 1;
            return Output::Event(Event::ALL[bit as usize]);
        }
        if let Some(segment) = self.transmit() {
            self.sender.counters.segments += 1;
            return Output::Transmit(segment);
        }
        Output::Wait(self.deadline())
    }

    /// The connection's state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns whether all written data was acknowledged.
    pub fn is_flushed(&self) -> bool {
        self.sender.is_idle()
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.sender.counters(self.now)
    }

    /// Records up to `most` points of the sender's history, at most
    /// [`POINTS_MAX`](super::counters::POINTS_MAX); later ones are dropped.
    pub fn record(&mut self, most: u32) {
        self.sender.record(most);
    }

    /// The history, if recorded.
    pub fn points(&self) -> &[Point] {
        self.sender.points()
    }

    /// Congestion window and threshold.
    pub fn window(&self) -> Window {
        self.sender.window()
    }

    /// The loss recovery state of the sender.
    pub fn loss_state(&self) -> LossState {
        self.sender.state()
    }

    /// Segments in flight by the best estimate.
    pub fn pipe(&self) -> u32 {
        self.sender.pipe()
    }

    /// The retransmission timeout, backoff included, and the number of doublings.
    pub fn rto(&self) -> (Duration, u32) {
        (self.sender.estimator.rto(), self.sender.estimator.backoff())
    }

    /// The smoothed round-trip time; none before the first sample.
    pub fn srtt(&self) -> Option<Duration> {
        self.sender.estimator.srtt()
    }

    /// The maximum payload of a segment, options deducted.
    pub fn mss(&self) -> u32 {
        self.options.mss
    }

    fn report(&mut self, event: Event) {
        self.events |= 1 << (event as u8);
    }

    fn is_dead(&self) -> bool {
        self.state == State::Closed && self.sender.nxt != 0
    }

    fn is_synchronised(&self) -> bool {
        !matches!(
            self.state,
            State::Closed | State::Listen | State::SynSent | State::SynReceived
        )
    }

    /// Ends the connection.
    fn end(&mut self, event: Event) {
        self.state = State::Closed;
        // Above 0 it marks a used socket, which cannot be opened again.
        self.sender.nxt = self.sender.nxt.max(1);
        self.timer = None;
        self.syn_due = false;
        self.ack_due = false;
        self.report(event);
    }
}
