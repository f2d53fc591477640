//! The specification's sentences on which match takes a request, one test each.

mod support;

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use postern_config::routing::{Condition, Outcome};
use postern_config::{Config, HeaderMatch, PathMatch, Route, RouteMatch, RouteName, ValueMatch};

use support::{Ask, explain, expression, http_listener, listener, prefix, route, select, table};

/// `GET http://HOST/PATH?QUERY`, written without the scheme.
fn get(url: &str) -> Ask {
    let (url, query) = url.split_once('?').map_or((url, None), |(url, query)| (url, Some(query.to_owned())));
    let (host, path) = url.split_at(url.find('/').expect("the URL has a path"));
    Ask { host: host.into(), path: path.into(), query, method: Method::GET, headers: HeaderMap::new() }
}

impl Ask {
    fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        let name: HeaderName = name.parse().expect("a header name");
        self.headers.append(name, HeaderValue::from_str(value).expect("a header value"));
        self
    }
}

/// One listener `web` for all hosts on port 80, and these HTTPRoutes.
fn web<const N: usize>(routes: [(&str, Route); N]) -> Config {
    let name = |key: &str| -> RouteName { format!("HTTPRoute/{key}").parse().expect(key) };
    Config {
        listeners: [("web".into(), http_listener(80, None))].into(),
        routes: routes.into_iter().map(|(key, route)| (name(key), Arc::new(route))).collect(),
        ..Config::default()
    }
}

fn exact(path: &str) -> RouteMatch {
    RouteMatch { path: PathMatch::Exact(path.into()), ..RouteMatch::default() }
}

fn on_method(mut it: RouteMatch, method: &str) -> RouteMatch {
    it.method = Some(method.into());
    it
}

fn on_header(mut it: RouteMatch, name: &str, value: &str) -> RouteMatch {
    it.headers.push(HeaderMatch { name: name.into(), value: ValueMatch::Exact(value.into()) });
    it
}

fn on_query(mut it: RouteMatch, name: &str, value: &str) -> RouteMatch {
    it.query.push(HeaderMatch { name: name.into(), value: ValueMatch::Exact(value.into()) });
    it
}

/// Who takes the request, and why before the next.
#[track_caller]
fn assert_taken(config: &Config, ask: &Ask, expected: Option<&str>, because: Option<&str>) {
    let table = table(config);
    let selected = select(&table, 80, ask);
    assert_eq!(selected.map(|candidate| candidate.rule().action().as_str()), expected, "{ask:?}");
    let listener = listener(&table, 80, ask).expect("the port has a listener for the host");
    let runner_up = explain(listener, ask).runner_up().map(|(_, advantage)| advantage.to_string());
    assert_eq!(runner_up.as_deref(), because, "{ask:?}");
}

#[track_caller]
fn assert_rule(config: &Config, ask: &Ask, rule: Option<usize>) {
    let table = table(config);
    let selected = select(&table, 80, ask);
    assert_eq!(selected.map(|candidate| candidate.rule().rule().index), rule, "{ask:?}");
}

#[test]
fn characters_in_a_matching_non_wildcard_hostname() {
    let config = web([
        ("a/wild", route(&["*.example.com"], [vec![exact("/x")]])),
        ("b/exact", route(&["a.example.com"], [vec![prefix("/")]])),
    ]);
    assert_taken(&config, &get("a.example.com/x"), Some("b/exact rule 0"), Some("exact hostname"));
    assert_taken(&config, &get("b.example.com/x"), Some("a/wild rule 0"), None);
    assert_taken(&config, &get("example.com/x"), None, None);
}

#[test]
fn characters_in_a_matching_hostname() {
    let config = web([
        ("a/none", route(&[], [vec![exact("/x")]])),
        ("b/short", route(&["*.com"], [vec![exact("/x")]])),
        ("c/long", route(&["*.example.com"], [vec![prefix("/")]])),
    ]);
    assert_taken(&config, &get("a.example.com/x"), Some("c/long rule 0"), Some("longer hostname"));
    assert_taken(&config, &get("example.com/x"), Some("b/short rule 0"), Some("longer hostname"));
    assert_taken(&config, &get("example.org/x"), Some("a/none rule 0"), None);
}

#[test]
fn precedence_uses_the_original_hostnames_of_the_route_and_falls_through() {
    // Both routes meet the listener in very.specific.com; GatewayRouteHostnameIntersectionPrecedence.
    let mut config = web([
        ("a/old", route(&["*.specific.com"], [vec![prefix("/long/prefix")]])),
        (
            "b/new",
            route(&["very.specific.com"], [vec![prefix("/long")], vec![on_header(prefix("/"), "x", "1")]]),
        ),
    ]);
    let hostname = Some("very.specific.com".parse().expect("a hostname"));
    config.listeners.insert("web".into(), http_listener(80, hostname));
    let specific = get("very.specific.com/long/prefix");
    assert_taken(&config, &specific, Some("b/new rule 0"), Some("exact hostname"));
    let mut other = config.clone();
    let rules = [vec![on_method(prefix("/long"), "POST")]];
    other
        .routes
        .insert("HTTPRoute/b/new".parse().expect("a name"), Arc::new(route(&["very.specific.com"], rules)));
    assert_taken(&other, &specific, Some("a/old rule 0"), None);
}

