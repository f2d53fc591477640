//! What holds for every configuration and every request.

mod support;

use std::cmp::Reverse;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use postern_config::routing::RouteTable;
use postern_config::routing::path::normalize;
use postern_config::{
    Attachment, Config, HeaderMatch, Hostname, PathMatch, Route, RouteMatch, RouteName, RouteRule, ValueMatch,
};
use proptest::prelude::*;
use proptest::sample::{select as one_of, subsequence};

use support::{Ask, explain, expression, http_listener, listener, nothing, prefix, route, select, table};

const HOSTNAMES: [&str; 6] = ["*.a", "b.a", "*.b.a", "c.b.a", "a", "*.c.b.a"];
const LISTENERS: [(&str, u16, Option<&str>); 4] =
    [("all", 80, None), ("wild", 80, Some("*.a")), ("exact", 80, Some("b.a")), ("other", 81, None)];

fn hostname(text: &str) -> Hostname {
    text.parse().expect("a hostname")
}

fn path_match() -> impl Strategy<Value = PathMatch> {
    let paths: &'static [_] = &["/", "/a", "/a/", "/a/b", "/ab", "/%61/b", "/a/b/c", "/b"];
    let expressions: &'static [_] =
        &["/a.*", "/.", "(", "/a/[ab]", ".*", "/a|/b", "/b/?", "/ab?", "a", "/(a|b)/.", "[^b]*", "/c"];
    prop_oneof![
        1 => one_of(paths).prop_map(|path| PathMatch::Exact(path.into())),
        1 => one_of(paths).prop_map(|path| PathMatch::PathPrefix(path.into())),
        2 => one_of(expressions).prop_map(|path| PathMatch::RegularExpression(path.into())),
    ]
}

fn value_matches(names: &'static [&'static str]) -> impl Strategy<Value = Vec<HeaderMatch>> {
    let value = prop_oneof![
        one_of(&["1", "2", "1,2"][..]).prop_map(|value| ValueMatch::Exact(value.into())),
        one_of(&["[12]", "1.*", "("][..]).prop_map(|value| ValueMatch::RegularExpression(value.into())),
    ];
    let few = prop_oneof![3 => Just(vec![]), 1 => subsequence(names, 1..=names.len())];
    few.prop_flat_map(move |names| {
        let condition = |name: &str| {
            let name = name.to_owned();
            value.clone().prop_map(move |value| HeaderMatch { name: name.clone(), value })
        };
        names.into_iter().map(condition).collect::<Vec<_>>()
    })
}

fn route_match() -> impl Strategy<Value = RouteMatch> {
    let method = prop::option::weighted(0.2, one_of(&["GET", "POST"][..]).prop_map(String::from));
    (path_match(), method, value_matches(&["x", "y"]), value_matches(&["q", "r"]))
        .prop_map(|(path, method, headers, query)| RouteMatch { path, method, headers, query })
}

fn any_route() -> impl Strategy<Value = Route> {
    let hostnames = subsequence(&HOSTNAMES[..], 0..3);
    let attachments = subsequence(&LISTENERS[..], 1..4).prop_flat_map(move |listeners| {
        let attachment = |(listener, _, _): (&'static str, u16, Option<&str>)| {
            hostnames.clone().prop_map(move |hostnames| Attachment {
                listener: listener.into(),
                hostnames: hostnames.into_iter().map(hostname).collect(),
            })
        };
        listeners.into_iter().map(attachment).collect::<Vec<_>>()
    });
    let rules = prop::collection::vec(prop::collection::vec(route_match(), 1..10), 1..4);
    (0..2i64, attachments, rules).prop_map(|(created, attachments, rules)| {
        let rule = |(index, matches)| RouteRule { index, name: None, matches, action: nothing() };
        Route { created, attachments, rules: rules.into_iter().enumerate().map(rule).collect() }
    })
}

fn config() -> impl Strategy<Value = Config> {
    let names: &'static [_] =
        &["HTTPRoute/m/a", "HTTPRoute/m/b", "HTTPRoute/n/a", "GRPCRoute/m/a", "GRPCRoute/a/z"];
    subsequence(names, 0..=5)
        .prop_flat_map(|names| {
            let named = |name: &str| (Just(name.parse().expect(name)), any_route().prop_map(Arc::new));
            names.into_iter().map(named).collect::<Vec<_>>()
        })
        .prop_map(|routes| Config {
            listeners: LISTENERS
                .map(|(name, port, host)| (name.into(), http_listener(port, host.map(hostname))))
                .into(),
            routes: routes.into_iter().collect(),
            ..Config::default()
        })
}

