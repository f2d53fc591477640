//! The echo backends of `serve --dev` for what is more than a request and an answer: WebSocket and gRPC.

#[path = "common/run.rs"]
mod run;
#[expect(dead_code, reason = "here it is started and read, and nothing else")]
#[path = "common/server.rs"]
mod server;

use std::net::SocketAddr;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderMap, Request, StatusCode};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use run::fixtures;
use server::Server;

fn serve() -> (Server, SocketAddr) {
    let mut server = Server::start_in(&fixtures(), ["-f", "echo.yaml", "--dev", "--bind", "80=127.0.0.1:0"]);
    let web = server.listener("echo/web http");
    (server, web)
}

#[tokio::test]
async fn a_websocket_gets_back_what_it_sends() {
    let (_server, web) = serve();
    let stream = TcpStream::connect(web).await.expect("the port is open");
    let (mut socket, response) = client_async("ws://chat.test/room", stream).await.expect("an upgrade");
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    for message in [Message::text("hello"), Message::binary(vec![0; 100_000])] {
        socket.send(message.clone()).await.expect("sent");
        assert_eq!(socket.next().await.expect("open").expect("a message"), message);
    }
    socket.close(None).await.expect("closed");
}

#[tokio::test]
async fn a_grpc_call_gets_back_its_messages_and_status_0() {
    let (_server, web) = serve();
    let stream = TcpStream::connect(web).await.expect("the port is open");
    let (mut client, connection) = h2::client::handshake(stream).await.expect("HTTP/2 with prior knowledge");
    tokio::spawn(connection);
    // Two messages: flag, length, text.
    let messages = Bytes::from_static(b"\0\0\0\0\x02hi\0\0\0\0\x03you");
    let (status, body, trailers) = call(&mut client, "/echo.Echo/Say", messages.clone()).await;
    assert_eq!((status, body), (StatusCode::OK, messages));
    assert_eq!(trailers.get("grpc-status").and_then(|value| value.to_str().ok()), Some("0"));
}

async fn call(
    client: &mut h2::client::SendRequest<Bytes>,
    path: &str,
    body: Bytes,
) -> (StatusCode, Bytes, HeaderMap) {
    let request =
        Request::post(format!("http://calls.test{path}")).header("content-type", "application/grpc");
    let request = request.header("te", "trailers").body(()).expect("a request");
    let (response, mut sending) = client.send_request(request, false).expect("open");
    sending.send_data(body, true).expect("sent");
    let (head, mut receiving) = response.await.expect("answered").into_parts();
    let mut received = Vec::new();
    while let Some(data) = receiving.data().await {
        received.extend_from_slice(&data.expect("data"));
    }
    let trailers = receiving.trailers().await.expect("trailers").unwrap_or_default();
    (head.status, received.into(), trailers)
}
