//! Segments out.

use carob_cc::time::Instant;

use super::{Socket, State};
use crate::tcp::segment::{Ecn, Flags, Options, Segment, number};

impl Socket {
    /// The next segment to send.
    pub(super) fn transmit(&mut self) -> Option<Segment> {
        if self.syn_due {
            self.syn_due = false;
            return Some(self.syn());
        }
        if !self.is_synchronised() {
            return None;
        }
        if !matches!(self.state, State::TimeWait | State::FinWait2)
            && let Some(outgoing) = self.sender.next(self.now)
        {
            let mut flags = Flags::ACK;
            if outgoing.push {
                flags = flags | Flags::PSH;
            }
            if outgoing.fin {
                flags = flags | Flags::FIN;
            }
            if !outgoing.copy && core::mem::take(&mut self.sender.cwr_pending) {
                flags = flags | Flags::CWR;
            }
            let mut segment = self.bare(flags);
            segment.seq = number(self.local, outgoing.start);
            // RFC 3168 6.1.5: retransmissions are not capable.
            if self.options.ecn && !outgoing.copy && !outgoing.payload.is_empty() {
                segment.ecn = Ecn::Capable;
            }
            segment.payload = outgoing.payload;
            return Some(segment);
        }
        if self.ack_due {
            return Some(self.bare(Flags::ACK));
        }
        None
    }

    /// A segment without data that acknowledges everything received.
    pub(super) fn bare(&mut self, flags: Flags) -> Segment {
        let window = (self.receiver.window() >> self.options.scale_out).min(u64::from(u16::MAX));
        let mut flags = flags;
        if self.options.congestion_seen {
            flags = flags | Flags::ECE;
        }
        let mut options = Options::default();
        if self.options.timestamps {
            options.timestamps = Some((self.sender.clock(self.now), self.options.echo));
        }
        if self.options.sack {
            // 40 bytes of options (RFC 9293 3.1): timestamps take 12, SACK 2 and 8 for each block.
            let most = if self.options.timestamps { 3 } else { 4 };
            let remote = self.remote;
            self.receiver.sack_blocks(most, |start, end| {
                options
                    .sack
                    .push(number(remote, start), number(remote, end));
            });
        }
        let segment = Segment {
            seq: number(self.local, self.sender.nxt),
            ack: number(self.remote, self.receiver.next),
            flags,
            window: window as u16,
            options,
            ..Segment::default()
        };
        self.receiver.acknowledged();
        self.ack_due = false;
        segment
    }

    /// The SYN or SYN-ACK, first or retransmitted.
    fn syn(&mut self) -> Segment {
        let again = core::mem::replace(&mut self.syn_was_sent, true);
        if again {
            self.sender.counters.handshake_retransmissions += 1;
        } else {
            self.syn_sent_at = self.now;
        }
        self.timer = Some(self.sender.estimator.deadline(self.now));
        let settings = &self.settings;
        let reply = self.state == State::SynReceived;
        let mut flags = Flags::SYN;
        let mut options = Options {
            mss: Some(settings.mss.min(u32::from(u16::MAX)) as u16),
            ..Options::default()
        };
        let offer = |ours: bool, agreed: bool| ours && (!reply || agreed);
        options.sack_permitted = offer(settings.sack, self.options.sack);
        let scale = Self::scale_for(settings.receive_window);
        if offer(true, self.options.scale_out == scale) && scale > 0 {
            options.window_scale = Some(scale);
        }
        if offer(settings.timestamps, self.options.timestamps) {
            options.timestamps = Some((self.sender.clock(self.now), self.options.echo));
        }
        if reply {
            flags = flags | Flags::ACK;
            if self.options.ecn {
                flags = flags | Flags::ECE;
            }
        } else if settings.ecn {
            self.options.ecn = true;
            flags = flags | Flags::ECE | Flags::CWR; // RFC 3168 6.1.1
        }
        let window = self.receiver.window().min(u64::from(u16::MAX)) as u16;
        Segment {
            seq: self.local,
            ack: if reply {
                number(self.remote, self.receiver.next)
            } else {
                0
            },
            flags,
            window,
            options,
            ..Segment::default()
        }
    }

    /// The earliest deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let mut deadline = self.timer;
        if self.is_synchronised() {
            for other in [self.sender.deadline(), self.receiver.deadline()] {
                deadline = match (deadline, other) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
        deadline
    }
}
