//! Recorded traffic, decoded for assertions.

use std::{collections::BTreeMap, fmt, time::Duration};

use carob::{Code, OptionNumber};
use carob_proto::codec::{BlockValue, MessageId, MessageView, Type};

/// The sender of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// A decoded message. Over connections, type and Message ID have no meaning.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Type,
    pub(crate) code: Code,
    pub(crate) id: MessageId,
    pub(crate) token: Vec<u8>,
    pub(crate) options: Vec<(OptionNumber, Vec<u8>)>,
    pub(crate) payload: Vec<u8>,
    /// Length of the message in bytes; over connections approximately.
    pub(crate) length: usize,
}

impl Message {
    pub(crate) fn read(datagram: &[u8]) -> Option<Self> {
        let view = MessageView::parse(datagram).ok()?;
        Some(Self::of(&view, datagram.len()))
    }

    /// `length` is that of the whole message in bytes.
    pub(crate) fn of(view: &MessageView<'_>, length: usize) -> Self {
        let options = view.options();
        Self {
            kind: view.kind(),
            code: view.code(),
            id: view.message_id(),
            token: view.token().as_slice().to_vec(),
            options: options.map(|o| (o.number, o.value.to_vec())).collect(),
            payload: view.payload().to_vec(),
            length,
        }
    }

    /// The values of an option, in order.
    pub(crate) fn values(&self, number: OptionNumber) -> Vec<&[u8]> {
        let of_number = self.options.iter().filter(|(n, _)| *n == number);
        of_number.map(|(_, value)| value.as_slice()).collect()
    }

    /// The values of an option as text.
    pub(crate) fn texts(&self, number: OptionNumber) -> Vec<String> {
        let values = self.values(number).into_iter();
        let text = values.map(|value| String::from_utf8_lossy(value).into_owned());
        text.collect()
    }

    /// The single value of an option, if present.
    pub(crate) fn option(&self, number: OptionNumber) -> Option<&[u8]> {
        match self.values(number).as_slice() {
            [] => None,
            [value] => Some(value),
            _ => panic!("option {} is there more than once: {self:?}", number.0),
        }
    }

    /// The single value of an option as a uint (RFC 7252 3.2).
    pub(crate) fn number(&self, number: OptionNumber) -> Option<u32> {
        let value = self.option(number)?;
        Some(value.iter().fold(0, |n, byte| n << 8 | u32::from(*byte)))
    }

    pub(crate) fn block(&self, number: OptionNumber) -> Option<BlockValue> {
        let value = self.option(number)?;
        Some(BlockValue::decode(value).expect("a block option is well-formed"))
    }

    pub(crate) fn observe(&self) -> Option<u32> {
        self.number(OptionNumber::OBSERVE)
    }

    pub(crate) fn format(&self) -> Option<u32> {
        self.number(OptionNumber::CONTENT_FORMAT)
    }

    fn is_empty(&self) -> bool {
        self.code == Code::EMPTY
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = ["CON", "NON", "ACK", "RST"][self.kind as usize];
        write!(
            f,
            "{kind} {} {} token {:02x?}",
            self.code, self.id, self.token
        )?;
        for (number, value) in &self.options {
            let name = number.name().unwrap_or("option");
            write!(f, " {name}({})=", number.0)?;
            match number {
                n if matches!(*n, OptionNumber::BLOCK1 | OptionNumber::BLOCK2) => {
                    match BlockValue::decode(value) {
                        Ok(block) => write!(
                            f,
                            "{}/{}/{}",
                            block.number,
                            u8::from(block.more),
                            block.szx.bytes()
                        )?,
                        Err(error) => write!(f, "{error}")?,
                    }
                }
                _ if !value.is_empty() && value.iter().all(u8::is_ascii_graphic) => {
                    write!(f, "{}", String::from_utf8_lossy(value))?;
                }
                _ => write!(f, "{value:02x?}")?,
            }
        }
        match self.payload.len() {
            0 => Ok(()),
            n => write!(f, ", {n} bytes"),
        }
    }
}

