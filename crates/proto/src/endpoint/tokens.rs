//! Tokens of our requests, which of their receivers take longer ones, and which of others we take
//! (RFC 7252 5.3.1, RFC 8974).
//!
//! Where [`Config::token_length`](super::Config::token_length) is more than what every peer takes, it
//! must be found out whether a peer takes it. Over a connection its CSM says so. Over datagrams a
//! confirmable request of ours is the trial: a peer that knows nothing of longer tokens rejects it
//! with a Reset, or drops it though it should not, and it goes once more, with a token of 8 bytes. So
//! only what may be carried out twice is a trial. What was found out holds for half an hour.
//!
//! Of a longer token, tables hold a digest ([`TokenKey`]). Its bytes are in the message of the
//! exchange, or beside the observation whose token it is.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use core::net::SocketAddr;

use carob_cc::controller::Counting;
use carob_cc::evidence::Reason;
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};

use super::config::ENGINE_BYTES;
use super::count::COUNTING_TOKEN_BYTES;
use super::exchange::{Exchange, State, Submission, UNLIMITED};
use super::{Endpoint, Failure};
use crate::codec::edit::set_option;
use crate::codec::token::token_room;
use crate::codec::view::token_end;
use crate::codec::{
    BASE_TOKEN_LENGTH, Code, MessageId, MessageView, Token, TokenKey, TokenView, Type, Writer,
};
use crate::peer::PeerIndex;

/// The longest token that is sent, or taken of others, in bytes: beside it a datagram of
/// [`MESSAGE_BYTES`](super::MESSAGE_BYTES) still has room for options and a small block.
pub const TOKEN_BYTES_MAX: usize = 1_024;

/// How long it is believed what was found out about a peer's tokens: the least that RFC 8974 2.2.2
/// gives an address, so that another server in its place is found out about soon.
const SUPPORT_LIFETIME: Duration = Duration::from_secs(1_800);

/// Copies of a trial that may stay unanswered before it counts as lost to its token.
const TRIAL_COPIES: usize = 2;

/// As many bytes as the longest token has, to try whether a message fits beside one.
static LONGEST: [u8; TOKEN_BYTES_MAX] = [0; TOKEN_BYTES_MAX];

/// A token of ours.
#[derive(Clone, Debug)]
pub(super) struct OwnToken {
    /// What it is found by.
    pub(super) key: TokenKey,
    /// Its bytes, if it is a long one.
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

/// The bytes of a token, of which those of a long one are at hand.
#[inline]
pub(super) fn bytes_of<'a>(key: &'a TokenKey, long: Option<&'a [u8]>) -> &'a [u8] {
    match key.token() {
        Some(token) => token.as_slice(),
        None => long.unwrap_or_default(),
    }
}

/// Which peers take longer tokens, as far as that was found out.
#[derive(Debug, Default)]
pub(super) struct TokenSupport {
    known: BTreeMap<SocketAddr, (bool, Instant)>,
    /// In the order in which they came.
    order: VecDeque<SocketAddr>,
}

impl TokenSupport {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether a peer takes them; nothing if it is not known.
    fn find(&self, now: Instant, peer: SocketAddr) -> Option<bool> {
        let &(takes, at) = self.known.get(&peer)?;
        (now.since(at) < SUPPORT_LIFETIME).then_some(takes)
    }

    /// Notes what was found out. At the limit the one found out about first makes room.
    fn note(&mut self, now: Instant, peer: SocketAddr, takes: bool, limit: usize) {
        if let Some(known) = self.known.get_mut(&peer) {
            *known = (takes, now);
            return;
        }
        while self.known.len() >= limit {
            let Some(first) = self.order.pop_front() else {
                return;
            };
            self.known.remove(&first);
        }
        self.known.insert(peer, (takes, now));
        self.order.push_back(peer);
    }
}

impl Endpoint {
    /// What a token is found by here.
    #[inline]
    pub(super) fn token_key(&self, token: TokenView<'_>) -> TokenKey {
        TokenKey::of(token, self.token_keys)
    }

    /// The longest token that is taken of others.
    pub(super) fn longest_token(&self) -> usize {
        let limit = self.config.limits.token_bytes;
        limit.clamp(BASE_TOKEN_LENGTH, TOKEN_BYTES_MAX)
    }

    /// A token of that length.
    pub(super) fn longest(&self) -> &'static [u8] {
        LONGEST.get(..self.longest_token()).unwrap_or(&LONGEST)
    }

    /// Whether a request or signal that came over a connection has a token that we said we take, and
    /// whose answer its peer takes.
    pub(super) fn takes_token(&self, from: SocketAddr, message: &MessageView<'_>) -> bool {
        let length = message.token().len();
        let answer = message.options_start() + ENGINE_BYTES;
        message.code().is_response()
            || (length <= self.longest_token() && answer <= self.capacity(from).message)
    }

    /// Whether a request's token is longer than any that is taken.
    #[inline]
    pub(super) fn exceeds_tokens(&self, request: &MessageView<'_>) -> bool {
        request.has_long_token() && request.token().len() > self.longest_token()
    }

