//! What finding a route costs, and what the table costs, in time and allocations.
//!
//! `cargo bench -p postern-config`. Requests are drawn at random, so that a large table is met outside the caches. The
//! memory a table keeps is what `build` allocates less what it frees.

use std::collections::BTreeMap;
use std::sync::Arc;

use divan::{AllocProfiler, Bencher, black_box};
use http::{HeaderMap, HeaderValue, Method};
use postern_config::routing::{Request, RouteTable};
use postern_config::{
    Attachment, Config, Fault, HeaderMatch, Listener, PathMatch, Protocol, Route, RouteMatch, RouteName,
    RouteRule, RuleAction, ValueMatch,
};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const SIZES: [usize; 3] = [100, 5_000, 40_000];

/// A host for each route, with the rules `/` and `/api/v1`.
mod host_for_each_route {
    use super::{Bencher, Config, SIZES, bench_build, bench_select, config_of, prefix, route};

    fn config(routes: usize) -> Config {
        config_of((0..routes).map(|i| {
            route(&format!("app-{i}.example.com"), vec![vec![prefix("/")], vec![prefix("/api/v1")]])
        }))
    }

    #[divan::bench(args = SIZES, sample_size = 1000, sample_count = 200)]
    fn select(bencher: Bencher<'_, '_>, routes: usize) {
        bench_select(bencher, &config(routes), routes, |i| {
            (format!("app-{i}.example.com"), "/api/v1/users/42".into())
        });
    }

    #[divan::bench(args = SIZES, sample_count = 10)]
    fn build(bencher: Bencher<'_, '_>, routes: usize) {
        bench_build(bencher, &config(routes));
    }
}

/// A wildcard host for each route, asked for two labels below.
mod wildcard_for_each_route {
    use super::{Bencher, SIZES, bench_select, config_of, prefix, route};

    #[divan::bench(args = SIZES, sample_size = 1000, sample_count = 200)]
    fn select(bencher: Bencher<'_, '_>, routes: usize) {
        let route = |i| route(&format!("*.team-{i}.example.com"), vec![vec![prefix("/")]]);
        bench_select(bencher, &config_of((0..routes).map(route)), routes, |i| {
            (format!("a.b.team-{i}.example.com"), "/api/v1/users/42".into())
        });
    }
}

/// One host, half of the routes exact, half of them prefixes of three segments, and a route for everything.
mod one_host_with_many_paths {
    use super::{Bencher, Config, SIZES, bench_build, bench_select, config_of, exact, prefix, route};

    fn config(routes: usize) -> Config {
        let path = |i: usize| match i % 2 {
            0 => prefix(&format!("/svc-{i}/api/v2")),
            _ => exact(&format!("/svc-{i}/api/v2/item")),
        };
        let everything = route("one.example.com", vec![vec![prefix("/")]]);
        config_of((0..routes).map(|i| route("one.example.com", vec![vec![path(i)]])).chain([everything]))
    }

    #[divan::bench(args = SIZES, sample_size = 1000, sample_count = 200)]
    fn select(bencher: Bencher<'_, '_>, routes: usize) {
        bench_select(bencher, &config(routes), routes, |i| {
            ("one.example.com".into(), format!("/svc-{i}/api/v2/item"))
        });
    }

    #[divan::bench(args = SIZES, sample_count = 10)]
    fn build(bencher: Bencher<'_, '_>, routes: usize) {
        bench_build(bencher, &config(routes));
    }
}

/// Twenty routes a host; on each host prefixes, some with a method or a header, and three expressions of its
/// own.
mod mixed {
    use super::{
        Bencher, Config, RouteTable, SIZES, bench_build, bench_select, config_of, expression, header, prefix,
        route,
    };

    fn config(routes: usize) -> Config {
        config_of((0..routes).map(|i| {
            let mut it = match i % 20 {
                0 => prefix("/"),
                n @ 1..=3 => expression(&format!("/r{n}/[a-z]+/[0-9]+(?:/{i})?")),
                n => prefix(&format!("/svc-{}/api", n / 2)),
            };
            match i % 4 {
                1 => it.method = Some("POST".into()),
                3 => it.headers = vec![header("x-env", "canary")],
                _ => {}
            }
            route(&format!("app-{}.example.com", i / 20), vec![vec![it]])
        }))
    }

    #[divan::bench(args = SIZES, sample_size = 1000, sample_count = 200)]
    fn select(bencher: Bencher<'_, '_>, routes: usize) {
        bench_select(bencher, &config(routes), routes, |i| {
            let path = match i % 20 {
                n @ 2..=3 => format!("/r{n}/users/12345"),
                n => format!("/svc-{}/api/users/12345", n / 2),
            };
            (format!("app-{}.example.com", i / 20), path)
        });
    }

