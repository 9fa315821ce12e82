//! Signalling messages: capabilities and control of a connection (RFC 8323 5).
//!
//! Their options have their own numbers, one table for each code ([`SignallingOptionDefinition`]).

use super::header::{MessageId, Type};
use super::numbers::{Code, OptionNumber, SignallingOptionDefinition};
use super::option_iter::{decode_uint, encode_uint};
use super::token::{BASE_TOKEN_LENGTH, MAX_TOKEN_LENGTH};
use super::view::MessageView;
use super::writer::{EncodeError, Writer};

/// Max-Message-Size before a CSM is received, in bytes (RFC 8323 5.3.1).
pub const BASE_MESSAGE_SIZE: u32 = 1_152;

/// The longest signalling message written here, in bytes; longer text is truncated.
pub const SIGNAL_BYTES: usize = 256;

/// The Max-Message-Size option of a CSM: the largest message its sender accepts, in bytes.
pub const MAX_MESSAGE_SIZE: OptionNumber = OptionNumber(2);
const BLOCK_WISE_TRANSFER: OptionNumber = OptionNumber(4);
const EXTENDED_TOKEN_LENGTH: OptionNumber = OptionNumber(6);
const CUSTODY: OptionNumber = OptionNumber(2);
const ALTERNATIVE_ADDRESS: OptionNumber = OptionNumber(2);
const HOLD_OFF: OptionNumber = OptionNumber(4);
const BAD_CSM_OPTION: OptionNumber = OptionNumber(2);

/// A signalling message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal<'a> {
    /// 7.01, CSM: capabilities and settings. Those not named are unchanged (RFC 8323 5.3).
    Csm {
        /// The largest message the sender accepts, in bytes.
        max_message_size: Option<u32>,
        /// The sender supports block-wise transfer, and BERT if its messages may exceed the base
        /// size.
        block_wise: bool,
        /// The longest token the sender accepts in requests, in bytes: 8 to 65804 (RFC 8974 2.2.1).
        extended_token_length: Option<u32>,
    },
    /// 7.02, Ping: a request for a Pong (RFC 8323 5.4).
    Ping {
        /// The Custody option: the Pong is to follow the processing of all earlier messages.
        custody: bool,
    },
    /// 7.03, Pong: the reply to a Ping (RFC 8323 5.4).
    Pong {
        /// The Custody option: all messages before the Ping have been processed.
        custody: bool,
    },
    /// 7.04, Release: an orderly shutdown of the connection, without new requests (RFC 8323 5.5).
    Release {
        /// The first Alternative-Address: host and port, as in the authority of a URI.
        alternative: Option<&'a str>,
        /// Hold-Off: the time before reconnecting, in seconds.
        hold_off: Option<u32>,
    },
    /// 7.05, Abort: an immediate end of the connection (RFC 8323 5.6).
    Abort {
        /// The unrecognized critical option of a CSM.
        bad_csm_option: Option<u16>,
        /// The diagnostic payload.
        text: &'a str,
    },
    /// An unassigned signalling code.
    Unknown(Code),
}

/// An unrecognized critical option of a signalling message (RFC 8323 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSignallingOption(pub OptionNumber);