    /// Answers a request whose token is longer than any that is taken with a code alone: its own
    /// header and token, with another type and code. It must not be rejected (RFC 8974 2.2.2), and
    /// its answer may be longer than any other message of ours.
    pub(super) fn refuse_token(
        &mut self,
        now: Instant,
        from: SocketAddr,
        request: &MessageView<'_>,
        (kind, code): (Type, Code),
    ) {
        let mut bytes = self.buffer();
        let head = request.as_bytes().get(..request.options_start());
        bytes.extend_from_slice(head.unwrap_or_default());
        if let [first, second, ..] = &mut bytes[..] {
            *first = *first & 0xcf | (kind as u8) << 4;
            *second = code.0;
            self.transmit(now, from, &bytes);
        }
        self.spare_buffer(bytes);
    }

    /// How long the token of a request to a peer may be now, if it may be the `trial`.
    fn own_token_length(&self, now: Instant, to: SocketAddr, trial: bool) -> usize {
        let wanted = usize::from(self.config.token_length);
        if wanted <= BASE_TOKEN_LENGTH {
            return wanted;
        }
        let takes = if self.is_reliable() {
            return self.longest_for(to);
        } else {
            self.token_support.find(now, to)
        };
        if takes.unwrap_or(trial) {
            wanted.min(TOKEN_BYTES_MAX)
        } else {
            BASE_TOKEN_LENGTH
        }
    }

    /// How long a token of ours can be at most in a message to a peer.
    fn longest_for(&self, to: SocketAddr) -> usize {
        let wanted = usize::from(self.config.token_length).min(TOKEN_BYTES_MAX);
        if self.is_reliable() {
            let takes = self.connections.token_length(to) as usize;
            wanted.min(takes.max(BASE_TOKEN_LENGTH))
        } else {
            wanted
        }
    }

    /// Bytes that tokens of ours to a peer may have beyond what every message has room for.
    pub(super) fn own_token_room(&self, to: SocketAddr) -> usize {
        if usize::from(self.config.token_length) <= BASE_TOKEN_LENGTH {
            return 0;
        }
        token_room(self.longest_for(to))
    }

    /// A token that no exchange with this peer uses; one that is to count copies begins at 0. Where it
    /// is not known whether the peer takes long ones, a request that may be the `trial` has one.
    pub(super) fn fresh_token(
        &mut self,
        now: Instant,
        peer: PeerIndex,
        counting: Counting,
        trial: bool,
    ) -> OwnToken {
        let counts = counting == Counting::Token;
        let length = self.own_token_length(now, self.peers[peer].address, trial);
        if length > BASE_TOKEN_LENGTH && !counts {
            return self.fresh_long_token(peer, length);
        }
        OwnToken::short(self.fresh_short_token(peer, counts, length.min(BASE_TOKEN_LENGTH)))
    }

    fn fresh_short_token(&mut self, peer: PeerIndex, counts: bool, mut length: usize) -> Token {
        if counts {
            length = length.max(COUNTING_TOKEN_BYTES);
        } else if length == 0 {
            if !self.is_token_in_use(peer, &TokenKey::default(), counts) {
                return Token::EMPTY;
            }
            length = 2;
        }
        loop {
            let mut bytes = [0; BASE_TOKEN_LENGTH];
            let (high, low) = bytes.split_at_mut(4);
            high.copy_from_slice(&self.random.next_u32().to_be_bytes());
            low.copy_from_slice(&self.random.next_u32().to_be_bytes());
            if counts {
                bytes[length - 1] = 0;
            }
            let token = Token::new(&bytes[..length]).expect("at most 8 bytes");
            if !self.is_token_in_use(peer, &TokenKey::short(token), counts) {
                return token;
            }
            // Taken, or a stream without entropy: a longer token always finds room.
            length = (length + 1).min(BASE_TOKEN_LENGTH);
        }
    }

    /// All bytes of it are random: nobody can guess one that has seen others.
    #[cold]
    fn fresh_long_token(&mut self, peer: PeerIndex, length: usize) -> OwnToken {
        let mut bytes = alloc::vec![0; length].into_boxed_slice();
        loop {
            fill(&mut *self.random, &mut bytes);
            let key = self.token_key(TokenView::new(&bytes));
            if !self.is_token_in_use(peer, &key, false) {
                let long = Some(bytes);
                return OwnToken { key, long };
            }
        }
    }

    fn is_token_in_use(&self, peer: PeerIndex, token: &TokenKey, counts: bool) -> bool {
        let claims = |exchange: &Exchange| exchange.claims(token, counts);
        let exchange = (self.index).find_by_token(&self.exchanges, peer, token, claims);
        exchange.is_some() || self.claims_observation(peer, token, counts)
    }

