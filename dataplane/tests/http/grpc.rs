//! gRPC: trailers pass, streams flow both ways, and faults are told in gRPC's own words.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use serde_json::json;

use super::common::{Gateway, h2c, h2c_rule};
use super::http2::h2c_gateway;

fn call(path: &str) -> Request<&'static str> {
    Request::post(format!("http://a{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", "1S")
        .body("\0\0\0\0\u{3}abc")
        .expect("a request")
}

fn trailers(status: &str) -> HeaderMap {
    HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        http::HeaderValue::from_str(status).expect("a status"),
    )])
}

/// Repeats every piece as it comes.
async fn repeat(request: Request<h2::RecvStream>, mut respond: h2::server::SendResponse<Bytes>) {
    assert_eq!(request.headers()["te"], "trailers");
    assert_eq!(request.headers()["grpc-timeout"], "1S");
    let response = || Response::builder().header("content-type", "application/grpc");
    if request.uri().path() == "/s/Fail" {
        let failed = response().header("grpc-status", "7").header("grpc-message", "no").body(());
        respond.send_response(failed.expect("a response"), true).expect("a stream");
        return;
    }
    let mut stream =
        respond.send_response(response().body(()).expect("a response"), false).expect("a stream");
    let mut body = request.into_body();
    while let Some(piece) = body.data().await {
        let piece = piece.expect("a piece");
        let _ = body.flow_control().release_capacity(piece.len());
        stream.send_data(piece, false).expect("a stream");
    }
    stream.send_trailers(trailers("0")).expect("a stream");
}

#[test]
fn a_call_passes_with_its_trailers() {
    let (gateway, _runtime) = h2c_gateway(repeat);
    gateway.runtime().block_on(async {
        let sender = h2c::connect(gateway.address(80)).await;
        let reply = h2c::ask(&sender, call("/s/Unary")).await.expect("an answer");
        assert_eq!(reply.body, b"\0\0\0\0\x03abc");
        assert_eq!(reply.trailers, Some(trailers("0")));
        let reply = h2c::ask(&sender, call("/s/Fail")).await.expect("an answer");
        assert_eq!(
            (reply.head.status.as_u16(), &reply.head.headers["grpc-status"]),
            (200, &"7".parse().expect("a value"))
        );
        assert_eq!(reply.trailers, None);
    });
}

#[test]
fn messages_flow_both_ways_at_once() {
    let (gateway, _runtime) = h2c_gateway(repeat);
    gateway.runtime().block_on(async {
        let mut sender = h2c::connect(gateway.address(80)).await.ready().await.expect("a connection");
        let (parts, _) = call("/s/Bidi").into_parts();
        let (response, mut up) =
            sender.send_request(Request::from_parts(parts, ()), false).expect("a stream");
        let mut down = response.await.expect("an answer").into_body();
        for message in ["one", "two", "three"] {
            up.send_data(Bytes::from_static(message.as_bytes()), false).expect("a stream");
            let piece = down.data().await.expect("a piece").expect("a piece");
            assert_eq!(piece, message);
            let _ = down.flow_control().release_capacity(piece.len());
        }
        up.send_data(Bytes::new(), true).expect("a stream");
        assert!(down.data().await.is_none());
        assert_eq!(down.trailers().await.expect("trailers"), Some(trailers("0")));
    });
}

#[test]
fn faults_are_told_as_a_status_of_grpc() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let mut failed = h2c_rule("/failed", "shop/gone:80");
    failed["action"] = json!({ "type": "fail", "reason": "UnsupportedValue", "message": "no such filter" });
    let rules = [failed, h2c_rule("/gone", "shop/gone:80"), h2c_rule("/none", "shop/none:80")];
    let mut config = super::common::config(&rules, &[("shop/gone:80", gone.expect("a free port"))]);
    config["backends"]["shop/none:80"] = json!({ "endpoints": [] });
    let gateway = Gateway::with(|_| (), config);
    gateway.runtime().block_on(async {
        let sender = h2c::connect(gateway.address(80)).await;
        for (path, status) in [("/other", "12"), ("/failed", "13"), ("/none", "14"), ("/gone", "14")] {
            let reply = h2c::ask(&sender, call(path)).await.expect("an answer");
            assert_eq!(reply.head.status, 200, "{path}");
            assert_eq!(reply.head.headers["content-type"], "application/grpc", "{path}");
            assert_eq!(reply.head.headers["grpc-status"], status, "{path}");
            assert!(reply.head.headers.contains_key("grpc-message") && reply.body.is_empty(), "{path}");
        }
    });
}

#[test]
fn a_call_that_takes_too_long_is_deadline_exceeded() {
    let (mut gateway, runtime) = h2c_gateway(repeat);
    let address = runtime.block_on(h2c::serve(|_request, respond| async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        drop(respond);
    }));
    let mut rule = h2c_rule("/", "shop/web:80");
    rule["action"]["timeouts"] = json!({ "request": 200 });
    gateway.apply(super::common::config(&[rule], &[("shop/web:80", address)]));
    gateway.runtime().block_on(async {
        let sender = h2c::connect(gateway.address(80)).await;
        let reply = h2c::ask(&sender, call("/s/Slow")).await.expect("an answer");
        assert_eq!(
            (reply.head.status.as_u16(), &reply.head.headers["grpc-status"]),
            (200, &"4".parse().expect("a value"))
        );
    });
}
