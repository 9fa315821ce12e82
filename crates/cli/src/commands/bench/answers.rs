//! Answers that no request waits for: what is wrong with them.
//!
//! The engine passes over them, as a client should (RFC 7252 4.2, 5.3.2); a load generator counts
//! them, because they tell of a server that answers wrongly or too late.

use carob_proto::codec::{BASE_TOKEN_LENGTH, MessageId, MessageView, Token, Type};

/// Messages of one source port that are remembered for each one that may be outstanding.
const REMEMBERED: usize = 4;
/// And the fewest that are remembered. Of what was forgotten an answer counts as late.
const REMEMBERED_AT_LEAST: usize = 64;

/// What an answer was that no request took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Odd {
    /// Right, but its request had its answer already or had been given up.
    Late,
    /// It has a token of ours, or none, and a Message ID that is not that request's.
    MessageId,
    /// It acknowledges a message of ours with a token that is not that message's, or has a token
    /// that is nobody's.
    Token,
    /// A message that no answer may be: a request, or an acknowledgement with a reserved code.
    Kind,
    /// No CoAP message at all.
    Malformed,
    /// No answer: a ping of the server's.
    Nothing,
}

/// A token as it is remembered: its length and its last bytes, which are random in any of ours.
type Kept = (usize, Token);

fn kept(token: &[u8]) -> Kept {
    let start = token.len().saturating_sub(BASE_TOKEN_LENGTH);
    let end = token.get(start..).and_then(Token::new);
    (token.len(), end.unwrap_or_default())
}

/// The latest requests sent from one source port: Message IDs with their tokens.
#[derive(Debug)]
pub(super) struct SentLately {
    /// By Message ID, modulo the number of places; empty ones hold no token.
    places: Box<[Option<(MessageId, Kept)>]>,
    /// The first Message ID, and how many followed it.
    first: u16,
    used: u32,
}

impl SentLately {
    /// For a port with up to `outstanding` requests at a time.
    pub(super) fn new(outstanding: usize) -> Self {
        let count = outstanding
            .saturating_mul(REMEMBERED)
            .clamp(REMEMBERED_AT_LEAST, 1 << 16)
            .next_power_of_two();
        Self {
            places: vec![None; count].into(),
            first: 0,
            used: 0,
        }
    }

    /// Notes a message that leaves.
    pub(super) fn note(&mut self, message: &[u8]) {
        let Ok(message) = MessageView::parse(message) else {
            return;
        };
        if !message.code().is_request() {
            return;
        }
        let token = kept(message.token().as_slice());
        let MessageId(id) = message.message_id();
        if self.used == 0 {
            self.first = id;
        }
        // Repetitions have an ID that was counted; the engine counts up from the first.
        self.used = self.used.max(u32::from(id.wrapping_sub(self.first)) + 1);
        let place = usize::from(id) & (self.places.len() - 1);
        self.places[place] = Some((MessageId(id), token));
    }

    /// The token of the message with this ID, if it is remembered.
    fn token(&self, id: MessageId) -> Option<Kept> {
        let place = usize::from(id.0) & (self.places.len() - 1);
        let (other, token) = self.places[place]?;
        (other == id).then_some(token)
    }

    /// Whether a remembered message had this token. Looked through only for odd answers.
    fn has_token(&self, token: Kept) -> bool {
        self.places.iter().flatten().any(|(_, of)| *of == token)
    }

    /// Whether a message with this ID ever left.
    fn was_used(&self, id: MessageId) -> bool {
        u32::from(id.0.wrapping_sub(self.first)) < self.used
    }

    /// What an answer is that the engine had no use for.
    pub(super) fn judge(&self, answer: &[u8]) -> Odd {
        let Ok(answer) = MessageView::parse(answer) else {
            return Odd::Malformed;
        };
        let (code, id) = (answer.code(), answer.message_id());
        let token = kept(answer.token().as_slice());
        match answer.kind() {
            Type::Reset => self.judge_empty(id),
            Type::Acknowledgement if code.is_empty() => self.judge_empty(id),
            Type::Acknowledgement if !code.is_response() => Odd::Kind,
            Type::Acknowledgement => match self.token(id) {
                Some(sent) if sent == token => Odd::Late,
                _ if self.has_token(token) => Odd::MessageId,
                Some(_) => Odd::Token,
                // Of a message sent so long ago that its token is forgotten.
                None if self.was_used(id) => Odd::Late,
                None => Odd::MessageId,
            },
            Type::Confirmable if code.is_empty() => Odd::Nothing,
            _ if !code.is_response() => Odd::Kind,
            _ if self.has_token(token) => Odd::Late,
            _ => Odd::Token,
        }
    }

