//! RequestHeaderModifier and ResponseHeaderModifier: sets, adds and removes headers, in this order.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use postern_config::HeaderModifier;

use super::{Apply, Change, Location};
use crate::http::forwarding::is_forwarding;

#[derive(Debug)]
pub(super) struct OfRequest {
    changes: Changes,
    is_for_forwarding: bool,
}

#[derive(Debug)]
pub(super) struct OfResponse(Changes);

#[derive(Debug)]
struct Changes {
    set: Vec<(HeaderName, HeaderValue)>,
    add: Vec<(HeaderName, HeaderValue)>,
    remove: Vec<HeaderName>,
}

impl Changes {
    /// Names and values that are not legal on the wire are left out; translation has refused them before.
    fn new(modifier: &HeaderModifier) -> Self {
        let name = |name: &str| HeaderName::from_bytes(name.as_bytes()).ok().filter(is_open_to_change);
        let lines = |values: &[postern_config::HeaderValue]| {
            let line = |line: &postern_config::HeaderValue| {
                Some((name(&line.name)?, HeaderValue::from_str(&line.value).ok()?))
            };
            values.iter().filter_map(line).collect()
        };
        Self {
            set: lines(&modifier.set),
            add: lines(&modifier.add),
            remove: modifier.remove.iter().filter_map(|removed| name(removed)).collect(),
        }
    }

    fn names(&self) -> impl Iterator<Item = &HeaderName> {
        self.set.iter().chain(&self.add).map(|(name, _)| name).chain(&self.remove)
    }
}

/// Host is URLRewrite's, and what frames the message is the gateway's own: changing either would change what the message is.
fn is_open_to_change(name: &HeaderName) -> bool {
    ![header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION].contains(name)
}

impl OfRequest {
    pub(super) fn new(modifier: &HeaderModifier) -> Self {
        let changes = Changes::new(modifier);
        let is_for_forwarding = changes.names().any(is_forwarding);
        Self { changes, is_for_forwarding }
    }
}

impl Apply for OfRequest {
    fn request(&self, change: &mut Change<'_>) -> Option<Location> {
        // These fail only for what is no header, and these are.
        for (name, value) in &self.changes.set {
            let _ = change.request.insert_header(name, value);
        }
        for (name, value) in &self.changes.add {
            let _ = change.request.append_header(name, value);
        }
        for name in &self.changes.remove {
            change.request.remove_header(name);
        }
        None
    }

    fn is_for_forwarding(&self) -> bool {
        self.is_for_forwarding
    }
}

impl OfResponse {
    pub(super) fn new(modifier: &HeaderModifier) -> Self {
        Self(Changes::new(modifier))
    }
}

impl Apply for OfResponse {
    fn response(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.0.set {
            headers.insert(name, value.clone());
        }
        for (name, value) in &self.0.add {
            headers.append(name, value.clone());
        }
        for name in &self.0.remove {
            headers.remove(name);
        }
    }

    fn is_for_responses(&self) -> bool {
        true
    }
}
