//! The CoRE Link Format: a server's resources as text (RFC 6690).
//!
//! [`Links`] parses it without copying, [`LinkWriter`] writes it, and [`matching`] selects links as
//! the query of a request for `/.well-known/core` does.
//!
//! ```
//! use carob_codec::link_format::{LinkWriter, Links, matching};
//!
//! let mut writer = LinkWriter::new();
//! writer.path(["sensors", "temp"]).attribute("rt", "temperature-c").flag("obs");
//! writer.path(["firmware"]).number("sz", 262_144);
//! let text = writer.finish();
//! assert_eq!(text, "</sensors/temp>;rt=\"temperature-c\";obs,</firmware>;sz=262144");
//!
//! let targets = Links::new(&text).map(|link| Ok(link?.target())).collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(targets, ["/sensors/temp", "/firmware"]);
//! let found = matching(&text, [&b"rt=temperature*"[..]]).map(|link| link.target());
//! assert!(found.eq(["/sensors/temp"]));
//! # Ok::<(), carob_codec::link_format::LinkError>(())
//! ```

pub mod filter;
mod link;
mod parser;
mod writer;

pub use filter::matching;
pub use link::{Attribute, Link, Value};
pub use parser::{Expected, LinkError, Links, is_attribute_name};
pub use writer::{LinkEntry, LinkWriter};
