//! An HTTP/2 connection: streams side by side, each with a task of its own, until either side goes away.

use std::pin::pin;
use std::sync::Arc;

use pingora::protocols::Digest;
use pingora::protocols::http::v2::server::{H2Accept, HttpSession, default_h2_options, handshake};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::clock::Clock;
use super::connection1::requests;
use super::down::Down;
use super::{Scope, serve};
use crate::listen::{Conn, Inbound};

/// Malformed requests that a connection survives; valid ones between do not make up for them.
const MALFORMED: u32 = 32;
/// What a client may send ahead on one stream, and on all.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// What may wait to be sent on one stream.
const SEND_BUFFER: usize = 256 * 1024;

/// Serves HTTP/2 until the connection ends. Then the streams end, too.
pub(crate) async fn serve_http2(conn: Conn, inbound: Arc<Inbound>) {
    let scope = Arc::new(Scope::new(inbound));
    let limits = scope.limits();
    let mut options = default_h2_options();
    options
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.head_bytes)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER);
    let shaken = timeout(limits.head_time, handshake(Box::new(conn), Some(options))).await;
    let Ok(Ok(mut connection)) = shaken else { return };

    let digest = Arc::new(Digest::default());
    let mut streams = JoinSet::new();
    let (mut malformed, mut left) = (0, requests(&scope));
    let mut going = false;
    let mut drain = pin!(scope.inbound.drain.begun());
    let mut idle = pin!(sleep(limits.idle));
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut drain, if !going => {
                // The first GOAWAY of two: streams that are on their way to us are still taken (RFC 9113 6.8).
                connection.graceful_shutdown();
                going = true;
                continue;
            }
            accepted = HttpSession::from_h2_conn(&mut connection, Arc::clone(&digest)) => accepted,
            Some(_) = streams.join_next(), if !streams.is_empty() => {
                if streams.is_empty() {
                    idle.as_mut().reset(tokio::time::Instant::now() + limits.idle);
                }
                continue;
            }
            () = &mut idle, if streams.is_empty() && !going => {
                connection.graceful_shutdown();
                going = true;
                continue;
            }
        };
        match accepted {
            Ok(Some(H2Accept::Session(session))) => {
                streams.spawn(serve_stream(Box::new(session), Arc::clone(&scope)));
                left -= 1;
                if left == 0 && !going {
                    connection.graceful_shutdown();
                    going = true;
                }
                left = left.max(1);
            }
            Ok(Some(H2Accept::Rejected)) => {
                malformed += 1;
                if malformed >= MALFORMED {
                    connection.abrupt_shutdown(h2::Reason::ENHANCE_YOUR_CALM);
                }
            }
            Ok(None) | Err(_) => break,
        }
    }
    // Streams that are left learn from this that their client is gone; each still has its line to write.
    drop(connection);
    while streams.join_next().await.is_some() {}
}

async fn serve_stream(session: Box<HttpSession>, scope: Arc<Scope>) {
    let clock = Clock::new();
    let mut timer = pin!(sleep(scope.limits().idle));
    let mut down = Down::H2(session);
    serve(&mut down, &scope, &clock, timer.as_mut()).await;
}
