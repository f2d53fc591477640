//! New connections to endpoints, and new streams on shared ones.

use std::io;
use std::net::SocketAddr;

use pingora::connectors::http::v2::{H2HandshakeSettings, handshake};
use pingora::protocols::http::v2::client::Http2Session;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::pool::{self, PoolKey, Shared};
use crate::listen::Conn;
use crate::settings::Limits;

/// Why there is no connection to an endpoint. Nothing of the request has left: another endpoint may be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// The endpoint or the network said no.
    #[error("cannot connect: {0}")]
    Connect(#[from] io::Error),
    /// Nobody said anything.
    #[error("no connection in time")]
    Timeout,
    /// There is a connection, but no HTTP/2 on it.
    #[error("no HTTP/2: {0}")]
    Http2(String),
}

/// Pieces of a response that a backend may send ahead on one stream.
const STREAM_WINDOW: u32 = 1 << 20;
/// The same for all streams of a connection.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// A shared connection may turn out to be closing; after this many, the endpoint is at fault.
const ATTEMPTS: usize = 3;

/// Connects to an endpoint.
pub(crate) async fn connect(address: SocketAddr, limits: &Limits) -> Result<Conn, DialError> {
    let tcp =
        timeout(limits.connect, TcpStream::connect(address)).await.map_err(|_| DialError::Timeout)??;
    tcp.set_nodelay(true)?;
    let local = tcp.local_addr()?;
    Ok(Conn::tcp(tcp, address, local))
}

/// A new HTTP/2 stream to an endpoint, over a connection that it shares. When many need a first connection at once, one of
/// them makes it and the others wait.
pub(crate) async fn stream(key: PoolKey, limits: &Limits) -> Result<Http2Session, DialError> {
    let mut closing = String::new();
    for _ in 0..ATTEMPTS {
        let conn = match pool::shared(key) {
            Shared::Ready(conn) => conn,
            Shared::Dialing(mut done) => {
                while done.changed().await.is_ok() {}
                match pool::shared(key) {
                    Shared::Ready(conn) => conn,
                    // It failed, or others were faster: the next attempt dials for itself.
                    Shared::Dialing(_) | Shared::Dial(_) => dial(key, limits).await?,
                }
            }
            Shared::Dial(_until_done) => dial(key, limits).await?,
        };
        match conn.spawn_stream().await {
            Ok(Some(stream)) => return Ok(stream),
            Ok(None) => closing = "the endpoint is closing its connections".into(),
            Err(error) => closing = error.to_string(),
        }
    }
    Err(DialError::Http2(closing))
}

async fn dial(
    key: PoolKey,
    limits: &Limits,
) -> Result<pingora::connectors::http::v2::ConnectionRef, DialError> {
    let conn = connect(key.address, limits).await?;
    let mut settings = H2HandshakeSettings::new();
    settings.max_streams = limits.upstream_streams;
    settings.stream_window_size = Some(STREAM_WINDOW);
    settings.connection_window_size = Some(CONNECTION_WINDOW);
    let shaken =
        timeout(limits.connect, handshake(Box::new(conn), settings)).await.map_err(|_| DialError::Timeout)?;
    let conn = shaken.map_err(|error| DialError::Http2(error.to_string()))?;
    pool::share(key, conn.clone());
    Ok(conn)
}