/// A recorded message.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Time since the start of the path.
    pub(crate) at: Duration,
    pub(crate) from: Side,
    /// Dropped by the path.
    pub(crate) lost: bool,
    /// Forwarded twice by the path.
    pub(crate) duplicated: bool,
    pub(crate) message: Message,
}

/// All recorded messages in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire(pub(crate) Vec<Frame>);

/// A request and its response.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Message,
    /// The first matching response, piggybacked or separate.
    pub(crate) response: Message,
}

impl Wire {
    fn from(&self, side: Side) -> impl DoubleEndedIterator<Item = &Message> {
        let frames = self.0.iter().filter(move |frame| frame.from == side);
        frames.map(|frame| &frame.message)
    }

    /// The client's requests without retransmissions.
    pub(crate) fn requests(&self) -> Vec<&Message> {
        let requests = self.from(Side::Client).filter(|m| m.code.is_request());
        once_each(requests)
    }

    /// The server's responses and notifications without retransmissions.
    pub(crate) fn responses(&self) -> Vec<&Message> {
        once_each(self.from(Side::Server).filter(|m| m.code.is_response()))
    }

    /// Number of transmissions of this message by one side.
    pub(crate) fn copies(&self, side: Side, like: &Message) -> usize {
        let same = self.from(side).filter(|message| *message == like);
        same.count()
    }

    /// The first response to a request: the same token, and the same Message ID if piggybacked (RFC 7252 5.3.2).
    pub(crate) fn response_to(&self, request: &Message) -> Option<&Message> {
        let sent = |frame: &Frame| frame.from == Side::Client && frame.message == *request;
        let start = self.0.iter().position(sent)?;
        let mut later = self.0[start..].iter().filter(|f| f.from == Side::Server);
        let found = later.find(|frame| {
            let message = &frame.message;
            message.code.is_response()
                && message.token == request.token
                && (message.kind != Type::Acknowledgement || message.id == request.id)
        });
        found.map(|frame| &frame.message)
    }

    /// All requests with their responses; panics if one is missing.
    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        let requests = self.requests().into_iter();
        let pairs = requests.map(|request| Exchange {
            request: request.clone(),
            response: self
                .response_to(request)
                .unwrap_or_else(|| panic!("no response to {request:?}"))
                .clone(),
        });
        pairs.collect()
    }

    pub(crate) fn last_exchange(&self) -> Exchange {
        self.exchanges().pop().expect("a request")
    }

    /// An Empty message of this type and Message ID.
    pub(crate) fn empty(&self, side: Side, kind: Type, id: MessageId) -> Option<&Message> {
        self.from(side)
            .find(|m| m.is_empty() && m.kind == kind && m.id == id)
    }

    /// Notifications with this token without retransmissions; piggybacked responses are excluded.
    pub(crate) fn notifications(&self, token: &[u8]) -> Vec<&Message> {
        let mut responses = self.responses();
        responses.retain(|m| m.token == token && m.kind != Type::Acknowledgement);
        responses
    }

    /// The frames of one side.
    pub(crate) fn seen(&self, side: Side) -> Seen {
        let frames = self.0.iter().filter(|frame| frame.from == side);
        Seen(frames.cloned().collect())
    }

    /// The frames after this time.
    pub(crate) fn after(&self, at: Duration) -> Self {
        let later = self.0.iter().filter(|frame| frame.at > at);
        Self(later.cloned().collect())
    }
}

/// The frames of one side.
#[derive(Debug)]
pub(crate) struct Seen(pub(crate) Vec<Frame>);

impl Seen {
    pub(crate) fn count(&self, kind: Type) -> usize {
        self.0.iter().filter(|f| f.message.kind == kind).count()
    }

    /// Number of Empty ACKs.
    pub(crate) fn empty_acknowledgements(&self) -> usize {
        let is_empty = |f: &&Frame| f.message.kind == Type::Acknowledgement && f.message.is_empty();
        self.0.iter().filter(is_empty).count()
    }

    pub(crate) fn lost(&self) -> usize {
        self.0.iter().filter(|frame| frame.lost).count()
    }

    pub(crate) fn duplicated(&self) -> usize {
        self.0.iter().filter(|frame| frame.duplicated).count()
    }

