//! Which copy of a request was answered: said in the copies, read from the answers, and believed
//! where it cannot be a replay (draft-ietf-core-fasor-02 4.4, 4.5).
//!
//! The trap: a server that answers a duplicate with the answer it has kept, as most do, answers
//! every copy with the count, or the token, of the first that it got. So a count says which copy
//! was answered at the earliest. It says more if no later copy can have been: if none was sent, or
//! the answer came sooner after each of them than any round trip with this peer has taken; or if
//! the peer is proven to count each copy, by two answers to one message that differ in this.
//!
//! Counted are requests. With tokens, those that register an observation are not: their token
//! lives on in the notifications.

use carob_cc::controller::Counting;
use carob_cc::evidence::{Answer, Matched};
use carob_cc::time::{Duration, Instant};

use super::{Ended, Exchange};
use crate::codec::edit::set_option;
use crate::codec::header::HEADER_LENGTH;
use crate::codec::{MessageView, OptionNumber, Token, TokenKey};
use crate::endpoint::Endpoint;
use crate::endpoint::config::MESSAGE_BYTES;
use crate::endpoint::count::Count;
use crate::peer::{Echo, Peer, PeerIndex};

/// What an answer says of the copy it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// Nothing, or what cannot be.
    Nothing,
    /// It lacks the option that counts.
    NoCount,
    /// It names this copy.
    Copy(u8),
}

impl Says {
    /// Reads an answer to one of `latest` + 1 copies that are told apart like this.
    fn read(
        counting: Counting,
        number: Option<OptionNumber>,
        latest: u8,
        answer: &MessageView<'_>,
    ) -> Self {
        let read = |number| Count::read(answer, number).map(Count::copy);
        let (first, copy) = match (counting, number) {
            (Counting::Token, _) => (0, answer.token().last()),
            (Counting::EveryCopy, Some(number)) => (0, read(number)),
            (Counting::RepeatedCopies, Some(number)) => (1, read(number)),
            (Counting::Off, _) | (_, None) => return Self::Nothing,
        };
        match copy {
            None => Self::NoCount,
            Some(copy) if (first..=latest).contains(&copy) && latest <= Count::LARGEST => {
                Self::Copy(copy)
            }
            // A copy that was never sent, or had no count.
            Some(_) => Self::Nothing,
        }
    }

    /// The copy that it names, whoever says it; without a count, it is the one sent without.
    fn copy(self, counting: Counting) -> Option<u8> {
        match self {
            Self::Copy(copy) => Some(copy),
            Self::NoCount if counting == Counting::RepeatedCopies => Some(0),
            Self::NoCount | Self::Nothing => None,
        }
    }
}

impl Exchange {
    /// Whether a message with this token can answer a copy that was sent.
    pub(super) fn goes_by(&self, token: &TokenKey) -> bool {
        if self.counting == Counting::Token {
            self.token.is_sibling(token) && token.last() <= Some(self.retransmissions())
        } else {
            self.token == *token
        }
    }

    /// Whether a token, `counting` or not, could be mistaken for one of this exchange's.
    pub(in crate::endpoint) fn claims(&self, token: &TokenKey, counting: bool) -> bool {
        if counting || self.counting == Counting::Token {
            self.token.is_sibling(token)
        } else {
            self.token == *token
        }
    }

    /// Whether bytes that begin a message begin a copy that was sent: header and token.
    pub(super) fn begins_like(&self, begun: &[u8]) -> bool {
        let own = self.bytes.get(..begun.len());
        if self.counting != Counting::Token {
            return own == Some(begun);
        }
        let stem = begun.len().saturating_sub(1);
        own.is_some_and(|own| own[..stem] == begun[..stem])
            && begun.last() <= Some(&self.retransmissions())
    }

    /// Which copy was answered at `now`.
    ///
    /// Unless a count says more, the Message ID says that it is one of those that had it.
    pub(super) fn matched(&self, now: Instant, peer: &Peer) -> Matched {
        // Without a count, only of who counts is it known that it means the original.
        let unsure = self.counting == Counting::RepeatedCopies && peer.echo == Echo::Unknown;
        let (earliest, latest) = match self.named {
            Some(copy) if peer.echo == Echo::Proven => (copy, copy),
            Some(copy) if !unsure => {
                let shortest = Duration::from_micros(u64::from(peer.tally.shortest));
                let mut sent = self.transmissions.iter();
                let answerable = sent.rposition(|copy| now.since(copy.at) >= shortest);
                (copy, copy.max(answerable.unwrap_or_default() as u8))
            }
            _ => (self.first_of_id, self.retransmissions()),
        };
        if earliest == latest {
            Matched::Exact(latest)
        } else {
            Matched::Ambiguous { earliest, latest }
        }
    }
}

