//! Connections to endpoints: shared, kept, and closed when nobody needs them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use postern_config::AppProtocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::plan::rule_to;
use crate::common::{Http1, Http2, Origin, Plan, apply, counted, rule, serve, settings, within};

/// HTTP/2 that answers after a while, and counts connections.
async fn slow_h2c(connections: Arc<AtomicUsize>) -> Origin {
    Origin::start("slow", move |_, tcp| {
        connections.fetch_add(1, SeqCst);
        async move {
            let Ok(mut connection) = h2::server::handshake(tcp).await else { return };
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    if let Ok(mut body) = respond.send_response(Response::new(()), false) {
                        let _ = body.send_data(Bytes::from_static(b"slow"), true);
                    }
                });
            }
        }
    })
    .await
}

#[tokio::test]
async fn streams_that_begin_at_once_share_their_first_connection() {
    let connections = Arc::new(AtomicUsize::new(0));
    let origin = slow_h2c(Arc::clone(&connections)).await;
    let plan = Plan::new()
        .http("web", 80)
        .route("r", &["web"], [rule_to("/", "web", AppProtocol::H2c)])
        .backend("web", [origin.address]);
    let settings = postern_dataplane::Settings { workers: 1, ..settings([80]) };
    let (plane, applied) = serve(settings, plan.config()).await;
    let tcp = TcpStream::connect(applied.open[&80]).await.expect("open");
    let h2 = within("a handshake", Http2::over(tcp)).await.expect("open");
    let ask = |count: usize| {
        let all = (0..count).map(|_| {
            let mut h2 = h2.clone();
            async move { h2.get("http://x/").await.expect("served").text().to_owned() }
        });
        futures::future::join_all(all.collect::<Vec<_>>())
    };
    assert!(within("answers", ask(50)).await.iter().all(|answer| answer == "slow"));
    assert_eq!(connections.load(SeqCst), 1);
    assert!(within("answers", ask(50)).await.iter().all(|answer| answer == "slow"));
    assert_eq!(connections.load(SeqCst), 1);
    counted(&plane, "http_client_open_connections 1\n").await;
}

#[tokio::test]
async fn more_streams_than_a_connection_takes_get_another_one() {
    let connections = Arc::new(AtomicUsize::new(0));
    let origin = slow_h2c(Arc::clone(&connections)).await;
    let plan = Plan::new()
        .http("web", 80)
        .route("r", &["web"], [rule_to("/", "web", AppProtocol::H2c)])
        .backend("web", [origin.address]);
    let mut settings = postern_dataplane::Settings { workers: 1, ..settings([80]) };
    settings.limits.upstream_streams = 10;
    let (_plane, applied) = serve(settings, plan.config()).await;
    let tcp = TcpStream::connect(applied.open[&80]).await.expect("open");
    let mut h2 = within("a handshake", Http2::over(tcp)).await.expect("open");
    let mut answers = Vec::new();
    for _ in 0..25 {
        let request = Request::get("http://x/").body(()).expect("a request");
        answers.push(h2.send(request, true).await.expect("open").0);
    }
    for answer in answers {
        assert_eq!(within("an answer", answer.finish()).await.expect("served").text(), "slow");
    }
    let made = connections.load(SeqCst);
    assert!(made == 3, "{made} connections for 25 streams, ten on each");
}

#[tokio::test]
async fn connections_are_kept_and_go_when_their_endpoint_goes() {
    let (opened, closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&opened), Arc::clone(&closed));
    let origin = Origin::start("counted", move |_, mut tcp| {
        counts.0.fetch_add(1, SeqCst);
        let closed = Arc::clone(&counts.1);
        async move {
            let mut buffer = [0; 4096];
            while tcp.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                if tcp.write_all(answer).await.is_err() {
                    break;
                }
            }
            closed.fetch_add(1, SeqCst);
        }
    })
    .await;
    let plan = Plan::new().http("web", 80).route("r", &["web"], [rule("/", "web")]);
    let with = plan.clone().backend("web", [origin.address]);
    let settings = postern_dataplane::Settings { workers: 1, ..settings([80]) };
    let (plane, applied) = serve(settings, with.config()).await;
    let mut client = Http1::connect(applied.open[&80]).await.expect("open");
    for _ in 0..10 {
        assert_eq!(within("an answer", client.get("x", "/")).await.expect("served").text(), "ok");
    }
    assert_eq!((opened.load(SeqCst), closed.load(SeqCst)), (1, 0));
    apply(&plane, plan.backend("web", []).config()).await;
    within("the end of the connection", async {
        while closed.load(SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(within("an answer", client.get("x", "/")).await.expect("answered").status, 503);
    apply(&plane, with.config()).await;
    assert_eq!(within("an answer", client.get("x", "/")).await.expect("served").text(), "ok");
    assert_eq!(opened.load(SeqCst), 2);
}
