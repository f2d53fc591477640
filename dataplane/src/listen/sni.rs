//! Which listener a TLS client asks for, before anything is negotiated.

use std::borrow::Cow;

/// The server name as routing wants it: lower case, without a trailing dot; empty when the client named none, which only a
/// listener without a hostname takes.
pub(crate) fn host(server_name: Option<&str>) -> Cow<'_, str> {
    let name = server_name.unwrap_or_default();
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}
