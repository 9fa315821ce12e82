//! The anti-amplification limit: unvalidated addresses are challenged with an Echo option (RFC 9175
//! 2), and sent at most three times the bytes of their datagram (RFC 7252 11.3).
//!
//! The budget is per datagram, not per source. The empty ACK, the response and its retransmissions
//! together stay within three times the datagram. The limit therefore holds for the sum over all
//! datagrams of a source, without state of unvalidated sources.
//!
//! A response beyond the budget becomes:
//! - for a safe request, a challenge: 4.01 with an Echo value;
//! - for an unsafe one, its beginning in a smaller block, or its code alone: the request was executed,
//!   and an error would have it executed again;
//! - for an error, its code without the diagnostic payload;
//! - for a multicast request, its beginning in a smaller block, whose rest the client fetches by
//!   unicast (RFC 7959 2.8), or nothing. The limit then applies to private addresses, too.

use core::net::SocketAddr;

use crate::block::RequestedBlock;
use crate::capacity::Capacity;
use crate::carrier::Carrier;
use crate::codec::{BlockSize, BlockValue, Code};
use crate::context::Context;
use crate::event::IncomingId;
use crate::message::{Payload, Response};
use crate::server::Server;
use crate::writing::write_response;

/// The content of a response to write.
pub(crate) struct Draft<'a> {
    pub(crate) capacity: &'a Capacity,
    pub(crate) token: &'a [u8],
    pub(crate) method: Code,
    pub(crate) response: &'a Response,
    pub(crate) wanted: RequestedBlock,
    pub(crate) block1: Option<BlockValue>,
    pub(crate) to_group: bool,
}

impl Server {
    /// Challenges a request: responds 4.01 with an Echo value. Its client repeats it with the value
    /// (RFC 9175 2.3), and it is then [fresh](super::Incoming::fresh).
    ///
    /// Meant for requests that must not be executed late or more than once. An attacker may delay
    /// or replay a datagram, but its value is valid for [`Config::echo_lifetime`] only.
    ///
    /// [`Config::echo_lifetime`]: crate::endpoint::Config::echo_lifetime
    pub(crate) fn challenge(&mut self, cx: &mut Context, carrier: &mut Carrier, id: IncomingId) {
        let Some(from) = self.incoming.find(id).map(|slot| slot.from) else {
            return;
        };
        let challenge = carrier.admission.challenge_of(cx, from);
        self.respond(cx, carrier, id, &challenge);
    }
}

impl Draft<'_> {
    /// Writes a replacement within the budget of a response that exceeds it. Returns its length, 0
    /// if a group member sends nothing, and whether the rest of the body should be cached.
    pub(crate) fn write_within(
        &self,
        cx: &mut Context,
        carrier: &mut Carrier,
        to: SocketAddr,
        scratch: &mut [u8],
        budget: usize,
    ) -> (usize, bool) {
        let &Self {
            capacity,
            token,
            method,
            response,
            wanted,
            block1,
            to_group,
        } = self;
        let mut write = |response: &Response, wanted, block1| {
            let written = write_response(scratch, capacity, token, response, wanted, block1, None);
            written
                .ok()
                .filter(|(length, _): &(usize, bool)| *length <= budget)
        };
        let succeeded = response.code.is_success();
        if succeeded && method.is_safe() && !to_group {
            let challenge = carrier.admission.challenge_of(cx, to);
            if let Some(written) = write(&challenge, wanted, None) {
                return written;
            }
        } else if succeeded && !matches!(response.payload, Payload::Part { .. }) {
            // The largest that fits: SZX counts down from the wanted size, below the value that
            // means BERT.
            let sizes = (0..=wanted.size.szx().min(BlockSize::MAX.szx())).rev();
            for size in sizes.filter_map(BlockSize::from_szx) {
                let smaller = RequestedBlock::block(wanted.offset, size);
                if let Some(written) = write(response, smaller, block1) {
                    return written;
                }
            }
        }
        // Nothing rather than a code alone, which every member would send (RFC 7252 8.2).
        if succeeded && to_group {
            return (0, false);
        }
        let code = if succeeded && method.is_safe() {
            Code::UNAUTHORIZED
        } else {
            response.code
        };
        let plain = Response::new(code);
        let (length, _) = write(&plain, wanted, block1)
            .or_else(|| write(&plain, wanted, None))
            .unwrap_or_default();
        (length, false)
    }
}
