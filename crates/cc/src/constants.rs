//! Constants of a controller family: declared once, settable by name, with descriptions.

use core::fmt;
use core::str::FromStr;

use crate::ratio::Ratio;
use crate::time::Duration;

/// One constant as shown to users.
#[derive(Clone, Copy)]
pub struct Constant<'a> {
    /// The name in `--set cc.<name>=<value>`.
    pub name: &'static str,
    /// Description in a sentence.
    pub about: &'static str,
    /// Its value.
    pub value: &'a dyn fmt::Display,
    /// Accepted values.
    pub kind: &'static str,
}

/// Error of [`Constants::set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// The controller has no constant of that name.
    UnknownName,
    /// The value is not of this kind.
    BadValue {
        /// The accepted values.
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

/// Type of a constant. The macro [`variants!`](crate::variants!) implements it for enums.
///
/// ```
/// use carob_cc::constants::Value;
/// use carob_cc::time::Duration;
///
/// assert_eq!(Duration::read("400 ms"), Some(Duration::from_millis(400)));
/// assert_eq!(Duration::read("soon"), None);
/// assert_eq!(<Duration as Value>::KIND, "a time such as \"400 ms\"");
/// ```
pub trait Value: Sized + Copy + fmt::Display {
    /// The form of a value, for messages.
    const KIND: &'static str;
    /// Parses a value.
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

/// Set of constants of a controller family. The macro [`constants!`](crate::constants!) implements
/// it.
///
/// ```
/// use carob_cc::constants::Constants;
/// use carob_cc::{ratio::Ratio, registry, time::Duration};
///
/// carob_cc::constants! {
///     /// Constants of a controller of the application.
///     pub struct Tuning {
///         /// weight of a new sample
///         gain: Ratio,
///         /// minimum RTO
///         floor: Duration,
///     }
/// }
///
/// let mut tuning = Tuning { gain: Ratio::new(1, 8), floor: Duration::from_millis(50) };
/// tuning.set("floor", "200 ms")?;
/// assert_eq!(tuning.floor, Duration::from_millis(200));
/// assert!(tuning.set("ceiling", "1 s").is_err());
///
/// // Constants of a registered controller, as `--set cc.NAME=VALUE` changes them.
/// let mut settings = registry::find("cocoa-plus").unwrap().settings();
/// settings.describe(&mut |constant| println!("{} = {}", constant.name, constant.value));
/// # Ok::<(), carob_cc::constants::SetError>(())
/// ```
pub trait Constants: Copy + fmt::Debug + 'static {
    /// Sets a constant by name from text.
    ///
    /// # Errors
    ///
    /// [`SetError`].
    fn set(&mut self, name: &str, value: &str) -> Result<(), SetError>;
    /// Visits every constant with its value.
    fn describe(&self, visit: &mut dyn FnMut(Constant<'_>));
}

/// Declares a struct of constants; each field's doc comment is its description for users.
///
/// `..base: BaseConstants` at the end includes the constants of another struct.
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
                /// The constants shared with other families.
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

/// Declares an enum of named variants, usable as a constant.
#[macro_export]
macro_rules! variants {
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
            const KIND: &'static str = $crate::variants!(@list $($text)*);
            fn read(text: &str) -> Option<Self> {
                match text.trim() { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
    (@list $first:literal $($rest:literal)*) => { concat!($first $(, " or ", $rest)*) };
}
