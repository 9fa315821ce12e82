//! Tokens of requests, and the support of longer tokens by peers and by this endpoint (RFC 7252
//! 5.3.1, RFC 8974).
//!
//! If [`Config::token_length`](super::Config::token_length) exceeds the base length, the support of
//! a peer must be discovered. Over a connection its CSM announces it. Over datagrams a confirmable
//! request is the trial. A peer without support rejects it with a Reset, or incorrectly drops it,
//! and the request is repeated with a token of 8 bytes. A trial must therefore be idempotent. The
//! result is valid for half an hour.
//!
//! Tables hold a digest of a longer token ([`TokenKey`]). Its bytes are in the message of the
//! exchange, or beside the observation.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use core::net::SocketAddr;

use carob_cc::controller::CopyTagging;
use carob_cc::evidence::Reason;
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};

use crate::address::PeerIndex;
use crate::carrier::{Carrier, Outcome};
use crate::codec::set_option;
use crate::codec::token_end;
use crate::codec::token_room;
use crate::codec::{
    BASE_TOKEN_LENGTH, Code, MessageId, MessageView, Token, TokenKey, TokenView, Type, Writer,
};
use crate::config::ENGINE_BYTES;
use crate::context::Context;
use crate::event::Failure;
use crate::message_layer::{Exchange, State, Submission, UNLIMITED};
use crate::observe::tokens::ObservationTokens;
use crate::retransmission_count::COUNTING_TOKEN_BYTES;
use crate::seeds::{Seeds, Table};

/// The longest token sent or accepted, in bytes. A datagram of
/// [`MESSAGE_BYTES`](crate::endpoint::MESSAGE_BYTES) still has space for options and a small block.
pub const TOKEN_BYTES_MAX: usize = 1_024;

/// Lifetime of the discovered support: the minimum of RFC 8974 2.2.2 for an address, so that
/// another server at the address is discovered soon. Support of Q-Block (RFC 9177) likewise.
const SUPPORT_LIFETIME: Duration = Duration::from_secs(1_800);

/// Unanswered transmissions of a trial before it counts as lost to its token.
const TRIAL_COPIES: usize = 2;

/// A token of the maximum length, to test whether a message fits with one.
static LONGEST: [u8; TOKEN_BYTES_MAX] = [0; TOKEN_BYTES_MAX];

/// A token of this endpoint.
#[derive(Clone, Debug)]
pub(crate) struct OwnToken {
    /// Its lookup key.
    pub(crate) key: TokenKey,
    /// The bytes of a long token.
    long: Option<Box<[u8]>>,
}

impl OwnToken {
    fn short(token: Token) -> Self {
        let key = TokenKey::short(token);
        Self { key, long: None }
    }
}

impl AsRef<[u8]> for OwnToken {
    fn as_ref(&self) -> &[u8] {
        bytes_of(&self.key, self.long.as_deref())
    }
}

/// The bytes of a token; a long one's are passed in.
#[inline]
pub(crate) fn bytes_of<'a>(key: &'a TokenKey, long: Option<&'a [u8]>) -> &'a [u8] {
    match key.token() {
        Some(token) => token.as_slice(),
        None => long.unwrap_or_default(),
    }
}

/// Tokens of observations of this endpoint, and the peers that support longer ones.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) observations: ObservationTokens,
    pub(crate) support: PeerSupport,
}

impl Tokens {
    pub(crate) fn new(seeds: &Seeds) -> Self {
        Self {
            observations: ObservationTokens::new(seeds.table(Table::ObservationTokens)),
            support: PeerSupport::default(),
        }
    }
}

/// The discovered support of a feature by peers.
#[derive(Debug, Default)]
pub(crate) struct PeerSupport {
    known: BTreeMap<SocketAddr, (bool, Instant)>,
    /// Peers in order of discovery.
    order: VecDeque<SocketAddr>,
}

impl PeerSupport {
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// The support of a peer; `None` if unknown.
    pub(crate) fn find(&self, now: Instant, peer: SocketAddr) -> Option<bool> {
        let &(takes, at) = self.known.get(&peer)?;
        (now.since(at) < SUPPORT_LIFETIME).then_some(takes)
    }

    /// Records the support of a peer. At the limit the oldest entry is evicted.
    pub(crate) fn note(&mut self, now: Instant, peer: SocketAddr, takes: bool, limit: usize) {
        if let Some(known) = self.known.get_mut(&peer) {
            *known = (takes, now);
            return;
        }
        while self.known.len() >= limit {
            // With a limit of 0 nothing is kept, and every peer is tested each time.
            let Some(first) = self.order.pop_front() else {
                return;
            };
            self.known.remove(&first);
        }
        self.known.insert(peer, (takes, now));
        self.order.push_back(peer);
        debug_assert!(self.known.len() == self.order.len());
        debug_assert!(self.known.len() <= limit.max(1));
    }
}

