//! What breaks the rules of HTTPRoute and GRPCRoute.

use super::Broken;

/// Rules of one filter: the type and the field of its settings.
macro_rules! filter {
    ($kind:literal, $field:literal, $settings:literal) => {
        [
            (
                concat!(
                    "filters:\n- type: ExtensionRef\n  extensionRef: {group: a, kind: A, name: a}\n  ",
                    $field,
                    ": ",
                    $settings
                ),
                10,
                concat!("filters[0].", $field),
                concat!("filter.", $field, " must be nil if the filter.type is not ", $kind),
            ),
            (
                concat!("filters:\n- type: ", $kind),
                8,
                "filters[0]",
                concat!("filter.", $field, " must be specified for ", $kind, " filter.type"),
            ),
        ]
    };
}

macro_rules! twice {
    ($kind:literal, $field:literal, $settings:literal) => {
        (
            concat!(
                "filters:\n- {type: ",
                $kind,
                ", ",
                $field,
                ": ",
                $settings,
                "}\n- {type: ",
                $kind,
                ", ",
                $field,
                ": ",
                $settings,
                "}"
            ),
            9,
            "filters[1]",
            concat!($kind, " filter cannot be repeated"),
        )
    };
}

macro_rules! path {
    ($value:literal, $message:literal) => {
        (concat!("matches:\n- path:\n    value: '", $value, "'"), 9, "matches[0].path.value", $message)
    };
}

const REQUEST: [Broken; 2] = filter!("RequestHeaderModifier", "requestHeaderModifier", "{}");
const RESPONSE: [Broken; 2] = filter!("ResponseHeaderModifier", "responseHeaderModifier", "{}");
const MIRROR: [Broken; 2] = filter!("RequestMirror", "requestMirror", "{backendRef: {name: a, port: 1}}");
const REDIRECT: [Broken; 2] = filter!("RequestRedirect", "requestRedirect", "{}");
const REWRITE: [Broken; 2] = filter!("URLRewrite", "urlRewrite", "{}");
const CORS: [Broken; 2] = filter!("CORS", "cors", "{}");
const AUTH: [Broken; 2] =
    filter!("ExternalAuth", "externalAuth", "{protocol: GRPC, grpc: {}, backendRef: {name: a, port: 1}}");

