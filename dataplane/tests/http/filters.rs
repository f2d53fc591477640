//! Every filter, alone and together.

use serde_json::{Value, json};

use super::common::{Backend, Gateway, certificate, config, filtered, handshake, rule};

fn gateway(filters: Value) -> (Gateway, Backend) {
    under("/", filters)
}

fn under(path: &str, filters: Value) -> (Gateway, Backend) {
    let backend = Backend::echo();
    let gateway =
        Gateway::start(&[filtered(path, "shop/web:80", filters)], &[("shop/web:80", backend.address())]);
    (gateway, backend)
}

#[test]
fn request_header_modifier_sets_adds_and_removes() {
    let (gateway, backend) = gateway(json!([{
        "type": "requestHeaderModifier",
        "set": [{ "name": "x-set", "value": "new" }, { "name": "x-set-new", "value": "new" }, { "name": "host", "value": "no" }],
        "add": [{ "name": "x-add", "value": "two" }, { "name": "x-add-new", "value": "new" }],
        "remove": ["x-gone", "x-never"],
    }]));
    gateway.ask("GET / HTTP/1.1\r\nHost: a\r\nX-Set: old\r\nX-Set: older\r\nX-Add: one\r\nX-Gone: 1\r\nX-Kept: 1\r\n\r\n");
    let seen = &backend.seen()[0];
    for (name, values) in [
        ("x-set", &["new"][..]),
        ("x-set-new", &["new"]),
        ("x-add", &["one", "two"]),
        ("x-add-new", &["new"]),
        ("x-gone", &[]),
        ("x-kept", &["1"]),
        ("host", &["a"]),
    ] {
        assert_eq!(seen.header(name), values, "{name}");
    }
}

#[test]
fn a_client_cannot_have_what_a_filter_sets_removed() {
    let (gateway, backend) = gateway(
        json!([{ "type": "requestHeaderModifier", "set": [{ "name": "x-user", "value": "alice" }] }]),
    );
    assert_eq!(
        gateway.ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: x-user\r\nX-User: bob\r\n\r\n").status,
        200
    );
    assert_eq!(backend.seen()[0].header("x-user"), ["alice"]);
}

#[test]
fn response_header_modifier_sets_adds_and_removes() {
    let backend = Backend::start(|mut peer| {
        while peer.request().is_some() {
            peer.send(
                "HTTP/1.1 200 OK\r\nX-Set: old\r\nX-Add: one\r\nX-Gone: 1\r\nContent-Length: 2\r\n\r\nok",
            );
        }
    });
    let filters = json!([{
        "type": "responseHeaderModifier",
        "set": [{ "name": "x-set", "value": "new" }],
        "add": [{ "name": "x-add", "value": "two" }],
        "remove": ["x-gone"],
    }]);
    let gateway =
        Gateway::start(&[filtered("/", "shop/web:80", filters)], &[("shop/web:80", backend.address())]);
    let answer = gateway.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.body, "ok");
    for (name, values) in [("x-set", &["new"][..]), ("x-add", &["one", "two"]), ("x-gone", &[])] {
        assert_eq!(answer.headers(name), values, "{name}");
    }
}

#[test]
fn filters_of_a_backend_run_after_those_of_the_rule() {
    let backend = Backend::echo();
    let set = |kind: &str, value: &str| json!({ "type": kind, "set": [{ "name": "x-who", "value": value }] });
    let both =
        |value: &str| json!([set("requestHeaderModifier", value), set("responseHeaderModifier", value)]);
    let mut rule = filtered("/", "shop/web:80", both("rule"));
    rule["action"]["backends"][0]["filters"] = both("backend");
    let gateway = Gateway::start(&[rule], &[("shop/web:80", backend.address())]);
    let answer = gateway.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(backend.seen()[0].header("x-who"), ["backend"]);
    // On the way back, the rule's come last.
    assert_eq!(answer.headers("x-who"), ["rule"]);
}

#[test]
fn url_rewrite_changes_host_and_path_and_keeps_the_query() {
    let prefix = |value: &str| json!({ "type": "replacePrefixMatch", "value": value });
    let full = |value: &str| json!({ "type": "replaceFullPath", "value": value });
    for (path, change, asked, line) in [
        ("/", json!({ "hostname": "b.example" }), "/x?q", "GET /x?q HTTP/1.1"),
        ("/a", json!({ "path": full("/one") }), "/a/b?q=1", "GET /one?q=1 HTTP/1.1"),
        ("/a", json!({ "path": prefix("/one") }), "/a/b?q=1", "GET /one/b?q=1 HTTP/1.1"),
        ("/a", json!({ "path": prefix("/one/") }), "/a/b", "GET /one/b HTTP/1.1"),
        ("/a", json!({ "path": prefix("/") }), "/a/b", "GET /b HTTP/1.1"),
        ("/a", json!({ "path": prefix("/") }), "/a", "GET / HTTP/1.1"),
        ("/a", json!({ "path": prefix("/") }), "/a/", "GET / HTTP/1.1"),
        ("/a/", json!({ "path": prefix("/one") }), "/a/b", "GET /one/b HTTP/1.1"),
        ("/a", json!({ "path": prefix("") }), "/a?q", "GET /?q HTTP/1.1"),
        ("/", json!({ "path": prefix("/one") }), "/a", "GET /one/a HTTP/1.1"),
        ("/a", json!({ "path": prefix("/one") }), "/x/../a/b//c", "GET /one/b//c HTTP/1.1"),
    ] {
        let mut filter = change.clone();
        filter["type"] = json!("urlRewrite");
        let (gateway, backend) = under(path, json!([filter]));
        assert_eq!(gateway.ask(&format!("GET {asked} HTTP/1.1\r\nHost: a.example\r\n\r\n")).status, 200);
        let seen = &backend.seen()[0];
        assert_eq!(seen.line(), line, "{change}");
        let host = if change.get("hostname").is_some() { "b.example" } else { "a.example" };
        assert_eq!(seen.header("host"), [host], "{change}");
        assert_eq!(seen.header("x-forwarded-host"), ["a.example"], "{change}");
    }
}

