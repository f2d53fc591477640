//! HTTP/2 towards the gateway, and behind it.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::PATIENCE;

/// What came back on a stream.
#[derive(Debug)]
pub struct Reply {
    pub head: http::response::Parts,
    pub body: Vec<u8>,
    pub trailers: Option<HeaderMap>,
}

/// A connection with prior knowledge of HTTP/2.
pub async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    let tcp = TcpStream::connect(address).await.expect("the gateway listens");
    speak(tcp).await
}

/// HTTP/2 over any stream.
pub async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> SendRequest<Bytes> {
    let (sender, connection) = h2::client::handshake(stream).await.expect("an HTTP/2 connection");
    tokio::spawn(async move {
        // A test sees what is wrong by its streams.
        let _ = connection.await;
    });
    sender
}

/// Sends a request with a body and reads all of the answer.
pub async fn ask(sender: &SendRequest<Bytes>, request: Request<&str>) -> Result<Reply, h2::Error> {
    let (parts, body) = request.into_parts();
    let mut sender = sender.clone().ready().await?;
    let (response, mut stream) = sender.send_request(Request::from_parts(parts, ()), body.is_empty())?;
    if !body.is_empty() {
        // An answer that came at once has ended the stream for us.
        let _ = stream.send_data(Bytes::copy_from_slice(body.as_bytes()), true);
    }
    read(timeout(PATIENCE, response).await.expect("an answer in time")?).await
}

/// Reads all of an answer.
pub async fn read(response: Response<h2::RecvStream>) -> Result<Reply, h2::Error> {
    let (head, mut stream) = response.into_parts();
    let mut body = Vec::new();
    while let Some(piece) = timeout(PATIENCE, stream.data()).await.expect("a piece in time") {
        let piece = piece?;
        let _ = stream.flow_control().release_capacity(piece.len());
        body.extend_from_slice(&piece);
    }
    Ok(Reply { head, body, trailers: stream.trailers().await? })
}

/// A request for `path` of `host`.
pub fn get(host: &str, path: &str) -> Request<&'static str> {
    Request::get(format!("http://{host}{path}")).body("").expect("a request")
}

/// A backend that speaks HTTP/2 in cleartext and does what `talk` does with each stream.
pub async fn serve<F>(
    talk: impl Fn(Request<h2::RecvStream>, h2::server::SendResponse<Bytes>) -> F + Clone + Send + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound port");
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let talk = talk.clone();
            tokio::spawn(async move {
                let Ok(mut connection) = h2::server::handshake(tcp).await else { return };
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::spawn(talk(request, respond));
                }
            });
        }
    });
    address
}
