//! Classification of responses that match no outstanding request, and comparison of downloaded bodies.
//!
//! The engine passes over them, as a client should (RFC 7252 4.2, 5.3.2); a load generator counts
//! them, because they show that a server answers wrongly or too late.

use carob::{Code, OptionNumber, Response};
use carob_proto::codec::{BASE_TOKEN_LENGTH, MessageId, MessageView, Token, Type};

use super::counters::{Ending, ErrorKind};

/// Messages of one source port that are remembered for each one that may be outstanding.
const REMEMBERED: usize = 4;
/// Smallest number of remembered requests. A response to a forgotten one counts as late.
const REMEMBERED_AT_LEAST: usize = 64;

/// Kind of an answer that matches no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnexpectedAnswer {
    /// Right, but its request had its answer already or had been given up.
    Late,
    /// A Message ID that does not belong to the request of this token, or of the empty token.
    MessageId,
    /// An acknowledgement of a known message with the token of another, or any message with an
    /// unknown token.
    Token,
    /// A message that no answer may be: a request, or an acknowledgement with a reserved code.
    Kind,
    /// No CoAP message at all.
    Malformed,
    /// No answer: a ping of the server's.
    Nothing,
}

/// The part of a token that is remembered: its length and its last bytes, which are random.
type TokenTail = (usize, Token);

fn token_tail(token: &[u8]) -> TokenTail {
    let start = token.len().saturating_sub(BASE_TOKEN_LENGTH);
    let end = token.get(start..).and_then(Token::new);
    (token.len(), end.unwrap_or_default())
}

/// The latest requests sent from one source port: Message IDs with their tokens.
#[derive(Debug)]
pub(super) struct SentLately {
    /// By Message ID, modulo the number of places; empty ones hold no token.
    places: Box<[Option<(MessageId, TokenTail)>]>,
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
        let token = token_tail(message.token().as_slice());
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
    fn token(&self, id: MessageId) -> Option<TokenTail> {
        let place = usize::from(id.0) & (self.places.len() - 1);
        let (other, token) = self.places[place]?;
        (other == id).then_some(token)
    }

    /// Returns true if a remembered message had this token. Linear, but needed for unexpected
    /// answers only.
    fn has_token(&self, token: TokenTail) -> bool {
        self.places.iter().flatten().any(|(_, of)| *of == token)
    }

    /// Returns true if a message with this ID was sent before.
    fn was_used(&self, id: MessageId) -> bool {
        u32::from(id.0.wrapping_sub(self.first)) < self.used
    }

    /// Classifies an answer that the engine did not match.
    pub(super) fn judge(&self, answer: &[u8]) -> UnexpectedAnswer {
        let Ok(answer) = MessageView::parse(answer) else {
            return UnexpectedAnswer::Malformed;
        };
        let (code, id) = (answer.code(), answer.message_id());
        let token = token_tail(answer.token().as_slice());
        match answer.kind() {
            Type::Reset => self.judge_empty(id),
            Type::Acknowledgement if code.is_empty() => self.judge_empty(id),
            Type::Acknowledgement if !code.is_response() => UnexpectedAnswer::Kind,
            Type::Acknowledgement => match self.token(id) {
                Some(sent) if sent == token => UnexpectedAnswer::Late,
                _ if self.has_token(token) => UnexpectedAnswer::MessageId,
                Some(_) => UnexpectedAnswer::Token,
                // Of a message sent so long ago that its token is forgotten.
                None if self.was_used(id) => UnexpectedAnswer::Late,
                None => UnexpectedAnswer::MessageId,
            },
            Type::Confirmable if code.is_empty() => UnexpectedAnswer::Nothing,
            _ if !code.is_response() => UnexpectedAnswer::Kind,
            _ if self.has_token(token) => UnexpectedAnswer::Late,
            _ => UnexpectedAnswer::Token,
        }
    }

    fn judge_empty(&self, id: MessageId) -> UnexpectedAnswer {
        if self.was_used(id) {
            UnexpectedAnswer::Late
        } else {
            UnexpectedAnswer::MessageId
        }
    }
}

/// A body as far as it has arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Body {
    code: Option<Code>,
    etag: Option<Vec<u8>>,
    /// Length announced by the server (Size2), in bytes.
    announced: Option<u64>,
    length: u64,
}

impl Body {
    pub(super) fn begin(&mut self, head: &Response, size: Option<u64>) {
        self.code = Some(head.code);
        self.etag = head.options.first(OptionNumber::ETAG).map(<[u8]>::to_vec);
        self.announced = size;
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.length += bytes;
    }
}

/// Checks of the bodies of a thread against a reference.
#[derive(Debug, Default)]
pub(super) struct BodyChecker {
    /// The latest body that was right: its ETag and its length.
    reference: Option<(Option<Vec<u8>>, u64)>,
    changed: u64,
}

impl BodyChecker {
    /// The ending of a request whose body is complete after `after` nanoseconds.
    ///
    /// The length must be the announced one, and the previous body's, unless
    /// the ETag differs (RFC 7252 5.10.6).
    pub(super) fn judge(&mut self, body: &Body, after: u64) -> Ending {
        let Body {
            code,
            etag,
            announced,
            length,
        } = body;
        let Some(code) = *code else {
            return Ending::Failed(ErrorKind::Body);
        };
        if !code.is_success() {
            return Ending::Refused(code);
        }
        if announced.is_some_and(|announced| announced != *length) {
            return Ending::Failed(ErrorKind::Body);
        }
        if let Some((of_etag, of_length)) = &self.reference {
            if of_etag != etag {
                self.changed += 1;
            } else if of_length != length {
                return Ending::Failed(ErrorKind::Differs);
            }
        }
        if self.reference.as_ref().is_none_or(|(of, _)| of != etag) {
            self.reference = Some((etag.clone(), *length));
        }
        Ending::Answered {
            code,
            after,
            bytes: *length,
        }
    }

