//! How ports, connections and planes end.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::Request;
use postern_config::AppProtocol;
use postern_dataplane::Plane;
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use crate::common::plan::rule_to;
use crate::common::{Http1, Http2, Origin, Plan, apply, rule, serve, settings, within};

/// A plane with one route to one backend, and where it listens.
async fn web() -> (Origin, Plane, SocketAddr) {
    let origin = Origin::http1("web").await;
    let plan =
        Plan::new().http("web", 80).route("r", &["web"], [rule("/", "web")]).backend("web", [origin.address]);
    let (plane, applied) = serve(settings([80]), plan.config()).await;
    (origin, plane, applied.open[&80])
}

#[tokio::test]
async fn a_port_that_goes_finishes_what_it_has_and_harms_no_other() {
    let origin = Origin::http1("web").await;
    let route = |plan: Plan, listeners: &[&str]| {
        plan.route("r", listeners, [rule("/", "web")]).backend("web", [origin.address]).config()
    };
    let (one, two) = (Plan::new().http("stays", 80), Plan::new().http("stays", 80).http("goes", 81));
    let (plane, applied) = serve(settings([80, 81]), route(two, &["stays", "goes"])).await;
    let mut stays = Http1::connect(applied.open[&80]).await.expect("open");
    let mut idle = Http1::connect(applied.open[&81]).await.expect("open");
    let mut busy = Http1::connect(applied.open[&81]).await.expect("open");
    for connection in [&mut stays, &mut idle, &mut busy] {
        assert_eq!(within("an answer", connection.get("x", "/a")).await.expect("served").text(), "web /a");
    }
    busy.send(b"GET /sleep/300 HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("open");
    tokio::time::sleep(Duration::from_millis(100)).await;

    let now = apply(&plane, route(one, &["stays"])).await;
    assert_eq!(now.open.keys().collect::<Vec<_>>(), [&80]);
    assert!(TcpStream::connect(applied.open[&81]).await.is_err(), "it still takes connections");
    assert!(within("the end", idle.is_closed()).await);
    let answer = within("an answer", busy.answer()).await.expect("served");
    assert_eq!(answer.text(), "web /sleep/300");
    assert!(busy.closing, "{answer:?} does not announce the end");
    assert!(within("the end", busy.is_closed()).await);
    assert_eq!(within("an answer", stays.get("x", "/b")).await.expect("served").text(), "web /b");
    assert!(!stays.closing);
}

#[tokio::test]
async fn a_plane_with_nothing_to_do_ends_at_once() {
    let (plane, applied) = serve(settings([80]), Plan::new().http("web", 80).config()).await;
    let began = Instant::now();
    within("the end", plane.drain(Duration::from_secs(15))).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(TcpStream::connect(applied.open[&80]).await.is_err());
}

#[tokio::test]
async fn a_plane_that_ends_finishes_requests_and_streams_and_cuts_tunnels_at_the_deadline() {
    let (web, grpc) = (Origin::http1("web").await, Origin::h2c("grpc").await);
    let plan = Plan::new()
        .http("web", 80)
        .route("r", &["web"], [rule("/", "web"), rule_to("/grpc", "grpc", AppProtocol::H2c)])
        .backend("web", [web.address])
        .backend("grpc", [grpc.address]);
    let (plane, applied) = serve(settings([80]), plan.config()).await;
    let address = applied.open[&80];

    let mut busy = Http1::connect(address).await.expect("open");
    busy.send(b"GET /sleep/300 HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("open");
    let tcp = TcpStream::connect(address).await.expect("open");
    let (mut tunnel, _) = within("a tunnel", client_async("ws://x/", tcp)).await.expect("upgraded");
    let tcp = TcpStream::connect(address).await.expect("open");
    let mut h2 = within("a handshake", Http2::over(tcp)).await.expect("open");
    let request = Request::post("http://x/grpc").body(()).expect("a request");
    let (pending, mut body) = within("a stream", h2.send(request, false)).await.expect("open");
    body.send_data(Bytes::from_static(b"before "), false).expect("open");
    tokio::time::sleep(Duration::from_millis(100)).await;

    let began = Instant::now();
    let drained = tokio::spawn(plane.drain(Duration::from_secs(2)));
    let answer = within("an answer", busy.answer()).await.expect("served");
    assert!(answer.text() == "web /sleep/300" && busy.closing, "{answer:?}");
    // The stream goes on and ends well; a new one is not taken on this connection.
    body.send_data(Bytes::from_static(b"after"), true).expect("open");
    let answer = within("an answer", pending.finish()).await.expect("served");
    assert_eq!(answer.text(), "before after");
    assert_eq!(answer.trailers.expect("trailers")["grpc-status"], "0");
    assert!(within("a refusal", h2.get("http://x/")).await.is_err());
    // The tunnel works until the deadline.
    tunnel.send(Message::text("still here")).await.expect("open");
    let echo = within("an echo", tunnel.next()).await.expect("open").expect("open");
    assert_eq!(echo, Message::text("still here"));
    assert!(began.elapsed() < Duration::from_secs(2), "too slow to tell: {:?}", began.elapsed());
    assert!(!matches!(within("the end", tunnel.next()).await, Some(Ok(_))));
    within("the end", drained).await.expect("no panic");
    assert!(began.elapsed() >= Duration::from_secs(2), "cut early: {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(6), "cut late: {:?}", began.elapsed());
}

#[tokio::test]
async fn connections_that_wait_in_the_queue_when_the_end_begins_are_served() {
    let (_origin, plane, address) = web().await;
    let mut connections = Vec::new();
    for _ in 0..100 {
        connections.push(Http1::connect(address).await.expect("open"));
    }
    let drained = tokio::spawn(plane.drain(Duration::from_secs(10)));
    tokio::task::yield_now().await;
    for connection in &mut connections {
        let answer = within("an answer", connection.get("x", "/a")).await.expect("served");
        assert!(answer.text() == "web /a" && connection.closing, "{answer:?}");
    }
    within("the end", drained).await.expect("no panic");
}

#[tokio::test]
async fn a_plane_that_leaves_takes_new_connections_and_ends_each_with_its_answer() {
    let (_origin, plane, address) = web().await;
    let mut kept = Http1::connect(address).await.expect("open");
    assert_eq!(within("an answer", kept.get("x", "/a")).await.expect("served").text(), "web /a");
    assert!(!kept.closing);
    let mut silent = Http1::connect(address).await.expect("open");
    let tcp = TcpStream::connect(address).await.expect("open");
    let mut h2 = within("a handshake", Http2::over(tcp)).await.expect("open");

    plane.leave();
    let mut new = Http1::connect(address).await.expect("it still takes connections");
    for connection in [&mut kept, &mut new] {
        let answer = within("an answer", connection.get("x", "/b")).await.expect("served");
        assert!(answer.text() == "web /b" && connection.closing, "{answer:?}");
        assert!(within("the end", connection.is_closed()).await);
    }
    for _ in 0..2 {
        assert_eq!(within("an answer", h2.get("http://x/c")).await.expect("served").text(), "web /c");
    }
    let drained = tokio::spawn(plane.drain(Duration::from_secs(10)));
    let answer = within("an answer", silent.get("x", "/d")).await.expect("served");
    assert!(answer.text() == "web /d" && silent.closing, "{answer:?}");
    within("the end", drained).await.expect("no panic");
}

#[tokio::test]
async fn clients_that_go_on_and_on_lose_nothing_when_a_plane_ends() {
    let (_origin, plane, address) = web().await;
    let mut clients = tokio::task::JoinSet::new();
    for pause in 0..40 {
        let mut connection = Http1::connect(address).await.expect("open");
        clients.spawn(async move {
            let mut count = 0;
            while !connection.closing {
                let answer = within("an answer", connection.get("x", "/a")).await;
                assert_eq!(
                    answer.unwrap_or_else(|error| panic!("lost after {count}: {error}")).text(),
                    "web /a"
                );
                count += 1;
                tokio::time::sleep(Duration::from_millis(pause * 5)).await;
            }
            count
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    within("the end", plane.drain(Duration::from_secs(10))).await;
    let mut served = 0;
    while let Some(count) = clients.join_next().await {
        served += count.expect("nothing is lost");
    }
    assert!(served > 100, "{served} requests");
}