impl Ended {
    /// Holds one more answer to a message against what the last one said.
    pub(super) fn compare_count(
        &mut self,
        number: Option<OptionNumber>,
        answer: &MessageView<'_>,
        echo: &mut Echo,
    ) {
        let sibling = || {
            let token = answer.token();
            Token::new(token.as_slice())
                .is_some_and(|token| self.token.is_sibling(&TokenKey::short(token)))
        };
        if self.counting == Counting::Token && !sibling() {
            return;
        }
        let latest = self.sent.saturating_sub(1);
        let says = Says::read(self.counting, number, latest, answer);
        let Some(copy) = says.copy(self.counting) else {
            return;
        };
        match self.named.replace(copy) {
            Some(other) if other != copy => *echo = Echo::Proven,
            // The network may have doubled it; but if not, it is a replay.
            Some(_) if *echo == Echo::Proven => *echo = Echo::Unproven,
            _ => {}
        }
    }
}

impl Endpoint {
    /// How the copies of a request to this peer are told apart that has a token of its own.
    pub(in crate::endpoint) fn counting_by_token(&self, peer: PeerIndex) -> Counting {
        match self.peers[peer].congestion.as_ref().counting() {
            Counting::Token => Counting::Token,
            // An option is added when the first copy leaves; more is known of the peer by then.
            _ => Counting::Off,
        }
    }

    /// Whether responses of this peer have an echo that the application knows nothing of.
    pub(in crate::endpoint) fn echoed_option(&self, peer: PeerIndex) -> Option<OptionNumber> {
        let peer = &self.peers[peer];
        let echoes = matches!(peer.echo, Echo::Unproven | Echo::Proven)
            && matches!(
                peer.congestion.as_ref().counting(),
                Counting::EveryCopy | Counting::RepeatedCopies
            );
        self.count_option.filter(|_| echoes)
    }

    /// Decides whether the copies of an exchange that is about to begin carry the option.
    pub(super) fn begin_counting(&mut self, index: u32) {
        let exchange = &mut self.exchanges[index as usize];
        if !exchange.purpose.wants_response()
            || !exchange.confirmable
            || exchange.counting == Counting::Token
        {
            return;
        }
        let peer = &self.peers[exchange.peer];
        let wanted = peer.congestion.as_ref().counting();
        let by_option = matches!(wanted, Counting::EveryCopy | Counting::RepeatedCopies);
        if by_option && self.count_option.is_some() && peer.echo != Echo::Absent {
            exchange.counting = wanted;
            self.count_copy(index);
        }
    }

    /// Says in the copy that is about to leave which one it is.
    pub(super) fn count_copy(&mut self, index: u32) {
        let exchange = &mut self.exchanges[index as usize];
        let copy = u8::try_from(exchange.transmissions.len()).unwrap_or(u8::MAX);
        let peer = &self.peers[exchange.peer];
        let count = match exchange.counting {
            Counting::Off => return,
            Counting::Token => {
                // Those that count are short.
                let length = HEADER_LENGTH + exchange.token.token().map_or(0, Token::len);
                if let Some(last) = exchange.bytes[..length].last_mut() {
                    *last = copy;
                }
                return;
            }
            Counting::RepeatedCopies if copy == 0 => return,
            Counting::EveryCopy if copy == 0 && peer.echo == Echo::Unknown => Count::FIRST,
            Counting::EveryCopy | Counting::RepeatedCopies => Count::of(copy),
        };
        let Some(number) = self.count_option else {
            return;
        };
        // By now it may have shown that it does not echo.
        let stopped = peer.echo == Echo::Absent;
        let bytes = &mut exchange.bytes;
        if stopped || !count.write_at(bytes, 0, MESSAGE_BYTES, number) {
            let length = bytes.len();
            let without = set_option(bytes, length, number, None);
            bytes.truncate(without.unwrap_or(length));
            exchange.counting = Counting::Off;
        }
    }

    /// Sets in a retransmission that is about to leave which one it is.
    pub(super) fn count_retransmission(&mut self, index: u32) {
        let before = self.exchanges[index as usize].in_flight_bytes();
        self.count_copy(index);
        let exchange = &self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        peer.outstanding_bytes = peer
            .outstanding_bytes
            .saturating_sub(before)
            .saturating_add(exchange.in_flight_bytes());
    }

    /// Hears from an answer whether its sender counts, and which copy it names.
    pub(super) fn hear_count(&mut self, index: u32, answer: Answer, message: &MessageView<'_>) {
        let exchange = &mut self.exchanges[index as usize];
        let counting = exchange.counting;
        if answer == Answer::Separate && counting != Counting::Token {
            return; // it has no count; what it has there all the same means nothing
        }
        let says = Says::read(
            counting,
            self.count_option,
            exchange.retransmissions(),
            message,
        );
        exchange.named = says.copy(counting);
        let echo = &mut self.peers[exchange.peer].echo;
        match (says, counting, *echo) {
            (_, Counting::Token, _) | (Says::Copy(_), _, Echo::Proven) => {}
            (Says::Copy(_), ..) => *echo = Echo::Unproven,
            (Says::NoCount, Counting::EveryCopy, Echo::Unknown) => *echo = Echo::Absent,
            _ => {}
        }
    }
}