pub const HTTP_RULES: &[Broken] = &[
    REQUEST[0],
    REQUEST[1],
    RESPONSE[0],
    RESPONSE[1],
    MIRROR[0],
    MIRROR[1],
    REDIRECT[0],
    REDIRECT[1],
    REWRITE[0],
    REWRITE[1],
    CORS[0],
    CORS[1],
    AUTH[0],
    AUTH[1],
    (
        "filters:\n- type: CORS\n  cors: {}\n  extensionRef: {group: a, kind: A, name: a}",
        10,
        "filters[0].extensionRef",
        "filter.extensionRef must be nil if the filter.type is not ExtensionRef",
    ),
    (
        "filters:\n- type: ExtensionRef",
        8,
        "filters[0]",
        "filter.extensionRef must be specified for ExtensionRef filter.type",
    ),
    twice!("CORS", "cors", "{}"),
    twice!("RequestHeaderModifier", "requestHeaderModifier", "{}"),
    twice!("ResponseHeaderModifier", "responseHeaderModifier", "{}"),
    twice!("RequestRedirect", "requestRedirect", "{}"),
    twice!("URLRewrite", "urlRewrite", "{}"),
    (
        "filters:\n- {type: RequestRedirect, requestRedirect: {}}\n- {type: URLRewrite, urlRewrite: {}}",
        9,
        "filters[1]",
        "May specify either httpRouteFilterRequestRedirect or httpRouteFilterRequestRewrite, but not both",
    ),
    (
        "filters:\n- {type: RequestRedirect, requestRedirect: {}}\nbackendRefs: [{name: a, port: 1}]",
        7,
        "",
        "RequestRedirect filter must not be used together with backendRefs",
    ),
    (
        "matches: [{path: {type: Exact}}]\nfilters:\n- {type: RequestRedirect, requestRedirect: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}",
        7,
        "",
        "When using RequestRedirect filter with path.replacePrefixMatch, exactly one PathPrefix match must be specified",
    ),
    (
        "matches: [{}, {}]\nfilters:\n- {type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}",
        7,
        "",
        "When using URLRewrite filter with path.replacePrefixMatch, exactly one PathPrefix match must be specified",
    ),
    (
        "matches: []\nbackendRefs:\n- name: a\n  port: 1\n  filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]",
        9,
        "backendRefs[0]",
        "Within backendRefs, when using RequestRedirect filter with path.replacePrefixMatch, exactly one PathPrefix match must be specified",
    ),
    (
        "matches: []\nbackendRefs:\n- name: a\n  port: 1\n  filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]",
        9,
        "backendRefs[0]",
        "Within backendRefs, When using URLRewrite filter with path.replacePrefixMatch, exactly one PathPrefix match must be specified",
    ),
    ("backendRefs:\n- name: a", 8, "backendRefs[0]", "Must have port for Service reference"),
    (
        "backendRefs:\n- group: gateway.networking.x-k8s.io\n  kind: XBackend\n  name: a\n  port: 1",
        11,
        "backendRefs[0].port",
        "Must not have port for Backend reference",
    ),
    path!("a", "value must be an absolute path and start with '/' when type one of ['Exact', 'PathPrefix']"),
    path!("/a//b", "must not contain '//' when type one of ['Exact', 'PathPrefix']"),
    path!("/a/./b", "must not contain '/./' when type one of ['Exact', 'PathPrefix']"),
    path!("/a/../b", "must not contain '/../' when type one of ['Exact', 'PathPrefix']"),
    path!("/a%2f", "must not contain '%2f' when type one of ['Exact', 'PathPrefix']"),
    path!("/a%2F", "must not contain '%2F' when type one of ['Exact', 'PathPrefix']"),
    path!("/a#b", "must not contain '#' when type one of ['Exact', 'PathPrefix']"),
    path!("/a/..", "must not end with '/..' when type one of ['Exact', 'PathPrefix']"),
    path!("/a/.", "must not end with '/.' when type one of ['Exact', 'PathPrefix']"),
    path!(
        "/ü",
        "must only contain valid characters (matching ^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$) for types ['Exact', 'PathPrefix']"
    ),
    (
        "filters:\n- type: URLRewrite\n  urlRewrite: {path: {type: ReplaceFullPath}}",
        9,
        "filters[0].urlRewrite.path",
        "replaceFullPath must be specified when type is set to 'ReplaceFullPath'",
    ),
    (
        "filters:\n- type: URLRewrite\n  urlRewrite: {path: {type: ReplacePrefixMatch, replaceFullPath: /}}",
        9,
        "filters[0].urlRewrite.path.type",
        "type must be 'ReplaceFullPath' when replaceFullPath is set",
    ),
    (
        "filters:\n- type: URLRewrite\n  urlRewrite: {path: {type: ReplacePrefixMatch}}",
        9,
        "filters[0].urlRewrite.path",
        "replacePrefixMatch must be specified when type is set to 'ReplacePrefixMatch'",
    ),
    (
        "filters:\n- type: URLRewrite\n  urlRewrite: {path: {type: ReplaceFullPath, replacePrefixMatch: /}}",
        9,
        "filters[0].urlRewrite.path.type",
        "type must be 'ReplacePrefixMatch' when replacePrefixMatch is set",
    ),
    (
        "filters:\n- type: RequestMirror\n  requestMirror:\n    backendRef: {name: a, port: 1}\n    percent: 1\n    fraction: {numerator: 1}",
        9,
        "filters[0].requestMirror",
        "Only one of percent or fraction may be specified in HTTPRequestMirrorFilter",
    ),
    (
        "filters:\n- type: RequestMirror\n  requestMirror:\n    backendRef: {name: a, port: 1}\n    fraction:\n      numerator: 101",
        12,
        "filters[0].requestMirror.fraction.numerator",
        "numerator must be less than or equal to denominator",
    ),
    (
        "filters:\n- {type: CORS, cors: {allowOrigins: ['*', 'https://a.example']}}",
        8,
        "filters[0].cors.allowOrigins[0]",
        "AllowOrigins cannot contain '*' alongside other origins",
    ),
    (
        "filters:\n- {type: CORS, cors: {allowMethods: [GET, '*']}}",
        8,
        "filters[0].cors.allowMethods[1]",
        "AllowMethods cannot contain '*' alongside other methods",
    ),
    (
        "filters:\n- {type: CORS, cors: {allowHeaders: [a, '*']}}",
        8,
        "filters[0].cors.allowHeaders[1]",
        "AllowHeaders cannot contain '*' alongside other methods",
    ),
    (
        "filters:\n- type: ExternalAuth\n  externalAuth: {protocol: GRPC, backendRef: {name: a, port: 1}}",
        9,
        "filters[0].externalAuth",
        "grpc must be specified when protocol is set to 'GRPC'",
    ),
    (
        "filters:\n- type: ExternalAuth\n  externalAuth: {protocol: HTTP, http: {}, grpc: {}, backendRef: {name: a, port: 1}}",
        9,
        "filters[0].externalAuth.protocol",
        "protocol must be 'GRPC' when grpc is set",
    ),
    (
        "filters:\n- type: ExternalAuth\n  externalAuth: {protocol: HTTP, backendRef: {name: a, port: 1}}",
        9,
        "filters[0].externalAuth",
        "http must be specified when protocol is set to 'HTTP'",
    ),
    (
        "filters:\n- type: ExternalAuth\n  externalAuth: {protocol: GRPC, http: {}, grpc: {}, backendRef: {name: a, port: 1}}",
        9,
        "filters[0].externalAuth.protocol",
        "protocol must be 'HTTP' when http is set",
    ),
    (
        "timeouts:\n  request: 1s500ms\n  backendRequest: 1501ms",
        9,
        "timeouts.backendRequest",
        "backendRequest timeout cannot be longer than request timeout",
    ),
    (
        "sessionPersistence: {cookie: {lifetimeType: Permanent}}",
        7,
        "sessionPersistence",
        "AbsoluteTimeout must be specified when cookie lifetimeType is Permanent",
    ),
    (
        "sessionPersistence: {type: Header, header: {name: a}, cookie: {}}",
        7,
        "sessionPersistence.cookie",
        "cookie must be nil if type is not Cookie",
    ),
    ("sessionPersistence: {}", 7, "sessionPersistence", "cookie must be specified for Cookie type"),
    (
        "sessionPersistence: {cookie: {}, header: {name: a}}",
        7,
        "sessionPersistence.header",
        "header must be nil if type is not Header",
    ),
    (
        "sessionPersistence: {type: Header}",
        7,
        "sessionPersistence",
        "header must be specified for Header type",
    ),
];

