//! Hand-written messages, and summaries of traffic.

use carob_proto::codec::{
    BlockSize, BlockValue, Code, MessageId, MessageView, OptionNumber, Options, Type, Writer,
};

/// A hand-written message, valid or not.
#[derive(Clone, Debug)]
pub struct Wire {
    kind: Type,
    code: Code,
    id: u16,
    token: Vec<u8>,
    options: Options,
    payload: Vec<u8>,
}

fn wire(kind: Type, code: Code, id: u16) -> Wire {
    Wire {
        kind,
        code,
        id,
        token: vec![7],
        options: Options::new(),
        payload: Vec::new(),
    }
}

pub fn con(code: Code, id: u16) -> Wire {
    wire(Type::Confirmable, code, id)
}

pub fn non(code: Code, id: u16) -> Wire {
    wire(Type::NonConfirmable, code, id)
}

pub fn ack(code: Code, id: u16) -> Wire {
    wire(Type::Acknowledgement, code, id)
}

/// A piggybacked response to a request.
pub fn reply(code: Code, request: &[u8]) -> Wire {
    ack(code, view(request).message_id().0).token_of(request)
}

/// An Empty message.
pub fn empty(kind: Type, id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    vec![0x40 | (kind as u8) << 4, 0, high, low]
}

impl Wire {
    pub fn kind(self, kind: Type) -> Self {
        Self { kind, ..self }
    }

    pub fn id(self, id: u16) -> Self {
        Self { id, ..self }
    }

    pub fn token(mut self, token: &[u8]) -> Self {
        self.token = token.to_vec();
        self
    }

    /// Takes the token of another message.
    pub fn token_of(self, seen: &[u8]) -> Self {
        let token = view(seen).token();
        self.token(token.as_slice())
    }

    pub fn option(mut self, number: u16, value: &[u8]) -> Self {
        self.options.push(OptionNumber(number), value).unwrap();
        self
    }

    pub fn uint(mut self, number: OptionNumber, value: u32) -> Self {
        self.options.push_uint(number, value).unwrap();
        self
    }

    pub fn path(self, path: &str) -> Self {
        path.split('/')
            .fold(self, |all, segment| all.option(11, segment.as_bytes()))
    }

    pub fn block(mut self, number: OptionNumber, block: (u32, bool, usize)) -> Self {
        let (place, more, size) = block;
        let size = BlockSize::from_bytes_at_most(size).unwrap();
        let value = BlockValue::new(place, more, size).unwrap();
        self.options.push(number, &value.encode()).unwrap();
        self
    }

    pub fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut buffer = vec![0; 4_096 + self.token.len()];
        let id = MessageId(self.id);
        let mut writer = Writer::new(&mut buffer, self.kind, self.code, id, &self.token).unwrap();
        self.options.encode(&mut writer).unwrap();
        writer.payload(&self.payload).unwrap();
        let length = writer.finish();
        buffer[..length].to_vec()
    }
}

pub fn view(bytes: &[u8]) -> MessageView<'_> {
    MessageView::parse(bytes).unwrap()
}

/// Type and code of each message, such as `ACK 2.05`.
pub fn shapes(messages: &[&[u8]]) -> Vec<String> {
    let shape = |bytes: &&[u8]| {
        let message = view(bytes);
        let kind = match message.kind() {
            Type::Confirmable => "CON",
            Type::NonConfirmable => "NON",
            Type::Acknowledgement => "ACK",
            Type::Reset => "RST",
        };
        format!("{kind} {}", message.code())
    };
    messages.iter().map(shape).collect()
}

/// The block option of each message: number, more, size.
pub fn blocks(messages: &[&[u8]], number: OptionNumber) -> Vec<Option<(u32, bool, usize)>> {
    let read = |bytes: &&[u8]| {
        let block = view(bytes).option(number).map(BlockValue::decode)?.unwrap();
        Some((block.number, block.more, block.szx.bytes()))
    };
    messages.iter().map(read).collect()
}
