//! Detection of lost sessions by requests that end early.
//!
//! A session is suspect when a CON times out (`suspect_session`). Applications often wait for a
//! shorter time than its retransmissions take. Their cancelled requests count here: without a
//! message from the peer, they make the session suspect, too.

use alloc::vec::Vec;

use carob_cc::time::Instant;

use crate::address::PeerIndex;
use crate::carrier::Carrier;
use crate::context::Context;
use crate::message_layer::session::Session;

/// Unanswered transmissions of cancelled requests after which a session is suspect.
const UNANSWERED: u8 = 3;

/// The unanswered transmissions of the cancelled requests to one peer.
#[derive(Clone, Copy, Debug, Default)]
struct Silence {
    transmissions: u8,
    /// The time of the first one.
    since: Instant,
}

/// Silences by peer index; empty unless datagrams are secured.
#[derive(Debug, Default)]
pub(crate) struct Silences(Vec<Silence>);

impl Silences {
    /// Forgets the silence of a peer: it has a new session.
    pub(crate) fn clear(&mut self, peer: PeerIndex) {
        if let Some(silence) = self.0.get_mut(peer as usize) {
            silence.transmissions = 0;
        }
    }

    fn of(&mut self, peer: PeerIndex) -> &mut Silence {
        let index = peer as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, Silence::default());
        }
        &mut self.0[index]
    }
}

