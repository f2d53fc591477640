//! Limits on time: the whole request, one attempt, silence.

use std::thread::sleep;
use std::time::{Duration, Instant};

use postern_dataplane::Settings;
use serde_json::{Value, json};

use super::common::{Backend, Gateway, config, rule};

fn limited(
    timeouts: Value,
    talk: impl Fn(super::common::Peer) + Send + Sync + 'static,
) -> (Gateway, Backend) {
    let backend = Backend::start(talk);
    let mut rule = rule("/", "shop/web:80");
    rule["action"]["timeouts"] = timeouts;
    (Gateway::start(&[rule], &[("shop/web:80", backend.address())]), backend)
}

#[test]
fn a_request_that_takes_too_long_is_504_and_its_exchange_ends() {
    for timeouts in [
        json!({ "request": 200 }),
        json!({ "backendRequest": 200 }),
        json!({ "request": 5000, "backendRequest": 200 }),
    ] {
        let (gateway, backend) = limited(timeouts.clone(), |mut peer| {
            peer.head();
            assert!(peer.closed());
        });
        let mut client = gateway.client();
        for at in 1..=2 {
            let began = Instant::now();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = client.answer();
            let took = began.elapsed();
            assert_eq!(
                (answer.status, &*answer.body),
                (504, "the backend did not answer in time\n"),
                "{timeouts}"
            );
            assert!((200..4000).contains(&took.as_millis()), "{took:?}");
            backend.await_ended(at);
        }
    }
}

#[test]
fn a_request_in_time_is_not_touched_and_no_limit_is_no_limit() {
    for timeouts in [json!({ "request": 1000, "backendRequest": 1000 }), json!({})] {
        let (gateway, _backend) = limited(timeouts, |mut peer| {
            while peer.request().is_some() {
                sleep(Duration::from_millis(150));
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        });
        let mut client = gateway.client();
        for _ in 0..3 {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.answer().body, "ok");
        }
    }
}

#[test]
fn the_limit_is_for_the_whole_exchange_and_cuts_a_body_that_goes_on() {
    let (gateway, backend) = limited(json!({ "request": 300 }), |mut peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        for _ in 0..100 {
            peer.send("x");
            sleep(Duration::from_millis(20));
        }
    });
    let began = Instant::now();
    let answer = gateway.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((answer.status, answer.whole), (200, false));
    assert!(began.elapsed() < Duration::from_millis(1900), "{:?}", began.elapsed());
    drop(backend);
}

#[test]
fn a_body_that_the_client_does_not_go_on_with_is_408() {
    let backend = Backend::start(|mut peer| {
        peer.head();
        assert!(peer.closed());
    });
    let idle = |settings: &mut Settings| settings.limits.idle = Duration::from_millis(200);
    let gateway =
        Gateway::with(idle, config(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]));
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("connection")), (408, Some("close")));
    backend.await_ended(1);
}

#[test]
fn silence_of_the_backend_is_504_and_a_byte_now_and_then_is_no_silence() {
    let backend = Backend::start(|mut peer| {
        while let Some(seen) = peer.request() {
            if seen.line().contains("/silent") {
                assert!(peer.closed());
                return;
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
            for _ in 0..10 {
                sleep(Duration::from_millis(100));
                peer.send("x");
            }
        }
    });
    let idle = |settings: &mut Settings| settings.limits.idle = Duration::from_millis(800);
    let gateway =
        Gateway::with(idle, config(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]));
    assert_eq!(gateway.ask("GET /trickle HTTP/1.1\r\nHost: a\r\n\r\n").body, "xxxxxxxxxx");
    assert_eq!(gateway.ask("GET /silent HTTP/1.1\r\nHost: a\r\n\r\n").status, 504);
}