impl Context {
    /// The lookup key of a token under this endpoint's keys.
    #[inline]
    pub(crate) fn token_key(&self, token: TokenView<'_>) -> TokenKey {
        TokenKey::of(token, self.token_keys)
    }

    /// The longest token accepted, in bytes.
    pub(crate) fn longest_token(&self) -> usize {
        let limit = self.config.limits.token_bytes;
        debug_assert!(LONGEST.len() == TOKEN_BYTES_MAX);
        limit.clamp(BASE_TOKEN_LENGTH, TOKEN_BYTES_MAX)
    }

    /// A token of that length.
    pub(crate) fn longest(&self) -> &'static [u8] {
        LONGEST.get(..self.longest_token()).unwrap_or(&LONGEST)
    }
}

impl Carrier {
    /// Returns whether the token of a request or signal on a connection is within the announced
    /// length, and its reply within the peer's.
    pub(crate) fn takes_token(
        &self,
        cx: &Context,
        from: SocketAddr,
        message: &MessageView<'_>,
    ) -> bool {
        let length = message.token().len();
        // Its reply repeats the token: one that the peer could not take would never be sent.
        let answer = message.options_start() + ENGINE_BYTES;
        // The token of a response is this endpoint's own.
        message.code().is_response()
            || (length <= cx.longest_token() && answer <= self.capacity(cx, from).message)
    }
}

impl Context {
    /// Returns whether a request's token exceeds the accepted length.
    #[inline]
    pub(crate) fn exceeds_tokens(&self, request: &MessageView<'_>) -> bool {
        request.has_long_token() && request.token().len() > self.longest_token()
    }
}

impl Carrier {
    /// Answers a request whose token is too long with a code alone: its own header and token, with
    /// another type and code. It must not be rejected with a Reset (RFC 8974 2.2.2), and the reply
    /// may be longer than any other message.
    pub(crate) fn refuse_token(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        request: &MessageView<'_>,
        (kind, code): (Type, Code),
    ) {
        let mut bytes = cx.buffer();
        let head = request.as_bytes().get(..request.options_start());
        bytes.extend_from_slice(head.unwrap_or_default());
        if let [first, second, ..] = &mut bytes[..] {
            // Version and token length stay (RFC 7252 3).
            *first = *first & 0xcf | (kind as u8) << 4;
            *second = code.0;
            self.transmit(cx, from, &bytes);
        }
        cx.spare_buffer(bytes);
    }

    /// The token length of the next request to a peer, if it may be the `trial`.
    pub(crate) fn own_token_length(&self, cx: &Context, to: SocketAddr, trial: bool) -> usize {
        let wanted = usize::from(cx.config.token_length);
        if wanted <= BASE_TOKEN_LENGTH {
            return wanted;
        }
        let takes = if cx.is_stream() {
            return self.longest_for(cx, to);
        } else {
            self.tokens.support.find(cx.now, to)
        };
        // A peer that is known to lack support is not tested until that knowledge expires (RFC
        // 8974 2.2.2).
        if takes.unwrap_or(trial) {
            wanted.min(TOKEN_BYTES_MAX)
        } else {
            BASE_TOKEN_LENGTH
        }
    }

    /// The longest token in a message to a peer.
    pub(crate) fn longest_for(&self, cx: &Context, to: SocketAddr) -> usize {
        let wanted = usize::from(cx.config.token_length).min(TOKEN_BYTES_MAX);
        if cx.is_stream() {
            let takes = self.connections.token_length(to) as usize;
            wanted.min(takes.max(BASE_TOKEN_LENGTH))
        } else {
            wanted
        }
    }

    /// Bytes that tokens to a peer may have beyond [`BASE_TOKEN_LENGTH`].
    pub(crate) fn own_token_excess_max(&self, cx: &Context, to: SocketAddr) -> usize {
        if usize::from(cx.config.token_length) <= BASE_TOKEN_LENGTH {
            return 0;
        }
        token_room(self.longest_for(cx, to))
    }

    /// A token that no exchange with this peer uses; a counting one begins at 0. If the support of
    /// the peer is unknown, a request that may be the `trial` has a long one.
    pub(crate) fn fresh_token(
        &mut self,
        cx: &mut Context,
        peer: PeerIndex,
        counting: CopyTagging,
        trial: bool,
    ) -> OwnToken {
        let counts = counting == CopyTagging::Token;
        let length = self.own_token_length(cx, self.peers[peer].address, trial);
        if length > BASE_TOKEN_LENGTH && !counts {
            return self.fresh_long_token(cx, peer, length);
        }
        OwnToken::short(self.fresh_short_token(cx, peer, counts, length.min(BASE_TOKEN_LENGTH)))
    }

