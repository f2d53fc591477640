//! Filters of HTTPRoutes, GRPCRoutes and listeners.

use super::pattern::{HEADER_VALUE, ORIGIN, PATH};
use super::references::{backend, header_name, local_object, port, precise_hostname};
use super::rules::{Within, items, place, repeated};
use super::{
    Field, Rule, Schema, boolean, int32, list, object, one_of, one_of_integers, optional, required, text,
};

/// For each type of filter and the field of its settings: the field is there if and only if the filter is of the type.
macro_rules! pairs {
    ($($kind:literal $field:literal)+) => {
        [$(
            Rule {
                message: concat!("filter.", $field, " must be nil if the filter.type is not ", $kind),
                hint: concat!("remove ", $field, ", or make the type ", $kind),
                broken: |filter| place(filter.has($field) && filter.text("type") != Some($kind)).within($field),
            },
            Rule {
                message: concat!("filter.", $field, " must be specified for ", $kind, " filter.type"),
                hint: concat!("add ", $field),
                broken: |filter| place(!filter.has($field) && filter.text("type") == Some($kind)),
            },
        )+]
    };
}

/// A type of filter that a list has at most once.
macro_rules! once {
    ($($kind:literal)+) => {
        [$(Rule {
            message: concat!($kind, " filter cannot be repeated"),
            hint: "put both into one filter",
            broken: |filters| {
                repeated(filters, |one, other| {
                    one.text("type") == Some($kind) && other.text("type") == Some($kind)
                })
            },
        }),+]
    };
}

/// `filters` of a rule or a backendRef of an HTTPRoute.
pub(super) fn http() -> Schema {
    let types = &[
        "RequestHeaderModifier",
        "ResponseHeaderModifier",
        "RequestMirror",
        "RequestRedirect",
        "URLRewrite",
        "ExtensionRef",
        "CORS",
        "ExternalAuth",
    ];
    let filter = object([
        required("type", one_of(types)),
        optional("requestHeaderModifier", header_modifier()),
        optional("responseHeaderModifier", header_modifier()),
        optional("requestMirror", mirror()),
        optional("requestRedirect", redirect()),
        optional("urlRewrite", rewrite()),
        optional("extensionRef", local_object()),
        optional("cors", cors()),
        optional("externalAuth", external_auth()),
    ])
    .rules(pairs! {
        "RequestHeaderModifier" "requestHeaderModifier"
        "ResponseHeaderModifier" "responseHeaderModifier"
        "RequestMirror" "requestMirror"
        "RequestRedirect" "requestRedirect"
        "URLRewrite" "urlRewrite"
        "ExtensionRef" "extensionRef"
        "CORS" "cors"
        "ExternalAuth" "externalAuth"
    });
    list(filter)
        .most(16)
        .rule(
            "May specify either httpRouteFilterRequestRedirect or httpRouteFilterRequestRewrite, but not both",
            |filters| {
                let has = |kind| filters.as_items().iter().any(|filter| filter.text("type") == Some(kind));
                let both = has("RequestRedirect") && has("URLRewrite");
                items(filters, |_, filter| both && filter.text("type") == Some("URLRewrite"))
            },
        )
        .hint("a redirect can change host and path itself: see requestRedirect.hostname and .path")
        .rules(once! {
            "CORS" "RequestHeaderModifier" "ResponseHeaderModifier" "RequestRedirect" "URLRewrite"
        })
}

/// `filters` of a rule or a backendRef of a GRPCRoute.
pub(super) fn grpc() -> Schema {
    let types = &["ResponseHeaderModifier", "RequestHeaderModifier", "RequestMirror", "ExtensionRef"];
    let filter = object([
        required("type", one_of(types)),
        optional("requestHeaderModifier", header_modifier()),
        optional("responseHeaderModifier", header_modifier()),
        optional("requestMirror", mirror()),
        optional("extensionRef", local_object()),
    ])
    .rules(pairs! {
        "RequestHeaderModifier" "requestHeaderModifier"
        "ResponseHeaderModifier" "responseHeaderModifier"
        "RequestMirror" "requestMirror"
        "ExtensionRef" "extensionRef"
    });
    list(filter).most(16).rules(once! { "RequestHeaderModifier" "ResponseHeaderModifier" })
}

/// `filters` of a listener.
pub(super) fn listener() -> Schema {
    let filter = object([
        required("type", one_of(&["ExternalAuth", "ExtensionRef"])),
        optional("extensionRef", local_object()),
        optional("externalAuth", external_auth()),
    ])
    .rules(pairs! {
        "ExternalAuth" "externalAuth"
        "ExtensionRef" "extensionRef"
    });
    object([optional("requests", list(filter).most(16))])
}

/// The name and value of a header.
fn header() -> Schema {
    object([required("name", header_name()), required("value", header_value())])
}

