//! What passed between client and server, as messages that cases look at.

use std::{collections::BTreeMap, fmt, time::Duration};

use carob::{Code, OptionNumber};
use carob_proto::codec::{BlockValue, MessageId, MessageView, Type};

/// Who sent a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// A message, read from its datagram.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Type,
    pub(crate) code: Code,
    pub(crate) id: MessageId,
    pub(crate) token: Vec<u8>,
    pub(crate) options: Vec<(OptionNumber, Vec<u8>)>,
    pub(crate) payload: Vec<u8>,
    /// The datagram's length in bytes.
    pub(crate) length: usize,
}

impl Message {
    pub(crate) fn read(datagram: &[u8]) -> Option<Self> {
        let view = MessageView::parse(datagram).ok()?;
        let options = view.options();
        Some(Self {
            kind: view.kind(),
            code: view.code(),
            id: view.message_id(),
            token: view.token().as_slice().to_vec(),
            options: options.map(|o| (o.number, o.value.to_vec())).collect(),
            payload: view.payload().to_vec(),
            length: datagram.len(),
        })
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

    /// The only value of an option; nothing if there is none.
    pub(crate) fn option(&self, number: OptionNumber) -> Option<&[u8]> {
        match self.values(number).as_slice() {
            [] => None,
            [value] => Some(value),
            _ => panic!("option {} is there more than once: {self:?}", number.0),
        }
    }

    /// The same as a number.
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

/// A message on its path.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Since the path was started.
    pub(crate) at: Duration,
    pub(crate) from: Side,
    /// The path did not pass it on.
    pub(crate) lost: bool,
    /// The path passed it on twice.
    pub(crate) duplicated: bool,
    pub(crate) message: Message,
}

/// Everything that has passed, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire(pub(crate) Vec<Frame>);

/// A request and its response as they passed.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Message,
    /// The first that matches; piggybacked or not.
    pub(crate) response: Message,
}

impl Wire {
    fn from(&self, side: Side) -> impl DoubleEndedIterator<Item = &Message> {
        let frames = self.0.iter().filter(move |frame| frame.from == side);
        frames.map(|frame| &frame.message)
    }

    /// The client's requests; copies of one are one.
    pub(crate) fn requests(&self) -> Vec<&Message> {
        let requests = self.from(Side::Client).filter(|m| m.code.is_request());
        once_each(requests)
    }

    /// The server's responses, notifications included; copies of one are one.
    pub(crate) fn responses(&self) -> Vec<&Message> {
        once_each(self.from(Side::Server).filter(|m| m.code.is_response()))
    }

    /// How often a message with this identity was sent by this side.
    pub(crate) fn copies(&self, side: Side, like: &Message) -> usize {
        let same = self.from(side).filter(|message| *message == like);
        same.count()
    }

    /// The first response to a request: with its token, and its Message ID if piggybacked
    /// (RFC 7252 5.3.2).
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

    /// All requests with their responses, which must all be there.
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

    /// The newest of these.
    pub(crate) fn last_exchange(&self) -> Exchange {
        self.exchanges().pop().expect("something was asked")
    }

    /// An empty message of a type about this Message ID.
    pub(crate) fn empty(&self, side: Side, kind: Type, id: MessageId) -> Option<&Message> {
        self.from(side)
            .find(|m| m.is_empty() && m.kind == kind && m.id == id)
    }

    /// The notifications that carry a token, each once: what the server sent with it by itself.
    pub(crate) fn notifications(&self, token: &[u8]) -> Vec<&Message> {
        let mut responses = self.responses();
        responses.retain(|m| m.token == token && m.kind != Type::Acknowledgement);
        responses
    }

    /// The frames of one sender.
    pub(crate) fn seen(&self, side: Side) -> Seen {
        let frames = self.0.iter().filter(|frame| frame.from == side);
        Seen(frames.cloned().collect())
    }

    /// The frames after a moment.
    pub(crate) fn after(&self, at: Duration) -> Self {
        let later = self.0.iter().filter(|frame| frame.at > at);
        Self(later.cloned().collect())
    }
}

/// The frames of one sender, as cases count them.
#[derive(Debug)]
pub(crate) struct Seen(pub(crate) Vec<Frame>);

impl Seen {
    pub(crate) fn count(&self, kind: Type) -> usize {
        self.0.iter().filter(|f| f.message.kind == kind).count()
    }

    /// Empty acknowledgements.
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

    /// Requests by GET with Observe 1 (RFC 7641 3.6).
    pub(crate) fn cancellations(&self) -> usize {
        let requests = self.requests();
        let cancels =
            |copies: &&Vec<Message>| copies[0].code == Code::GET && copies[0].observe() == Some(1);
        requests.values().filter(cancels).count()
    }

    /// The length of the longest datagram, in bytes.
    pub(crate) fn longest(&self) -> usize {
        let lengths = self.0.iter().map(|frame| frame.message.length);
        lengths.max().unwrap_or_default()
    }

    /// The requests by Message ID, each distinct text once.
    pub(crate) fn requests(&self) -> BTreeMap<MessageId, Vec<Message>> {
        self.by_id(|message| message.code.is_request())
    }

    /// The piggybacked responses, likewise.
    pub(crate) fn replies(&self) -> BTreeMap<MessageId, Vec<Message>> {
        self.by_id(|message| message.kind == Type::Acknowledgement && !message.is_empty())
    }

    /// Whether a Message ID was answered in two ways: a server that carries out a repeated request again
    /// may answer it differently.
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

/// As a transcript, for a failing test's message.
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

    /// A message of a type, code, Message ID and one-byte token.
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
    fn copies_of_a_request_are_one_request() {
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
