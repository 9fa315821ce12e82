//! CoAP option numbers, codes and content formats: the one table of assigned numbers.
//!
//! Every row names its source. A row is added here and nowhere else; constants, names, formats and
//! length limits follow from it. Numbers that only an Internet-Draft assigns are left out,
//! but for [`RETRANSMISSION_COUNT`].

mod code;
mod content_format;
mod option;

pub use code::Code;
pub use content_format::{ContentFormat, ContentFormatDefinition};
pub use option::{
    OptionDefinition, OptionFormat, OptionNumber, RETRANSMISSION_COUNT, SignallingOptionDefinition,
};
