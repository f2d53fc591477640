//! A request that met a closed connection is sent once more, if that is safe.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use super::common::{Backend, Gateway, Peer, rule, talk};

/// Answers the first request of each connection and then reads on; what comes second is dropped without a word.
fn forgetful(mut peer: Peer) {
    if peer.request().is_some() {
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        peer.request();
    }
}

#[test]
fn a_kept_connection_that_turns_out_closed_costs_nobody_a_request() {
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        ("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 200),
        ("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200),
        // The backend may have acted on it.
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 502),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 502),
    ] {
        let (gateway, backend) = talk(forgetful);
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer().body, "ok");
        client.send(request);
        let method = request.split(' ').next().expect("a method");
        assert_eq!(client.answer_to(method).status, status, "{request}");
        let seen = backend.seen();
        assert_eq!(seen.len(), if status == 200 { 3 } else { 2 }, "{request}");
        assert_eq!(seen.last().map(|seen| &seen.body), seen.get(1).map(|seen| &seen.body));
    }
}

#[test]
fn a_body_larger_than_what_is_kept_is_not_sent_again() {
    let (gateway, _backend) = talk(forgetful);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().body, "ok");
    let body = "x".repeat(100_000);
    client.send(format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    assert_eq!(client.answer().status, 502);
}

#[test]
fn a_new_connection_that_is_closed_without_an_answer_is_502_at_once() {
    let (gateway, backend) = talk(|mut peer| {
        peer.request();
    });
    assert_eq!(gateway.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 502);
    assert_eq!(backend.connections(), 1);
}

#[test]
fn an_idle_connection_that_the_backend_closed_is_not_used() {
    let count = AtomicUsize::new(0);
    let (gateway, backend) = talk(move |mut peer| {
        // Closes after each answer without saying so.
        if peer.request().is_some() {
            count.fetch_add(1, Ordering::SeqCst);
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let mut client = gateway.client();
    for at in 1..=3 {
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(client.answer().body, "ok");
        sleep(Duration::from_millis(250));
        assert_eq!(backend.connections(), at);
    }
}

#[test]
fn bytes_that_nobody_asked_for_end_a_kept_connection() {
    let (gateway, backend) = talk(|mut peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            sleep(Duration::from_millis(50));
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
        }
    });
    let mut client = gateway.client();
    for at in 1..=2 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer().body, "ok");
        sleep(Duration::from_millis(300));
        assert_eq!(backend.connections(), at);
    }
}

#[test]
fn another_endpoint_is_asked_when_one_takes_no_connection() {
    let backend = Backend::echo();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let mut config =
        super::common::config(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]);
    config["backends"]["shop/web:80"]["endpoints"] =
        serde_json::json!([gone.expect("a free port"), backend.address()]);
    let gateway = Gateway::with(|_| (), config);
    for _ in 0..20 {
        let answer = gateway.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(answer.status, 200);
    }
}
