//! HTTP/2 in front (over TLS by ALPN, in cleartext by prior knowledge) and HTTP/1.1 or HTTP/2 behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::common::{
    Backend, Gateway, PATIENCE, certificate, config, echo, h2c, h2c_rule, handshake, rule, talk,
};

#[test]
fn requests_are_translated_for_an_http_1_backend() {
    let (gateway, backend) = echo();
    gateway.runtime().block_on(async {
        let sender = h2c::connect(gateway.address(80)).await;
        let request = Request::post("http://shop.example:8000/a?b=c")
            .header("x-own", "1")
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .header("te", "trailers")
            .header("expect", "100-continue")
            .body("hello");
        let reply = h2c::ask(&sender, request.expect("a request")).await.expect("an answer");
        assert_eq!(reply.head.status, 200);
        assert_eq!(reply.head.headers["x-connection"], "1");
        let reply = h2c::ask(&sender, Request::head("http://a/").body("").expect("a request")).await;
        assert_eq!(reply.expect("an answer").head.status, 200);
    });
    let seen = &backend.seen()[0];
    assert_eq!((seen.line(), &*seen.body), ("POST /a?b=c HTTP/1.1", &b"hello"[..]));
    for (name, values) in [
        ("host", &["shop.example:8000"][..]),
        ("x-own", &["1"]),
        ("cookie", &["a=1; b=2"]),
        ("te", &[]),
        ("expect", &[]),
        ("transfer-encoding", &["chunked"]),
        ("x-forwarded-host", &["shop.example:8000"]),
    ] {
        assert_eq!(seen.header(name), values, "{name}");
    }
    assert!(backend.seen()[1].header("transfer-encoding").is_empty());
}

#[test]
fn every_framing_of_an_answer_arrives_as_it_should() {
    for (sent, status, body, length) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", Some("2")),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, "ok", None),
        (
            "HTTP/1.1 200 OK\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\n\r\nuntil close",
            200,
            "until close",
            None,
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, "", None),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, "", Some("5")),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            200,
            "ok",
            Some("2"),
        ),
    ] {
        let (gateway, _backend) = talk(move |mut peer| {
            peer.request();
            peer.send(sent);
        });
        let reply = gateway.runtime().block_on(async {
            let sender = h2c::connect(gateway.address(80)).await;
            h2c::ask(&sender, h2c::get("a", "/")).await.expect("an answer")
        });
        assert_eq!((reply.head.status.as_u16(), &*reply.body), (status, body.as_bytes()), "{sent}");
        assert_eq!(
            reply.head.headers.get("content-length").map(|l| l.to_str().expect("text")),
            length,
            "{sent}"
        );
        for name in ["x-hop", "keep-alive", "connection", "transfer-encoding"] {
            assert!(!reply.head.headers.contains_key(name), "{sent}: {name}");
        }
    }
}

#[test]
fn tls_chooses_the_protocol_by_alpn() {
    let backend = Backend::echo();
    let mut config = config(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]);
    config["listeners"]["http"] =
        json!({ "port": 443, "protocol": { "type": "https", "certificates": ["shop/c"] } });
    config["certificates"] = json!({ "shop/c": certificate(&["a.example"]) });
    let gateway = Gateway::with(|_| (), config);
    gateway.runtime().block_on(async {
        let tls = handshake(gateway.address(443), "a.example", &["h2", "http/1.1"]).await;
        let sender = h2c::speak(tls).await;
        let reply = h2c::ask(&sender, h2c::get("a.example", "/")).await.expect("an answer");
        assert_eq!(reply.head.status, 200);
        for protocols in [&["http/1.1"][..], &[]] {
            let mut tls = handshake(gateway.address(443), "a.example", protocols).await;
            let request = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\nGET / HTTP/1.1\r\nHost: a.example\r\n";
            tls.write_all(request.as_bytes()).await.expect("a connection");
            tls.write_all(b"Connection: close\r\n\r\n").await.expect("a connection");
            let mut answers = String::new();
            // That the gateway says goodbye properly is the business of TLS tests.
            let _ = tls.read_to_string(&mut answers).await;
            assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answers}");
        }
    });
    assert_eq!(backend.seen()[0].header("x-forwarded-proto"), ["https"]);
    assert_eq!(backend.seen()[0].header("x-forwarded-port"), ["443"]);
}

