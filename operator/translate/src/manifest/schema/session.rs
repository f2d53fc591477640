//! `sessionPersistence` of the rules of HTTPRoutes and GRPCRoutes.

use super::pattern::DURATION;
use super::references::header_name;
use super::rules::{Within, place};
use super::{Schema, object, one_of, optional, required, text};

pub(super) fn persistence() -> Schema {
    let cookie = object([
        optional("lifetimeType", one_of(&["Permanent", "Session"])).or("Session"),
        optional("name", header_name()),
        optional("path", text().most(1024)).or("/"),
    ]);
    object([
        optional("absoluteTimeout", duration()),
        optional("cookie", cookie),
        optional("header", object([required("name", header_name())])),
        optional("type", one_of(&["Cookie", "Header"])).or("Cookie"),
    ])
    .rule("AbsoluteTimeout must be specified when cookie lifetimeType is Permanent", |session| {
        let lifetime = session.field("cookie").and_then(|cookie| cookie.text("lifetimeType"));
        place(lifetime == Some("Permanent") && !session.has("absoluteTimeout"))
    })
    .rule("cookie must be nil if type is not Cookie", |session| {
        place(session.has("cookie") && session.text("type") != Some("Cookie")).within("cookie")
    })
    .rule("cookie must be specified for Cookie type", |session| {
        place(session.text("type") == Some("Cookie") && !session.has("cookie"))
    })
    .rule("header must be nil if type is not Header", |session| {
        place(session.has("header") && session.text("type") != Some("Header")).within("header")
    })
    .rule("header must be specified for Header type", |session| {
        place(session.text("type") == Some("Header") && !session.has("header"))
    })
}

/// A duration of GEP-2257.
pub(super) fn duration() -> Schema {
    text().like(&DURATION)
}