impl Carrier {
    /// Counts the unanswered transmissions of a request that is being cancelled. Its session
    /// becomes suspect after [`UNANSWERED`] transmissions since the last message from the peer, the
    /// first of which was sent at least ACK_TIMEOUT * ACK_RANDOM_FACTOR ago.
    pub(crate) fn count_silence(&mut self, cx: &mut Context, index: u32) {
        let exchange = &self.exchanges[index as usize];
        let (peer, purpose) = (exchange.peer, exchange.purpose);
        let state = &self.peers[peer];
        // A NON whose response is not wanted may be unanswered in a sound session.
        let replies = exchange.confirmable || exchange.request.suppressed.is_none();
        if !cx.config.secured
            || state.session != Session::Open
            || purpose.operation().is_none()
            || !replies
        {
            return;
        }
        let heard = state.last_heard;
        let unanswered = (exchange.transmissions.iter()).filter(|sent| sent.at >= heard);
        let count = u8::try_from(unanswered.clone().count()).unwrap_or(u8::MAX);
        let Some(first) = unanswered.map(|sent| sent.at).min() else {
            return;
        };
        let parameters = self.exchange_parameters(cx, index);
        debug_assert!(first >= heard, "it was heard since");
        let silence = self.silences.of(peer);
        if silence.transmissions == 0 || silence.since < heard {
            *silence = Silence {
                transmissions: 0,
                since: first,
            };
        }
        silence.since = silence.since.min(first);
        silence.transmissions = silence.transmissions.saturating_add(count);
        // The longest first timeout: a peer is not suspect before a retransmission would be
        // due.
        let patience = parameters.ack_timeout.scale(parameters.ack_random_factor);
        if silence.transmissions >= UNANSWERED && cx.now.since(silence.since) >= patience {
            self.silences.clear(peer);
            self.suspect_session(cx, peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;

    use carob_cc::time::Duration;

    use super::*;
    use crate::codec::NoResponse;
    use crate::endpoint::{Config, Endpoint, Output, RequestConfig, SessionEnd};
    use crate::fuzzing::Stream;
    use crate::message::Request;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn peer() -> SocketAddr {
        "[::1]:5684".parse().expect("an address")
    }

    /// A client with a session.
    fn client() -> Endpoint {
        let config = Config {
            secured: true,
            ..Config::default()
        };
        let mut endpoint = Endpoint::new(config, Stream(1));
        endpoint.session_opened(at(0), peer());
        let first = endpoint.request(at(0), peer(), Request::get(), RequestConfig::default());
        endpoint.session_opened(at(0), peer());
        assert!(endpoint.cancel(at(0), first.expect("there is room")));
        endpoint.handle_datagram(at(1), peer(), &[0x70, 0, 0, 0]);
        suspected(&mut endpoint);
        endpoint
    }

    /// Drains the outputs; returns the number of suspected sessions.
    fn suspected(endpoint: &mut Endpoint) -> usize {
        let mut closed = 0;
        loop {
            match endpoint.poll() {
                Output::Close { .. } => closed += 1,
                Output::Wait(_) => return closed,
                _ => {}
            }
        }
    }

    /// Sends a request and cancels it after `wait` ms; returns the number of suspected sessions.
    fn cancelled(
        endpoint: &mut Endpoint,
        (start, wait): (u64, u64),
        request: Request,
        config: RequestConfig,
    ) -> usize {
        let id = endpoint.request(at(start), peer(), request, config);
        let id = id.expect("there is room");
        suspected(endpoint);
        for millis in (start..start + wait).step_by(10) {
            endpoint.handle_timeout(at(millis));
            suspected(endpoint);
        }
        endpoint.cancel(at(start + wait), id);
        suspected(endpoint)
    }

    fn get(endpoint: &mut Endpoint, start: u64, wait: u64) -> usize {
        cancelled(
            endpoint,
            (start, wait),
            Request::get(),
            RequestConfig::default(),
        )
    }

    #[test]
    fn three_unanswered_requests_end_session() {
        let mut endpoint = client();
        assert_eq!(get(&mut endpoint, 1_000, 1_900), 0);
        assert_eq!(get(&mut endpoint, 3_000, 1_900), 0);
        assert_eq!(get(&mut endpoint, 5_000, 1_900), 1);
        endpoint.session_ended(at(7_000), peer(), SessionEnd::Silent);
        endpoint.session_opened(at(7_000), peer());
        assert_eq!(
            get(&mut endpoint, 8_000, 1_900),
            0,
            "the session is another"
        );
    }

    #[test]
    fn retransmissions_of_one_cancelled_request_end_session() {
        assert_eq!(get(&mut client(), 1_000, 30_000), 1);
    }

    #[test]
    fn deadline_counts_like_cancellation() {
        let mut endpoint = client();
        let config = RequestConfig {
            deadline: Some(Duration::from_secs(30)),
            ..RequestConfig::default()
        };
        let id = endpoint.request(at(1_000), peer(), Request::get(), config);
        assert!(id.is_ok());
        let closed: usize = (1_000..=31_000)
            .step_by(10)
            .map(|millis| {
                endpoint.handle_timeout(at(millis));
                suspected(&mut endpoint)
            })
            .sum();
        assert_eq!(closed, 1);
    }

    #[test]
    fn message_from_peer_ends_silence() {
        let mut endpoint = client();
        for start in [1_000, 3_000, 5_000, 7_000, 9_000] {
            assert_eq!(get(&mut endpoint, start, 1_900), 0, "at {start} ms");
            endpoint.handle_datagram(at(start + 1_950), peer(), &[0x70, 0, 0, 0]);
            suspected(&mut endpoint);
        }
    }

    #[test]
    fn requests_cancelled_before_a_reply_could_arrive_do_not_count() {
        let mut endpoint = client();
        for start in 0..100 {
            assert_eq!(get(&mut endpoint, 1_000 + 10 * start, 10), 0);
        }
    }

    #[test]
    fn non_without_response_counts_unless_suppressed() {
        let non = RequestConfig {
            confirmable: false,
            ..RequestConfig::default()
        };
        let mut silent = 0;
        let mut suppressed = 0;
        let (mut one, mut other) = (client(), client());
        for start in [1_000, 5_000, 9_000, 13_000] {
            let request = Request::get();
            silent += cancelled(&mut one, (start, 3_000), request.clone(), non.clone());
            let request = request.with_no_response(NoResponse::ALL);
            suppressed += cancelled(&mut other, (start, 3_000), request, non.clone());
        }
        assert_eq!((silent, suppressed), (1, 0));
    }
}
