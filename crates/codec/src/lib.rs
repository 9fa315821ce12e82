//! The CoAP wire format: reading and writing messages, options and URIs (RFC 7252 3, 5.10, 6), with
//! tokens of any length (RFC 8974).
//!
//! Reading borrows: [`MessageView::parse`] checks a datagram once, from end to end, and hands out
//! slices of it. Writing fills a buffer that the caller owns: [`Writer`]. Neither allocates.
//! [`Options`] is the owned counterpart for messages that are kept or built out of order, and
//! [`Uri`] turns `coap://` addresses into options and back. All numbers live in one table,
//! [`numbers`].
//!
//! The codec refuses what RFC 7252 3 calls a message format error and nothing else: unknown
//! options, option lengths outside their definition and reserved codes parse, and their treatment
//! belongs to the message layer.
//!
//! [`link_format`] reads and writes lists of resources (RFC 6690).
//!
//! ```
//! use carob_codec::{Code, MessageId, MessageView, OptionNumber, Token, Type, Writer};
//!
//! let mut buffer = [0; 64];
//! let token = Token::new(&[0x71]).expect("one byte fits a token");
//! let mut writer =
//!     Writer::new(&mut buffer, Type::Confirmable, Code::GET, MessageId(0x7d34), &token)?;
//! writer.option(OptionNumber::URI_PATH, b"temperature")?;
//! let length = writer.finish();
//!
//! let message = MessageView::parse(&buffer[..length])?;
//! assert_eq!(message.code(), Code::GET);
//! assert_eq!(message.option(OptionNumber::URI_PATH), Some(&b"temperature"[..]));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod block;
mod edit;
mod etag;
pub mod frame;
mod header;
pub mod link_format;
mod missing_blocks;
mod no_response;
pub mod numbers;
mod option_iter;
mod options;
mod signal;
mod token;
mod uri;
mod view;
mod writer;

pub use block::{BlockError, BlockSize, BlockValue, MAX_BLOCK_NUMBER};
pub use etag::ETag;
pub use frame::{FrameError, FrameReader, Framing};
pub use header::{HEADER_LENGTH, Header, MessageId, Type};
pub use missing_blocks::MissingBlocks;
pub use no_response::NoResponse;
pub use numbers::{Code, ContentFormat, OptionDefinition, OptionFormat, OptionNumber};
pub use option_iter::decode_uint;
pub use option_iter::{OptionIter, OptionView};
pub use options::{MAX_OPTIONS_LENGTH, Options, OptionsError};
pub use token::{BASE_TOKEN_LENGTH, Token, TokenKey, TokenView};
pub use uri::{Host, Scheme, Uri, UriError, UriErrorKind};
pub use view::{DecodeError, DecodeErrorKind, MessageView, parse_header};
pub use writer::{EncodeError, Writer};

// Parts that the engine shares: they may change in any version.
#[doc(hidden)]
pub use {
    edit::{SMALL_OPTION_BYTES, set_option},
    missing_blocks::encode_missing_blocks,
    signal::{BASE_MESSAGE_SIZE, BadSignallingOption, MAX_MESSAGE_SIZE, SIGNAL_BYTES, Signal},
    token::token_room,
    view::{Layout, token_end},
};