    /// A response has come with a token of ours: if that is a long one, its sender takes such.
    #[inline]
    pub(super) fn note_token_taken(&mut self, now: Instant, peer: PeerIndex, token: TokenView<'_>) {
        if token.len() > BASE_TOKEN_LENGTH && !self.is_reliable() {
            self.note_support(now, peer, true);
        }
    }

    fn note_support(&mut self, now: Instant, peer: PeerIndex, takes: bool) {
        let (address, limit) = (self.peers[peer].address, self.config.limits.token_peers);
        self.token_support.note(now, address, takes, limit);
    }

    /// A request with a long token was never answered: if that was to show whether its peer takes one,
    /// it counts as no.
    pub(super) fn note_trial_lost(&mut self, now: Instant, peer: PeerIndex) {
        let address = self.peers[peer].address;
        if self.token_support.find(now, address).is_none() {
            self.note_support(now, peer, false);
        }
    }

    /// Whether an exchange whose timer has run out is a trial that its peer may have dropped for its
    /// token, instead of rejecting it: aiocoap 0.4.17 and go-coap 3.3.6 do.
    pub(super) fn is_lost_trial(&self, now: Instant, index: u32) -> bool {
        let exchange = &self.exchanges[index as usize];
        exchange.token_key().is_long()
            && exchange.purpose.operation().is_some()
            && exchange.transmissions.len() >= TRIAL_COPIES
            && (self.token_support)
                .find(now, self.peers[exchange.peer].address)
                .is_none()
    }

    /// Whether an exchange that was rejected may have been for its token: it is a request of ours with
    /// a long one, and not known to have been understood.
    pub(super) fn is_refused_for_its_token(&self, index: u32) -> bool {
        let exchange = &self.exchanges[index as usize];
        let understood = exchange.confirmable && exchange.state != State::Unacknowledged;
        exchange.purpose.operation().is_some() && exchange.token_key().is_long() && !understood
    }

    /// A peer has rejected a request of ours with a long token, or does not answer it: it goes again
    /// with a short one, as another message.
    pub(super) fn retry_with_short_token(
        &mut self,
        now: Instant,
        index: u32,
        reason: Reason,
        failure: Failure,
    ) {
        let peer = self.exchanges[index as usize].peer;
        self.note_support(now, peer, false);
        let Some((token, bytes)) = self.with_short_token(index) else {
            return self.abandon(now, index, reason, failure);
        };
        self.tell_abandoned(now, index, reason);
        let exchange = &mut self.exchanges[index as usize];
        let submission = Submission {
            purpose: exchange.purpose,
            confirmable: exchange.confirmable,
            token,
            counting: Counting::Off,
            bytes,
            answer_bytes: exchange.answer_bytes,
            parameters: exchange.parameters.take(),
            budget: UNLIMITED,
        };
        self.retire(index, true);
        self.submit(now, peer, submission);
    }

    /// Over a connection: gives a request that waits a token that its peer takes, if it was made for
    /// another connection.
    pub(super) fn settle_token(&mut self, index: u32) {
        let exchange = &self.exchanges[index as usize];
        if !exchange.token_key().is_long() || exchange.purpose.operation().is_none() {
            return;
        }
        let to = self.peers[exchange.peer].address;
        let length = MessageView::parse_long(&exchange.bytes).map_or(0, |view| view.token().len());
        if length <= self.longest_for(to) {
            return;
        }
        if let Some((token, bytes)) = self.with_short_token(index) {
            self.index
                .remove_token(&self.exchanges[index as usize], index);
            self.exchanges[index as usize].set_token(token);
            self.exchanges[index as usize].bytes = bytes;
            self.index.add_token(&self.exchanges, index);
        }
    }

    /// The message of a request with a fresh token of 8 bytes in the place of its own, and without the
    /// option that counts its copies. The observation whose token it had gets the same.
    fn with_short_token(&mut self, index: u32) -> Option<(TokenKey, alloc::vec::Vec<u8>)> {
        let exchange = &self.exchanges[index as usize];
        let (peer, purpose, before) = (exchange.peer, exchange.purpose, exchange.token_key());
        let token = self.fresh_short_token(peer, false, BASE_TOKEN_LENGTH);
        let mut bytes = self.buffer();
        let old = &self.exchanges[index as usize].bytes;
        let (code, end) = (Code(*old.get(1)?), token_end(old)?);
        let mut head = [0; 16];
        let kind = Type::Confirmable;
        let writer = Writer::new(&mut head, kind, code, MessageId(0), &token).ok()?;
        let length = writer.finish();
        bytes.extend_from_slice(&head[..length]);
        bytes.extend_from_slice(old.get(end..)?);
        if let Some(number) = self.count_option {
            let length = bytes.len();
            if let Some(length) = set_option(&mut bytes, length, number, None) {
                bytes.truncate(length);
            }
        }
        let own = OwnToken::short(token);
        let key = own.key;
        if let Some(operation) = purpose.operation() {
            self.replace_observation_token(operation, &before, own);
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
    fn what_is_known_of_a_peer_ends_with_its_time_or_makes_room() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut support = TokenSupport::default();
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