    pub(crate) fn fresh_short_token(
        &mut self,
        cx: &mut Context,
        peer: PeerIndex,
        counts: bool,
        mut length: usize,
    ) -> Token {
        debug_assert!(length <= BASE_TOKEN_LENGTH, "a long token");
        if counts {
            length = length.max(COUNTING_TOKEN_BYTES);
        } else if length == 0 {
            // The empty token is one like any other (RFC 7252 5.3.1), for one request at a time.
            if !self.is_token_in_use(peer, &TokenKey::default(), counts) {
                return Token::EMPTY;
            }
            length = 2;
        }
        loop {
            let mut bytes = [0; BASE_TOKEN_LENGTH];
            let (high, low) = bytes.split_at_mut(4);
            high.copy_from_slice(&cx.random.next_u32().to_be_bytes());
            low.copy_from_slice(&cx.random.next_u32().to_be_bytes());
            if counts {
                // The last byte counts transmissions, from 0 on.
                bytes[length - 1] = 0;
            }
            let token = Token::new(&bytes[..length]).expect("at most 8 bytes");
            if !self.is_token_in_use(peer, &TokenKey::short(token), counts) {
                return token;
            }
            // In use, or a stream without entropy: a longer token is always free.
            length = (length + 1).min(BASE_TOKEN_LENGTH);
        }
    }

    /// A long token with all bytes random, so that earlier ones do not help to guess it.
    #[cold]
    pub(crate) fn fresh_long_token(
        &mut self,
        cx: &mut Context,
        peer: PeerIndex,
        length: usize,
    ) -> OwnToken {
        debug_assert!(length > BASE_TOKEN_LENGTH && length <= TOKEN_BYTES_MAX);
        let mut bytes = alloc::vec![0; length].into_boxed_slice();
        loop {
            fill(&mut *cx.random, &mut bytes);
            let key = cx.token_key(TokenView::new(&bytes));
            if !self.is_token_in_use(peer, &key, false) {
                let long = Some(bytes);
                return OwnToken { key, long };
            }
        }
    }

    pub(crate) fn is_token_in_use(&self, peer: PeerIndex, token: &TokenKey, counts: bool) -> bool {
        let claims = |exchange: &Exchange| exchange.claims(token, counts);
        let exchange = (self.index).find_by_token(&self.exchanges, peer, token, claims);
        exchange.is_some() || self.tokens.observations.claims(peer, token, counts)
    }

    /// Records the support of a peer that has responded to a long token.
    #[inline]
    pub(crate) fn on_long_token_accepted(
        &mut self,
        cx: &mut Context,
        peer: PeerIndex,
        token: TokenView<'_>,
    ) {
        if token.len() > BASE_TOKEN_LENGTH && !cx.is_stream() {
            self.record_token_support(cx, peer, true);
        }
    }

    pub(crate) fn record_token_support(&mut self, cx: &mut Context, peer: PeerIndex, takes: bool) {
        let (address, limit) = (self.peers[peer].address, cx.config.limits.token_peers);
        self.tokens.support.note(cx.now, address, takes, limit);
    }

    /// Handles a request with a long token that was never answered: as a trial, it counts as no
    /// support.
    pub(crate) fn on_token_trial_timeout(&mut self, cx: &mut Context, peer: PeerIndex) {
        let address = self.peers[peer].address;
        if self.tokens.support.find(cx.now, address).is_none() {
            self.record_token_support(cx, peer, false);
        }
    }

    /// Returns whether an exchange that timed out is a trial that its peer may have dropped for its
    /// token: aiocoap 0.4.17 and go-coap 3.3.6 do.
    pub(crate) fn is_lost_trial(&self, cx: &Context, index: u32) -> bool {
        let exchange = &self.exchanges[index as usize];
        exchange.token_key().is_long()
            && exchange.purpose.operation().is_some()
            && exchange.transmissions.len() >= TRIAL_COPIES
            && (self.tokens.support)
                .find(cx.now, self.peers[exchange.peer].address)
                .is_none()
    }

    /// Returns whether a rejected exchange may have been rejected for its token: it is a request
    /// with a long one, not known to be supported.
    pub(crate) fn is_refused_for_its_token(&self, index: u32) -> bool {
        let exchange = &self.exchanges[index as usize];
        // An acknowledged request was read, its token included: the Reset has another reason.
        let understood = exchange.confirmable && exchange.state != State::Unacknowledged;
        exchange.purpose.operation().is_some() && exchange.token_key().is_long() && !understood
    }

