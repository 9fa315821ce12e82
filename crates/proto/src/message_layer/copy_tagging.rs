//! Copy tagging: identifies the transmission of a request that a reply belongs to
//! (draft-ietf-core-fasor-02 4.4, 4.5).
//!
//! A caveat: most servers answer a duplicate with the stored reply, and so with the count, or the
//! token, of the first transmission received. A count therefore names the earliest transmission
//! that was answered. It is exact if no later one can have been answered: none was sent, or the
//! reply came sooner after each than the shortest round trip of this peer. It is also exact if the
//! peer is proven to count each transmission, by two different counts in replies to one message.
//!
//! Requests are counted. With tokens, registrations of observations are not: their token lives on
//! in the notifications.

use carob_cc::controller::CopyTagging;
use carob_cc::evidence::{Answer, Matched};
use carob_cc::time::{Duration, Instant};

use crate::address::PeerIndex;
use crate::carrier::Carrier;
use crate::codec::HEADER_LENGTH;
use crate::codec::set_option;
use crate::codec::{MessageView, OptionNumber, Token, TokenKey};
use crate::config::MESSAGE_BYTES;
use crate::context::Context;
use crate::message_layer::peer::{CountSupport, Peer};
use crate::message_layer::{Ended, Exchange};
use crate::retransmission_count::Count;

/// The transmission that a reply names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyCount {
    /// No transmission, or an impossible number.
    Unknown,
    /// The counting option is absent.
    Absent,
    /// The number of the transmission.
    Copy(u8),
}

impl ReplyCount {
    /// Reads the count in a reply to one of `latest` + 1 transmissions.
    fn read(
        counting: CopyTagging,
        number: Option<OptionNumber>,
        latest: u8,
        answer: &MessageView<'_>,
    ) -> Self {
        let read = |number| Count::read(answer, number).map(Count::copy);
        let (first, copy) = match (counting, number) {
            (CopyTagging::Token, _) => (0, answer.token().last().copied()),
            (CopyTagging::EveryCopy, Some(number)) => (0, read(number)),
            (CopyTagging::RepeatedCopies, Some(number)) => (1, read(number)),
            (CopyTagging::Off, _) | (_, None) => return Self::Unknown,
        };
        match copy {
            None => Self::Absent,
            Some(copy) if (first..=latest).contains(&copy) && latest <= Count::LARGEST => {
                Self::Copy(copy)
            }
            // A transmission that was never sent, or had no count.
            Some(_) => Self::Unknown,
        }
    }

    /// The transmission named; without a count, the one sent without.
    fn copy(self, counting: CopyTagging) -> Option<u8> {
        match self {
            Self::Copy(copy) => Some(copy),
            Self::Absent if counting == CopyTagging::RepeatedCopies => Some(0),
            Self::Absent | Self::Unknown => None,
        }
    }
}

impl Exchange {
    /// Returns whether a message with this token can answer a transmission of this exchange.
    pub(crate) fn accepts_token(&self, token: &TokenKey) -> bool {
        if self.counting == CopyTagging::Token {
            self.token.is_sibling(token) && token.last() <= Some(self.retransmissions())
        } else {
            self.token == *token
        }
    }

    /// Returns whether a token, `counting` or not, could be mistaken for one of this exchange's.
    pub(crate) fn claims(&self, token: &TokenKey, counting: bool) -> bool {
        if counting || self.counting == CopyTagging::Token {
            self.token.is_sibling(token)
        } else {
            self.token == *token
        }
    }

    /// Returns whether bytes begin like a transmission of this exchange: header and token.
    pub(crate) fn matches_prefix(&self, begun: &[u8]) -> bool {
        let own = self.bytes.get(..begun.len());
        if self.counting != CopyTagging::Token {
            return own == Some(begun);
        }
        let stem = begun.len().saturating_sub(1);
        own.is_some_and(|own| own[..stem] == begun[..stem])
            && begun.last() <= Some(&self.retransmissions())
    }

    /// Matches a reply received at `now` to a transmission.
    ///
    /// Without a usable count, the Message ID restricts it to the transmissions that had it.
    pub(crate) fn matched(&self, now: Instant, peer: &Peer) -> Matched {
        // A missing count means the original only if the peer is known to count.
        let unsure = self.counting == CopyTagging::RepeatedCopies
            && peer.count_support == CountSupport::Unknown;
        let (earliest, latest) = match self.named {
            Some(copy) if peer.count_support == CountSupport::Proven => (copy, copy),
            Some(copy) if !unsure => {
                let shortest = Duration::from_micros(u64::from(peer.tally.shortest));
                let mut sent = self.transmissions.iter();
                let answerable = sent.rposition(|copy| now.since(copy.at) >= shortest);
                (copy, copy.max(answerable.unwrap_or_default() as u8))
            }
            _ => {
                let latest = self.last_of_id.unwrap_or(self.retransmissions());
                (self.first_of_id, latest)
            }
        };
        debug_assert!(earliest <= latest && latest <= self.retransmissions());
        if earliest == latest {
            Matched::Exact(latest)
        } else {
            Matched::Ambiguous { earliest, latest }
        }
    }
}

