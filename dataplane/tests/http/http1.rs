//! HTTP/1 in front and behind: messages keep their meaning, connections are kept.

use std::thread::sleep;
use std::time::Duration;

use super::common::{Gateway, echo, rule, talk};

#[test]
fn a_request_and_its_answer_pass_unchanged_but_for_what_is_ours() {
    let (gateway, backend) = echo();
    let answer =
        gateway.ask("GET /a/b?c=d HTTP/1.1\r\nHost: Shop.example:8000\r\nAccept: */*\r\nX-Own: 1\r\n\r\n");
    assert_eq!(answer.status, 200);
    assert!(answer.header("date").is_some(), "{}", answer.head);
    assert_eq!(answer.header("connection"), None);
    let seen = &backend.seen()[0];
    assert_eq!(seen.line(), "GET /a/b?c=d HTTP/1.1");
    for (name, values) in [
        ("host", &["Shop.example:8000"][..]),
        ("accept", &["*/*"]),
        ("x-own", &["1"]),
        ("connection", &[]),
        ("x-forwarded-for", &["127.0.0.1"]),
        ("x-forwarded-proto", &["http"]),
        ("x-forwarded-port", &["80"]),
        ("x-forwarded-host", &["Shop.example:8000"]),
        ("forwarded", &["for=127.0.0.1;host=\"Shop.example:8000\";proto=http"]),
    ] {
        assert_eq!(seen.header(name), values, "{name}");
    }
}

#[test]
fn bodies_pass_with_a_length_and_in_chunks() {
    let (gateway, backend) = echo();
    let big = "x".repeat(1 << 20);
    let chunked = "Transfer-Encoding: chunked";
    for (framing, sent, body) in [
        ("Content-Length: 5", "hello", "hello"),
        ("Content-Length: 0", "", ""),
        (chunked, "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world"),
        (chunked, "0\r\n\r\n", ""),
        (chunked, "5;extension=1\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n", "hello"),
        (&format!("Content-Length: {}", big.len()), &big, &big),
        (chunked, &format!("{:x}\r\n{big}\r\n0\r\n\r\n", big.len()), &big),
    ] {
        let answer = gateway.ask(&format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n{sent}"));
        assert_eq!(answer.status, 200, "{framing}");
        let seen = backend.seen().pop().expect("a request");
        assert!(seen.body == body.as_bytes(), "{framing}: {} of {} bytes", seen.body.len(), body.len());
    }
}

#[test]
fn connections_are_kept_on_both_sides() {
    let (gateway, backend) = echo();
    let mut client = gateway.client();
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        client.send(request);
        assert_eq!(client.answer().header("x-connection"), Some("1"));
    }
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.header("connection"), answer.header("x-connection")), (Some("close"), Some("1")));
    assert!(client.is_closed());
    assert_eq!(backend.connections(), 1);
}

#[test]
fn requests_that_were_sent_ahead_are_answered_in_order() {
    let (gateway, backend) = echo();
    let mut client = gateway.client();
    let body = "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    client
        .send(format!("GET /0 HTTP/1.1\r\nHost: a\r\n\r\n{body}GET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HT"));
    for path in ["GET /0", "POST /1", "GET /2"] {
        assert!(client.answer().body.starts_with(path));
    }
    client.send("TP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.answer().body.starts_with("GET /3"));
    assert_eq!(backend.seen()[1].body, b"abc");
}

#[test]
fn http_1_0_is_answered_in_its_own_way() {
    let (gateway, _backend) = talk(|mut peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
        }
    });
    // Without a length, the end of the body is the end of the connection.
    let answer = gateway.ask("GET / HTTP/1.0\r\n\r\n");
    assert_eq!((answer.status, &*answer.body), (200, "hello"));
    assert_eq!(answer.header("transfer-encoding"), None);
    assert_eq!(answer.header("connection"), Some("close"));

    let (gateway, backend) = echo();
    let mut client = gateway.client();
    for _ in 0..2 {
        client.send("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(client.answer().header("connection"), Some("keep-alive"));
    }
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    assert!(client.is_closed());
    let seen = backend.seen().pop().expect("a request");
    assert!(seen.header("x-forwarded-host").is_empty());
    assert_eq!(seen.header("forwarded"), ["for=127.0.0.1;proto=http"]);
}

#[test]
fn every_framing_of_an_answer_arrives_as_it_should() {
    let cases = [
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", Some("2"), None),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
            200,
            "ok",
            Some("2"),
            None,
        ),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            200,
            "ok",
            None,
            Some("chunked"),
        ),
        ("GET", "HTTP/1.1 200 OK\r\n\r\nuntil close", 200, "until close", None, Some("chunked")),
        ("GET", "HTTP/1.0 200 OK\r\n\r\nold", 200, "old", None, Some("chunked")),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", None, None),
        ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 204, "", None, None),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, "", Some("5"), None),
        ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", Some("0"), None),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, "", Some("5"), None),
        ("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, "", None, None),
        ("GET", "HTTP/1.1 299 Just Fine\r\nContent-Length: 0\r\n\r\n", 299, "", Some("0"), None),
    ];
    for (method, sent, status, body, length, coding) in cases {
        let (gateway, _backend) = talk(move |mut peer| {
            peer.request();
            peer.send(sent);
        });
        let mut client = gateway.client();
        client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        let answer = client.answer_to(method);
        assert_eq!((answer.status, &*answer.body, answer.whole), (status, body, true), "{sent}");
        assert_eq!(
            (answer.header("content-length"), answer.header("transfer-encoding")),
            (length, coding),
            "{sent}"
        );
        // The connection goes on, whatever became of the backend's.
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer().status, status, "{sent}");
    }
}

