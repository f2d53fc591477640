//! How a path is read: normalized once on arrival, then by whole segments.

use std::borrow::Cow;

/// The path as it is matched and forwarded: what RFC 3986 6.2.2 calls equivalent is one path, so that no spelling of a
/// path gets around a route.
///
/// * Percent-encoded unreserved characters are decoded (`/%61pi` is `/api`), other escapes get upper-case digits, and a `%`
///   that begins no escape becomes `%25`. Reserved characters stay encoded: `%2F` is no slash.
/// * Dot segments are removed, `%2e` forms included (RFC 3986 5.2.4).
/// * Repeated slashes stay, for they may carry meaning to the backend (`/fetch/https://example.com`); matching reads
///   them as one.
///
/// Applying it twice is the same as once. What does not begin with a slash (`*`) is left alone.
#[inline]
pub fn normalize(path: &str) -> Cow<'_, str> {
    // Without early exit the compiler makes this a handful of vector instructions.
    let suspicious = path.bytes().fold(false, |found, b| found | (b == b'%') | (b == b'.'));
    if !suspicious || !path.starts_with('/') { Cow::Borrowed(path) } else { normalize_suspicious(path) }
}

fn normalize_suspicious(path: &str) -> Cow<'_, str> {
    let decoded = if path.contains('%') { Cow::Owned(normalize_escapes(path)) } else { Cow::Borrowed(path) };
    if decoded.split('/').any(|segment| segment == "." || segment == "..") {
        Cow::Owned(remove_dot_segments(&decoded))
    } else {
        decoded
    }
}

fn normalize_escapes(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(byte) = escaped_byte(rest.as_bytes()) else {
            out.push_str("%25");
            continue;
        };
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&rest[..2].to_ascii_uppercase());
        }
        rest = &rest[2..];
    }
    out.push_str(rest);
    out
}

/// The byte of the two hexadecimal digits that `text` begins with.
pub(super) fn escaped_byte(text: &[u8]) -> Option<u8> {
    let digit = |b: u8| char::from(b).to_digit(16);
    let (high, low) = (digit(*text.first()?)?, digit(*text.get(1)?)?);
    u8::try_from(high * 16 + low).ok()
}

fn remove_dot_segments(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut segments = path[1..].split('/').peekable();
    while let Some(segment) = segments.next() {
        let dots = segment == "." || segment == "..";
        if segment == ".." {
            out.truncate(out.rfind('/').unwrap_or(0));
        }
        if !dots {
            out.push('/');
            out.push_str(segment);
        } else if segments.peek().is_none() {
            out.push('/');
        }
    }
    out
}

/// The path with each run of slashes made one: what matches look at.
#[inline]
pub(super) fn merge_slashes(path: &str) -> Cow<'_, str> {
    let bytes = path.as_bytes();
    let doubled = bytes.windows(2).fold(false, |found, pair| found | ((pair[0] == b'/') & (pair[1] == b'/')));
    if doubled { Cow::Owned(merged(path)) } else { Cow::Borrowed(path) }
}

fn merged(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !out.ends_with('/') {
            out.push(c);
        }
    }
    out
}

/// What follows `prefix` (as [`prefix_of`] gives it) in `path`: empty, or beginning with a slash; `None` if the path does
/// not begin with the prefix's segments. Runs of slashes count as one.
pub(super) fn after_prefix<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let mut rest = path;
    for segment in prefix.split('/').skip(1) {
        let slashes = rest.len() - rest.trim_start_matches('/').len();
        rest = rest[slashes..].strip_prefix(segment).filter(|_| slashes > 0)?;
    }
    (rest.is_empty() || rest.starts_with('/') || prefix.is_empty()).then_some(rest)
}

/// The normalized prefix of a PathPrefix match: "When specified, a trailing `/` is ignored", so that `/` is empty.
pub(super) fn prefix_of(value: &str) -> String {
    let mut prefix = exact_of(value);
    prefix.truncate(prefix.trim_end_matches('/').len());
    prefix
}

/// The normalized path of an Exact match.
pub(super) fn exact_of(value: &str) -> String {
    merge_slashes(&normalize(value)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments_are_removed_in_plain_and_encoded_form() {
        for (path, expected) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/b/..", "/a/"),
            ("/a/b/.", "/a/b/"),
            ("/..", "/"),
            ("/../../a", "/a"),
            ("/public/%2e%2e/admin", "/admin"),
            ("/public/%2E./admin", "/admin"),
            ("/public/.%2e", "/"),
            ("/a//../b", "/a/b"),
            ("/a/...", "/a/..."),
            ("/a/.b/..c", "/a/.b/..c"),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(normalize(path), expected, "{path}");
        }
    }

    #[test]
    fn unreserved_characters_are_decoded_and_reserved_ones_stay() {
        for (path, expected) in [
            ("/%61pi", "/api"),
            ("/%7Euser", "/~user"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%20b", "/a%20b"),
            ("/%2561", "/%2561"),
            ("/100%", "/100%25"),
            ("/%%61", "/%25a"),
            ("/%6", "/%256"),
            ("/%é", "/%25é"),
        ] {
            assert_eq!(normalize(path), expected, "{path}");
        }
    }

    #[test]
    fn an_ordinary_path_is_borrowed() {
        for path in
            ["/", "/api/v1/users/42", "/static/app.min.js", "/.well-known/x", "/fetch/https://example.com"]
        {
            assert!(matches!(normalize(path), Cow::Borrowed(_)), "{path}");
        }
    }

    #[test]
    fn a_prefix_ends_at_a_segment() {
        for (path, prefix, rest) in [
            ("/api", "/api", Some("")),
            ("/api/", "/api", Some("/")),
            ("/api/x", "/api", Some("/x")),
            ("/apis", "/api", None),
            ("/ap", "/api", None),
            ("//api//x", "/api", Some("//x")),
            ("/a//b/c", "/a/b", Some("/c")),
            ("/x", "", Some("/x")),
            ("*", "", Some("*")),
            ("*", "/*", None),
        ] {
            assert_eq!(after_prefix(path, prefix), rest, "{path} after {prefix}");
        }
        assert_eq!(prefix_of("/match/"), prefix_of("/match"));
        assert_eq!(prefix_of("/"), "");
    }
}