impl<'a> Signal<'a> {
    /// Decodes a message whose code [is a signalling one](Code::is_signalling).
    ///
    /// # Errors
    ///
    /// [`BadSignallingOption`] for an unrecognized critical option.
    pub fn read(message: &MessageView<'a>) -> Result<Self, BadSignallingOption> {
        let code = message.code();
        let (mut size, mut block_wise, mut custody) = (None, false, false);
        let mut token_length = None;
        let (mut alternative, mut hold_off, mut bad) = (None, None, None);
        for option in message.options() {
            let number = option.number;
            let known = SignallingOptionDefinition::find(code, number)
                .filter(|row| row.option.accepts_length(option.value.len()));
            if known.is_none() {
                if number.is_critical() {
                    return Err(BadSignallingOption(number));
                }
                continue;
            }
            // Only the first instance of an option that may not be repeated counts. The others are
            // unrecognized, and all of these are elective (RFC 7252 5.4.5).
            let value = || decode_uint(option.value);
            match (code, number) {
                (Code::CSM, MAX_MESSAGE_SIZE) => size = size.or(value()),
                (Code::CSM, BLOCK_WISE_TRANSFER) => block_wise = true,
                (Code::CSM, EXTENDED_TOKEN_LENGTH) => token_length = token_length.or(value()),
                (Code::PING | Code::PONG, CUSTODY) => custody = true,
                (Code::RELEASE, ALTERNATIVE_ADDRESS) => {
                    alternative = alternative.or(core::str::from_utf8(option.value).ok());
                }
                (Code::RELEASE, HOLD_OFF) => hold_off = hold_off.or(value()),
                (Code::ABORT, BAD_CSM_OPTION) => bad = bad.or(value()),
                _ => {}
            }
        }
        Ok(match code {
            Code::CSM => Self::Csm {
                max_message_size: size,
                block_wise,
                // Values below the range are ignored; values above it mean its maximum (RFC 8974
                // 2.2.1).
                extended_token_length: token_length
                    .filter(|&length| length >= BASE_TOKEN_LENGTH as u32)
                    .map(|length| length.min(MAX_TOKEN_LENGTH as u32)),
            },
            Code::PING => Self::Ping { custody },
            Code::PONG => Self::Pong { custody },
            Code::RELEASE => Self::Release {
                alternative,
                hold_off,
            },
            Code::ABORT => Self::Abort {
                bad_csm_option: bad.and_then(|number| u16::try_from(number).ok()),
                text: core::str::from_utf8(message.payload()).unwrap_or_default(),
            },
            _ => Self::Unknown(code),
        })
    }

    /// Returns the signalling code.
    pub const fn code(&self) -> Code {
        match self {
            Self::Csm { .. } => Code::CSM,
            Self::Ping { .. } => Code::PING,
            Self::Pong { .. } => Code::PONG,
            Self::Release { .. } => Code::RELEASE,
            Self::Abort { .. } => Code::ABORT,
            Self::Unknown(code) => *code,
        }
    }

