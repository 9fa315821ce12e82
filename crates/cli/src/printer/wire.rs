//! Messages as lines, for `-v`.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use carob::{Code, ContentFormat, OptionNumber, Scheme};
use carob_proto::codec::decode_uint;
use carob_proto::codec::numbers::SignallingOptionDefinition;
use carob_proto::codec::{BlockValue, MessageView, OptionFormat, OptionView, Type};

use super::note;
use super::response::code_text;
use super::response::option_text;
use super::style::{BAD, FAINT, GOOD, IN, OUT, STRONG, paint};

/// Bytes of a dump's line.
const DUMP: usize = 16;

/// Prints a message, and remarks about it.
pub(crate) fn message(
    at: Duration,
    incoming: bool,
    peer: SocketAddr,
    bytes: &[u8],
    scheme: Scheme,
    remark: &str,
    dump_too: bool,
) {
    let arrow = if incoming {
        paint(IN, "←")
    } else {
        paint(OUT, "→")
    };
    let when = paint(FAINT, format_args!("{:9.4}", at.as_secs_f64()));
    let mut line = format!("{when} {arrow} {peer} {}", described(bytes, scheme));
    if !remark.is_empty() {
        line.push_str(&paint(FAINT, format_args!(" ({remark})")));
    }
    if dump_too {
        line.push_str(&dump(bytes));
    }
    note(&line);
}

/// Type, code, Message ID, token, options, size of the payload.
fn described(bytes: &[u8], scheme: Scheme) -> String {
    let connected = scheme != Scheme::Coap;
    let parsed = if connected {
        MessageView::parse_long(bytes)
    } else {
        MessageView::parse(bytes)
    };
    let message = match parsed {
        Ok(message) => message,
        Err(error) => {
            return paint(
                BAD,
                format_args!("{} bytes, malformed: {error}", bytes.len()),
            );
        }
    };
    let kind = match message.kind() {
        Type::Confirmable => "CON",
        Type::NonConfirmable => "NON",
        Type::Acknowledgement => "ACK",
        Type::Reset => "RST",
    };
    let code = message.code();
    let style = match code.class() {
        2 => GOOD,
        4 | 5 => BAD,
        _ => STRONG,
    };
    // Over a connection there are no types and no Message IDs.
    let mut text = if connected { scheme.name() } else { kind }.to_owned();
    // An empty acknowledgement or a reset is named by its type.
    let bare = matches!(message.kind(), Type::Acknowledgement | Type::Reset) && code.is_empty();
    if !bare {
        // Methods have numbers too, which are not in use.
        let method = code.name().filter(|_| code.is_request());
        let name = method.map_or_else(|| code_text(code), ToOwned::to_owned);
        add(&mut text, format_args!(" {}", paint(style, name)));
    }
    if !connected {
        add(&mut text, format_args!(" mid {}", message.message_id().0));
    }
    let token = message.token();
    if !token.is_empty() {
        add(&mut text, format_args!(" token {token}"));
    }
    for option in message.options() {
        text.push(' ');
        if code.is_signalling() {
            text.push_str(&described_signalling(code, option));
        } else {
            text.push_str(&described_option(option));
        }
    }
    match message.payload().len() {
        0 => {}
        1 => text.push_str(" 1 byte"),
        length => add(&mut text, format_args!(" {length} bytes")),
    }
    text
}

/// Options of signalling messages have other names.
fn described_signalling(code: Code, option: OptionView<'_>) -> String {
    let Some(row) = SignallingOptionDefinition::find(code, option.number) else {
        let value = option_text(option.number, option.value);
        return format!("{}={value}", option.number.0);
    };
    let name = row.option.name;
    match row.option.format {
        OptionFormat::Empty => name.to_owned(),
        OptionFormat::Uint => decode_uint(option.value)
            .map_or_else(|| name.to_owned(), |value| format!("{name}={value}")),
        _ => format!("{name}={}", option.value.escape_ascii()),
    }
}

fn described_option(option: OptionView<'_>) -> String {
    let number = option.number;
    let name = number
        .name()
        .map_or_else(|| number.0.to_string(), ToOwned::to_owned);
    let value = match number {
        OptionNumber::BLOCK1 | OptionNumber::BLOCK2 => {
            match BlockValue::decode_reliable(option.value) {
                // As RFC 7959 3 writes them: number, whether more follow, size; with BERT there may be
                // several of that size.
                Ok(block) => {
                    let (more, size) = (u8::from(block.more), block.szx.bytes());
                    let bert = if block.szx.is_bert() { "+" } else { "" };
                    format!("{}/{more}/{size}{bert}", block.number)
                }
                Err(_) => option_text(number, option.value),
            }
        }
        OptionNumber::CONTENT_FORMAT | OptionNumber::ACCEPT => {
            let format = option.uint().and_then(|number| u16::try_from(number).ok());
            match format.map(ContentFormat) {
                // Its only parameter is the default.
                Some(ContentFormat::TEXT_PLAIN) => "text/plain".to_owned(),
                Some(format) => format.to_string(),
                None => option_text(number, option.value),
            }
        }
        _ => option_text(number, option.value),
    };
    if value.is_empty() {
        return name;
    }
    // A blank inside would look like the next option.
    if value.contains([' ', '"']) {
        return format!("{name}=\"{}\"", value.replace('"', "\\\""));
    }
    format!("{name}={value}")
}