#[test]
fn a_rewrite_of_a_backend_is_relative_to_the_match_of_the_rule() {
    let backend = Backend::echo();
    let mut rule = rule("/a", "shop/web:80");
    rule["action"]["backends"][0]["filters"] =
        json!([{ "type": "urlRewrite", "path": { "type": "replacePrefixMatch", "value": "/b" } }]);
    let gateway = Gateway::start(&[rule], &[("shop/web:80", backend.address())]);
    gateway.ask("GET /a/x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(backend.seen()[0].line(), "GET /b/x HTTP/1.1");
}

#[test]
fn redirects_by_status_scheme_host_port_and_path() {
    let path = |kind: &str, value: &str| json!({ "type": kind, "value": value });
    for (redirect, location) in [
        (json!({ "statusCode": 302 }), "http://a.example/p/x?q=1"),
        (json!({ "statusCode": 301, "hostname": "b.example" }), "http://b.example/p/x?q=1"),
        (json!({ "statusCode": 303, "scheme": "https" }), "https://a.example/p/x?q=1"),
        (json!({ "statusCode": 307, "scheme": "https", "port": 8443 }), "https://a.example:8443/p/x?q=1"),
        (json!({ "statusCode": 308, "scheme": "https", "port": 443 }), "https://a.example/p/x?q=1"),
        (json!({ "statusCode": 302, "scheme": "https", "port": 80 }), "https://a.example:80/p/x?q=1"),
        (json!({ "statusCode": 302, "port": 8083 }), "http://a.example:8083/p/x?q=1"),
        (json!({ "statusCode": 302, "port": 80 }), "http://a.example/p/x?q=1"),
        (json!({ "statusCode": 302, "path": path("replaceFullPath", "/n") }), "http://a.example/n?q=1"),
        (json!({ "statusCode": 302, "path": path("replacePrefixMatch", "/n") }), "http://a.example/n/x?q=1"),
        (json!({ "statusCode": 302, "path": path("replacePrefixMatch", "/") }), "http://a.example/x?q=1"),
    ] {
        let mut filter = redirect.clone();
        filter["type"] = json!("requestRedirect");
        let mut rule = filtered("/p", "shop/web:80", json!([filter]));
        rule["action"]["backends"] = json!([]);
        let gateway = Gateway::start(&[rule], &[]);
        let mut client = gateway.client();
        for _ in 0..2 {
            client.send("GET /p/x?q=1 HTTP/1.1\r\nHost: a.example:8000\r\n\r\n");
            let answer = client.answer();
            assert_eq!(
                u64::from(answer.status),
                redirect["statusCode"].as_u64().expect("a number"),
                "{redirect}"
            );
            assert_eq!(answer.header("location"), Some(location), "{redirect}");
            assert_eq!(answer.body, "");
        }
    }
}

#[test]
fn a_redirect_names_the_port_of_the_listener_not_the_one_that_is_bound() {
    for (port, protocol, scheme, location) in [
        (8080, json!({ "type": "http" }), None, "http://a.example:8080/x"),
        (8080, json!({ "type": "http" }), Some("https"), "https://a.example/x"),
        (80, json!({ "type": "http" }), None, "http://a.example/x"),
        (443, json!({ "type": "https", "certificates": ["shop/cert"] }), None, "https://a.example/x"),
        (443, json!({ "type": "https", "certificates": ["shop/cert"] }), Some("http"), "http://a.example/x"),
        (8443, json!({ "type": "https", "certificates": ["shop/cert"] }), None, "https://a.example:8443/x"),
    ] {
        let mut filter = json!({ "type": "requestRedirect", "statusCode": 302 });
        if let Some(scheme) = scheme {
            filter["scheme"] = json!(scheme);
        }
        let mut config = config(&[filtered("/", "shop/web:80", json!([filter]))], &[]);
        config["listeners"]["http"] = json!({ "port": port, "protocol": protocol });
        config["certificates"] = json!({ "shop/cert": certificate(&["a.example"]) });
        let gateway = Gateway::with(|_| (), config);
        let request = "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
        let answer = if protocol["type"] == "https" {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            gateway.runtime().block_on(async {
                let mut tls = handshake(gateway.address(port), "a.example", &["http/1.1"]).await;
                tls.write_all(request.as_bytes()).await.expect("a connection");
                let mut answer = String::new();
                let _ = tls.read_to_string(&mut answer).await;
                answer
            })
        } else {
            let mut client = super::common::Client::connect(gateway.address(port));
            client.send(request);
            client.answer().head
        };
        assert!(answer.contains(&format!("location: {location}\r\n")), "{port} {scheme:?}: {answer}");
    }
}
