//! Fields of specifications, from the values of keys.

use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;
use carob_sim::distribution::TimeDistribution;
use carob_sim::random::Probability;
use carob_sim::spec::Span;

use super::cell::Cell;
use super::error::ScenarioError;
use super::value::Value;

/// Type of a field that a key sets.
pub(crate) trait Field: Sized {
    /// The field for a value; `None` if the value is of another kind.
    fn of(value: &Value) -> Option<Self>;
}

/// Implements [`Field`]: type, then the values that it takes.
macro_rules! field {
    ($($of:ty: $value:pat => $got:expr;)+) => {
        $(impl Field for $of {
            fn of(value: &Value) -> Option<Self> {
                match value {
                    $value => Some($got),
                    _ => None,
                }
            }
        })+
    };
}

field! {
    String: Value::Text(text) => text.clone();
    bool: Value::Text(word) => word == "on";
    Ratio: Value::Number(ratio) => *ratio;
    Duration: Value::Time(Some(time)) => *time;
    Span: Value::Span(span) => *span;
    TimeDistribution: Value::Distribution(times) => *times;
    Probability: Value::Percent(ppm) => Probability::ppm(*ppm);
}

/// Implements [`Field`] for whole numbers, which are in the unit of [`Value`].
macro_rules! whole {
    ($($of:ty)+) => {
        $(impl Field for $of {
            fn of(value: &Value) -> Option<Self> {
                match *value {
                    Value::Whole(n) | Value::Bytes(n) | Value::Buffer(n) => n.try_into().ok(),
                    Value::Rate(n) | Value::Power(n) => n.try_into().ok(),
                    Value::Percent(n) | Value::Length(n) | Value::Decibels(n) => n.try_into().ok(),
                    _ => None,
                }
            }
        })+
    };
}

whole! { u8 u16 u32 u64 }

/// A field that is absent for `none`, or where its key is not set.
impl<T: Field> Field for Option<T> {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Time(None) => Some(None),
            _ => T::of(value).map(Some),
        }
    }
}

/// Specification with fields that keys set; declared by `keys!`.
pub(super) trait Fields {
    /// Sets the fields whose keys `get` has a value for; fails with the key of a value of another kind.
    fn set<'a>(&mut self, get: impl Fn(&str) -> Option<&'a Value>) -> Result<(), &'static str>;
}

impl Cell {
    /// A specification with the values of its keys, and its defaults elsewhere.
    pub(super) fn fields<T: Fields + Default>(&self) -> Result<T, ScenarioError> {
        self.fields_over(T::default())
    }

    /// The same, if a key is set.
    pub(super) fn fields_if<T: Fields + Default>(
        &self,
        path: &str,
    ) -> Result<Option<T>, ScenarioError> {
        self.has(path).then(|| self.fields()).transpose()
    }

    /// A specification, overridden by the values of its keys.
    pub(super) fn fields_over<T: Fields>(&self, mut spec: T) -> Result<T, ScenarioError> {
        let set = spec.set(|path| Some(&self.settings.get(path)?.value));
        set.map_err(|path| self.wrong_kind(path))?;
        Ok(spec)
    }

    /// The value of a key.
    pub(crate) fn get<T: Field>(&self, path: &str) -> Result<T, ScenarioError> {
        T::of(self.value_of(path)?).ok_or_else(|| self.wrong_kind(path))
    }
}
