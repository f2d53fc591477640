//! Conditions on query parameters.

use std::borrow::Cow;

use super::header::Value;
use super::path::escaped_byte;
use super::regex::Compiler;
use crate::HeaderMatch;

/// A condition on a query parameter.
#[derive(Debug)]
pub(super) struct QueryCondition {
    name: Box<str>,
    value: Value,
}

impl QueryCondition {
    pub(super) fn new(wanted: &HeaderMatch, compiler: &mut Compiler<'_>) -> Self {
        Self { name: wanted.name.as_str().into(), value: Value::new(&wanted.value, compiler) }
    }

    #[inline]
    pub(super) fn holds(&self, query: Option<&str>) -> bool {
        self.found(query).is_some_and(|found| self.value.matches(&found))
    }

    /// The decoded value of the parameter in a request. Only a value with escapes is decoded into new memory.
    ///
    /// HTTPQueryParamMatch: "it is recommended that implementations should match against the first value of the param".
    /// A parameter without `=` has the empty value.
    pub(super) fn found<'a>(&self, query: Option<&'a str>) -> Option<Cow<'a, [u8]>> {
        query?
            .split('&')
            .map(|entry| entry.split_once('=').unwrap_or((entry, "")))
            .find(|(name, _)| equals(name, &self.name))
            .map(|(_, value)| decoded(value))
    }
}

fn equals(encoded: &str, plain: &str) -> bool {
    if is_encoded(encoded) { decode(encoded.as_bytes()).eq(plain.bytes()) } else { encoded == plain }
}

fn decoded(text: &str) -> Cow<'_, [u8]> {
    if is_encoded(text) {
        Cow::Owned(decode(text.as_bytes()).collect())
    } else {
        Cow::Borrowed(text.as_bytes())
    }
}

fn is_encoded(text: &str) -> bool {
    text.bytes().any(|b| b == b'%' || b == b'+')
}

/// `application/x-www-form-urlencoded` without its separators; a `%` that begins no escape stands for itself.
fn decode(mut text: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let (&first, rest) = text.split_first()?;
        text = rest;
        Some(match first {
            b'+' => b' ',
            b'%' => match escaped_byte(rest) {
                Some(byte) => {
                    text = &rest[2..];
                    byte
                }
                None => b'%',
            },
            byte => byte,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ValueMatch;

    fn condition(name: &str, value: &str) -> QueryCondition {
        let wanted = HeaderMatch { name: name.into(), value: ValueMatch::Exact(value.into()) };
        QueryCondition::new(&wanted, &mut Compiler::default())
    }

    #[test]
    fn the_first_entry_of_a_name_counts() {
        let animal = condition("animal", "whale");
        assert!(animal.holds(Some("a=b&animal=whale&animal=dolphin")));
        assert!(!animal.holds(Some("animal=dolphin&animal=whale")));
        assert!(!animal.holds(Some("animals=whale")));
        assert!(!animal.holds(None));
    }

    #[test]
    fn names_and_values_are_compared_decoded_and_with_case() {
        assert!(condition("a b", "c/d").holds(Some("a%20b=c%2Fd")));
        assert!(condition("a b", "c d").holds(Some("a+b=c+d")));
        assert!(condition("a", "100%").holds(Some("a=100%")));
        assert!(!condition("a", "B").holds(Some("a=b")));
        assert!(!condition("A", "b").holds(Some("a=b")));
    }

    #[test]
    fn a_parameter_without_equals_sign_is_empty() {
        assert!(condition("debug", "").holds(Some("debug")));
        assert!(condition("debug", "").holds(Some("debug=")));
        assert!(condition("debug", "a=b").holds(Some("debug=a=b")));
    }
}