    /// Repeats a rejected or unanswered request with a short token, as another message.
    pub(crate) fn retry_with_short_token(
        &mut self,
        cx: &mut Context,
        index: u32,
        reason: Reason,
        failure: Failure,
    ) {
        let peer = self.exchanges[index as usize].peer;
        self.record_token_support(cx, peer, false);
        let Some((token, bytes)) = self.with_short_token(cx, index) else {
            return self.abandon(cx, index, reason, failure);
        };
        self.report_abandoned(cx, index, reason);
        let exchange = &mut self.exchanges[index as usize];
        let submission = Submission {
            purpose: exchange.purpose,
            confirmable: exchange.confirmable,
            token,
            counting: CopyTagging::Off,
            bytes,
            answer_bytes: exchange.answer_bytes,
            parameters: exchange.parameters.take(),
            budget: UNLIMITED,
            request: exchange.request,
        };
        let operation = exchange.purpose.operation();
        self.retire(cx, index, true);
        // Over datagrams a message cannot fail while it is submitted: its failure would precede its
        // number.
        let exchange = self.submit(cx, peer, submission);
        if let Some(operation) = operation {
            self.report(Outcome::Resubmitted {
                operation,
                before: index,
                exchange,
            });
        }
    }

    /// Over a connection: gives a queued request a token that its peer supports, if it was made for
    /// another connection.
    pub(crate) fn settle_token(&mut self, cx: &mut Context, index: u32) {
        let exchange = &self.exchanges[index as usize];
        if !exchange.token_key().is_long() || exchange.purpose.operation().is_none() {
            return;
        }
        let to = self.peers[exchange.peer].address;
        let length = MessageView::parse_long(&exchange.bytes).map_or(0, |view| view.token().len());
        if length <= self.longest_for(cx, to) {
            return;
        }
        if let Some((token, bytes)) = self.with_short_token(cx, index) {
            self.index
                .remove_token(&self.exchanges[index as usize], index);
            self.exchanges[index as usize].set_token(token);
            self.exchanges[index as usize].bytes = bytes;
            self.index.add_token(&self.exchanges, index);
        }
    }

    /// The message of a request with a new token of 8 bytes, and without the
    /// counting option. An observation with its token gets the same.
    pub(crate) fn with_short_token(
        &mut self,
        cx: &mut Context,
        index: u32,
    ) -> Option<(TokenKey, alloc::vec::Vec<u8>)> {
        let exchange = &self.exchanges[index as usize];
        let (peer, purpose, before) = (exchange.peer, exchange.purpose, exchange.token_key());
        let token = self.fresh_short_token(cx, peer, false, BASE_TOKEN_LENGTH);
        let mut bytes = cx.buffer();
        let old = &self.exchanges[index as usize].bytes;
        let (code, end) = (Code(*old.get(1)?), token_end(old)?);
        // 4 bytes of header and 8 of token.
        let mut head = [0; 16];
        // Type and Message ID are set when it is sent.
        let kind = Type::Confirmable;
        let writer = Writer::new(&mut head, kind, code, MessageId(0), &token).ok()?;
        let length = writer.finish();
        bytes.extend_from_slice(&head[..length]);
        bytes.extend_from_slice(old.get(end..)?);
        if let Some(number) = cx.count_option {
            let length = bytes.len();
            if let Some(length) = set_option(&mut bytes, length, number, None) {
                bytes.truncate(length);
            }
        }
        let own = OwnToken::short(token);
        let key = own.key;
        if let Some(operation) = purpose.operation()
            && self
                .tokens
                .observations
                .replace(peer, &before, operation, key)
        {
            self.report(Outcome::TokenReplaced {
                operation,
                before,
                token: own,
            });
        }
        Some((key, bytes))
    }
}

fn fill(random: &mut dyn Random, bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(4) {
        let drawn = random.next_u32().to_be_bytes();
        chunk.copy_from_slice(&drawn[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 5683))
    }

    #[test]
    fn token_support_expires_or_is_evicted() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut support = PeerSupport::default();
        support.note(at(0), peer(1), true, 2);
        support.note(at(1), peer(2), false, 2);
        assert_eq!(support.find(at(1_799), peer(1)), Some(true));
        assert_eq!(support.find(at(1_800), peer(1)), None);
        assert_eq!(support.find(at(1_800), peer(2)), Some(false));
        support.note(at(1_800), peer(1), false, 2);
        assert_eq!(support.find(at(1_800), peer(1)), Some(false));
        support.note(at(1_801), peer(3), true, 2);
        assert_eq!(support.len(), 2);
        assert_eq!(support.find(at(1_801), peer(1)), None);
        assert_eq!(support.find(at(1_801), peer(3)), Some(true));
        support.note(at(1_801), peer(4), true, 0);
        assert_eq!(support.len(), 0);
    }
}