    /// Times that a body was of another representation than the one before.
    pub(super) fn changed(&self) -> u64 {
        self.changed
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
        // An acknowledgement sent is no request.
        sent.note(&message(0x62, 0x00, 77, b""));
        sent
    }

    fn message(head: u8, code: u8, id: u16, token: &[u8]) -> Vec<u8> {
        let [high, low] = id.to_be_bytes();
        let head = head & 0xf0 | token.len() as u8;
        [&[head, code, high, low], token].concat()
    }

    #[test]
    fn unexpected_responses_are_classified() {
        use UnexpectedAnswer::{Kind, Late, Malformed, MessageId, Nothing, Token};

        let sent = sent();
        for (head, code, id, token, expected) in [
            // Answers to what was asked, from all that can follow it.
            (0x60, 0x45, 0, &b"ac"[..], Late),
            (0x50, 0x45, 9, b"ac", Late),
            (0x40, 0x45, 9, b"ac", Late),
            (0x60, 0, 0xffff, b"", Late),
            (0x70, 0, 1, b"", Late),
            // A Message ID that was never used, another's, and with a token that is not ours.
            (0x60, 0x45, 2, b"ad", MessageId),
            (0x60, 0x45, 0, b"ad", MessageId),
            (0x60, 0x45, 5_000, b"zz", MessageId),
            (0x60, 0, 2, b"", MessageId),
            (0x70, 0, 0xfffd, b"", MessageId),
            (0x60, 0x45, 0, b"zz", Token),
            (0x60, 0x45, 0, b"", Token),
            (0x50, 0x45, 9, b"zz", Token),
            // What cannot be an answer.
            (0x60, 0x01, 0, b"ac", Kind),
            (0x50, 0x01, 0, b"ac", Kind),
            (0x40, 0, 9, b"", Nothing),
        ] {
            let message = message(head, code, id, token);
            assert_eq!(sent.judge(&message), expected, "{message:x?}");
        }
        assert_eq!(sent.judge(b"\x44\x45"), Malformed);
        assert_eq!(sent.judge(b""), Malformed);
    }

    #[test]
    fn long_tokens_are_compared_by_their_ends() {
        let mut sent = SentLately::new(4);
        let long = |last: u8| [&[7; 11][..], &[last]].concat();
        sent.note(&message(0x40, 0x01, 5, &long(1)));
        sent.note(&message(0x40, 0x01, 6, &long(2)));
        let of = |id, token: &[u8]| sent.judge(&message(0x60, 0x45, id, token));
        assert_eq!(of(5, &long(1)), UnexpectedAnswer::Late);
        assert_eq!(of(5, &long(2)), UnexpectedAnswer::MessageId);
        assert_eq!(of(5, &long(3)), UnexpectedAnswer::Token);
        assert_eq!(of(5, &long(1)[1..]), UnexpectedAnswer::Token);
    }

    #[test]
    fn response_to_forgotten_request_counts_as_late() {
        let mut sent = SentLately::new(1);
        for id in 100..1_100 {
            sent.note(&message(0x42, 0x01, id, &id.to_be_bytes()));
        }
        let of = |id: u16| sent.judge(&message(0x60, 0x45, id, &id.to_be_bytes()));
        assert_eq!([of(100), of(1_099)], [UnexpectedAnswer::Late; 2]);
        assert_eq!([of(99), of(1_100)], [UnexpectedAnswer::MessageId; 2]);
    }

    fn body(etag: Option<&[u8]>, announced: Option<u64>, length: u64) -> Body {
        let mut head = Response::new(Code::CONTENT);
        if let Some(etag) = etag {
            head.options
                .set(OptionNumber::ETAG, etag)
                .expect("a short option");
        }
        let mut body = Body::default();
        body.begin(&head, announced);
        body.add(length);
        body
    }

    fn is_right(bodies: &mut BodyChecker, body: &Body) -> bool {
        matches!(bodies.judge(body, 1), Ending::Answered { .. })
    }

    #[test]
    fn a_body_of_another_length_is_wrong_unless_its_etag_is_another() {
        let mut bodies = BodyChecker::default();
        assert!(is_right(&mut bodies, &body(Some(b"a"), None, 100)));
        assert!(is_right(&mut bodies, &body(Some(b"a"), None, 100)));
        assert_eq!(
            bodies.judge(&body(Some(b"a"), None, 99), 1),
            Ending::Failed(ErrorKind::Differs)
        );
        assert!(is_right(&mut bodies, &body(Some(b"b"), None, 99)));
        assert_eq!(bodies.changed(), 1);
        assert!(is_right(&mut bodies, &body(Some(b"b"), None, 99)));
        assert_eq!(bodies.changed(), 1);
    }

    #[test]
    fn body_without_etag_must_have_constant_length() {
        let mut bodies = BodyChecker::default();
        assert!(is_right(&mut bodies, &body(None, None, 5)));
        assert_eq!(
            bodies.judge(&body(None, None, 6), 1),
            Ending::Failed(ErrorKind::Differs)
        );
    }

    #[test]
    fn body_shorter_than_announced_is_wrong() {
        let mut bodies = BodyChecker::default();
        let short = body(None, Some(10), 9);
        assert_eq!(bodies.judge(&short, 1), Ending::Failed(ErrorKind::Body));
    }

    #[test]
    fn a_refusal_is_counted_by_its_code() {
        let mut refused = Body::default();
        refused.begin(&Response::new(Code::NOT_FOUND), Some(0));
        assert_eq!(
            BodyChecker::default().judge(&refused, 1),
            Ending::Refused(Code::NOT_FOUND)
        );
    }
}
