//! Plain clients that see everything: when a connection ends, what was announced, and what was not.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

/// A stream of either kind.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A TLS client's connection, and the certificate it was shown.
pub async fn tls(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    name: &str,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let name = ServerName::try_from(name.to_owned()).expect("a server name");
    TlsConnector::from(Arc::clone(config)).connect(name, tcp).await
}

/// The leaf certificate that the server showed.
pub fn leaf(stream: &tokio_rustls::client::TlsStream<TcpStream>) -> CertificateDer<'static> {
    let chain = stream.get_ref().1.peer_certificates().expect("a server shows a certificate");
    chain[0].clone().into_owned()
}

/// An HTTP/1.1 connection.
pub struct Http1 {
    io: Box<dyn Io>,
    buffer: BytesMut,
    /// The server has announced the end of the connection.
    pub closing: bool,
}

impl Http1 {
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let tcp = TcpStream::connect(address).await?;
        tcp.set_nodelay(true)?;
        Ok(Self::over(tcp))
    }

    pub fn over(io: impl Io + 'static) -> Self {
        Self { io: Box::new(io), buffer: BytesMut::new(), closing: false }
    }

    pub async fn get(&mut self, host: &str, path: &str) -> io::Result<Answer> {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await?;
        self.answer().await
    }

    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.io.write_all(bytes).await?;
        self.io.flush().await
    }

    /// The next answer, framed by its length, by chunks, or by the end of the connection.
    pub async fn answer(&mut self) -> io::Result<Answer> {
        let head = self.line_block().await?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or_else(bad)?;
        let mut headers = HeaderMap::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or_else(bad)?;
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            headers.append(name, HeaderValue::from_str(value.trim()).map_err(|_| bad())?);
        }
        let says = |name: &str, value: &str| {
            headers
                .get(name)
                .and_then(|v| v.to_str().ok())
                .is_some_and(|v| v.to_ascii_lowercase().contains(value))
        };
        self.closing |= says("connection", "close");
        let length = headers.get("content-length").and_then(|v| v.to_str().ok()?.parse().ok());
        let body = match (status, length) {
            (100..200 | 204 | 304, _) => Bytes::new(),
            (_, Some(length)) => self.exactly(length).await?,
            _ if says("transfer-encoding", "chunked") => self.chunks().await?,
            _ => {
                while self.fill().await? {}
                self.closing = true;
                self.buffer.split().freeze()
            }
        };
        let status = StatusCode::from_u16(status).map_err(|_| bad())?;
        Ok(Answer { status, headers, body, trailers: None })
    }

    /// Whether the server closes, as opposed to sending something.
    pub async fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && !matches!(self.fill().await, Ok(true))
    }

    /// The stream, for another protocol.
    pub fn into_inner(self) -> Box<dyn Io> {
        assert!(self.buffer.is_empty(), "bytes are left");
        self.io
    }

    async fn line_block(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let block = self.buffer.split_to(at + 4);
                return String::from_utf8(block[..at].to_vec()).map_err(|_| bad());
            }
            self.must_fill().await?;
        }
    }

    async fn exactly(&mut self, length: usize) -> io::Result<Bytes> {
        while self.buffer.len() < length {
            self.must_fill().await?;
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    async fn chunks(&mut self) -> io::Result<Bytes> {
        let mut body = BytesMut::new();
        loop {
            let at = loop {
                match self.buffer.windows(2).position(|window| window == b"\r\n") {
                    Some(at) => break at,
                    None => self.must_fill().await?,
                }
            };
            let line = self.buffer.split_to(at + 2);
            let size =
                std::str::from_utf8(&line[..at]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
            let size = size.ok_or_else(bad)?;
            let chunk = self.exactly(size + 2).await?;
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                return Ok(body.freeze());
            }
        }
    }

    async fn must_fill(&mut self) -> io::Result<()> {
        match self.fill().await? {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    async fn fill(&mut self) -> io::Result<bool> {
        Ok(self.io.read_buf(&mut self.buffer).await? > 0)
    }
}

fn bad() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not HTTP/1.1")
}

/// An HTTP/2 connection; clones share it.
#[derive(Clone)]
pub struct Http2(h2::client::SendRequest<Bytes>);

impl Http2 {
    pub async fn over(io: impl Io + 'static) -> Result<Self, h2::Error> {
        let (send, connection) = h2::client::handshake(io).await?;
        tokio::spawn(async move {
            // Requests see its end as well.
            let _ = connection.await;
        });
        Ok(Self(send))
    }

    pub async fn get(&mut self, uri: &str) -> Result<Answer, h2::Error> {
        let request = Request::get(uri).body(()).expect("a uri");
        self.send(request, true).await?.0.finish().await
    }

    /// Sends a request; the answer is on its way, and its body, if `end` is not set, in hand.
    pub async fn send(
        &mut self,
        request: Request<()>,
        end: bool,
    ) -> Result<(Pending, h2::SendStream<Bytes>), h2::Error> {
        let mut send = self.0.clone().ready().await?;
        let (response, body) = send.send_request(request, end)?;
        Ok((Pending(response), body))
    }
}

/// An answer that has not come yet.
pub struct Pending(pub h2::client::ResponseFuture);

impl Pending {
    pub async fn finish(self) -> Result<Answer, h2::Error> {
        let (head, mut stream) = self.0.await?.into_parts();
        let mut body = BytesMut::new();
        while let Some(piece) = stream.data().await {
            let piece = piece?;
            stream.flow_control().release_capacity(piece.len())?;
            body.extend_from_slice(&piece);
        }
        let trailers = stream.trailers().await?;
        Ok(Answer { status: head.status, headers: head.headers, body: body.freeze(), trailers })
    }
}
