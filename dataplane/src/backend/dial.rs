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
    /// Whoever made the connection for all was told so.
    #[error("{0}")]
    Shared(String),
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
    Ok(Conn::to_endpoint(tcp, address, local))
}

/// A new HTTP/2 stream to an endpoint, over a connection that it shares. When many need another connection at once, one of
/// them makes it and the others wait; if it cannot be made, all of them hear so.
pub(crate) async fn stream(key: PoolKey, limits: &Limits) -> Result<Http2Session, DialError> {
    let mut closing = 0;
    loop {
        let conn = match pool::shared(key) {
            Shared::Ready(conn) => conn,
            Shared::Dialing(mut outcome) => {
                if outcome.changed().await.is_ok() {
                    return Err(DialError::Shared(outcome.borrow().clone()));
                }
                // It is there, or whoever made it has left.
                continue;
            }
            Shared::Dial(outcome) => match dial(key, limits).await {
                Ok(conn) => conn,
                Err(error) => {
                    outcome.send_replace(error.to_string());
                    return Err(error);
                }
            },
        };
        let why = match conn.spawn_stream().await {
            Ok(Some(stream)) => return Ok(stream),
            Ok(None) => "the endpoint is closing its connections".into(),
            Err(error) => error.to_string(),
        };
        closing += 1;
        if closing == ATTEMPTS {
            return Err(DialError::Http2(why));
        }
    }
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
