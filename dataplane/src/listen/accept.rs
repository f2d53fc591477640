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
                    take(&self.seat, tcp, client, self.port, &self.drain);
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(port = self.port, %error, "Cannot accept connections");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
            }
        }
        self.take_the_rest();
    }

    /// Takes what the kernel has accepted for us; closing the socket over it would reset it. The kernel is asked, not the
    /// reactor, which may not have heard of the latest.
    fn take_the_rest(self) {
        let Self { listener, port, drain, seat } = self;
        let Ok(listener) = listener.into_std() else { return };
        loop {
            match listener.accept() {
                Ok((tcp, client)) => {
                    if let Ok(tcp) = tcp.set_nonblocking(true).and_then(|()| TcpStream::from_std(tcp)) {
                        take(&seat, tcp, client, port, &drain);
                    }
                }
                Err(error) if is_of_one_connection(&error) => {}
                // Nothing is left, or nothing can be taken.
                Err(_) => return,
            }
        }
    }
}

fn take(seat: &Seat, tcp: TcpStream, client: SocketAddr, port: u16, drain: &Drain) {
    let shared = seat.shared();
    match shared.connections.admit(client.ip()) {
        Ok(permit) => {
            // Small answers must not wait for the acknowledgement of earlier ones.
            let _ = tcp.set_nodelay(true);
            seat.serve(tcp, client, port, drain.clone(), permit);
        }
        Err(refused) => shared.metrics.refused(refused.reason()),
    }
}

/// Errors that `accept` reports for a connection that broke while it waited (accept(2)): the next one may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// Serves a connection to its end. Whoever spawned this cuts it at its drain's deadline.
pub(crate) async fn serve(shared: Arc<Shared>, tcp: TcpStream, client: SocketAddr, port: u16, drain: Drain) {
    let Ok(local) = tcp.local_addr() else { return };
    let is_tls = shared.state.load().is_tls(port);
    let (conn, tls) = if is_tls {
        // Boxed: it is needed once, and its size would be that of every idle connection.
        let handshake = Box::pin(tls::handshake(tcp, port, &shared.state));
        match timeout(shared.settings.limits.handshake, handshake).await {
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
    speak(conn, Arc::new(Inbound { shared, port, client, tls, drain })).await;
}

/// HTTP/2 if it was agreed on in the TLS handshake or if the client begins with its preface, else HTTP/1.
async fn speak(conn: Conn, inbound: Arc<Inbound>) {
    match &inbound.tls {
        Some(tls) if tls.http2 => Box::pin(crate::http::serve_http2(conn, inbound)).await,
        tls => {
            let is_tls = tls.is_some();
            let first = async {
                match is_tls {
                    true => conn.readable().await.map(|()| false),
                    false => conn.begins_with(PREFACE).await,
                }
            };
            match first_bytes(first, &inbound).await {
                // Boxed: most connections are none of these, and all would have their size.
                Some(true) => Box::pin(crate::http::serve_http2(conn, inbound)).await,
                Some(false) => crate::http::serve_http1(conn, inbound).await,
                None => {}
            }
        }
    }
}

/// What the first bytes of a connection say; `None` when they do not come.
async fn first_bytes(first: impl Future<Output = io::Result<bool>>, inbound: &Inbound) -> Option<bool> {
    tokio::select! {
        biased;
        first = first => first.ok(),
        () = tokio::time::sleep(inbound.shared.settings.limits.idle) => None,
        () = inbound.drain.is_over_for_idle() => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an idle connection costs beside its socket is mostly the size of this future. A larger one may be right, but
    /// should not come unnoticed.
    #[tokio::test]
    async fn the_future_of_a_connection_stays_small() {
        let plane = crate::Plane::start(crate::Settings { workers: 1, ..crate::Settings::default() })
            .expect("threads");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let tcp = TcpStream::connect(address).await.expect("open");
        let drainer = crate::drain::Drainer::new();
        let life = serve(Arc::clone(&plane.shared), tcp, address, 80, drainer.drain());
        let size = size_of_val(&life);
        assert!(size <= LARGEST, "{size} bytes");
        assert!(size > LARGEST / 2, "{size} bytes: the limit can come down");
    }

    const LARGEST: usize = 1024;
}
