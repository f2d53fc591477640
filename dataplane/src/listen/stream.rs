//! The bytes of one connection, plain or TLS, shared by the half that reads and the half that writes.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use async_trait::async_trait;
use bytes::BytesMut;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest,
    UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::metrics::EndpointConnection;

/// A connection. Clones share it; the last one closes it.
///
/// pingora's HTTP/1 sessions own what they read from and lend it to nobody, so that a request cannot be answered while its
/// body is read. A clone of the connection beside the session writes without it: both directions move at once.
#[derive(Clone)]
pub(crate) struct Conn(Arc<Socket>);

struct Socket {
    io: Mutex<Io>,
    peer: SocketAddr,
    local: SocketAddr,
    fd: RawFd,
    _counted: Option<EndpointConnection>,
}

struct Io {
    transport: Transport,
    /// Bytes that were read to decide the protocol and wait to be read again.
    unread: BytesMut,
    /// Bytes that wait to be sent; those before `sent` have left.
    out: Vec<u8>,
    sent: usize,
    /// How many bytes were read.
    taken: u64,
}

/// The most room that an idle connection keeps for what it will send.
const KEPT_ROOM: usize = 4096;

/// What carries the bytes.
enum Transport {
    Tcp(TcpStream),
    Tls(Box<tokio_rustls::server::TlsStream<TcpStream>>),
}

/// Calls the same method on whichever stream the transport is.
macro_rules! each {
    ($transport:expr, $stream:ident => $call:expr) => {
        match $transport {
            Transport::Tcp($stream) => $call,
            Transport::Tls($stream) => $call,
        }
    };
}

impl Conn {
    /// A connection from a client, in cleartext.
    pub(crate) fn tcp(stream: TcpStream, peer: SocketAddr, local: SocketAddr) -> Self {
        let fd = stream.as_raw_fd();
        Self::new(Transport::Tcp(stream), fd, peer, local, None)
    }

    /// A connection to an endpoint, in cleartext.
    pub(crate) fn to_endpoint(stream: TcpStream, peer: SocketAddr, local: SocketAddr) -> Self {
        let fd = stream.as_raw_fd();
        Self::new(Transport::Tcp(stream), fd, peer, local, Some(EndpointConnection::new()))
    }

    /// A connection from a client, after its TLS handshake.
    pub(crate) fn tls_server(
        stream: tokio_rustls::server::TlsStream<TcpStream>,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Self {
        let fd = stream.get_ref().0.as_raw_fd();
        Self::new(Transport::Tls(Box::new(stream)), fd, peer, local, None)
    }

    fn new(
        transport: Transport,
        fd: RawFd,
        peer: SocketAddr,
        local: SocketAddr,
        counted: Option<EndpointConnection>,
    ) -> Self {
        let io = Io { transport, unread: BytesMut::new(), out: Vec::new(), sent: 0, taken: 0 };
        Self(Arc::new(Socket { io: Mutex::new(io), peer, local, fd, _counted: counted }))
    }

    fn io(&self) -> MutexGuard<'_, Io> {
        self.0.io.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes were read from it so far.
    pub(crate) fn taken(&self) -> u64 {
        self.io().taken
    }

    /// Waits until there is something to read, which may be the end. Holds no buffer while it waits on cleartext.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| {
            let mut io = self.io();
            if !io.unread.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if let Transport::Tcp(tcp) = &io.transport {
                return tcp.poll_read_ready(cx);
            }
            io.poll_unread(cx).map_ok(drop)
        })
        .await
    }

    /// Reads what there is to the end of `into`; `false` at the end of the stream.
    pub(crate) async fn read(&self, into: &mut BytesMut) -> io::Result<bool> {
        poll_fn(|cx| {
            let mut io = self.io();
            if !io.unread.is_empty() {
                into.extend_from_slice(&std::mem::take(&mut io.unread));
                return Poll::Ready(Ok(true));
            }
            let n = ready!(read_some(&mut io, into, cx))?;
            io.taken += n as u64;
            Poll::Ready(Ok(n > 0))
        })
        .await
    }

    /// Whether the peer begins with `preface`; reads no further than that takes, and what it reads stays to be read.
    pub(crate) async fn begins_with(&self, preface: &[u8]) -> io::Result<bool> {
        poll_fn(|cx| {
            let mut io = self.io();
            loop {
                let n = io.unread.len().min(preface.len());
                if io.unread[..n] != preface[..n] {
                    return Poll::Ready(Ok(false));
                }
                if n == preface.len() {
                    return Poll::Ready(Ok(true));
                }
                if !ready!(io.poll_unread(cx))? {
                    return Poll::Ready(Ok(false));
                }
            }
        })
        .await
    }

    /// Adds to what will be sent next; `write` appends to the buffer.
    pub(crate) fn put(&self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.io().out);
    }

    /// How many bytes wait to be sent.
    pub(crate) fn pending(&self) -> usize {
        let io = self.io();
        io.out.len() - io.sent
    }

    /// Sends all that waits.
    pub(crate) async fn send(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_send(cx)).await
    }

    /// Sends what can leave now; ready when nothing waits any more.
    pub(crate) fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut io = self.io();
        if io.out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        ready!(io.poll_drain(cx))?;
        each!(&mut io.transport, stream => Pin::new(stream).poll_flush(cx))
    }

    /// Whether an idle connection can carry a request: end, error, or bytes that nobody asked for make it unfit. Costs no system
    /// call while the reactor has seen nothing.
    pub(crate) fn is_fit(&self) -> bool {
        let mut io = self.io();
        if !io.unread.is_empty() || !io.out.is_empty() {
            return false;
        }
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        let mut cx = Context::from_waker(Waker::noop());
        each!(&mut io.transport, stream => Pin::new(stream).poll_read(&mut cx, &mut buffer)).is_pending()
    }

    /// Resolves when the peer has closed.
    pub(crate) async fn closed(&self) {
        poll_fn(|cx| self.poll_closed(cx)).await;
    }

    /// Ready when the peer has closed; reads nothing. A peer that has sent more and then closes is not noticed.
    pub(crate) fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let io = self.io();
        let tcp = io.transport.tcp();
        if ready!(tcp.poll_read_ready(cx)).is_err() {
            return Poll::Ready(());
        }
        match pin!(tcp.ready(Interest::READABLE)).poll(cx) {
            Poll::Ready(Ok(ready)) if !ready.is_read_closed() => Poll::Pending,
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Sends what waits and closes the sending side.
    pub(crate) async fn close(&self) -> io::Result<()> {
        poll_fn(|cx| {
            let mut io = self.io();
            ready!(io.poll_drain(cx))?;
            each!(&mut io.transport, stream => Pin::new(stream).poll_shutdown(cx))
        })
        .await
    }

    /// Makes the last clone's drop a reset: the peer must not take what it got for a whole message.
    pub(crate) fn reset_on_close(&self) {
        let mut io = self.io();
        io.out.clear();
        io.sent = 0;
        // A socket that is already gone needs no reset.
        let _ = socket2::SockRef::from(io.transport.tcp()).set_linger(Some(std::time::Duration::ZERO));
    }
}

