//! The CoRE Link Format: a server's resources as text (RFC 6690).
//!
//! [`Links`] parses it without copying, [`LinkWriter`] writes it, and [`Filter`] selects links as
//! the query of a request for `/.well-known/core` does.
//!
//! ```
//! use carob_proto::link_format::{Filter, LinkWriter, Links};
//!
//! let mut writer = LinkWriter::new();
//! writer.path(["sensors", "temp"]).attribute("rt", "temperature-c").flag("obs");
//! writer.path(["firmware"]).number("sz", 262_144);
//! let text = writer.finish();
//! assert_eq!(text, "</sensors/temp>;rt=\"temperature-c\";obs,</firmware>;sz=262144");
//!
//! let filter = Filter::new(b"rt=temperature*");
//! for link in Links::new(&text) {
//!     let link = link?;
//!     assert_eq!(filter.matches(&link), link.target() == "/sensors/temp");
//! }
//! # Ok::<(), carob_proto::link_format::LinkError>(())
//! ```

mod filter;
mod link;
mod parser;
mod writer;

pub use filter::{Filter, matching};
pub use link::{Attribute, Attributes, Link, Value};
pub use parser::{Expected, LinkError, Links, is_attribute_name};
pub use writer::{LinkEntry, LinkWriter};