/// Lines of offset, bytes, and printable characters.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (place, row) in bytes.chunks(DUMP).enumerate() {
        let hex = row.iter().fold(String::new(), |mut hex, byte| {
            add(&mut hex, format_args!("{byte:02x} "));
            hex
        });
        let letter = |byte: &u8| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        };
        let letters: String = row.iter().map(letter).collect();
        let (offset, width) = (place * DUMP, DUMP * 3);
        let line = format!("{offset:04x}  {hex:width$} {letters}");
        add(
            &mut text,
            format_args!("\n          {}", paint(FAINT, line)),
        );
    }
    text
}

fn add(text: &mut String, what: std::fmt::Arguments<'_>) {
    let written = text.write_fmt(what);
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use carob::Code;
    use carob_proto::codec::{MessageId, Token, Writer};

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn request(options: &[(OptionNumber, &[u8])], payload: &[u8]) -> Vec<u8> {
        let mut buffer = [0; 200];
        let token = Token::new(&[0x9c, 0x31]).unwrap();
        let id = MessageId(7);
        let mut writer =
            Writer::new(&mut buffer, Type::Confirmable, Code::PUT, id, &token).unwrap();
        for (number, value) in options {
            writer.option(*number, value).unwrap();
        }
        if !payload.is_empty() {
            writer.payload(payload).unwrap();
        }
        let length = writer.finish();
        buffer[..length].to_vec()
    }

    #[test]
    fn a_message_is_described_by_names() {
        let message = request(
            &[
                (OptionNumber::URI_PATH, b"a b"),
                (OptionNumber::URI_PATH, b"c"),
                (OptionNumber::CONTENT_FORMAT, &[50]),
                (OptionNumber::BLOCK1, &[0x1e]),
                (OptionNumber(65000), b"\x1b"),
            ],
            b"xy",
        );
        assert_eq!(
            plain(&described(&message, Scheme::Coap)),
            "CON PUT mid 7 token 9c31 Uri-Path=\"a b\" Uri-Path=c \
             Content-Format=application/json Block1=1/1/1024 65000=1b 2 bytes"
        );
    }

    #[test]
    fn an_empty_acknowledgement_is_one_by_its_type() {
        assert_eq!(
            plain(&described(&[0x60, 0, 0, 9], Scheme::Coap)),
            "ACK mid 9"
        );
        assert_eq!(
            plain(&described(&[0x70, 0, 0, 9], Scheme::Coap)),
            "RST mid 9"
        );
        assert_eq!(
            plain(&described(&[0x40, 0, 0, 9], Scheme::Coap)),
            "CON 0.00 Empty mid 9"
        );
        assert_eq!(
            plain(&described(&[0x40, 0], Scheme::Coap)),
            "2 bytes, malformed: message is shorter than its header at byte 2"
        );
    }

    #[test]
    fn stream_messages_print_no_type_and_signal_options() {
        let csm = [0x50, 0xe1, 0, 0, 0x23, 0x01, 0x04, 0x80, 0x20, 0x51, 7];
        assert_eq!(
            plain(&described(&csm, Scheme::CoapTcp)),
            "coap+tcp 7.01 CSM Max-Message-Size=66688 Block-Wise-Transfer 9=07"
        );
        let get = [0x50, 0x01, 0, 0, 0xd1, 0x0a, 0x17];
        assert_eq!(
            plain(&described(&get, Scheme::CoapsWs)),
            "coaps+ws GET Block2=1/0/1024+"
        );
    }

    #[test]
    fn control_characters_in_messages_are_escaped() {
        let message = request(&[(OptionNumber::URI_PATH, b"\x1b[2J\xc2\x9b")], b"");
        let text = plain(&described(&message, Scheme::Coap));
        assert!(!text.contains(char::is_control), "{text:?}");
        assert!(text.contains("Uri-Path="), "{text}");
    }

    #[test]
    fn a_dump_shows_offsets_bytes_and_letters() {
        let bytes: Vec<u8> = (0x3f..0x51).collect();
        let text = plain(&dump(&bytes));
        assert_eq!(
            text,
            "\n          0000  3f 40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e  ?@ABCDEFGHIJKLMN\
             \n          0010  4f 50                                            OP"
        );
    }
}
