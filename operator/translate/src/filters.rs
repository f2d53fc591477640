//! Filters: from what the user wrote to what the data plane does, checked so that it can only do what is legal on the wire.

use std::collections::BTreeSet;

use postern_config::{
    Filter, HeaderModifier, HeaderValue, Hostname, PathMatch, PathModifier, RequestRedirect, RouteKind,
    RouteMatch, Scheme, UrlRewrite,
};

use crate::api::{
    FilterType, HeaderModifierFilter, HttpFilter, HttpHeader, HttpPathModifier, PathModifierType,
    RequestRedirectFilter, UnknownFields, UrlRewriteFilter,
};
use crate::status::{Reason, Refusal};

/// Where a filter stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Position {
    Rule,
    Backend,
}

/// Headers that make up the message or the connection: changing them would change what the next hop takes for the end of a
/// message, or for whom it is. The Host is for URLRewrite to change.
const FRAMING: [&str; 10] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    ":authority",
];

/// Translates the filters of a rule or of a backendRef, in their order, or says everything that keeps the rule from being
/// honored: one refusal can be about a reference, and another about the rule itself.
pub(crate) fn translate(
    filters: &[HttpFilter],
    position: Position,
    route: RouteKind,
    matches: &[RouteMatch],
) -> Result<Vec<Filter>, Vec<Refusal>> {
    let mut translated = Vec::with_capacity(filters.len());
    let mut refusals: Vec<Refusal> = together(filters).err().into_iter().collect();
    for filter in filters {
        match one(filter, position, route, matches) {
            Ok(filter) => translated.push(filter),
            Err(refusal) => refusals.push(refusal),
        }
    }
    if refusals.is_empty() { Ok(translated) } else { Err(refusals) }
}

/// Refuses filters that cannot stand in one list.
///
/// "Specifying the same filter multiple times is not supported unless explicitly indicated in the filter."
fn together(filters: &[HttpFilter]) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    let mut once = filters.iter().filter(|filter| !repeats(&filter.kind));
    if let Some(repeated) = once.find(|filter| !seen.insert(&filter.kind)) {
        return incompatible(format!("the filter {} is there twice: merge the two", repeated.kind));
    }
    let has = |kind| filters.iter().any(|filter| filter.kind == kind);
    if has(FilterType::RequestRedirect) && has(FilterType::UrlRewrite) {
        return incompatible(
            "RequestRedirect and URLRewrite cannot be used together: remove one of the two".into(),
        );
    }
    Ok(())
}

/// Whether a filter "can be used multiple times within the same rule".
fn repeats(kind: &FilterType) -> bool {
    matches!(kind, FilterType::RequestMirror | FilterType::ExtensionRef)
}

fn one(
    filter: &HttpFilter,
    position: Position,
    route: RouteKind,
    matches: &[RouteMatch],
) -> Result<Filter, Refusal> {
    known(&filter.unknown)?;
    paired(filter)?;
    let http = route == RouteKind::Http;
    let missing =
        || Reason::UnsupportedValue.because(format!("the filter {} has no settings: add them", filter.kind));
    match &filter.kind {
        FilterType::RequestHeaderModifier => {
            let settings = filter.request_header_modifier.as_ref().ok_or_else(missing)?;
            header_modifier(settings).map(Filter::RequestHeaderModifier)
        }
        FilterType::ResponseHeaderModifier => {
            let settings = filter.response_header_modifier.as_ref().ok_or_else(missing)?;
            header_modifier(settings).map(Filter::ResponseHeaderModifier)
        }
        FilterType::RequestRedirect if http && position == Position::Rule => {
            redirect(filter.request_redirect.as_ref().ok_or_else(missing)?, matches)
                .map(Filter::RequestRedirect)
        }
        FilterType::UrlRewrite if http => {
            rewrite(filter.url_rewrite.as_ref().ok_or_else(missing)?, matches).map(Filter::UrlRewrite)
        }
        FilterType::RequestRedirect | FilterType::UrlRewrite => {
            let place = if http { "a backendRef" } else { "a GRPCRoute" };
            unsupported(format!("the filter {} has no place in {place}: remove it", filter.kind))
        }
        FilterType::ExtensionRef => {
            let field =
                |name| filter.extension_ref.as_ref().and_then(|r| r.get(name)).and_then(|v| v.as_str());
            Err(Reason::InvalidKind.because(format!(
                "`extensionRef` names {} of group `{}`, which is no filter that is known: remove it",
                field("kind").unwrap_or("a kind"),
                field("group").unwrap_or_default()
            )))
        }
        FilterType::RequestMirror | FilterType::Cors | FilterType::ExternalAuth | FilterType::Unknown(_) => {
            unsupported(format!("the filter {} is not supported: remove it", filter.kind))
        }
    }
}