pub const HTTP_SPECS: &[Broken] = &[
    (
        "parentRefs:\n- name: web\n- name: web\n  sectionName: a",
        8,
        "parentRefs[1]",
        "sectionName or port must be specified when parentRefs includes 2 or more references to the same parent",
    ),
    (
        "parentRefs:\n- {name: web, sectionName: a}\n- {name: web, sectionName: a, kind: Gateway}",
        8,
        "parentRefs[1]",
        "sectionName or port must be unique when parentRefs includes 2 or more references to the same parent",
    ),
    ("rules:\n- name: a\n- name: a", 8, "rules[1].name", "Rule name must be unique within the route"),
];

/// Sixty-four, sixty-four and one.
const TOO_MANY_MATCHES: &str = "rules:\n- matches: &all [
    {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},
    {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},
    {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},
    {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}]\n- matches: *all\n- matches: [{}]";

pub const GRPC_SPECS: &[Broken] = &[
    (
        "rules:\n- matches: [{method: {}}]",
        7,
        "rules[0].matches[0].method",
        "One or both of 'service' or 'method' must be specified",
    ),
    (
        "rules:\n- matches: [{method: {service: a/b}}]",
        7,
        "rules[0].matches[0].method.service",
        r"service must only contain valid characters (matching ^(?i)\.?[a-z_][a-z_0-9]*(\.[a-z_][a-z_0-9]*)*$)",
    ),
    (
        "rules:\n- matches: [{method: {method: 1a}}]",
        7,
        "rules[0].matches[0].method.method",
        "method must only contain valid characters (matching ^[A-Za-z_][A-Za-z_0-9]*$)",
    ),
    (
        TOO_MANY_MATCHES,
        6,
        "rules",
        "While 16 rules and 64 matches per rule are allowed, the total number of matches across all rules in a route must be less than 128",
    ),
];
