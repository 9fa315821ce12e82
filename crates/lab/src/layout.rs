//! Layout of a type in words: names and types of the fields that serde reads.
//!
//! The type is deserialized from nothing. Each request of its `Deserialize` is written down and
//! answered with the smallest value; options are present and sequences have one element, so that
//! inner types show. Fields that serde skips are left out, as they are from the bytes.

use serde::de::value::Error;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, SeqAccess, Visitor};

/// The layout of a type made of structs, options, sequences, booleans, unsigned numbers and floats.
///
/// # Panics
/// If the type has anything else, such as an enum or a map.
pub(crate) fn of<T: DeserializeOwned>() -> String {
    let mut text = String::new();
    if let Err(error) = T::deserialize(Tracer(&mut text)) {
        panic!("{error} after {text}");
    }
    text
}

/// Writes down what a type requests.
struct Tracer<'a>(&'a mut String);

/// Answers requests for plain values: the method, the name, the visitor's method and the value.
macro_rules! plain {
    ($($method:ident $name:literal $visit:ident $value:expr;)+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.0.push_str($name);
            visitor.$visit($value)
        })+
    };
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Error;

    plain! {
        deserialize_bool "bool" visit_bool false;
        deserialize_u8 "u8" visit_u8 0;
        deserialize_u16 "u16" visit_u16 0;
        deserialize_u32 "u32" visit_u32 0;
        deserialize_u64 "u64" visit_u64 0;
        deserialize_f32 "f32" visit_f32 0.0;
        deserialize_f64 "f64" visit_f64 0.0;
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.0.push('?');
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.0.push('*');
        visitor.visit_seq(Elements(self.0, 1))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.push_str(name);
        self.0.push('(');
        let value = visitor.visit_newtype_struct(Tracer(self.0))?;
        self.0.push(')');
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.push_str(name);
        self.0.push('{');
        let value = visitor.visit_seq(Fields(self.0, fields.iter()))?;
        self.0.push('}');
        Ok(value)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(de::Error::custom("a type without a name here"))
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 char str string bytes byte_buf unit unit_struct tuple tuple_struct
        map enum identifier ignored_any
    }
}

/// So many elements of a sequence.
struct Elements<'a>(&'a mut String, usize);

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(left) = self.1.checked_sub(1) else {
            return Ok(None);
        };
        self.1 = left;
        seed.deserialize(Tracer(self.0)).map(Some)
    }
}

/// The fields of a struct, each after its name.
struct Fields<'a>(&'a mut String, std::slice::Iter<'static, &'static str>);

impl<'de> SeqAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(name) = self.1.next() else {
            return Ok(None);
        };
        self.0.push_str(name);
        self.0.push(':');
        let value = seed.deserialize(Tracer(self.0))?;
        self.0.push(',');
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[allow(dead_code)]
    struct Before {
        count: u32,
        inner: Vec<Option<Box<Inner>>>,
        #[serde(skip)]
        left: String,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Inner {
        share: f64,
    }

    type Same = Vec<Option<Box<Inner>>>;

    /// A type like [`Before`] with one field as given.
    macro_rules! changed {
        ($($field:ident: $type:ty),+) => {{
            #[derive(Deserialize)]
            #[allow(dead_code)]
            struct Before {
                $($field: $type,)+
            }
            of::<Before>()
        }};
    }

    #[test]
    fn layout_changes_with_names_order_and_types() {
        let layout = of::<Before>();
        assert_eq!(layout, "Before{count:u32,inner:*?Inner{share:f64,},}");
        assert_eq!(changed!(count: u32, inner: Same), layout);
        for other in [
            changed!(count: u64, inner: Same),
            changed!(counts: u32, inner: Same),
            changed!(inner: Same, count: u32),
            changed!(count: u32, inner: Same, more: bool),
            changed!(count: u32),
        ] {
            assert_ne!(other, layout);
        }
    }

    #[test]
    #[should_panic(expected = "a type without a name here after Bad{text:")]
    fn types_without_a_layout_are_refused() {
        #[derive(Deserialize)]
        #[allow(dead_code)]
        struct Bad {
            text: String,
        }
        of::<Bad>();
    }
}