impl Ended {
    /// Compares another reply to a message with the count of the last one.
    pub(crate) fn compare_count(
        &mut self,
        number: Option<OptionNumber>,
        answer: &MessageView<'_>,
        echo: &mut CountSupport,
    ) {
        let sibling = || {
            let token = answer.token();
            Token::new(token.as_slice())
                .is_some_and(|token| self.token.is_sibling(&TokenKey::short(token)))
        };
        if self.counting == CopyTagging::Token && !sibling() {
            return;
        }
        let latest = self.sent.saturating_sub(1);
        let count = ReplyCount::read(self.counting, number, latest, answer);
        let Some(copy) = count.copy(self.counting) else {
            return;
        };
        match self.named.replace(copy) {
            Some(other) if other != copy => *echo = CountSupport::Proven,
            // The network may have duplicated it; otherwise it is a replay.
            Some(_) if *echo == CountSupport::Proven => *echo = CountSupport::Unproven,
            _ => {}
        }
    }
}

impl Carrier {
    /// The copy tagging of a request to this peer with its own token.
    pub(crate) fn tagging_by_token(&self, peer: PeerIndex) -> CopyTagging {
        match self.peers[peer].congestion.as_ref().copy_tagging() {
            CopyTagging::Token => CopyTagging::Token,
            // The option is added at the first transmission, when more is known of the peer.
            _ => CopyTagging::Off,
        }
    }

    /// The option to remove from responses of this peer, which the application did not send.
    pub(crate) fn echoed_option(&self, cx: &Context, peer: PeerIndex) -> Option<OptionNumber> {
        let peer = &self.peers[peer];
        let echoes = matches!(
            peer.count_support,
            CountSupport::Unproven | CountSupport::Proven
        ) && matches!(
            peer.congestion.as_ref().copy_tagging(),
            CopyTagging::EveryCopy | CopyTagging::RepeatedCopies
        );
        cx.count_option.filter(|_| echoes)
    }

    /// Decides whether the copies of an exchange that is about to begin carry the option.
    pub(crate) fn begin_counting(&mut self, cx: &mut Context, index: u32) {
        let exchange = &mut self.exchanges[index as usize];
        if !exchange.purpose.wants_response()
            || !exchange.confirmable
            || exchange.counting == CopyTagging::Token
        {
            return;
        }
        let peer = &self.peers[exchange.peer];
        let wanted = peer.congestion.as_ref().copy_tagging();
        let by_option = matches!(wanted, CopyTagging::EveryCopy | CopyTagging::RepeatedCopies);
        if by_option && cx.count_option.is_some() && peer.count_support != CountSupport::Absent {
            exchange.counting = wanted;
            self.count_copy(cx, index);
        }
    }

    /// Writes the count into the transmission about to be sent.
    pub(crate) fn count_copy(&mut self, cx: &mut Context, index: u32) {
        let exchange = &mut self.exchanges[index as usize];
        let copy = u8::try_from(exchange.transmissions.len()).unwrap_or(u8::MAX);
        let peer = &self.peers[exchange.peer];
        let count = match exchange.counting {
            CopyTagging::Off => return,
            CopyTagging::Token => {
                debug_assert!(!exchange.token.is_long(), "those that count are short");
                let length = HEADER_LENGTH + exchange.token.token().map_or(0, |token| token.len());
                if let Some(last) = exchange.bytes[..length].last_mut() {
                    *last = copy;
                }
                return;
            }
            CopyTagging::RepeatedCopies if copy == 0 => return,
            CopyTagging::EveryCopy if copy == 0 && peer.count_support == CountSupport::Unknown => {
                Count::FIRST
            }
            CopyTagging::EveryCopy | CopyTagging::RepeatedCopies => Count::of(copy),
        };
        let Some(number) = cx.count_option else {
            return;
        };
        // The peer may have turned out not to echo.
        let stopped = peer.count_support == CountSupport::Absent;
        let bytes = &mut exchange.bytes;
        if stopped || !count.write_at(bytes, 0, MESSAGE_BYTES, number) {
            let length = bytes.len();
            let without = set_option(bytes, length, number, None);
            bytes.truncate(without.unwrap_or(length));
            exchange.counting = CopyTagging::Off;
        }
    }

    /// Writes the count into the retransmission about to be sent.
    pub(crate) fn count_retransmission(&mut self, cx: &mut Context, index: u32) {
        let before = self.exchanges[index as usize].in_flight_bytes();
        self.count_copy(cx, index);
        let exchange = &self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        peer.outstanding_bytes = peer
            .outstanding_bytes
            .saturating_sub(before)
            .saturating_add(exchange.in_flight_bytes());
    }

    /// Records the transmission that a reply names, and whether the peer supports the count.
    pub(crate) fn on_reply_count(
        &mut self,
        cx: &mut Context,
        index: u32,
        answer: Answer,
        message: &MessageView<'_>,
    ) {
        let exchange = &mut self.exchanges[index as usize];
        let counting = exchange.counting;
        if answer == Answer::Separate && counting != CopyTagging::Token {
            return; // a separate response has no count; a value there has no meaning
        }
        let count = ReplyCount::read(
            counting,
            cx.count_option,
            exchange.retransmissions(),
            message,
        );
        exchange.named = count.copy(counting);
        debug_assert!(
            exchange.named <= Some(exchange.retransmissions()),
            "never sent"
        );
        let support = &mut self.peers[exchange.peer].count_support;
        match (count, counting, *support) {
            (_, CopyTagging::Token, _) | (ReplyCount::Copy(_), _, CountSupport::Proven) => {}
            (ReplyCount::Copy(_), ..) => *support = CountSupport::Unproven,
            (ReplyCount::Absent, CopyTagging::EveryCopy, CountSupport::Unknown) => {
                *support = CountSupport::Absent;
            }
            _ => {}
        }
    }
}