/// Refuses settings of another filter than the one that is named: it is unclear which of the two was meant.
fn paired(filter: &HttpFilter) -> Result<(), Refusal> {
    let present = [
        (FilterType::RequestHeaderModifier, filter.request_header_modifier.is_some()),
        (FilterType::ResponseHeaderModifier, filter.response_header_modifier.is_some()),
        (FilterType::RequestRedirect, filter.request_redirect.is_some()),
        (FilterType::UrlRewrite, filter.url_rewrite.is_some()),
        (FilterType::RequestMirror, filter.request_mirror.is_some()),
        (FilterType::Cors, filter.cors.is_some()),
        (FilterType::ExternalAuth, filter.external_auth.is_some()),
        (FilterType::ExtensionRef, filter.extension_ref.is_some()),
    ];
    match present.iter().find(|(kind, present)| *present && *kind != filter.kind) {
        Some((other, _)) => {
            unsupported(format!("a filter of type {} has settings of {other}: remove them", filter.kind))
        }
        None => Ok(()),
    }
}

fn header_modifier(wanted: &HeaderModifierFilter) -> Result<HeaderModifier, Refusal> {
    known(&wanted.unknown)?;
    let names = wanted.remove.iter().map(|name| header_name(name)).collect::<Result<BTreeSet<_>, _>>()?;
    Ok(HeaderModifier {
        set: headers(&wanted.set)?,
        add: headers(&wanted.add)?,
        remove: names.into_iter().collect(),
    })
}

/// Reads headers to set or add; of a name, the first counts.
fn headers(wanted: &[HttpHeader]) -> Result<Vec<HeaderValue>, Refusal> {
    let mut seen = BTreeSet::new();
    let mut headers = Vec::with_capacity(wanted.len());
    for header in wanted {
        let name = header_name(&header.name)?;
        if http::HeaderValue::from_str(&header.value).is_err() {
            return unsupported(format!(
                "the value for header `{name}` has characters that no header can have: remove them"
            ));
        }
        if seen.insert(name.clone()) {
            headers.push(HeaderValue { name, value: header.value.clone() });
        }
    }
    Ok(headers)
}

fn header_name(name: &str) -> Result<String, Refusal> {
    let lower = name.to_ascii_lowercase();
    if FRAMING.contains(&lower.as_str()) {
        let hint = if lower == "host" { "use URLRewrite" } else { "remove it" };
        return unsupported(format!("the header `{lower}` cannot be changed by a header modifier: {hint}"));
    }
    match http::HeaderName::from_bytes(lower.as_bytes()) {
        Ok(_) => Ok(lower),
        Err(_) => {
            unsupported(format!("`{name}` cannot be the name of a header: use letters, digits and `-`"))
        }
    }
}

