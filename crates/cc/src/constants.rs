//! Constants of a controller family: declared once, settable by name, described to people.

use core::fmt;
use core::str::FromStr;

use crate::ratio::Ratio;
use crate::time::Duration;

/// One constant as people see it.
#[derive(Clone, Copy)]
pub struct Constant<'a> {
    /// The name `--set cc.<name>=<value>` takes.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// Its value.
    pub value: &'a dyn fmt::Display,
    /// What values it takes.
    pub kind: &'static str,
}

/// Why a constant could not be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// The controller has no constant of that name.
    UnknownName,
    /// The value is not of this kind.
    BadValue {
        /// What the constant takes.
        expected: &'static str,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownName => f.write_str("no such constant"),
            Self::BadValue { expected } => write!(f, "expected {expected}"),
        }
    }
}

impl core::error::Error for SetError {}

/// A type a constant may have.
pub trait Value: Sized + Copy + fmt::Display {
    /// What a value looks like, for messages.
    const KIND: &'static str;
    /// Reads a value.
    fn read(text: &str) -> Option<Self>;
}

impl Value for Ratio {
    const KIND: &'static str = "a ratio such as 1.5 or 1/8";
    fn read(text: &str) -> Option<Self> {
        Self::from_str(text).ok()
    }
}

impl Value for Duration {
    const KIND: &'static str = "a time such as \"400 ms\"";
    fn read(text: &str) -> Option<Self> {
        Self::from_str(text).ok()
    }
}

impl Value for u8 {
    const KIND: &'static str = "a whole number from 0 to 255";
    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
}

impl Value for bool {
    const KIND: &'static str = "true or false";
    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
}

/// A family's set of constants.
pub trait Constants: Copy + fmt::Debug + 'static {
    /// Sets one by name from text.
    fn set(&mut self, name: &str, value: &str) -> Result<(), SetError>;
    /// Names every one with its value.
    fn describe(&self, visit: &mut dyn FnMut(Constant<'_>));
}

/// Declares a struct of constants; each field's doc comment is what people read about it.
///
/// `..base: BaseConstants` at the end takes in the constants of another struct: they are set and
/// described as if they stood here.
#[macro_export]
macro_rules! constants {
    ($(#[$meta:meta])* pub struct $name:ident {
        $(#[doc = $about:literal] $field:ident: $type:ty,)*
        $(..$base:ident: $base_type:ty)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $(#[doc = $about] pub $field: $type,)*
            $(
                /// What it shares with others.
                pub $base: $base_type,
            )?
        }

        impl $crate::constants::Constants for $name {
            fn set(&mut self, name: &str, value: &str) -> Result<(), $crate::constants::SetError> {
                $(if name == stringify!($field) {
                    self.$field = <$type as $crate::constants::Value>::read(value).ok_or(
                        $crate::constants::SetError::BadValue {
                            expected: <$type as $crate::constants::Value>::KIND,
                        },
                    )?;
                    return Ok(());
                })*
                $crate::constants!(@others self, name, value $(, $base)?)
            }

            fn describe(&self, visit: &mut dyn FnMut($crate::constants::Constant<'_>)) {
                $(visit($crate::constants::Constant {
                    name: stringify!($field),
                    about: $about.trim_ascii(),
                    value: &self.$field,
                    kind: <$type as $crate::constants::Value>::KIND,
                });)*
                $($crate::constants::Constants::describe(&self.$base, visit);)?
                let _ = visit;
            }
        }
    };
    (@others $this:ident, $name:ident, $value:ident, $base:ident) => {
        $crate::constants::Constants::set(&mut $this.$base, $name, $value)
    };
    (@others $this:ident, $name:ident, $value:ident) => {{
        let _ = ($name, $value);
        Err($crate::constants::SetError::UnknownName)
    }};
}

/// Declares an enum of named readings, usable as a constant.
#[macro_export]
macro_rules! readings {
    ($(#[$meta:meta])* pub enum $name:ident { $(#[doc = $about:literal] $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $(#[doc = $about] $variant,)*
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(match self { $(Self::$variant => $text,)* })
            }
        }

        impl $crate::constants::Value for $name {
            const KIND: &'static str = $crate::readings!(@list $($text)*);
            fn read(text: &str) -> Option<Self> {
                match text.trim() { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
    (@list $first:literal $($rest:literal)*) => { concat!($first $(, " or ", $rest)*) };
}