/// Reads into the spare room of `into` without initialising it first.
fn read_some(io: &mut Io, into: &mut BytesMut, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    use tokio::io::AsyncReadExt;
    into.reserve(1024);
    each!(&mut io.transport, stream => pin!(stream.read_buf(into)).poll(cx))
}

impl Io {
    /// Reads a piece into `unread`; false at the end of the stream.
    fn poll_unread(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut piece = BytesMut::new();
        let n = ready!(read_some(self, &mut piece, cx))?;
        self.taken += n as u64;
        self.unread.unsplit(piece);
        Poll::Ready(Ok(n > 0))
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.out.len() {
            let rest = &self.out[self.sent..];
            match ready!(each!(&mut self.transport, stream => Pin::new(stream).poll_write(cx, rest)))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.sent += n,
            }
        }
        if self.out.capacity() > KEPT_ROOM {
            self.out = Vec::new();
        }
        self.out.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl Transport {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for Conn {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut io = self.io();
        if !io.unread.is_empty() {
            let n = io.unread.len().min(buffer.remaining());
            buffer.put_slice(&io.unread.split_to(n));
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(each!(&mut io.transport, stream => Pin::new(stream).poll_read(cx, buffer)))?;
        io.taken += (buffer.filled().len() - before) as u64;
        Poll::Ready(Ok(()))
    }
}

/// For HTTP/2, which has its own write buffer: nothing is held back here.
impl AsyncWrite for Conn {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut io = self.io();
        ready!(io.poll_drain(cx))?;
        each!(&mut io.transport, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut io = self.io();
        ready!(io.poll_drain(cx))?;
        each!(&mut io.transport, stream => Pin::new(stream).poll_write_vectored(cx, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut io = self.io();
        ready!(io.poll_drain(cx))?;
        each!(&mut io.transport, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut io = self.io();
        ready!(io.poll_drain(cx))?;
        each!(&mut io.transport, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Conn({} to {})", self.0.peer, self.0.local)
    }
}

// What pingora wants of a stream. We know addresses and TLS ourselves, so it is told nothing: that saves its copies.

#[async_trait]
impl Shutdown for Conn {
    async fn shutdown(&mut self) {
        // The connection goes in any case.
        let _ = self.close().await;
    }
}

impl UniqueID for Conn {
    fn id(&self) -> UniqueIDType {
        self.0.fd
    }
}

impl Ssl for Conn {}

impl GetTimingDigest for Conn {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for Conn {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl GetSocketDigest for Conn {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        None
    }
}

impl Peek for Conn {}
