//! What a YAML scalar means: read as Kubernetes' own parser (sigs.k8s.io/yaml, YAML 1.1) reads it.
//!
//! `yes`, `on`, `y` and their like are booleans, `0777` is octal, `0x1F` and `1_000` are numbers. Who wants a string writes
//! quotes. Dates stay text.

use serde_json::Number;

use super::tree::Content;

/// Meaning of a plain scalar without a tag.
pub(super) fn plain(text: &str) -> Content {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Content::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Content::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Content::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => NOT_IN_JSON,
        _ => number(text).unwrap_or_else(|| Content::Text(text.into())),
    }
}

/// Meaning of a scalar with a tag of YAML's own (`!!int` without its `!!`).
pub(super) fn tagged(tag: &str, text: &str) -> Content {
    let meaning = plain(text);
    match (tag, &meaning) {
        ("str", _) => Content::Text(text.into()),
        ("null", Content::Null) | ("bool", Content::Bool(_)) => meaning,
        ("int", Content::Number(number)) if number.is_i64() || number.is_u64() => meaning,
        ("float", Content::Number(_)) => meaning,
        ("null" | "bool" | "int" | "float", _) => {
            Content::Bad("the value is not of the type that its tag says")
        }
        // goyaml leaves the text of all other tags as it is.
        _ => Content::Text(text.into()),
    }
}

const NOT_IN_JSON: Content = Content::Bad("infinity and NaN are not numbers in JSON");

/// As goyaml's `resolve`, base 60 left out as it is there.
fn number(text: &str) -> Option<Content> {
    let first = *text.as_bytes().first()?;
    if first == b'.' {
        return float(text);
    }
    if !(first.is_ascii_digit() || first == b'-' || first == b'+') {
        return None;
    }
    let plain = text.replace('_', "");
    integer(&plain).or_else(|| float(&plain))
}

/// As Go's `strconv.ParseInt(text, 0, 64)`, then `ParseUint`.
fn integer(text: &str) -> Option<Content> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = if let Some(rest) = lower.strip_prefix("0x") {
        (16, rest)
    } else if let Some(rest) = lower.strip_prefix("0b") {
        (2, rest)
    } else if let Some(rest) = lower.strip_prefix("0o") {
        (8, rest)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    // `from_str_radix` takes a sign of its own.
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let number = u64::from_str_radix(digits, radix).ok()?;
    if !negative {
        return Some(Content::Number(number.into()));
    }
    i64::try_from(-i128::from(number)).ok().map(|number| Content::Number(number.into()))
}

/// As goyaml: `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`
fn float(text: &str) -> Option<Content> {
    let shape = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    if !text.bytes().all(shape) || !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite()).and_then(from_float).map(Content::Number)
}

/// A number of JSON, which has one type of them: 80.0 and 8e1 are 80.
pub(super) fn from_float(number: f64) -> Option<Number> {
    /// From here on not every whole number is one.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 53 bits")]
        return Some((number as i64).into());
    }
    Number::from_f64(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(content: Content) -> String {
        match content {
            Content::Null => "null".into(),
            Content::Bool(it) => it.to_string(),
            Content::Number(it) => it.to_string(),
            Content::Text(it) => format!("{it:?}"),
            Content::Bad(_) => "bad".into(),
            Content::List(_) | Content::Map(_) => "not a scalar".into(),
        }
    }

    #[test]
    fn plain_scalars_mean_what_they_mean_to_kubernetes() {
        for (text, meaning) in [
            ("", "null"),
            ("~", "null"),
            ("yes", "true"),
            ("y", "true"),
            ("On", "true"),
            ("off", "false"),
            ("oN", "\"oN\""),
            ("80", "80"),
            ("-1", "-1"),
            ("+1", "1"),
            ("0777", "511"),
            ("0o17", "15"),
            ("0x1F", "31"),
            ("0b11", "3"),
            ("08", "8"),
            ("1_000", "1000"),
            ("80.0", "80"),
            ("8e1", "80"),
            (".5", "0.5"),
            ("1.", "1"),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("10.0.0.1", "\"10.0.0.1\""),
            ("1.2.3", "\"1.2.3\""),
            ("2026-11-29", "\"2026-11-29\""),
            ("5s", "\"5s\""),
            ("-", "\"-\""),
            ("--1", "\"--1\""),
            ("+-1", "\"+-1\""),
            ("0x", "\"0x\""),
            ("0x-1", "\"0x-1\""),
            ("1e", "\"1e\""),
            ("e1", "\"e1\""),
            ("inf", "\"inf\""),
            ("nan", "\"nan\""),
            (".inf", "bad"),
            ("1e999", "\"1e999\""),
        ] {
            assert_eq!(shown(plain(text)), meaning, "{text}");
        }
    }

    #[test]
    fn a_tag_says_what_a_scalar_is() {
        assert_eq!(shown(tagged("str", "80")), "\"80\"");
        assert_eq!(shown(tagged("int", "80")), "80");
        assert_eq!(shown(tagged("int", "no number")), "bad");
        assert_eq!(shown(tagged("binary", "aGk=")), "\"aGk=\"");
    }
}