#[test]
fn exact_path_match() {
    let longer = [vec![on_header(on_method(prefix("/path"), "GET"), "x", "1")], vec![exact("/path")]];
    let config = web([("a/a", route(&[], longer))]);
    assert_taken(&config, &get("h/path").header("x", "1"), Some("a/a rule 1"), Some("exact path"));
}

#[test]
fn an_exact_path_is_the_whole_path_with_case() {
    let config = web([("a/a", route(&[], [vec![exact("/one")], vec![exact("/two/")]]))]);
    assert_rule(&config, &get("h/one"), Some(0));
    assert_rule(&config, &get("h/two/"), Some(1));
    for other in ["h/", "h/one/", "h/one/example", "h/One", "h/two"] {
        assert_rule(&config, &get(other), None);
    }
}

#[test]
fn prefix_path_match_with_largest_number_of_characters() {
    let config = web([(
        "a/a",
        route(&[], [vec![prefix("/")], vec![prefix("/match/")], vec![prefix("/match/exact")]]),
    )]);
    assert_taken(&config, &get("h/match/exact/x"), Some("a/a rule 2"), Some("longer prefix"));
    assert_taken(&config, &get("h/match/x"), Some("a/a rule 1"), Some("longer prefix"));
    assert_taken(&config, &get("h/match"), Some("a/a rule 1"), Some("longer prefix"));
    assert_taken(&config, &get("h/matchless"), Some("a/a rule 0"), None);
}

#[test]
fn a_trailing_slash_of_a_prefix_is_ignored() {
    let config = web([("a/a", route(&[], [vec![prefix("/match")], vec![prefix("/match/")]]))]);
    assert_taken(&config, &get("h/match"), Some("a/a rule 0"), Some("rule order"));
    assert_taken(&config, &get("h/match/"), Some("a/a rule 0"), Some("rule order"));
}

#[test]
fn a_prefix_is_whole_segments() {
    let config = web([("a/a", route(&[], [vec![prefix("/api")], vec![prefix("/v2/é")]]))]);
    for taken in ["h/api", "h/api/", "h/api/v1"] {
        assert_rule(&config, &get(taken), Some(0));
    }
    for other in ["h/apis", "h/ap", "h/API", "h/", "h/x/api"] {
        assert_rule(&config, &get(other), None);
    }
}

#[test]
fn expressions_stand_after_prefixes_and_before_the_prefix_of_everything() {
    let rules = [vec![on_method(prefix("/"), "GET")], vec![expression("/api/[0-9]+")], vec![prefix("/api")]];
    let config = web([("a/a", route(&[], rules))]);
    let everything = Some("regular expression before prefix `/`");
    assert_taken(&config, &get("h/api/42"), Some("a/a rule 2"), Some("prefix before regular expression"));
    let without_prefix = [vec![on_method(prefix("/"), "GET")], vec![expression("/api/[0-9]+")]];
    let config = web([("a/a", route(&[], without_prefix))]);
    assert_taken(&config, &get("h/api/42"), Some("a/a rule 1"), everything);
    assert_taken(&config, &get("h/api/42/x"), Some("a/a rule 0"), None);
    assert_taken(&config, &get("h/x/api/42"), Some("a/a rule 0"), None);
}

#[test]
fn method_match() {
    let rules =
        [vec![on_header(on_header(prefix("/"), "x", "1"), "y", "1")], vec![on_method(prefix("/"), "PUT")]];
    let config = web([("a/a", route(&[], rules))]);
    let ask = get("h/").header("x", "1").header("y", "1");
    assert_taken(&config, &ask.clone().method(Method::PUT), Some("a/a rule 1"), Some("method"));
    assert_taken(&config, &ask, Some("a/a rule 0"), None);
}

#[test]
fn largest_number_of_header_matches() {
    let one = on_query(on_query(on_header(prefix("/"), "x", "1"), "a", "1"), "b", "1");
    let two = on_header(on_header(prefix("/"), "x", "1"), "y", "1");
    let config = web([("a/a", route(&[], [vec![one], vec![two]]))]);
    let ask = get("h/?a=1&b=1").header("X", "1").header("y", "1");
    assert_taken(&config, &ask, Some("a/a rule 1"), Some("more headers"));
}

