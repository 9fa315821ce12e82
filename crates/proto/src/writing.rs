//! Encoding of messages: requests with the engine's own options, and responses limited to the
//! requested block.

use crate::block::RequestedBlock;
use crate::capacity::Capacity;
use crate::codec::HEADER_LENGTH;
use crate::codec::token_room;
use crate::codec::{BlockValue, Code, EncodeError, MessageId, OptionNumber, Options, Type, Writer};
use crate::message::{Payload, Response};
use crate::option_rules::Allowed;
use crate::retransmission_count::Count;

/// Sets the type and Message ID of an encoded message.
#[inline]
pub(crate) fn set_header(message: &mut [u8], kind: Type, id: MessageId) {
    debug_assert!(message.len() >= HEADER_LENGTH, "a message has a header");
    message[0] = message[0] & 0xcf | (kind as u8) << 4;
    message[2..4].copy_from_slice(&id.0.to_be_bytes());
}

/// Appends the retransmission count to a response, if it fits. Returns the length of the response.
#[inline]
pub(crate) fn append_count(
    message: &mut [u8],
    length: usize,
    count: Option<(OptionNumber, Count)>,
) -> usize {
    debug_assert!(length >= HEADER_LENGTH && length <= message.len());
    count
        .and_then(|(number, count)| count.write(message, length, number))
        .unwrap_or(length)
}

/// The part of a response that one message carries.
struct Selection<'a> {
    code: Code,
    bytes: &'a [u8],
    block2: Option<BlockValue>,
    size2: Option<u64>,
    /// The options of the response describe it, not an error in its place.
    describes: bool,
    /// The rest of the body should be kept for the requests to come.
    keep: bool,
}

impl<'a> Selection<'a> {
    /// Selects the requested part of a response, as far as it fits.
    #[inline]
    fn of(
        response: &'a Response,
        wanted: RequestedBlock,
        is_stream: bool,
    ) -> Result<Self, EncodeError> {
        let code = response.code;
        let body = if code.has_payload() {
            &response.payload.bytes()[..]
        } else {
            &[]
        };
        let whole = Self {
            code,
            bytes: body,
            block2: None,
            size2: None,
            describes: true,
            keep: false,
        };
        if let Payload::Part { .. } = response.payload
            && code.has_payload()
        {
            whole.selected_part(&response.payload, wanted, is_stream)
        } else if body.len() > wanted.whole
            || (wanted.offset > 0 && code.is_success() && code.has_payload())
        {
            Ok(whole.cut(wanted))
        } else {
            // A body of one block goes without the option, even if a block size was requested: its
            // absence means the same (RFC 7959 2.2), and libcoap 4.3.1 loses a separate response
            // that has it.
            Ok(whole)
        }
    }

    /// The part that the application has selected, if it is a block that the client can place.
    fn selected_part(
        self,
        payload: &Payload,
        wanted: RequestedBlock,
        is_stream: bool,
    ) -> Result<Self, EncodeError> {
        let &Payload::Part {
            offset, more, size, ..
        } = payload
        else {
            return Ok(self);
        };
        // A part must begin at a multiple of the block size (RFC 7959 2.3).
        let place = offset % wanted.size.bytes() as u64;
        let length = self.bytes.len();
        let whole = offset == 0 && !more && length <= wanted.whole;
        let part = wanted.size.fits(length, more) && length <= wanted.span;
        // A client that places it by NUM x size would put its bytes elsewhere.
        if place != 0 || !(whole || part) {
            return Err(EncodeError::NotAllowed(OptionNumber::BLOCK2));
        }
        let block = block_at(offset, more, wanted);
        Ok(Self {
            // Where messages may be long, a response without the option may have any length.
            block2: Some(block).filter(|_| !(whole && is_stream)),
            size2: size.filter(|_| offset == 0),
            ..self
        })
    }

    /// Cuts the response to the requested block.
    fn cut(self, wanted: RequestedBlock) -> Self {
        let length = self.bytes.len();
        let mut offset = wanted.offset;
        let mut slice = wanted.slice(length);
        if slice.is_none() && !self.code.is_success() {
            // An error replaces the body of the requested block and starts at its own offset 0.
            offset = 0;
            slice = RequestedBlock { offset, ..wanted }.slice(length);
        }
        let Some((range, more)) = slice else {
            return Self {
                code: Code::BAD_OPTION,
                bytes: b"Block2: beyond the end",
                describes: false,
                ..self
            };
        };
        let block = block_at(offset, more, wanted);
        Self {
            bytes: &self.bytes[range],
            block2: Some(block).filter(|_| self.code.is_success() || more || offset > 0),
            size2: (offset == 0 && more).then_some(length as u64),
            keep: more && offset == 0,
            ..self
        }
    }
}

