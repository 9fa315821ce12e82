//! Multicast requests received: only useful responses are sent, each after a random delay, so that
//! the members do not all respond at once (RFC 7252 8.2).

use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::time::Duration;

use crate::carrier::Carrier;
use crate::codec::{Code, TokenKey};
use crate::config::Leisure;
use crate::context::{Context, Owner};
use crate::message::Response;
use crate::server::Server;
use crate::timers::TimerId;
use crate::trace::TraceEvent;

/// A response waiting for its delay.
#[derive(Debug)]
pub(crate) struct DelayedGroupResponse {
    to: SocketAddr,
    token: TokenKey,
    /// The bytes that may be sent to its receiver.
    budget: usize,
    bytes: Vec<u8>,
    timer: TimerId,
}

impl Context {
    /// The Leisure period for a response of this size.
    pub(crate) fn leisure(&self, bytes: usize) -> Duration {
        match self.config.leisure {
            Leisure::Default => self.config.parameters.default_leisure,
            Leisure::Estimated { members, rate } => {
                // S * G / R of RFC 7252 8.2, with R in bytes per second.
                let all = (bytes as u64).saturating_mul(u64::from(members));
                let micros = all.saturating_mul(1_000_000) / u64::from(rate.max(1));
                Duration::from_micros(micros)
            }
        }
    }
}

impl Server {
    /// Schedules the response to a multicast request for a random time within the Leisure period.
    pub(crate) fn answer_group_later(
        &mut self,
        cx: &mut Context,
        to: SocketAddr,
        token: TokenKey,
        budget: usize,
        bytes: Vec<u8>,
    ) {
        // A member may always stay silent (RFC 7252 8.2), so that a flood costs no more than
        // the table.
        if self.delayed_responses.len() >= cx.config.limits.delayed_responses {
            let id = None;
            let retransmissions = 0;
            return cx.trace(
                to,
                TraceEvent::Abandoned {
                    id,
                    retransmissions,
                },
            );
        }
        let whole = cx.leisure(bytes.len());
        // A random fraction of the period, of 32 bits. The product may exceed 64.
        let share = u128::from(whole.as_micros()) * u128::from(cx.random.next_u32());
        let wait = Duration::from_micros((share >> 32) as u64);
        debug_assert!(wait <= whole, "after the Leisure period");
        let entry = self.delayed_responses.vacant_entry();
        let timer = cx.timers.add(Owner::DelayedResponse(entry.key() as u32));
        entry.insert(DelayedGroupResponse {
            to,
            token,
            budget,
            bytes,
            timer,
        });
        cx.timers.set(timer, cx.now + wait);
    }

    pub(crate) fn answer_group_now(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        let DelayedGroupResponse {
            to,
            token,
            budget,
            bytes,
            timer,
        } = self.delayed_responses.remove(index as usize);
        debug_assert!(bytes.len() <= budget, "{} bytes", bytes.len());
        cx.timers.remove(timer);
        // As NON, like the request (RFC 7252 5.2.3, 8.1).
        carrier.send_separately(cx, to, (token, None), (false, budget), bytes);
    }
}

/// Returns whether this response to a multicast request is useful. An error, or an empty
/// representation, would come from every member not concerned (RFC 7252 8.2).
pub(crate) fn is_useful(response: &Response) -> bool {
    let nothing = response.code == Code::CONTENT && response.bytes().is_empty();
    response.code.is_success() && !nothing
}
