//! Requests that are refused before anybody acts on them, and what is done to those that are not.

use std::time::Duration;

use serde_json::json;

use super::common::{Gateway, config, echo, rule};

#[test]
fn what_could_mean_two_things_is_refused_and_the_connection_closes() {
    let (gateway, backend) = echo();
    let cases = [
        (
            400,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            400,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        ),
        (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
        (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
        (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc"),
        (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc"),
        (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\nabc"),
        (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nabc"),
        (
            400,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        (501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        (501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n"),
        (400, "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
        (400, "GET / HTTP/1.1\nHost: a\n\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\nX: 1\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n folded\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\n: no name\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nna(me: 1\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: user@a\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"),
        (400, "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "GET /#x HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, "GET /\r\nHost: a\r\n\r\n"),
        (400, "G(T / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
        (505, "GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
        (400, "GET / HTCPCP/1.0\r\nHost: a\r\n\r\n"),
        (405, "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nConnection: host\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Forwarded-For\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nConnection: :path\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nConnection: \"x\"\r\n\r\n"),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nConnection: a, b, c, d, e, f, g, h, i, j\r\n\r\n"),
    ];
    for (status, request) in cases {
        let mut client = gateway.client();
        client.send(request);
        // What follows must not be served: who knows whose request it is.
        client.send("GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = client.answer();
        assert_eq!(answer.status, status, "{request:?}: {}", answer.body);
        assert_eq!(answer.header("connection"), Some("close"), "{request:?}");
        assert!(client.is_closed(), "{request:?}");
    }
    assert!(backend.seen().is_empty(), "{:?}", backend.seen());
    assert!(gateway.metrics().contains("postern_requests_malformed_total{reason=\"malformed_request\"}"));
}

#[test]
fn chunks_that_are_none_end_the_exchange() {
    let (gateway, backend) = echo();
    for chunks in [
        "x\r\nabc\r\n0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\nabc",
        "3\r\nabcd\r\n0\r\n\r\n",
    ] {
        let mut client = gateway.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"));
        client.send("GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer().status, 400, "{chunks:?}");
        assert!(client.is_closed(), "{chunks:?}");
    }
    assert!(backend.seen().is_empty(), "{:?}", backend.seen());
}

#[test]
fn unusual_but_clear_requests_are_served() {
    let (gateway, backend) = echo();
    for (request, line, host) in [
        ("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1", "a"),
        ("GET http://a/x?y HTTP/1.1\r\nHost: a\r\n\r\n", "GET /x?y HTTP/1.1", "a"),
        ("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1", "a"),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * HTTP/1.1", "a"),
        ("GET / HTTP/1.1\r\nhOsT:[::1]:80\r\n\r\n", "GET / HTTP/1.1", "[::1]:80"),
        ("PURGE /%2f//%7e/%zz HTTP/1.1\r\nHost: a.\r\n\r\n", "PURGE /%2F//~/%25zz HTTP/1.1", "a."),
        ("GET /a/../b/./%2e%2e/c?../d HTTP/1.1\r\nHost: a\r\n\r\n", "GET /c?../d HTTP/1.1", "a"),
    ] {
        let answer = gateway.ask(request);
        assert_eq!(answer.status, 200, "{request:?}: {}", answer.body);
        let seen = backend.seen().pop().expect("a request");
        assert_eq!((seen.line(), &seen.header("host")[..]), (line, &[host][..]), "{request:?}");
    }
}

#[test]
fn heads_have_a_limit() {
    let (gateway, _backend) = echo();
    let mut client = gateway.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(60 * 1024)));
    assert_eq!(client.answer().status, 200);
    for head in [
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(65 * 1024)),
        format!("GET /{}", "x".repeat(70 * 1024)),
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: 1234567890\r\n".repeat(6000)),
    ] {
        let mut client = gateway.client();
        client.send(head);
        let answer = client.answer();
        assert_eq!((answer.status, answer.header("connection")), (431, Some("close")));
    }
}

#[test]
fn a_head_must_be_whole_in_time_however_it_trickles() {
    let backend = super::common::Backend::echo();
    let limited = |settings: &mut postern_dataplane::Settings| {
        settings.limits.head_time = Duration::from_millis(300);
    };
    let gateway =
        Gateway::with(limited, config(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]));
    let mut client = gateway.client();
    let began = std::time::Instant::now();
    for byte in "GET / HTTP/1.1\r\nHost: a\r\nX: a".bytes() {
        client.send([byte]);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.answer().status, 408);
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(client.is_closed());
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let backend = super::common::Backend::echo();
    let limited = |settings: &mut postern_dataplane::Settings| {
        settings.limits.idle = Duration::from_secs(1);
    };
    let gateway =
        Gateway::with(limited, config(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]));
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    assert!(client.is_closed());
}

#[test]
fn a_connection_carries_so_many_requests_and_no_more() {
    let backend = super::common::Backend::echo();
    let limited = |settings: &mut postern_dataplane::Settings| settings.limits.requests = 3;
    let gateway =
        Gateway::with(limited, config(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]));
    let mut client = gateway.client();
    for expected in [None, None, Some("close")] {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer().header("connection"), expected);
    }
    assert!(client.is_closed());
}

#[test]
fn only_a_trusted_proxy_is_believed_about_its_client() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n\
                   X-Forwarded-Host: b\r\nX-Forwarded-Port: 1\r\nForwarded: for=192.0.2.1;proto=https\r\n\r\n";
    for (trusted, expected) in [
        (
            &[][..],
            [
                ("x-forwarded-for", "127.0.0.1"),
                ("x-forwarded-proto", "http"),
                ("x-forwarded-host", "a"),
                ("x-forwarded-port", "80"),
                ("forwarded", "for=127.0.0.1;host=\"a\";proto=http"),
            ],
        ),
        (
            &["127.0.0.0/8"],
            [
                ("x-forwarded-for", "192.0.2.1, 127.0.0.1"),
                ("x-forwarded-proto", "https"),
                ("x-forwarded-host", "b"),
                ("x-forwarded-port", "1"),
                ("forwarded", "for=192.0.2.1;proto=https, for=127.0.0.1;host=\"a\";proto=http"),
            ],
        ),
    ] {
        let backend = super::common::Backend::echo();
        let trust = |settings: &mut postern_dataplane::Settings| {
            settings.trusted_proxies =
                trusted.iter().map(|network| network.parse().expect("a network")).collect();
        };
        let gateway =
            Gateway::with(trust, config(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]));
        assert_eq!(gateway.ask(request).status, 200);
        for (name, value) in expected {
            assert_eq!(backend.seen()[0].header(name), [value], "{name} from {trusted:?}");
        }
    }
}

#[test]
fn a_filter_has_the_last_word_on_forwarding_headers() {
    let backend = super::common::Backend::echo();
    let filters = json!([{ "type": "requestHeaderModifier", "set": [{ "name": "x-forwarded-proto", "value": "https" }] }]);
    let gateway = Gateway::start(
        &[super::common::filtered("/", "shop/web:80", filters)],
        &[("shop/web:80", backend.address())],
    );
    gateway.ask("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n");
    let seen = &backend.seen()[0];
    assert_eq!(seen.header("x-forwarded-proto"), ["https"]);
    assert_eq!(seen.header("x-forwarded-for"), ["127.0.0.1"]);
}