/// The block that begins at an offset in bytes.
fn block_at(offset: u64, more: bool, wanted: RequestedBlock) -> BlockValue {
    let number = offset / wanted.size.bytes() as u64;
    debug_assert!(
        offset.is_multiple_of(wanted.size.bytes() as u64),
        "between two blocks"
    );
    BlockValue {
        number: number as u32,
        more,
        szx: wanted.size,
    }
}

/// Writes a response limited to the requested block. Returns its length, and whether the rest of
/// the body should be cached.
pub(crate) fn write_response(
    buffer: &mut [u8],
    capacity: &Capacity,
    token: &[u8],
    response: &Response,
    wanted: RequestedBlock,
    block1: Option<BlockValue>,
    observe: Option<u32>,
) -> Result<(usize, bool), EncodeError> {
    let options = &response.options;
    let mut wanted = wanted;
    if !matches!(response.payload, Payload::Part { .. }) {
        let head = HEADER_LENGTH + token_room(token.len()) + options.encoded_len();
        wanted = capacity.limit(wanted, head);
    }
    let selected = Selection::of(response, wanted, capacity.reliable)?;
    // Diagnostic text has no Content-Format, ETag or Max-Age of the representation (RFC 7252 5.5.2).
    let none = Options::new();
    let (options, observe) = if selected.describes {
        (options, observe)
    } else {
        (&none, None)
    };
    let size2 = selected.size2.and_then(|size| u32::try_from(size).ok());
    // The more flag marks this as a non-final response, which 2.31 alone does not (RFC 7959 2.3).
    let block1 = block1.map(|block| BlockValue {
        more: block.more && selected.code == Code::CONTINUE,
        ..block
    });
    let extra = [
        observe.map(|sequence| (OptionNumber::OBSERVE, sequence)),
        (selected.block2).map(|block| (OptionNumber::BLOCK2, block.to_uint())),
        block1.map(|block| (OptionNumber::BLOCK1, block.to_uint())),
        size2.map(|size| (OptionNumber::SIZE2, size)),
    ];
    let room = capacity.message.min(buffer.len());
    let (kind, id) = (Type::NonConfirmable, MessageId(0));
    let mut writer = Writer::new(&mut buffer[..room], kind, selected.code, id, token)?;
    write_options(&mut writer, selected.code, options, &extra)?;
    if !selected.bytes.is_empty() {
        writer.payload(selected.bytes)?;
    }
    Ok((writer.finish(), selected.keep))
}

/// Writes a request with the engine's own options merged in. Type and Message ID are set when it is
/// sent. Returns its length.
pub(crate) fn encode(
    buffer: &mut [u8],
    token: &impl AsRef<[u8]>,
    code: Code,
    options: &Options,
    extra: &[Option<(OptionNumber, u32)>],
    payload: &[u8],
) -> Result<usize, EncodeError> {
    let mut writer = Writer::new(buffer, Type::Confirmable, code, MessageId(0), token)?;
    write_options(&mut writer, code, options, extra)?;
    if !payload.is_empty() {
        writer.payload(payload)?;
    }
    Ok(writer.finish())
}

/// Writes options in order. The engine's own, sorted, replace the application's.
pub(crate) fn write_options(
    writer: &mut Writer<'_>,
    code: Code,
    options: &Options,
    extra: &[Option<(OptionNumber, u32)>],
) -> Result<(), EncodeError> {
    let mut allowed = Allowed::default();
    let mut extra = extra.iter().flatten().peekable();
    let numbers = extra.clone().map(|(number, _)| *number);
    debug_assert!(numbers.is_sorted(), "the engine's options are in order");
    for option in options {
        while let Some((number, value)) = extra.next_if(|(number, _)| *number < option.number) {
            writer.uint_option(*number, *value)?;
        }
        allowed.next(code, &option)?;
        if extra
            .peek()
            .is_none_or(|(number, _)| *number != option.number)
        {
            writer.option(option.number, option.value)?;
        }
    }
    for (number, value) in extra {
        writer.uint_option(*number, *value)?;
    }
    Ok(())
}