#[test]
fn largest_number_of_query_param_matches() {
    let one = on_query(prefix("/"), "a", "1");
    let two = on_query(one.clone(), "b", "1");
    let config = web([("a/a", route(&[], [vec![one], vec![two]]))]);
    assert_taken(&config, &get("h/?a=1&b=1"), Some("a/a rule 1"), Some("more query parameters"));
    assert_taken(&config, &get("h/?a=1&b=2"), Some("a/a rule 0"), None);
}

#[test]
fn the_oldest_route_based_on_creation_timestamp() {
    let mut young = route(&[], [vec![prefix("/")]]);
    young.created = 2;
    let config = web([("a/young", young), ("b/old", route(&[], [vec![prefix("/")]]))]);
    assert_taken(&config, &get("h/"), Some("b/old rule 0"), Some("older route"));
}

#[test]
fn the_route_appearing_first_in_alphabetical_order_by_namespace_and_name() {
    let same = || route(&[], [vec![prefix("/")]]);
    let config = web([("a/z", same()), ("b/a", same()), ("a/y", same())]);
    assert_taken(&config, &get("h/"), Some("a/y rule 0"), Some("name"));
}

#[test]
fn the_first_matching_rule_in_list_order() {
    // HTTPRouteRuleOrder: the same headers in another order are a tie.
    let first = on_header(on_header(prefix("/"), "x", "1"), "y", "1");
    let second = on_header(on_header(prefix("/"), "y", "1"), "x", "1");
    let config = web([("a/a", route(&[], [vec![first], vec![second.clone(), second]]))]);
    assert_taken(
        &config,
        &get("h/").header("x", "1").header("y", "1"),
        Some("a/a rule 0"),
        Some("rule order"),
    );
}

#[test]
fn any_of_the_matches_of_a_rule_is_enough() {
    let rules = [vec![on_header(prefix("/foo"), "version", "v2"), prefix("/v2/foo")]];
    let config = web([("a/a", route(&[], rules))]);
    assert_rule(&config, &get("h/v2/foo"), Some(0));
    assert_rule(&config, &get("h/foo").header("version", "v2"), Some(0));
    assert_rule(&config, &get("h/foo"), None);
}

#[test]
fn only_the_most_specific_listener_is_asked() {
    let mut config = web([("a/a", route(&[], [vec![prefix("/web")]]))]);
    let wildcard = Some("*.example.com".parse().expect("a hostname"));
    config.listeners.insert("wild".into(), http_listener(80, wildcard));
    assert_rule(&config, &get("example.com/web"), Some(0));
    assert_rule(&config, &get("a.example.com/web"), None);
}

#[test]
fn no_spelling_of_a_path_gets_around_a_route() {
    let config = web([("a/a", route(&[], [vec![prefix("/")], vec![prefix("/admin")], vec![exact("/key")]]))]);
    for spelled in
        ["h/%61dmin/x", "h//admin", "h/x/../admin", "h/x/%2e%2E/admin/", "h/./admin//x", "h///%61dmin"]
    {
        assert_rule(&config, &get(spelled), Some(1));
    }
    assert_rule(&config, &get("h//key"), Some(2));
    assert_rule(&config, &get("h/admin%2Fx"), Some(0));
}

#[test]
fn an_explanation_tells_what_was_expected_and_found() {
    let rules = [
        vec![on_header(prefix("/api"), "x-env", "prod")],
        vec![on_query(prefix("/"), "a", "1")],
        vec![exact("/other")],
        vec![on_method(prefix("/"), "PUT")],
        vec![prefix("/")],
    ];
    let config =
        web([("a/a", route(&["*.example.com"], rules)), ("b/b", route(&["b.com"], [vec![prefix("/")]]))]);
    let table = table(&config);
    let ask = get("a.example.com/api?a=2").header("x-env", "test");
    let explanation = explain(listener(&table, 80, &ask).expect("a listener"), &ask);
    let told = |judgement: &postern_config::routing::Judgement<'_, String>| {
        (judgement.candidate.rule().action().clone(), judgement.outcome.to_string())
    };
    let told: Vec<_> = explanation.judgements.iter().map(told).collect();
    let expected = [
        ("b/b rule 0", "host: expected b.com, found a.example.com"),
        ("a/a rule 2", "path: expected exactly /other, found /api"),
        ("a/a rule 0", "header x-env: expected prod, found test"),
        ("a/a rule 3", "method: expected PUT, found GET"),
        ("a/a rule 1", "query parameter a: expected 1, found 2"),
        ("a/a rule 4", "matched"),
    ];
    assert_eq!(told, expected.map(|(rule, outcome)| (rule.to_owned(), outcome.to_owned())));
    let Outcome::Mismatch(mismatch) = &explanation.judgements[2].outcome else { panic!("it mismatches") };
    assert_eq!(mismatch.condition, Condition::Header("x-env".into()));
}