fn ask() -> impl Strategy<Value = Ask> {
    let hosts: &'static [_] = &["a", "b.a", "c.b.a", "d.c.b.a", "d.b.a", "x.a", "x", "", "B.a.:80", "..b.a"];
    let paths: &'static [_] = &[
        "/",
        "/a",
        "/a/",
        "/a/b",
        "/ab",
        "//a",
        "/a//b/c",
        "/A",
        "*",
        "/x/../a/b",
        "/b",
        "/%61b",
        "/b/",
        "/a/a",
    ];
    let values = || prop::collection::vec(one_of(&["1", "2", "3", "%31"][..]), 0..3);
    let method = one_of(vec![Method::GET, Method::POST]);
    (one_of(hosts), one_of(paths), method, values(), values(), values()).prop_map(
        |(host, path, method, x, y, q)| {
            let mut headers = HeaderMap::new();
            for (name, values) in [("x", x), ("y", y)] {
                for value in values {
                    headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
                }
            }
            let query = (!q.is_empty())
                .then(|| q.iter().map(|value| format!("q={value}")).collect::<Vec<_>>().join("&"));
            Ask { host: host.into(), path: path.into(), query, method, headers }
        },
    )
}

/// Names what was selected, without the table it is from.
fn selected(config: &Config, port: u16, ask: &Ask) -> Option<(String, usize, usize, Option<Hostname>)> {
    let table = table(config);
    let found = select(&table, port, ask)?;
    Some((
        found.route().to_string(),
        found.rule().rule().index,
        found.match_index(),
        found.hostname().cloned(),
    ))
}

/// The specification's words, read off a configuration without any table: all that match, sorted.
fn reference(config: &Config, port: u16, ask: &Ask) -> Option<(String, usize, usize, Option<Hostname>)> {
    ask.with(|request| {
        let claims =
            |hostname: Option<&Hostname>| hostname.is_none_or(|hostname| hostname.matches(request.host));
        let on_port = config.listeners.iter().filter(|(_, listener)| listener.port == port);
        let (listener, _) = on_port
            .filter(|(_, listener)| claims(listener.hostname.as_ref()))
            .max_by_key(|(_, listener)| specificity(listener.hostname.as_ref()))?;
        let mut matching = Vec::new();
        for (name, route) in &config.routes {
            for attachment in route.attachments.iter().filter(|attachment| attachment.listener == *listener) {
                let own = attachment.hostnames.iter().map(Some);
                for hostname in
                    own.chain(attachment.hostnames.is_empty().then_some(None)).filter(|h| claims(*h))
                {
                    for (rule, (index, wanted)) in route
                        .rules
                        .iter()
                        .flat_map(|rule| rule.matches.iter().enumerate().map(move |m| (rule, m)))
                    {
                        if matches_request(wanted, ask, request.path) {
                            let (exact, characters) = specificity(hostname);
                            let key = (
                                (!exact, Reverse(characters)),
                                path_order(&wanted.path),
                                wanted.method.is_none(),
                                Reverse(wanted.headers.len()),
                                Reverse(wanted.query.len()),
                                (route.created, &name.key.namespace, &name.key.name, name.kind),
                                rule.index,
                                index,
                            );
                            matching.push((key, (name.to_string(), rule.index, index, hostname.cloned())));
                        }
                    }
                }
            }
        }
        matching.into_iter().min_by(|a, b| a.0.cmp(&b.0)).map(|(_, found)| found)
    })
}

fn specificity(hostname: Option<&Hostname>) -> (bool, usize) {
    let Some(hostname) = hostname else { return (false, 0) };
    (!hostname.is_wildcard(), hostname.to_string().len())
}

fn path_order(path: &PathMatch) -> (u8, Reverse<usize>) {
    match path {
        PathMatch::Exact(_) => (0, Reverse(0)),
        PathMatch::PathPrefix(prefix) => match segments(&normalize(prefix)).join("/").len() {
            0 => (3, Reverse(0)),
            characters => (1, Reverse(characters)),
        },
        PathMatch::RegularExpression(_) => (2, Reverse(0)),
    }
}

fn segments(path: &str) -> Vec<String> {
    path.split('/').filter(|segment| !segment.is_empty()).map(String::from).collect()
}

fn whole(pattern: &str, text: &str) -> bool {
    regex_automata::meta::Regex::new(&format!(r"\A(?:{pattern})\z")).is_ok_and(|regex| regex.is_match(text))
}

