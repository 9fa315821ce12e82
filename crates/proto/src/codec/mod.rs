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
//! ```
//! use carob_proto::codec::{Code, MessageId, MessageView, OptionNumber, Token, Type, Writer};
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

pub(crate) mod block;
pub(crate) mod edit;
pub(crate) mod etag;
pub mod frame;
pub(crate) mod header;
pub(crate) mod missing_blocks;
pub(crate) mod no_response;
pub mod numbers;
pub(crate) mod option_iter;
pub(crate) mod options;
pub(crate) mod signal;
pub(crate) mod token;
pub(crate) mod uint;
pub(crate) mod uri;
pub(crate) mod view;
pub(crate) mod writer;

pub use block::{BlockError, BlockSize, BlockValue};
pub use etag::ETag;
pub use frame::{FrameError, FrameReader, Framing};
pub use header::{Header, MessageId, Type};
pub(crate) use missing_blocks::MissingBlocks;
pub use no_response::NoResponse;
pub use numbers::{Code, ContentFormat, OptionDefinition, OptionFormat, OptionNumber};
pub use option_iter::{OptionIter, OptionView};
pub use options::{Options, OptionsError};
pub(crate) use signal::Signal;
pub(crate) use token::TokenKey;
pub use token::{BASE_TOKEN_LENGTH, Token, TokenView};
pub use uint::decode_uint;
pub use uri::{Host, Scheme, Uri, UriError, UriErrorKind};
pub use view::{DecodeError, DecodeErrorKind, MessageView, parse_header};
pub use writer::{EncodeError, Writer};