    #[divan::bench(args = SIZES, sample_count = 10)]
    fn build(bencher: Bencher<'_, '_>, routes: usize) {
        bench_build(bencher, &config(routes));
    }

    /// The same with the expressions of the table before.
    #[divan::bench(args = SIZES, sample_count = 10)]
    fn rebuild(bencher: Bencher<'_, '_>, routes: usize) {
        let config = config(routes);
        let table = RouteTable::build(&config, |_, _, rule| rule.index);
        bencher.bench(|| table.rebuild(&config, |_, _, rule| rule.index));
    }
}

/// One path, rules that differ in the value of a header, and the last of them taken.
#[divan::bench(args = [8, 64], sample_size = 1000, sample_count = 200)]
fn select_by_header(bencher: Bencher<'_, '_>, rules: usize) {
    let rule = |i: usize| {
        let value = if i == rules { "prod".into() } else { format!("e{i}") };
        vec![RouteMatch { headers: vec![header("x-env", &value)], ..prefix("/p") }]
    };
    let config = config_of([route("one.example.com", (1..=rules).map(rule).collect())].into_iter());
    bench_select(bencher, &config, 1, |_| ("one.example.com".into(), "/p/x".into()));
}

/// One host with expressions alone.
#[divan::bench(args = [15, 50, 500], sample_size = 1000, sample_count = 200)]
fn select_by_expression(bencher: Bencher<'_, '_>, routes: usize) {
    let config = config_of(
        (0..routes)
            .map(|i| route("one.example.com", vec![vec![expression(&format!("/r{i}/[a-z]+/[0-9]+"))]])),
    );
    bench_select(bencher, &config, routes, |i| ("one.example.com".into(), format!("/r{i}/users/12345")));
}

fn bench_build(bencher: Bencher<'_, '_>, config: &Config) {
    bencher.bench(|| RouteTable::build(config, |_, _, rule| rule.index));
}

/// Listener and rule, for requests with five headers; `request` gives host and path of the n-th.
fn bench_select(
    bencher: Bencher<'_, '_>,
    config: &Config,
    requests: usize,
    request: impl Fn(usize) -> (String, String),
) {
    let table = RouteTable::build(config, |_, _, rule| rule.index);
    let port = table.port(80).expect("the configuration has a listener on port 80");
    let method = Method::GET;
    let headers = headers();
    let mut random = 12_345_u64;
    let next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let i = usize::try_from(random % requests as u64).expect("a number of requests is an index");
        request(i)
    };
    bencher.with_inputs(next).bench_local_refs(|(host, path)| {
        let request = Request { host, path, query: None, method: &method, headers: &headers };
        let listener = port.listener(black_box(request.host)).expect("it takes all hosts");
        *listener.select(black_box(&request)).expect("each request has a route").action
    });
}

fn headers() -> HeaderMap {
    let lines = [
        ("host", "one"),
        ("user-agent", "curl/8.5.0"),
        ("accept", "*/*"),
        ("x-env", "prod"),
        ("cookie", "a=b"),
    ];
    let line = |(name, value): (&str, &'static str)| {
        (name.parse().expect("a header name"), HeaderValue::from_static(value))
    };
    lines.map(line).into_iter().collect()
}

fn config_of(routes: impl Iterator<Item = Route>) -> Config {
    let name = |i| -> RouteName { format!("HTTPRoute/team/route-{i}").parse().expect("a name") };
    let listener = Listener { port: 80, protocol: Protocol::Http, hostname: None };
    Config {
        listeners: BTreeMap::from([("web".into(), Arc::new(listener))]),
        routes: routes.enumerate().map(|(i, route)| (name(i), Arc::new(route))).collect(),
        ..Config::default()
    }
}

fn route(hostname: &str, rules: Vec<Vec<RouteMatch>>) -> Route {
    let hostnames = vec![hostname.parse().expect("a hostname")];
    let action = RuleAction::Fail(Fault { reason: String::new(), message: String::new() });
    let rule = |(index, matches)| RouteRule { index, name: None, matches, action: action.clone() };
    Route {
        created: 0,
        attachments: vec![Attachment { listener: "web".into(), hostnames }],
        rules: rules.into_iter().enumerate().map(rule).collect(),
    }
}

fn prefix(path: &str) -> RouteMatch {
    RouteMatch { path: PathMatch::PathPrefix(path.into()), ..RouteMatch::default() }
}

fn exact(path: &str) -> RouteMatch {
    RouteMatch { path: PathMatch::Exact(path.into()), ..RouteMatch::default() }
}

fn expression(path: &str) -> RouteMatch {
    RouteMatch { path: PathMatch::RegularExpression(path.into()), ..RouteMatch::default() }
}

fn header(name: &str, value: &str) -> HeaderMatch {
    HeaderMatch { name: name.into(), value: ValueMatch::Exact(value.into()) }
}