fn matches_request(wanted: &RouteMatch, ask: &Ask, path: &str) -> bool {
    let rooted = path.starts_with('/');
    let has_end = |path: &str| path.ends_with('/');
    let path_holds = match &wanted.path {
        PathMatch::Exact(exact) => {
            let exact = normalize(exact);
            rooted && segments(&exact) == segments(path) && has_end(&exact) == has_end(path)
        }
        PathMatch::PathPrefix(prefix) => {
            let prefix = segments(&normalize(prefix));
            prefix.is_empty() || (rooted && segments(path).starts_with(&prefix))
        }
        PathMatch::RegularExpression(pattern) => whole(pattern, &path.replace("//", "/")),
    };
    let value_holds = |value: &ValueMatch, found: Option<String>| match (value, found) {
        (_, None) => false,
        (ValueMatch::Exact(value), Some(found)) => *value == found,
        (ValueMatch::RegularExpression(pattern), Some(found)) => whole(pattern, &found),
    };
    let header = |name: &str| {
        let lines: Vec<_> =
            ask.headers.get_all(name).iter().map(|line| line.to_str().expect("text")).collect();
        (!lines.is_empty()).then(|| lines.join(","))
    };
    let query = |name: &str| {
        let entries = ask.query.as_deref()?.split('&').map(|entry| entry.split_once('=').expect("a value"));
        entries.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value.replace("%31", "1"))
    };
    path_holds
        && wanted.method.as_ref().is_none_or(|method| *method == ask.method.as_str())
        && wanted.headers.iter().all(|condition| value_holds(&condition.value, header(&condition.name)))
        && wanted.query.iter().all(|condition| value_holds(&condition.value, query(&condition.name)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_selected_is_what_wins_in_the_explanation(config in config(), asks in prop::collection::vec(ask(), 8)) {
        let table = table(&config);
        for ask in &asks {
            let Some(listener) = listener(&table, 80, ask) else { continue };
            let explained = explain(listener, ask).winner();
            let selected = select(&table, 80, ask);
            prop_assert_eq!(selected.map(std::ptr::from_ref), explained.map(std::ptr::from_ref), "{:?}", ask);
            prop_assert_eq!(explain(listener, ask).judgements.len(), listener.candidates().count());
        }
    }

    #[test]
    fn what_is_selected_is_the_first_of_all_that_match(config in config(), asks in prop::collection::vec(ask(), 8)) {
        for ask in &asks {
            for port in [80, 81, 82] {
                prop_assert_eq!(selected(&config, port, ask), reference(&config, port, ask), "{:?}", ask);
            }
        }
    }

    #[test]
    fn the_order_of_attachments_and_hostnames_changes_nothing(config in config(), ask in ask()) {
        let mut turned = config.clone();
        for route in turned.routes.values_mut().map(Arc::make_mut) {
            route.attachments.reverse();
            for attachment in &mut route.attachments {
                attachment.hostnames.reverse();
            }
        }
        prop_assert_eq!(selected(&config, 80, &ask), selected(&turned, 80, &ask));
    }

    #[test]
    fn a_rebuilt_table_is_as_a_new_one(
        before in config(), after in config(), taken in any::<u64>(), ask in ask(),
    ) {
        // Some routes stay, some change, some go and some come.
        let mut now = before.clone();
        for (index, name) in before.routes.keys().chain(after.routes.keys()).enumerate() {
            if taken >> (index % 64) & 1 == 1 {
                match after.routes.get(name) {
                    Some(route) => drop(now.routes.insert(name.clone(), Arc::clone(route))),
                    None => drop(now.routes.remove(name)),
                }
            }
        }
        let action = |name: &RouteName, _: &Route, rule: &RouteRule| format!("{} rule {}", name.key, rule.index);
        let rebuilt = table(&before).rebuild(&now, action);
        let fresh = table(&now);
        let found = |table| select(table, 80, &ask).map(|found| (found.route().to_string(), found.rank().match_index));
        prop_assert_eq!(found(&rebuilt), found(&fresh));
        let all = |table: &RouteTable<String>| -> Vec<String> {
            let listeners = table.ports().flat_map(|(_, port)| port.listeners());
            listeners.flat_map(|listener| listener.candidates().map(|candidate| format!("{candidate:?}"))).collect()
        };
        prop_assert_eq!(all(&rebuilt), all(&fresh));
    }

    #[test]
    fn a_neighbour_changes_nothing(config in config(), ask in ask()) {
        let mut more = config.clone();
        let mut unrelated = route(&["z.z"], [vec![prefix("/")]]);
        let mut broken = route(&[], [vec![expression("("), expression("((a{1,1000}){1,1000}){1,1000}")]]);
        for (neighbour, name) in [(&mut unrelated, "HTTPRoute/a/a"), (&mut broken, "HTTPRoute/a/b")] {
            neighbour.created = -1;
            let attachment = neighbour.attachments[0].clone();
            neighbour.attachments =
                LISTENERS.map(|(name, _, _)| Attachment { listener: name.into(), ..attachment.clone() }).into();
            more.routes.insert(name.parse().expect(name), Arc::new(neighbour.clone()));
        }
        prop_assert_eq!(selected(&config, 80, &ask), selected(&more, 80, &ask));
    }

    #[test]
    fn a_matched_prefix_can_be_replaced(config in config(), ask in ask()) {
        let table = table(&config);
        if let Some(candidate) = select(&table, 80, &ask) {
            let is_prefix = matches!(candidate.matches().path, PathMatch::PathPrefix(_));
            let rest = ask.with(|request| candidate.after_prefix(request.path).map(String::from));
            prop_assert_eq!(rest.is_some(), is_prefix);
        }
    }

    #[test]
    fn normalizing_a_path_twice_is_once(path in "/[/.%2eE6fF1aAé]{0,24}") {
        let once = normalize(&path);
        prop_assert_eq!(normalize(&once), &*once);
        prop_assert!(once.starts_with('/'));
        prop_assert!(!once.split('/').any(|segment| segment == "." || segment == ".."));
    }
}