fn redirect(wanted: &RequestRedirectFilter, matches: &[RouteMatch]) -> Result<RequestRedirect, Refusal> {
    known(&wanted.unknown)?;
    let scheme = match wanted.scheme.as_deref() {
        None => None,
        Some("http") => Some(Scheme::Http),
        Some("https") => Some(Scheme::Https),
        Some(other) => {
            return unsupported(format!(
                "the scheme `{other}` of a redirect is not supported: use http or https"
            ));
        }
    };
    let status_code = wanted.status_code.unwrap_or(302);
    if !matches!(status_code, 301 | 302 | 303 | 307 | 308) {
        return unsupported(format!(
            "the status {status_code} of a redirect is not supported: use 301, 302, 303, 307 or 308"
        ));
    }
    if wanted.port == Some(0) {
        return unsupported("the port 0 of a redirect does not exist: use 1 to 65535".into());
    }
    let path = wanted.path.as_ref().map(|path| path_modifier(path, matches)).transpose()?;
    Ok(RequestRedirect {
        scheme,
        hostname: hostname(wanted.hostname.as_deref())?,
        port: wanted.port,
        path,
        status_code,
    })
}

fn rewrite(wanted: &UrlRewriteFilter, matches: &[RouteMatch]) -> Result<UrlRewrite, Refusal> {
    known(&wanted.unknown)?;
    let path = wanted.path.as_ref().map(|path| path_modifier(path, matches)).transpose()?;
    let hostname = hostname(wanted.hostname.as_deref())?;
    if path.is_none() && hostname.is_none() {
        return unsupported("a URLRewrite needs a hostname or a path: add one".into());
    }
    Ok(UrlRewrite { hostname, path })
}

fn hostname(text: Option<&str>) -> Result<Option<Hostname>, Refusal> {
    match text.map(str::parse).transpose() {
        Ok(Some(Hostname::Wildcard(_))) => {
            unsupported("the hostname of a filter cannot be a wildcard: name one host".into())
        }
        Ok(hostname) => Ok(hostname),
        Err(e) => unsupported(format!("{e}")),
    }
}

fn path_modifier(wanted: &HttpPathModifier, matches: &[RouteMatch]) -> Result<PathModifier, Refusal> {
    known(&wanted.unknown)?;
    match (&wanted.kind, &wanted.replace_full_path, &wanted.replace_prefix_match) {
        (PathModifierType::ReplaceFullPath, Some(path), None) => {
            path_text(path).map(PathModifier::ReplaceFullPath)
        }
        (PathModifierType::ReplacePrefixMatch, None, Some(path)) => {
            if !matches.iter().all(|m| matches!(m.path, PathMatch::PathPrefix(_))) {
                return unsupported("ReplacePrefixMatch needs a PathPrefix in every match of its rule: it has no prefix to replace".into());
            }
            path_text(path).map(PathModifier::ReplacePrefixMatch)
        }
        (PathModifierType::Unknown(kind), ..) => unsupported(format!(
            "the path modifier `{kind}` is not supported: use ReplaceFullPath or ReplacePrefixMatch"
        )),
        (kind, ..) => {
            unsupported(format!("a path modifier of type {kind} needs the field of that name and no other"))
        }
    }
}

/// A path that may stand in a request line or a Location, with its leading slash written out.
fn path_text(text: &str) -> Result<String, Refusal> {
    let legal = text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#'));
    if !legal {
        return unsupported(format!(
            "the path {text:?} has characters that no path can have: percent-encode them"
        ));
    }
    Ok(if text.starts_with('/') { text.into() } else { format!("/{text}") })
}

fn known(fields: &UnknownFields) -> Result<(), Refusal> {
    match fields.keys().next() {
        Some(field) => unsupported(format!("the field `{field}` of a filter is not known: remove it")),
        None => Ok(()),
    }
}

fn unsupported<T>(message: String) -> Result<T, Refusal> {
    Err(Reason::UnsupportedValue.because(message))
}

fn incompatible<T>(message: String) -> Result<T, Refusal> {
    Err(Reason::IncompatibleFilters.because(message))
}