#[test]
fn streams_are_independent_of_each_other() {
    let (gateway, _backend) = talk(|mut peer| {
        while let Some(seen) = peer.request() {
            if seen.line().contains("/slow") {
                std::thread::sleep(Duration::from_millis(2000));
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    gateway.runtime().block_on(async {
        let sender = h2c::connect(gateway.address(80)).await;
        let slow = tokio::spawn({
            let sender = sender.clone();
            async move { h2c::ask(&sender, h2c::get("a", "/slow")).await }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        for _ in 0..20 {
            assert_eq!(h2c::ask(&sender, h2c::get("a", "/")).await.expect("an answer").body, b"ok");
        }
        assert!(!slow.is_finished());
        assert_eq!(slow.await.expect("no panic").expect("an answer").body, b"ok");
    });
}

#[test]
fn a_stream_that_is_reset_takes_its_exchange_with_it_and_nothing_else() {
    let (gateway, backend) = talk(|mut peer| {
        while let Some(seen) = peer.request() {
            if seen.line().contains("/wait") {
                assert!(peer.closed());
                return;
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    gateway.runtime().block_on(async {
        let sender = h2c::connect(gateway.address(80)).await;
        let mut ready = sender.clone().ready().await.expect("a connection");
        let request = Request::get("http://a/wait").body(()).expect("a request");
        let (response, mut stream) = ready.send_request(request, true).expect("a stream");
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.send_reset(h2::Reason::CANCEL);
        drop(response);
        backend.await_ended(1);
        assert_eq!(h2c::ask(&sender, h2c::get("a", "/")).await.expect("an answer").body, b"ok");
    });
}

#[test]
fn an_answer_that_breaks_off_is_reset() {
    let (gateway, _backend) = talk(|mut peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
    });
    let broken = gateway.runtime().block_on(async {
        let sender = h2c::connect(gateway.address(80)).await;
        h2c::ask(&sender, h2c::get("a", "/")).await
    });
    assert_eq!(broken.expect_err("no whole answer").reason(), Some(h2::Reason::INTERNAL_ERROR));
}

#[test]
fn malformed_requests_are_refused_and_too_many_end_the_connection() {
    let (gateway, backend) = echo();
    gateway.runtime().block_on(async {
        for (request, status) in [
            (Request::get("http://user@a/").body(""), Some(400)),
            (Request::get("http://a/").header("host", "b").body(""), Some(400)),
            (Request::get("http://a,b/").body(""), Some(400)),
            (Request::get("http://a/").header("content-length", "x").body(""), None),
            (Request::builder().method("CONNECT").uri("a:80").body(""), Some(405)),
        ] {
            let sender = h2c::connect(gateway.address(80)).await;
            let reply = h2c::ask(&sender, request.expect("a request")).await;
            assert_eq!(reply.ok().map(|reply| reply.head.status.as_u16()), status);
            // Only the stream is gone.
            assert_eq!(h2c::ask(&sender, h2c::get("a", "/")).await.expect("an answer").head.status, 200);
        }
        let sender = h2c::connect(gateway.address(80)).await;
        let mut refused = 0;
        for _ in 0..100 {
            let request = Request::get("http://a/").header("host", "b").body("").expect("a request");
            if h2c::ask(&sender, request).await.is_err() {
                break;
            }
            refused += 1;
        }
        assert!((16..=32).contains(&refused), "{refused}");
    });
    assert!(backend.seen().iter().all(|seen| seen.line() == "GET / HTTP/1.1"));
}

#[test]
fn heads_and_streams_have_limits() {
    let (gateway, _backend) = echo();
    gateway.runtime().block_on(async {
        let sender = h2c::connect(gateway.address(80)).await;
        let request =
            Request::get("http://a/").header("x", "x".repeat(70 * 1024)).body("").expect("a request");
        let refused = h2c::ask(&sender, request).await;
        assert!(refused.is_err() || refused.is_ok_and(|reply| reply.head.status == 431));
        let sender = h2c::connect(gateway.address(80)).await.ready().await.expect("a connection");
        h2c::ask(&sender, h2c::get("a", "/")).await.expect("an answer");
        assert_eq!(sender.current_max_send_streams(), 100);
    });
}

#[test]
fn a_backend_that_speaks_http_2_gets_one_shared_connection() {
    let (gateway, _runtime) = h2c_gateway(|request, mut respond| async move {
        let head = format!("{:?} {} {:?}", request.version(), request.uri(), request.headers());
        let body = h2c::read(Response::new(request.into_body())).await.expect("a body").body;
        let response = Response::builder().header("x-head", head.replace(['\r', '\n'], "")).body(());
        let mut stream = respond.send_response(response.expect("a response"), false).expect("a stream");
        stream.send_data(Bytes::from(body), true).expect("a stream");
    });
    let answer = gateway.ask("POST /x?y HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-Own: 1\r\n\r\nhello");
    assert_eq!((answer.status, &*answer.body), (200, "hello"));
    let head = answer.header("x-head").expect("a header");
    for part in ["HTTP/2.0 http://a/x?y", "\"x-own\": \"1\"", "\"x-forwarded-for\": \"127.0.0.1\""] {
        assert!(head.contains(part), "{part} in {head}");
    }
    assert!(!head.contains("\"host\""), "{head}");
    let answer =
        gateway.ask("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    assert_eq!((answer.header("transfer-encoding"), &*answer.body), (Some("chunked"), "abc"));
}

#[test]
fn expect_is_answered_for_a_backend_that_cannot() {
    let (gateway, _runtime) = h2c_gateway(|request, mut respond| async move {
        assert!(!request.headers().contains_key("expect"));
        let body = h2c::read(Response::new(request.into_body())).await.expect("a body").body;
        let mut stream = respond.send_response(Response::new(()), false).expect("a stream");
        stream.send_data(Bytes::from(body), true).expect("a stream");
    });
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(client.answer().status, 100);
    client.send("abc");
    assert_eq!(client.answer().body, "abc");
}

#[test]
fn a_stream_that_was_refused_is_asked_again_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let (gateway, _runtime) = h2c_gateway(move |request, mut respond| {
        let count = Arc::clone(&count);
        async move {
            let body = h2c::read(Response::new(request.into_body())).await.map(|reply| reply.body);
            if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
                respond.send_reset(h2::Reason::REFUSED_STREAM);
                return;
            }
            let mut stream = respond.send_response(Response::new(()), false).expect("a stream");
            stream.send_data(Bytes::from(body.unwrap_or_default()), true).expect("a stream");
        }
    });
    assert_eq!(gateway.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    let answer = gateway.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!((answer.status, &*answer.body), (200, "abc"));
}

#[test]
fn lengths_hold_across_protocols() {
    let (gateway, _runtime) = h2c_gateway(|request, mut respond| async move {
        let (length, body) = match request.uri().path() {
            "/short" => ("5", "abc"),
            "/long" => ("2", "abc"),
            _ => ("3", "abc"),
        };
        let response = Response::builder().header("content-length", length).body(()).expect("a response");
        let mut stream = respond.send_response(response, false).expect("a stream");
        // The stream may be reset before it ends.
        let _ = stream.send_data(Bytes::from_static(body.as_bytes()), true);
    });
    assert!(gateway.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").whole);
    for path in ["/short", "/long"] {
        let answer = gateway.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(!answer.whole || answer.status == 502, "{path}: {answer:?}");
    }
}

/// A gateway in front of a backend that speaks HTTP/2.
pub(crate) fn h2c_gateway<F>(
    talk: impl Fn(Request<h2::RecvStream>, h2::server::SendResponse<Bytes>) -> F + Clone + Send + 'static,
) -> (Gateway, tokio::runtime::Runtime)
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let address = runtime.block_on(async { timeout(PATIENCE, h2c::serve(talk)).await.expect("a backend") });
    let gateway = Gateway::start(&[h2c_rule("/", "shop/web:80")], &[("shop/web:80", address)]);
    (gateway, runtime)
}