#[test]
fn informational_answers_pass_to_http_1_1_only() {
    let (gateway, _backend) = talk(|mut peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n");
            sleep(Duration::from_millis(20));
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let hints = client.answer();
    assert_eq!((hints.status, hints.header("link")), (103, Some("</a.css>")));
    assert_eq!(client.answer().body, "ok");
    assert_eq!(gateway.ask("GET / HTTP/1.0\r\nHost: a\r\n\r\n").status, 200);
}

#[test]
fn the_backend_decides_about_a_body_that_is_announced_by_expect() {
    let (gateway, _backend) = talk(|mut peer| {
        while let Some(head) = peer.head() {
            assert!(head.contains("expect: 100-continue"));
            if head.starts_with("POST /no") {
                peer.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
                continue;
            }
            peer.send("HTTP/1.1 100 Continue\r\n\r\n");
            let body = peer.bytes(3).expect("a body");
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
            peer.send(body);
        }
    });
    let head = |path| {
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    };
    let mut client = gateway.client();
    client.send(head("/yes"));
    assert_eq!(client.answer().status, 100);
    client.send("abc");
    assert_eq!(client.answer().body, "abc");
    client.send(head("/no"));
    let refused = client.answer();
    assert_eq!((refused.status, refused.header("connection")), (417, Some("close")));
}

#[test]
fn hop_by_hop_headers_end_here_both_ways() {
    let (gateway, backend) = talk(|mut peer| {
        while peer.request().is_some() {
            peer.send(
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: timeout=5\r\nConnection: x-hop\r\nX-Hop: 1\r\n\
                 Proxy-Authenticate: Basic\r\nUpgrade: x\r\nTrailer: y\r\nX-Kept: 1\r\n\r\n",
            );
        }
    });
    let answer = gateway.ask(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: 1\r\nTE: trailers\r\n\
         Proxy-Connection: x\r\nProxy-Authorization: y\r\nTrailer: z\r\nUpgrade: h2c\r\nHTTP2-Settings: q\r\nX-Kept: 1\r\n\r\n",
    );
    assert_eq!((answer.status, answer.header("x-kept")), (200, Some("1")));
    for name in ["keep-alive", "connection", "x-hop", "proxy-authenticate", "upgrade", "trailer"] {
        assert_eq!(answer.header(name), None, "{name}");
    }
    let seen = &backend.seen()[0];
    assert_eq!(seen.header("x-kept"), ["1"]);
    for name in [
        "connection",
        "x-mine",
        "keep-alive",
        "te",
        "proxy-connection",
        "proxy-authorization",
        "trailer",
        "upgrade",
        "http2-settings",
    ] {
        assert!(seen.header(name).is_empty(), "{name}: {}", seen.head);
    }
}

#[test]
fn a_client_that_leaves_takes_its_exchange_with_it() {
    let cases = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ];
    let (gateway, backend) = talk(|mut peer| {
        peer.head();
        assert!(peer.closed(), "the gateway holds on to an exchange that nobody waits for");
    });
    for (at, request) in cases.into_iter().enumerate() {
        let mut client = gateway.client();
        client.send(request);
        sleep(Duration::from_millis(50));
        drop(client);
        backend.await_ended(at + 1);
    }
}

#[test]
fn a_client_that_leaves_in_mid_answer_takes_its_exchange_with_it() {
    let (gateway, backend) = talk(|mut peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
        assert!(peer.closed());
    });
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().status, 200);
    assert_eq!(client.bytes(3), b"abc");
    drop(client);
    backend.await_ended(1);
}

#[test]
fn an_answer_that_breaks_off_is_not_taken_for_a_whole_one() {
    for (version, sent) in [
        ("1.1", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"),
        ("1.1", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
        ("1.0", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
    ] {
        let (gateway, _backend) = talk(move |mut peer| {
            peer.request();
            peer.send(sent);
            sleep(Duration::from_millis(50));
        });
        let answer = gateway.ask(&format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n"));
        assert_eq!((answer.status, answer.whole), (200, false), "{version} {sent}");
    }
}

#[test]
fn pieces_of_an_answer_are_not_held_back() {
    let (gateway, _backend) = talk(|mut peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n");
        for piece in ["ab", "cd", "ef"] {
            peer.send(piece);
            // The next piece only comes when this one was seen.
            assert_eq!(peer.bytes(0), Some(Vec::new()));
            sleep(Duration::from_millis(500));
        }
    });
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    let began = std::time::Instant::now();
    assert_eq!(client.bytes(2), b"ab");
    assert!(began.elapsed() < Duration::from_millis(450), "{:?}", began.elapsed());
    assert_eq!(client.bytes(4), b"cdef");
}

#[test]
fn what_a_backend_says_wrongly_is_502() {
    for sent in [
        "",
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    ] {
        let (gateway, _backend) = talk(move |mut peer| {
            peer.request();
            peer.send(sent);
        });
        let answer = gateway.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((answer.status, &*answer.body), (502, "the backend gave no valid answer\n"), "{sent:?}");
        assert_eq!(answer.header("server"), None);
    }
}

#[test]
fn a_backend_that_is_not_there_is_502() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let gateway = Gateway::start(&[rule("/", "shop/web:80")], &[("shop/web:80", gone.expect("a free port"))]);
    let mut client = gateway.client();
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = client.answer();
        assert_eq!((answer.status, &*answer.body), (502, "the backend cannot be reached\n"));
    }
}