    /// Encodes the message with a datagram header and returns its length in bytes. 256 bytes
    /// suffice with a token of at most [`BASE_TOKEN_LENGTH`] bytes.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if the buffer is too small.
    pub fn write(
        &self,
        buffer: &mut [u8],
        token: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<usize, EncodeError> {
        let kind = Type::NonConfirmable;
        let mut writer = Writer::new(buffer, kind, self.code(), MessageId(0), token)?;
        let uint = |writer: &mut Writer<'_>, number, value: Option<u32>| {
            value.map_or(Ok(()), |value| {
                writer.option(number, encode_uint(value).as_slice())
            })
        };
        match *self {
            Self::Csm {
                max_message_size,
                block_wise,
                extended_token_length,
            } => {
                uint(&mut writer, MAX_MESSAGE_SIZE, max_message_size)?;
                if block_wise {
                    writer.option(BLOCK_WISE_TRANSFER, &[])?;
                }
                uint(&mut writer, EXTENDED_TOKEN_LENGTH, extended_token_length)?;
            }
            Self::Ping { custody } | Self::Pong { custody } => {
                if custody {
                    writer.option(CUSTODY, &[])?;
                }
            }
            Self::Release {
                alternative,
                hold_off,
            } => {
                if let Some(address) = alternative {
                    writer.option(ALTERNATIVE_ADDRESS, address.as_bytes())?;
                }
                uint(&mut writer, HOLD_OFF, hold_off)?;
            }
            Self::Abort {
                bad_csm_option,
                text,
            } => {
                uint(&mut writer, BAD_CSM_OPTION, bad_csm_option.map(u32::from))?;
                let mut end = text.len().min(writer.payload_room());
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                writer.payload(&text.as_bytes()[..end])?;
            }
            Self::Unknown(_) => {}
        }
        Ok(writer.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Token;
    use super::*;

    fn round_trip(signal: Signal<'_>) {
        let mut buffer = [0; SIGNAL_BYTES];
        let token = Token::new(&[0x42]).expect("a token");
        let length = signal.write(&mut buffer, &token).expect("fits");
        let message = MessageView::parse(&buffer[..length]).expect("well formed");
        assert_eq!(message.token(), token);
        assert_eq!(Signal::read(&message), Ok(signal));
    }

    #[test]
    fn the_first_of_a_repeated_option_counts() {
        let bytes = [0x40, Code::CSM.0, 0, 0, 0x22, 0x20, 0x00, 0x02, 0x10, 0x00];
        let message = MessageView::parse(&bytes).expect("well formed");
        let Ok(Signal::Csm {
            max_message_size, ..
        }) = Signal::read(&message)
        else {
            panic!("{message:?}");
        };
        assert_eq!(max_message_size, Some(0x2000));
    }

    #[test]
    fn every_signal_survives() {
        for max_message_size in [None, Some(0), Some(BASE_MESSAGE_SIZE), Some(u32::MAX)] {
            for block_wise in [false, true] {
                for extended_token_length in [None, Some(8), Some(64), Some(65_804)] {
                    round_trip(Signal::Csm {
                        max_message_size,
                        block_wise,
                        extended_token_length,
                    });
                }
            }
        }
        for custody in [false, true] {
            round_trip(Signal::Ping { custody });
            round_trip(Signal::Pong { custody });
        }
        round_trip(Signal::Release {
            alternative: Some("192.0.2.1:5683"),
            hold_off: Some(60),
        });
        round_trip(Signal::Abort {
            bad_csm_option: Some(9),
            text: "option 9 of the CSM",
        });
    }

    #[test]
    fn unknown_critical_signal_option_is_named_elective_ignored() {
        // CSM with Max-Message-Size 1152, elective 8 and critical 9.
        let bytes = [0x50, 0xe1, 0, 0, 0x22, 0x04, 0x80, 0x61, 1];
        let message = MessageView::parse(&bytes).expect("well formed");
        let read = Signal::read(&message).expect("only elective ones");
        assert_eq!(
            read,
            Signal::Csm {
                max_message_size: Some(1_152),
                block_wise: false,
                extended_token_length: None,
            }
        );
        let bytes = [0x50, 0xe1, 0, 0, 0x90];
        let message = MessageView::parse(&bytes).expect("well formed");
        assert_eq!(
            Signal::read(&message),
            Err(BadSignallingOption(OptionNumber(9)))
        );
    }

    /// RFC 8974 2.2.1.
    #[test]
    fn a_token_length_out_of_range_is_ignored_or_the_largest() {
        let read = |value: &[u8]| {
            let mut bytes = alloc::vec![0x50, 0xe1, 0, 0, 0x60 | value.len() as u8];
            bytes.extend_from_slice(value);
            let message = MessageView::parse(&bytes).expect("well formed");
            match Signal::read(&message).expect("elective") {
                Signal::Csm {
                    extended_token_length,
                    ..
                } => extended_token_length,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[7]), None);
        assert_eq!(read(&[8]), Some(8));
        assert_eq!(read(&[1, 1, 12]), Some(65_804));
        assert_eq!(read(&[1, 1, 13]), Some(65_804));
        assert_eq!(read(&[255, 255, 255]), Some(65_804));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "\u{e4}".repeat(300);
        let signal = Signal::Abort {
            bad_csm_option: None,
            text: &text,
        };
        let mut buffer = [0; SIGNAL_BYTES];
        let length = signal.write(&mut buffer, &Token::EMPTY).expect("cut");
        let message = MessageView::parse(&buffer[..length]).expect("well formed");
        assert!(
            matches!(Signal::read(&message), Ok(Signal::Abort { text, .. }) if text.len() > 200)
        );
    }
}