    fn judge_empty(&self, id: MessageId) -> Odd {
        if self.was_used(id) {
            Odd::Late
        } else {
            Odd::MessageId
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages 0xfffe and 0x0001 in between, tokens "aa" to "ad".
    fn sent() -> SentLately {
        let mut sent = SentLately::new(4);
        for (id, token) in [(0xfffe, b"aa"), (0xffff, b"ab"), (0, b"ac"), (1, b"ad")] {
            sent.note(&message(0x42, 0x01, id, token));
        }
        // An acknowledgement of ours is no request.
        sent.note(&message(0x62, 0x00, 77, b""));
        sent
    }

    fn message(head: u8, code: u8, id: u16, token: &[u8]) -> Vec<u8> {
        let [high, low] = id.to_be_bytes();
        let head = head & 0xf0 | token.len() as u8;
        [&[head, code, high, low], token].concat()
    }

    #[test]
    fn an_answer_to_what_was_asked_is_late() {
        let sent = sent();
        assert_eq!(sent.judge(&message(0x60, 0x45, 0, b"ac")), Odd::Late);
        assert_eq!(sent.judge(&message(0x50, 0x45, 9, b"ac")), Odd::Late);
        assert_eq!(sent.judge(&message(0x40, 0x45, 9, b"ac")), Odd::Late);
        assert_eq!(sent.judge(&message(0x60, 0, 0xffff, b"")), Odd::Late);
        assert_eq!(sent.judge(&message(0x70, 0, 1, b"")), Odd::Late);
    }

    #[test]
    fn a_wrong_message_id_is_told_from_a_wrong_token() {
        let sent = sent();
        let of = |id, token| sent.judge(&message(0x60, 0x45, id, token));
        assert_eq!(of(2, b"ad"), Odd::MessageId, "never used");
        assert_eq!(of(0, b"ad"), Odd::MessageId, "another's");
        assert_eq!(of(5_000, b"zz"), Odd::MessageId, "neither is ours");
        assert_eq!(of(0, b"zz"), Odd::Token);
        assert_eq!(of(0, b""), Odd::Token);
        assert_eq!(sent.judge(&message(0x50, 0x45, 9, b"zz")), Odd::Token);
        assert_eq!(sent.judge(&message(0x60, 0, 2, b"")), Odd::MessageId);
        assert_eq!(sent.judge(&message(0x70, 0, 0xfffd, b"")), Odd::MessageId);
    }

    #[test]
    fn long_tokens_are_told_apart_by_their_ends() {
        let mut sent = SentLately::new(4);
        let long = |last: u8| [&[7; 11][..], &[last]].concat();
        sent.note(&message(0x40, 0x01, 5, &long(1)));
        sent.note(&message(0x40, 0x01, 6, &long(2)));
        let of = |id, token: &[u8]| sent.judge(&message(0x60, 0x45, id, token));
        assert_eq!(of(5, &long(1)), Odd::Late);
        assert_eq!(of(5, &long(2)), Odd::MessageId);
        assert_eq!(of(5, &long(3)), Odd::Token);
        assert_eq!(of(5, &long(1)[1..]), Odd::Token);
    }

    #[test]
    fn what_cannot_be_an_answer_is_said_to_be_so() {
        let sent = sent();
        assert_eq!(sent.judge(&message(0x60, 0x01, 0, b"ac")), Odd::Kind);
        assert_eq!(sent.judge(&message(0x50, 0x01, 0, b"ac")), Odd::Kind);
        assert_eq!(sent.judge(&message(0x40, 0, 9, b"")), Odd::Nothing);
        assert_eq!(sent.judge(b"\x44\x45"), Odd::Malformed);
        assert_eq!(sent.judge(b""), Odd::Malformed);
    }

    #[test]
    fn what_was_sent_too_long_ago_to_be_remembered_is_late_at_worst() {
        let mut sent = SentLately::new(1);
        for id in 100..1_100 {
            sent.note(&message(0x42, 0x01, id, &id.to_be_bytes()));
        }
        let of = |id: u16| sent.judge(&message(0x60, 0x45, id, &id.to_be_bytes()));
        assert_eq!([of(100), of(1_099)], [Odd::Late; 2]);
        assert_eq!([of(99), of(1_100)], [Odd::MessageId; 2]);
    }
}
