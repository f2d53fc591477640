//! How connections end when the gateway goes away.

use std::thread::sleep;
use std::time::Duration;

use super::common::{Backend, Gateway, Peer, h2c, rule, talk};

fn slow(mut peer: Peer) {
    while peer.request().is_some() {
        sleep(Duration::from_millis(800));
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
}

#[test]
fn an_idle_connection_closes_and_a_busy_one_says_that_it_will() {
    let (mut gateway, _backend) = talk(slow);
    let (mut idle, mut busy) = (gateway.client(), gateway.client());
    idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(idle.answer().header("connection"), None);
    busy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    sleep(Duration::from_millis(100));
    gateway.drain(Duration::from_secs(5));
    assert!(idle.is_closed());
    let answer = busy.answer();
    assert_eq!((&*answer.body, answer.header("connection")), ("ok", Some("close")));
    assert!(busy.is_closed());
}

#[test]
fn what_is_not_over_at_the_deadline_is_cut() {
    let (mut gateway, backend) = talk(|mut peer| {
        peer.head();
        assert!(peer.closed());
    });
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    sleep(Duration::from_millis(50));
    gateway.drain(Duration::from_millis(200));
    assert!(client.is_closed());
    backend.await_ended(1);
}

#[test]
fn http_2_streams_are_finished_and_those_on_their_way_are_taken() {
    let backend = Backend::start(slow);
    let mut gateway = Gateway::start(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]);
    let address = gateway.address(80);
    let sender = gateway.runtime().block_on(h2c::connect(address));
    let asked: Vec<_> = (0..5)
        .map(|at| {
            let sender = sender.clone();
            let path = format!("/{at}");
            gateway.runtime().spawn(async move { h2c::ask(&sender, h2c::get("a", &path)).await })
        })
        .collect();
    sleep(Duration::from_millis(100));
    gateway.drain(Duration::from_secs(5));
    for asked in asked {
        let reply = gateway.runtime().block_on(asked).expect("no panic").expect("an answer");
        assert_eq!(reply.body, b"ok");
    }
    let refused = gateway.runtime().block_on(h2c::ask(&sender, h2c::get("a", "/late")));
    assert!(refused.is_err(), "{refused:?}");
}
