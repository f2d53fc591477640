//! Connections that change their protocol become tunnels.

use std::thread::sleep;
use std::time::Duration;

use postern_dataplane::Settings;

use super::common::{Backend, Client, Gateway, Peer, config, rule, talk};

const HANDSHAKE: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                         Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n";

/// Accepts any upgrade and repeats what it gets.
fn accepting(mut peer: Peer) {
    let Some(seen) = peer.request() else { return };
    let [protocol] = seen.header("upgrade")[..] else {
        return peer.send("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n");
    };
    assert_eq!(seen.header("connection"), ["upgrade"]);
    // The first bytes of the new protocol come together with the 101.
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\nX-Own: 1\r\n\r\nhello"
    );
    peer.send(head);
    while let Some(byte) = peer.bytes(1) {
        peer.send(byte);
    }
}

fn upgraded(gateway: &Gateway, handshake: &str) -> Client {
    let mut client = gateway.client();
    client.send(handshake);
    let answer = client.head();
    assert_eq!((answer.status, answer.header("connection")), (101, Some("upgrade")), "{}", answer.head);
    assert_eq!(answer.header("x-own"), Some("1"));
    assert_eq!(client.bytes(5), b"hello");
    client
}

#[test]
fn bytes_pass_both_ways_after_the_upgrade() {
    let (gateway, backend) = talk(accepting);
    let mut client = upgraded(&gateway, HANDSHAKE);
    client.send("abc");
    assert_eq!(client.bytes(3), b"abc");
    let seen = &backend.seen()[0];
    assert_eq!((seen.header("upgrade"), seen.header("sec-websocket-key")), (vec!["websocket"], vec!["x"]));
    drop(client);
    backend.await_ended(1);
}

#[test]
fn a_real_websocket_client_talks_through_it() {
    let backend = Backend::start(|peer| {
        let mut socket = tokio_tungstenite::tungstenite::accept(peer.stream).expect("a handshake");
        while let Ok(message) = socket.read() {
            if message.is_close() || socket.send(message).is_err() {
                return;
            }
        }
    });
    let gateway = Gateway::start(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]);
    let stream = std::net::TcpStream::connect(gateway.address(80)).expect("the gateway listens");
    let (mut socket, _) = tokio_tungstenite::tungstenite::client("ws://a/ws", stream).expect("a handshake");
    for text in ["hello".to_owned(), "x".repeat(200_000)] {
        socket.send(text.clone().into()).expect("an open socket");
        assert_eq!(socket.read().expect("an answer").into_text().expect("text").as_str(), text);
    }
}

#[test]
fn other_protocols_than_websocket_pass_but_http_2_does_not() {
    let (gateway, backend) = talk(accepting);
    let other = HANDSHAKE.replace("websocket", "tcp");
    upgraded(&gateway, &other);
    for request in
        [HANDSHAKE.replace("websocket", "h2c"), HANDSHAKE.replace("keep-alive, Upgrade", "keep-alive")]
    {
        assert_eq!(gateway.ask(&request).status, 426, "{request}");
    }
    // Requests that were sent ahead would be swallowed by the tunnel.
    assert_eq!(gateway.ask(&format!("{HANDSHAKE}GET / HTTP/1.1\r\nHost: a\r\n\r\n")).status, 426);
    assert!(backend.seen().len() >= 4);
}

#[test]
fn a_backend_that_refuses_answers_as_usual() {
    let (gateway, _backend) = talk(|mut peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
        }
    });
    let mut client = gateway.client();
    for _ in 0..2 {
        client.send(HANDSHAKE);
        assert_eq!(client.answer().body, "no");
    }
}

#[test]
fn a_tunnel_has_its_own_limit_on_silence() {
    let backend = Backend::start(accepting);
    let limits = |settings: &mut Settings| {
        settings.limits.idle = Duration::from_millis(500);
        settings.limits.tunnel_idle = Duration::from_millis(2000);
    };
    let gateway =
        Gateway::with(limits, config(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]));
    let mut client = upgraded(&gateway, HANDSHAKE);
    sleep(Duration::from_millis(1000));
    client.send("abc");
    assert_eq!(client.bytes(3), b"abc");
    assert!(client.is_closed());
    backend.await_ended(1);
}

#[test]
fn a_configured_limit_on_the_request_holds_for_the_tunnel() {
    let backend = Backend::start(accepting);
    let mut rule = rule("/", "shop/web:80");
    rule["action"]["timeouts"] = serde_json::json!({ "request": 1000 });
    let gateway = Gateway::start(&[rule], &[("shop/web:80", backend.address())]);
    let mut client = upgraded(&gateway, HANDSHAKE);
    client.send("abc");
    assert_eq!(client.bytes(3), b"abc");
    assert!(client.is_closed());
}

#[test]
fn a_drain_leaves_a_tunnel_open_until_its_deadline() {
    let (mut gateway, backend) = talk(accepting);
    let mut client = upgraded(&gateway, HANDSHAKE);
    gateway.drain(Duration::from_millis(1500));
    sleep(Duration::from_millis(300));
    client.send("abc");
    assert_eq!(client.bytes(3), b"abc");
    assert!(client.is_closed());
    backend.await_ended(1);
}
