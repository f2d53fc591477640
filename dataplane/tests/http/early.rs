//! Answers that come before the request is complete.

use std::io::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::common::{Client, talk};

const BIG: usize = 8 << 20;

#[test]
fn an_answer_passes_while_the_backend_reads_nothing_of_the_upload() {
    for wait in [0, 300] {
        let (gateway, _backend) = talk(move |mut peer| {
            peer.head();
            sleep(Duration::from_millis(wait));
            peer.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig");
            // Open, and never reading.
            sleep(Duration::from_secs(2));
        });
        let mut client = gateway.client();
        upload(&client);
        let began = Instant::now();
        let answer = client.answer();
        assert_eq!((answer.status, &*answer.body, answer.header("connection")), (413, "big", Some("close")));
        assert!(began.elapsed() < Duration::from_millis(wait + 1500), "{:?}", began.elapsed());
    }
}

#[test]
fn an_answer_counts_although_the_backend_closed_on_the_upload() {
    let (gateway, _backend) = talk(|mut peer| {
        peer.head();
        peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
        sleep(Duration::from_millis(50));
    });
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    client.send(vec![b'x'; 20_000]);
    assert_eq!(client.answer().body, "no");
}

#[test]
fn upload_and_answer_move_at_the_same_time() {
    let (gateway, _backend) = talk(|mut peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        // Every piece of the upload is answered before the next one is sent.
        for _ in 0..5 {
            let chunk = peer.bytes(8).expect("a chunk");
            assert_eq!(chunk, b"3\r\nabc\r\n");
            peer.send("3\r\nABC\r\n");
        }
        assert_eq!(peer.bytes(5).as_deref(), Some(&b"0\r\n\r\n"[..]));
        peer.send("0\r\n\r\n");
    });
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(client.head().status, 200);
    for _ in 0..5 {
        client.send("3\r\nabc\r\n");
        assert_eq!(client.bytes(8), b"3\r\nABC\r\n");
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.bytes(5), b"0\r\n\r\n");
}

#[test]
fn a_big_upload_and_a_big_answer_do_not_block_each_other() {
    let (gateway, _backend) = talk(|mut peer| {
        peer.head();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BIG}\r\n\r\n"));
        peer.send(vec![b'y'; BIG - 1]);
        assert_eq!(peer.bytes(BIG).map(|body| body.len()), Some(BIG));
        peer.send("y");
    });
    let mut client = gateway.client();
    upload(&client);
    let answer = client.head();
    assert_eq!((answer.status, client.bytes(BIG).len()), (200, BIG));
}

/// Sends a big body in a thread of its own.
fn upload(client: &Client) {
    let mut sender = client.stream.try_clone().expect("a socket");
    std::thread::spawn(move || {
        // The gateway may have had enough.
        let _ = sender
            .write_all(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BIG}\r\n\r\n").as_bytes());
        let _ = sender.write_all(&vec![b'x'; BIG]);
    });
}