pub(super) fn header_value() -> Schema {
    text().least(1).most(4096).like(&HEADER_VALUE)
}

fn header_modifier() -> Schema {
    object([
        optional("set", list(header()).most(16).keyed("name")),
        optional("add", list(header()).most(16).keyed("name")),
        optional("remove", list(text()).most(16).set()),
    ])
}

fn mirror() -> Schema {
    let fraction =
        object([required("numerator", int32().least(0)), optional("denominator", int32().least(1)).or(100)])
            .rule("numerator must be less than or equal to denominator", |fraction| {
                place(fraction.integer("numerator") > fraction.integer("denominator")).within("numerator")
            });
    object([
        required("backendRef", backend()),
        optional("percent", int32().least(0).most(100)),
        optional("fraction", fraction),
    ])
    .rule("Only one of percent or fraction may be specified in HTTPRequestMirrorFilter", |mirror| {
        place(mirror.has("percent") && mirror.has("fraction"))
    })
}

fn redirect() -> Schema {
    object([
        optional("scheme", one_of(&["http", "https"])),
        optional("hostname", precise_hostname()),
        optional("path", path_modifier()),
        optional("port", port()),
        optional("statusCode", one_of_integers(&[301, 302, 303, 307, 308])).or(302),
    ])
}

fn rewrite() -> Schema {
    object([optional("hostname", precise_hostname()), optional("path", path_modifier())])
}

fn path_modifier() -> Schema {
    object([
        required("type", one_of(&["ReplaceFullPath", "ReplacePrefixMatch"])),
        optional("replaceFullPath", text().most(1024)),
        optional("replacePrefixMatch", text().most(1024)),
    ])
    .rule("replaceFullPath must be specified when type is set to 'ReplaceFullPath'", |path| {
        place(path.text("type") == Some("ReplaceFullPath") && !path.has("replaceFullPath"))
    })
    .rule("type must be 'ReplaceFullPath' when replaceFullPath is set", |path| {
        place(path.has("replaceFullPath") && path.text("type") != Some("ReplaceFullPath")).within("type")
    })
    .rule("replacePrefixMatch must be specified when type is set to 'ReplacePrefixMatch'", |path| {
        place(path.text("type") == Some("ReplacePrefixMatch") && !path.has("replacePrefixMatch"))
    })
    .rule("type must be 'ReplacePrefixMatch' when replacePrefixMatch is set", |path| {
        place(path.has("replacePrefixMatch") && path.text("type") != Some("ReplacePrefixMatch"))
            .within("type")
    })
}

fn cors() -> Schema {
    let methods = &["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "*"];
    let origin = text().least(1).most(253).like(&ORIGIN);
    object([
        optional("allowCredentials", boolean()),
        optional(
            "allowHeaders",
            list(header_name())
                .most(64)
                .set()
                .rule("AllowHeaders cannot contain '*' alongside other methods", star_and_more),
        ),
        optional(
            "allowMethods",
            list(one_of(methods))
                .most(9)
                .set()
                .rule("AllowMethods cannot contain '*' alongside other methods", star_and_more),
        ),
        optional(
            "allowOrigins",
            list(origin)
                .most(64)
                .set()
                .rule("AllowOrigins cannot contain '*' alongside other origins", star_and_more),
        ),
        optional("exposeHeaders", list(header_name()).most(64).set()),
        optional("maxAge", int32().least(1)).or(5),
    ])
}

fn star_and_more(list: &super::Node) -> Vec<super::Place> {
    items(list, |_, item| list.as_items().len() > 1 && item.as_text() == Some("*"))
}

fn external_auth() -> Schema {
    let names = || list(text()).most(64).set();
    let http: [Field; 3] = [
        optional("path", text().most(1024).like(&PATH)),
        optional("allowedHeaders", names()),
        optional("allowedResponseHeaders", names()),
    ];
    object([
        required("backendRef", backend()),
        required("protocol", one_of(&["HTTP", "GRPC"])),
        optional("grpc", object([optional("allowedHeaders", names())])),
        optional("http", object(http)),
        optional("forwardBody", object([optional("maxSize", int32().least(0))])),
    ])
    .rule("grpc must be specified when protocol is set to 'GRPC'", |auth| {
        place(auth.text("protocol") == Some("GRPC") && !auth.has("grpc"))
    })
    .rule("protocol must be 'GRPC' when grpc is set", |auth| {
        place(auth.has("grpc") && auth.text("protocol") != Some("GRPC")).within("protocol")
    })
    .rule("http must be specified when protocol is set to 'HTTP'", |auth| {
        place(auth.text("protocol") == Some("HTTP") && !auth.has("http"))
    })
    .rule("protocol must be 'HTTP' when http is set", |auth| {
        place(auth.has("http") && auth.text("protocol") != Some("HTTP")).within("protocol")
    })
}
