//! The life of a connection, from the kernel's queue to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{Conn, Inbound, tls};
use crate::Shared;
use crate::drain::Drain;
use crate::limits::Permit;
use crate::worker::Seat;

/// Takes connections of a port for one worker.
pub(crate) struct Acceptor {
    pub(crate) port: u16,
    pub(crate) listener: TcpListener,
    pub(crate) drain: Drain,
    pub(crate) seat: Seat,
}

/// A connection that was taken, on its way to the worker that serves it.
pub(crate) struct Accepted {
    pub(crate) tcp: std::net::TcpStream,
    pub(crate) client: SocketAddr,
    pub(crate) port: u16,
    pub(crate) drain: Drain,
    pub(crate) permit: Permit,
}

/// What a client with prior knowledge of HTTP/2 sends first (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The pause after the kernel had no descriptor or no memory for a connection: grows from the first to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

impl Acceptor {
    /// Accepts until the drain begins, then takes what is already in the queue and closes.
    pub(crate) async fn run(self) {
        let mut pause = PAUSE.0;
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.drain.begun() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((tcp, client)) => {
                    pause = PAUSE.0;
                    self.take(tcp, client);
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(port = self.port, %error, "Cannot accept connections");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
            }
        }
        while let Some(Ok((tcp, client))) = futures::FutureExt::now_or_never(self.listener.accept()) {
            self.take(tcp, client);
        }
    }

    fn take(&self, tcp: TcpStream, client: SocketAddr) {
        let shared = self.seat.shared();
        let permit = match shared.connections.admit(client.ip().to_canonical()) {
            Ok(permit) => permit,
            Err(refused) => {
                shared.metrics.refused(refused.reason());
                return;
            }
        };
        // Small answers must not wait for the acknowledgement of earlier ones.
        let _ = tcp.set_nodelay(true);
        self.seat.serve(tcp, client, self.port, self.drain.clone(), permit);
    }
}

/// Errors that `accept` reports for a connection that broke while it waited (accept(2)): the next one may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// Serves a connection until it ends by itself or by its drain's deadline.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    tcp: TcpStream,
    client: SocketAddr,
    port: u16,
    drain: Drain,
    permit: Permit,
) {
    let Ok(local) = tcp.local_addr() else { return };
    let deadline = drain.clone();
    let life = async move {
        let is_tls = shared.state.load().is_tls(port);
        let (conn, tls) = if is_tls {
            match timeout(shared.settings.limits.handshake, tls::handshake(tcp, port, &shared.state)).await {
                Ok(Ok((stream, tls))) => (Conn::tls_server(stream, client, local), Some(tls)),
                Ok(Err(error)) => {
                    tracing::debug!(port, %client, %error, "TLS handshake failed");
                    return shared.metrics.handshake_failed();
                }
                Err(_) => return shared.metrics.handshake_failed(),
            }
        } else {
            (Conn::tcp(tcp, client, local), None)
        };
        speak(conn, Arc::new(Inbound { shared, port, client, local, tls, drain, permit })).await;
    };
    tokio::select! {
        biased;
        () = deadline.ended() => {}
        () = life => {}
    }
}

/// HTTP/2 if it was agreed on in the TLS handshake or if the client begins with its preface, else HTTP/1.
async fn speak(conn: Conn, inbound: Arc<Inbound>) {
    let http2 = match &inbound.tls {
        Some(tls) => tls.http2,
        None => {
            let first = timeout(inbound.shared.settings.limits.idle, conn.begins_with(PREFACE));
            tokio::select! {
                biased;
                preface = first => match preface {
                    Ok(Ok(preface)) => preface,
                    Ok(Err(_)) | Err(_) => return,
                },
                () = inbound.drain.begun() => false,
            }
        }
    };
    match http2 {
        true => crate::http::serve_http2(conn, inbound).await,
        false => crate::http::serve_http1(conn, inbound).await,
    }
}
