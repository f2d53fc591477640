//! Backends that say who they are.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderMap, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A backend on a port of its own. It ends when this is dropped.
pub struct Origin {
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Origin {
    /// HTTP/1.1: answers `NAME PATH`, after as many milliseconds as a path `/sleep/N` says; echoes WebSocket messages.
    pub async fn http1(name: &str) -> Self {
        Self::start(name, |name, tcp| async move {
            // The proxy ends connections as it likes.
            let _ = http1(&name, tcp).await;
        })
        .await
    }

    /// HTTP/2 with prior knowledge: answers `NAME PATH`; sends a POST's body back as it comes, with a trailer
    /// `grpc-status: 0`.
    pub async fn h2c(name: &str) -> Self {
        Self::start(name, |name, tcp| async move {
            let _ = h2c(&name, tcp).await;
        })
        .await
    }

    /// Anything: `serve` gets each connection.
    pub async fn start<F>(name: &str, serve: impl Fn(String, TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let name = name.to_owned();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                let _ = tcp.set_nodelay(true);
                connections.spawn(serve(name.clone(), tcp));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, task }
    }
}

async fn http1(name: &str, mut tcp: TcpStream) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if tcp.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        buffer.drain(..end);
        let path = head.split(' ').nth(1).unwrap_or_default();
        if let Some(key) = field(&head, "sec-websocket-key") {
            return websocket(tcp, key).await;
        }
        let length = field(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while buffer.len() < length {
            if tcp.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        buffer.drain(..length);
        if let Some(pause) = path.strip_prefix("/sleep/").and_then(|pause| pause.parse().ok()) {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        let body = format!("{name} {path}");
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        tcp.write_all(answer.as_bytes()).await?;
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

async fn websocket(mut tcp: TcpStream, key: &str) -> std::io::Result<()> {
    use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
    use tokio_tungstenite::tungstenite::protocol::Role;
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: {}\r\n\r\n",
        derive_accept_key(key.as_bytes())
    );
    tcp.write_all(answer.as_bytes()).await?;
    let mut socket = tokio_tungstenite::WebSocketStream::from_raw_socket(tcp, Role::Server, None).await;
    while let Some(Ok(message)) = socket.next().await {
        if message.is_close() || socket.send(message).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn h2c(name: &str, tcp: TcpStream) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(tcp).await?;
    while let Some(request) = connection.accept().await {
        let (request, respond) = request?;
        let name = name.to_owned();
        tokio::spawn(async move {
            let _ = answer(&name, request, respond).await;
        });
    }
    Ok(())
}

async fn answer(
    name: &str,
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let text = format!("{name} {}", request.uri().path());
    let is_stream = request.method() == http::Method::POST;
    let mut body = request.into_body();
    let mut out = respond.send_response(Response::new(()), false)?;
    if !is_stream {
        return out.send_data(text.into(), true);
    }
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        out.send_data(piece, false)?;
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    out.send_trailers(trailers)
}
