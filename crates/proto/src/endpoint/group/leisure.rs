//! Requests of others to groups that we are in: only what is of use is answered, and each at a moment
//! of its own, so that the members do not answer all at once (RFC 7252 8.2).

use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};

use crate::codec::{Code, MessageView, TokenKey, Type};
use crate::counters::Refusal;
use crate::dedup::Known;
use crate::endpoint::config::Leisure;
use crate::endpoint::{Endpoint, Owner, Tracing};
use crate::message::Response;
use crate::rates::Pace;
use crate::timers::TimerId;
use crate::trace::What;

/// A response that waits for its moment.
#[derive(Debug)]
pub(in crate::endpoint) struct Leisurely {
    to: SocketAddr,
    token: TokenKey,
    /// What its receiver may be sent.
    budget: usize,
    bytes: Vec<u8>,
    timer: TimerId,
}

impl Endpoint {
    /// Takes a datagram that was sent to a group. Only NON requests mean anything there; all else is
    /// ignored, and nothing is rejected (RFC 7252 8.1).
    pub fn handle_group_datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        if self.is_reliable() {
            return;
        }
        self.notified_at = now;
        self.counters.received.add(bytes.len());
        let Ok(message) = MessageView::parse(bytes) else {
            self.counters.refused(Refusal::Malformed);
            return self.trace(now, from, What::Malformed);
        };
        let (kind, code, id) = (message.kind(), message.code(), message.message_id());
        if self.config.trace == Tracing::Everything {
            let bytes = bytes.len() as u32;
            let what = What::Received {
                id,
                kind,
                code,
                bytes,
            };
            self.trace(now, from, what);
        }
        if kind != Type::NonConfirmable || !code.is_request() {
            return;
        }
        match self.dedup.look_up(now, from, id) {
            Known::New => {
                if self.pace(now, from) == Pace::Within {
                    self.handle_request(now, from, &message, true);
                }
            }
            Known::InProgress { .. } | Known::Answered(_) => {
                self.counters.duplicates += 1;
                self.trace(now, from, What::Duplicate { id });
            }
        }
    }

    /// Within what time a response of this size is sent.
    fn leisure(&self, bytes: usize) -> Duration {
        match self.config.leisure {
            Leisure::Default => self.config.parameters.default_leisure,
            Leisure::Estimated { members, rate } => {
                let all = (bytes as u64).saturating_mul(u64::from(members));
                let micros = all.saturating_mul(1_000_000) / u64::from(rate.max(1));
                Duration::from_micros(micros)
            }
        }
    }

    /// Sends a response to a request to a group at a random moment of its leisure.
    pub(in crate::endpoint) fn answer_group_later(
        &mut self,
        now: Instant,
        to: SocketAddr,
        token: TokenKey,
        budget: usize,
        bytes: Vec<u8>,
    ) {
        if self.leisurely.len() >= self.config.limits.leisurely {
            let id = None;
            let retransmissions = 0;
            return self.trace(
                now,
                to,
                What::Abandoned {
                    id,
                    retransmissions,
                },
            );
        }
        let whole = self.leisure(bytes.len());
        let share = u128::from(whole.as_micros()) * u128::from(self.random.next_u32());
        let wait = Duration::from_micros((share >> 32) as u64);
        let entry = self.leisurely.vacant_entry();
        let timer = self.timers.add(Owner::Leisurely(entry.key() as u32));
        entry.insert(Leisurely {
            to,
            token,
            budget,
            bytes,
            timer,
        });
        self.timers.set(timer, now + wait);
    }

    pub(in crate::endpoint) fn answer_group_now(&mut self, now: Instant, index: u32) {
        let Leisurely {
            to,
            token,
            budget,
            bytes,
            timer,
        } = self.leisurely.remove(index as usize);
        self.timers.remove(timer);
        self.send_separately(now, to, (token, None), (false, budget), bytes);
    }
}

/// Whether a group's request is answered with this: an error, or a representation of nothing, would
/// come from every member that is not concerned (RFC 7252 8.2).
pub(in crate::endpoint) fn is_of_use(response: &Response) -> bool {
    let nothing = response.code == Code::CONTENT && response.bytes().is_empty();
    response.code.is_success() && !nothing
}