    /// Number of GETs with Observe 1 (RFC 7641 3.6).
    pub(crate) fn cancellations(&self) -> usize {
        let requests = self.requests();
        let cancels =
            |copies: &&Vec<Message>| copies[0].code == Code::GET && copies[0].observe() == Some(1);
        requests.values().filter(cancels).count()
    }

    /// Length of the longest datagram in bytes.
    pub(crate) fn longest(&self) -> usize {
        let lengths = self.0.iter().map(|frame| frame.message.length);
        lengths.max().unwrap_or_default()
    }

    /// Distinct requests by Message ID.
    pub(crate) fn requests(&self) -> BTreeMap<MessageId, Vec<Message>> {
        self.by_id(|message| message.code.is_request())
    }

    /// Distinct piggybacked responses by Message ID.
    pub(crate) fn replies(&self) -> BTreeMap<MessageId, Vec<Message>> {
        self.by_id(|message| message.kind == Type::Acknowledgement && !message.is_empty())
    }

    /// Whether one Message ID got two different responses, which shows that a duplicate was executed.
    pub(crate) fn is_contradictory(&self) -> bool {
        self.replies().values().any(|texts| texts.len() > 1)
    }

    fn by_id(&self, which: impl Fn(&Message) -> bool) -> BTreeMap<MessageId, Vec<Message>> {
        let mut all: BTreeMap<_, Vec<Message>> = BTreeMap::new();
        for message in self.0.iter().map(|frame| &frame.message) {
            let texts = all.entry(message.id).or_default();
            if which(message) && !texts.contains(message) {
                texts.push(message.clone());
            }
        }
        all.retain(|_, texts| !texts.is_empty());
        all
    }
}

fn once_each<'m>(messages: impl Iterator<Item = &'m Message>) -> Vec<&'m Message> {
    let mut all: Vec<&Message> = Vec::new();
    for message in messages {
        if !all.contains(&message) {
            all.push(message);
        }
    }
    all
}

/// A transcript for failure messages.
impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for frame in &self.0 {
            let arrow = match frame.from {
                Side::Client => "->",
                Side::Server => "<-",
            };
            let lost = if frame.lost { " LOST" } else { "" };
            let at = frame.at.as_secs_f64();
            writeln!(f, "{at:8.3} {arrow} {:?}{lost}", frame.message)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a message with a token of one byte.
    fn datagram(kind: u8, code: u8, id: u8, token: u8) -> Vec<u8> {
        vec![0x41 | kind << 4, code, 0, id, token]
    }

    fn wire(datagrams: &[(Side, Vec<u8>)]) -> Wire {
        let frames = datagrams.iter().map(|(from, bytes)| Frame {
            at: Duration::ZERO,
            from: *from,
            lost: false,
            duplicated: false,
            message: Message::read(bytes).expect("a message"),
        });
        Wire(frames.collect())
    }

    #[test]
    fn response_matches_by_token_and_piggybacked_message_id() {
        let request = datagram(0, 1, 7, 9);
        let wire = wire(&[
            (Side::Client, request.clone()),
            (Side::Server, datagram(2, 0x45, 8, 9)), // another Message ID
            (Side::Server, datagram(0, 0x45, 7, 8)), // another token
            (Side::Server, vec![0x60, 0, 0, 7]),     // empty
            (Side::Server, datagram(0, 0x45, 3, 9)),
        ]);
        let request = Message::read(&request).expect("a message");
        let found = wire.response_to(&request).expect("the last");
        assert_eq!((found.kind, found.id), (Type::Confirmable, MessageId(3)));
    }

    #[test]
    fn retransmissions_of_a_request_are_one_request() {
        let wire = wire(&[
            (Side::Client, datagram(0, 1, 7, 9)),
            (Side::Client, datagram(0, 1, 7, 9)),
            (Side::Client, datagram(0, 1, 8, 9)),
        ]);
        let requests = wire.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(wire.copies(Side::Client, requests[0]), 2);
        assert_eq!(wire.copies(Side::Server, requests[0]), 0);
    }
}
