//! Conditions on headers, and on values in general.

use std::borrow::Cow;

use http::header::{COOKIE, HeaderMap, HeaderName, HeaderValue};

use super::regex::{Compiler, Pattern};
use crate::{HeaderMatch, ValueMatch};

/// A condition on a value.
#[derive(Debug)]
pub(super) enum Value {
    /// Equal, byte for byte.
    Exact(Box<str>),
    /// Matched as a whole.
    RegularExpression(Pattern),
}

impl Value {
    pub(super) fn new(value: &ValueMatch, compiler: &mut Compiler<'_>) -> Self {
        match value {
            ValueMatch::Exact(text) => Self::Exact(text.as_str().into()),
            ValueMatch::RegularExpression(pattern) => Self::RegularExpression(compiler.pattern(pattern)),
        }
    }

    #[inline]
    pub(super) fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(text) => text.as_bytes() == value,
            Self::RegularExpression(pattern) => pattern.is_match(value),
        }
    }
}

/// A condition on a header.
#[derive(Debug)]
pub(super) struct HeaderCondition {
    /// `None` for a name that no header can have.
    name: Option<HeaderName>,
    value: Value,
}

/// The header that was looked up last: rules for one path often ask for one header, each with another value.
#[derive(Default)]
pub(super) struct LastHeader<'c, 'r> {
    looked_up: Option<(&'c HeaderName, Option<Cow<'r, [u8]>>)>,
}

impl HeaderCondition {
    pub(super) fn new(wanted: &HeaderMatch, compiler: &mut Compiler<'_>) -> Self {
        Self { name: wanted.name.parse().ok(), value: Value::new(&wanted.value, compiler) }
    }

    #[inline]
    pub(super) fn holds<'c, 'r>(&'c self, headers: &'r HeaderMap, last: &mut LastHeader<'c, 'r>) -> bool {
        let Some(name) = &self.name else { return false };
        if last.looked_up.as_ref().is_none_or(|(known, _)| *known != name) {
            last.looked_up = Some((name, self.found(headers)));
        }
        let found = last.looked_up.as_ref().and_then(|(_, found)| found.as_deref());
        found.is_some_and(|found| self.value.matches(found))
    }

    /// The value of the header in a request. Only a header of more than one line is put together in new memory.
    #[inline]
    pub(super) fn found<'a>(&self, headers: &'a HeaderMap) -> Option<Cow<'a, [u8]>> {
        let name = self.name.as_ref()?;
        let mut lines = headers.get_all(name).iter();
        let first = lines.next()?;
        match lines.next() {
            None => Some(Cow::Borrowed(first.as_bytes())),
            Some(_) => Some(Cow::Owned(joined(name, headers))),
        }
    }
}

// HTTPHeaderMatch: "proxies should follow the guidance from the RFC regarding processing a repeated header". The comma
// stands without a space, as the lines of an added header stand in the examples of HTTPHeaderFilter.
fn joined(name: &HeaderName, headers: &HeaderMap) -> Vec<u8> {
    let separator: &[u8] = if name == COOKIE { b"; " } else { b"," };
    headers.get_all(name).iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(name: &str, value: ValueMatch, headers: &HeaderMap) -> bool {
        let condition =
            HeaderCondition::new(&HeaderMatch { name: name.into(), value }, &mut Compiler::default());
        condition.holds(headers, &mut LastHeader::default())
    }

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn a_repeated_header_is_one_value_joined_by_commas() {
        let found = headers(&[("x-env", "a"), ("x-env", "b")]);
        assert!(holds("x-env", ValueMatch::Exact("a,b".into()), &found));
        assert!(holds("x-env", ValueMatch::RegularExpression("a,.".into()), &found));
        assert!(!holds("x-env", ValueMatch::Exact("a".into()), &found));
        let cookies = headers(&[("cookie", "a=1"), ("cookie", "b=2")]);
        assert!(holds("cookie", ValueMatch::Exact("a=1; b=2".into()), &cookies));
    }

    #[test]
    fn header_names_have_no_case_and_values_do() {
        let found = headers(&[("version", "Two")]);
        assert!(holds("Version", ValueMatch::Exact("Two".into()), &found));
        assert!(!holds("version", ValueMatch::Exact("two".into()), &found));
    }

    #[test]
    fn a_name_that_no_header_can_have_never_matches() {
        assert!(!holds("no name", ValueMatch::RegularExpression(".*".into()), &headers(&[("a", "b")])));
    }
}
