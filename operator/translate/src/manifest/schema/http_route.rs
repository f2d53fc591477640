//! The schema of HTTPRoute.

use serde_json::json;

use super::filters::{self, header_value};
use super::grpc_route::backend_ref;
use super::pattern::PATH;
use super::references::{header_name, hostname, parents, section_name};
use super::rules::{Within, at_most_128_matches, items, names_differ, place};
use super::session::{duration, persistence};
use super::{Node, Place, Schema, Step, integer, list, object, one_of, optional, required, text};

pub(super) fn spec() -> Schema {
    let every_request = json!([{ "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }] }]);
    object([
        optional("hostnames", list(hostname()).most(16)),
        optional("parentRefs", parents()),
        optional("rules", route_rules()).or(every_request),
        optional("useDefaultGateways", one_of(&["All", "None"])),
    ])
}

fn route_rules() -> Schema {
    let every_request = json!([{ "path": { "type": "PathPrefix", "value": "/" } }]);
    let rule = object([
        optional("name", section_name()),
        optional("matches", list(route_match()).most(64)).or(every_request),
        optional("filters", filters::http()),
        optional("backendRefs", list(backend_ref(filters::http())).most(16)),
        optional("timeouts", timeouts()),
        optional("retry", retry()),
        optional("sessionPersistence", persistence()),
    ])
    .rule("RequestRedirect filter must not be used together with backendRefs", |rule| {
        place(!rule.items("backendRefs").is_empty() && filters_with(rule, "requestRedirect") > 0)
    })
    .hint("a redirect needs no backend: remove one of the two, or move the redirect to a rule of its own")
    .rule(
        "When using RequestRedirect filter with path.replacePrefixMatch, exactly one PathPrefix match must be specified",
        |rule| place(prefix_filters(rule, "requestRedirect") == 1 && !is_one_prefix(rule)),
    )
    .rule(
        "When using URLRewrite filter with path.replacePrefixMatch, exactly one PathPrefix match must be specified",
        |rule| place(prefix_filters(rule, "urlRewrite") == 1 && !is_one_prefix(rule)),
    )
    .rule(
        "Within backendRefs, when using RequestRedirect filter with path.replacePrefixMatch, exactly one PathPrefix match must be specified",
        |rule| backend_prefix(rule, "requestRedirect"),
    )
    .rule(
        "Within backendRefs, When using URLRewrite filter with path.replacePrefixMatch, exactly one PathPrefix match must be specified",
        |rule| backend_prefix(rule, "urlRewrite"),
    );
    list(rule)
        .least(1)
        .most(16)
        .rule("Rule name must be unique within the route", names_differ)
        .rule(
            "While 16 rules and 64 matches per rule are allowed, the total number of matches across all rules in a route must be less than 128",
            at_most_128_matches,
        )
        .hint("spread the rules over several routes")
}

fn filters_with(holder: &Node, field: &str) -> usize {
    holder.items("filters").iter().filter(|filter| filter.has(field)).count()
}

/// How many filters replace the matched prefix.
fn prefix_filters(holder: &Node, field: &str) -> usize {
    let replaces_prefix = |filter: &&Node| {
        let path = filter.field(field).and_then(|settings| settings.field("path"));
        path.is_some_and(|path| {
            path.text("type") == Some("ReplacePrefixMatch") && path.has("replacePrefixMatch")
        })
    };
    holder.items("filters").iter().filter(replaces_prefix).count()
}

fn is_one_prefix(rule: &Node) -> bool {
    let matches = rule.items("matches");
    let path = matches.first().and_then(|only| only.field("path"));
    matches.len() == 1 && path.is_some_and(|path| path.text("type") == Some("PathPrefix"))
}

/// The one backendRef that replaces a prefix where there is none. Upstream's rule looks no further where two do.
fn backend_prefix(rule: &Node, field: &str) -> Vec<Place> {
    let backends = rule.field("backendRefs");
    let found = backends.map(|backends| items(backends, |_, backend| prefix_filters(backend, field) == 1));
    let found = found.filter(|found| found.len() == 1 && !is_one_prefix(rule)).unwrap_or_default();
    found.into_iter().map(|place| [vec![Step::Field("backendRefs")], place].concat()).collect()
}

fn route_match() -> Schema {
    let methods = &["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
    let value = |name, value: Schema| {
        object([
            optional("type", one_of(&["Exact", "RegularExpression"])).or("Exact"),
            required(name, header_name()),
            required("value", value),
        ])
    };
    let header = value("name", header_value());
    let parameter = value("name", text().least(1).most(1024));
    object([
        optional("path", path_match()).or(json!({ "type": "PathPrefix", "value": "/" })),
        optional("headers", list(header).most(16).keyed("name")),
        optional("queryParams", list(parameter).most(16).keyed("name")),
        optional("method", one_of(methods)),
    ])
}

/// Rules that a path must keep unless it is a regular expression.
macro_rules! literal_path {
    ($schema:expr, $($message:literal, $broken:expr;)+) => {
        $schema$(.rule($message, |path| {
            let broken: fn(&str) -> bool = $broken;
            let literal = path.text("type") != Some("RegularExpression");
            place(literal && path.text("value").is_some_and(broken)).within("value")
        }))+
    };
}

fn path_match() -> Schema {
    let path = object([
        optional("type", one_of(&["Exact", "PathPrefix", "RegularExpression"])).or("PathPrefix"),
        optional("value", text().most(1024)).or("/"),
    ]);
    literal_path! { path,
        "value must be an absolute path and start with '/' when type one of ['Exact', 'PathPrefix']",
            |value| !value.starts_with('/');
        "must not contain '//' when type one of ['Exact', 'PathPrefix']", |value| value.contains("//");
        "must not contain '/./' when type one of ['Exact', 'PathPrefix']", |value| value.contains("/./");
        "must not contain '/../' when type one of ['Exact', 'PathPrefix']", |value| value.contains("/../");
        "must not contain '%2f' when type one of ['Exact', 'PathPrefix']", |value| value.contains("%2f");
        "must not contain '%2F' when type one of ['Exact', 'PathPrefix']", |value| value.contains("%2F");
        "must not contain '#' when type one of ['Exact', 'PathPrefix']", |value| value.contains('#');
        "must not end with '/..' when type one of ['Exact', 'PathPrefix']", |value| value.ends_with("/..");
        "must not end with '/.' when type one of ['Exact', 'PathPrefix']", |value| value.ends_with("/.");
        "must only contain valid characters (matching ^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$) for types ['Exact', 'PathPrefix']",
            |value| !PATH.is_match(value);
    }
    .hint("write all other characters as %XX, or make the type RegularExpression")
}

fn timeouts() -> Schema {
    object([optional("request", duration()), optional("backendRequest", duration())]).rule(
        "backendRequest timeout cannot be longer than request timeout",
        |timeouts| {
            let of = |field| timeouts.text(field).map(milliseconds);
            let longer = match (of("request"), of("backendRequest")) {
                (Some(request), Some(backend)) => request != 0 && backend > request,
                _ => false,
            };
            place(longer).within("backendRequest")
        },
    )
}

/// The length of a duration that has the form of one.
fn milliseconds(duration: &str) -> u64 {
    let (mut total, mut number, mut rest) = (0, 0, duration);
    while let Some(first) = rest.chars().next() {
        let unit = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
        match (first.to_digit(10), unit.iter().find(|(name, _)| rest.starts_with(name))) {
            (Some(digit), _) => {
                number = number * 10 + u64::from(digit);
                rest = &rest[1..];
            }
            (None, Some((name, length))) => {
                total += number * length;
                number = 0;
                rest = &rest[name.len()..];
            }
            (None, None) => return total,
        }
    }
    total
}

fn retry() -> Schema {
    object([
        optional("attempts", integer().least(0)).or(1),
        optional("backoff", duration()),
        optional("codes", list(integer().least(400).most(599)).set()),
    ])
}
