//! An HTTP/1 connection: one request after the other, until either side has had enough.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures::FutureExt as _;
use pingora::protocols::http::v1::server::HttpSession;
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::clock::Clock;
use super::down::{After, Down, Down1};
use super::fault::Fault;
use super::headers::Incoming;
use super::{Scope, head, reply, serve};
use crate::listen::{Conn, Inbound};

/// How long what a client still sends is read after an answer that ends the connection, and for how long at a pause. Closing
/// with bytes unread would reset the connection, and the client might lose the answer.
const LINGER: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(1));

/// Serves HTTP/1 until the connection ends.
pub(crate) async fn serve_http1(conn: Conn, inbound: Arc<Inbound>) {
    let scope = Scope::new(inbound);
    let clock = Clock::new();
    let mut timer = pin!(sleep(scope.limits().idle));
    let mut drain = pin!(scope.inbound.drain.is_over_for_idle());
    let mut next = BytesMut::new();
    let mut left = requests(&scope);
    let mut now = Instant::now();
    loop {
        if next.is_empty() {
            clock.begin(now, None, scope.limits().idle);
            tokio::select! {
                biased;
                readable = conn.readable() => if readable.is_err() { return },
                () = &mut drain => return farewell(&conn).await,
                _ = clock.expired(timer.as_mut()) => return farewell(&conn).await,
            }
        }
        // Boxed: a connection is idle for most of its life, and this is most of its size.
        let exchanged = Box::pin(exchange(&conn, next, &scope, &clock, timer.as_mut(), &mut left)).await;
        let Some(kept) = exchanged else { return };
        (next, now) = kept;
    }
}

/// One request and its answer. What was read of a next request, and when this one ended, if there can be another.
async fn exchange(
    conn: &Conn,
    next: BytesMut,
    scope: &Scope,
    clock: &Clock,
    mut timer: Pin<&mut Sleep>,
    left: &mut u32,
) -> Option<(BytesMut, Instant)> {
    let mut down = match read_request(conn, next, scope, clock, timer.as_mut()).await {
        Ok(down) => down?,
        Err(fault) => {
            refuse(conn, &fault, scope).await;
            return None;
        }
    };
    *left -= 1;
    if *left == 0 || scope.inbound.is_at_its_last() {
        down.close();
    }
    let now = serve(&mut down, scope, clock, timer).await;
    let Down::H1(down) = down else { return None };
    match down.after() {
        After::Keep => {}
        After::Close => {
            linger(conn).await;
            return None;
        }
        After::Reset => return None,
    }
    // pingora gives back what it has read of a request that was sent ahead.
    let reusable = down.into_session().reuse().await.ok()??;
    Some((reusable.into_parts().1.unwrap_or_default(), now))
}

/// The requests a connection may carry: about the limit, so that clients do not all come back at once.
pub(super) fn requests(scope: &Scope) -> u32 {
    let limit = scope.limits().requests.max(1);
    limit.saturating_sub(fastrand::u32(0..=limit / 10)).max(1)
}

/// Reads the next head, all of it in time; `None` if the client left instead.
async fn read_request(
    conn: &Conn,
    mut next: BytesMut,
    scope: &Scope,
    clock: &Clock,
    timer: Pin<&mut Sleep>,
) -> Result<Option<Down>, Fault> {
    let limits = scope.limits();
    let late = async {
        // Only a head that does not come at once needs to be timed.
        clock.begin(Instant::now(), Some(limits.head_time), limits.head_time);
        clock.expired(timer).await
    };
    let head = tokio::select! {
        biased;
        head = head::read(conn, &mut next, limits.head_bytes as usize) => head?,
        _ = late => return Err(Fault::ClientTooSlow),
    };
    let Some(length) = head else { return Ok(None) };
    let pipelined = next.len() > length;
    let mut session = HttpSession::new(Box::new(conn.clone()));
    session.set_pipelining_enabled(true);
    // Its own timer would be one more thread; ours is the clock.
    session.set_read_timeout(None);
    session.set_pipelined_prefix(next);
    // The head is there: this parses it, and must not wait for more, for nobody watches the time.
    match unconstrained(session.read_request()).now_or_never() {
        Some(Ok(Some(_))) => Ok(Some(Down::H1(Box::new(Down1::new(session, conn.clone(), pipelined))))),
        Some(Ok(None)) | Some(Err(_)) | None => Err(Fault::Malformed("the request head is not one")),
    }
}

/// Answers what was no request, and closes.
async fn refuse(conn: &Conn, fault: &Fault, scope: &Scope) {
    let Some(status) = fault.status() else { return };
    scope.inbound.shared.metrics.malformed(fault.reason());
    let (headers, body) = reply::body(fault);
    let response = Incoming::new(status, &headers);
    let framing = response.framing(false, false, false);
    conn.put(|out| {
        response.put(framing, Some("close"), out);
        out.extend_from_slice(&body);
    });
    linger(conn).await;
}

/// Closes a connection on which nothing is under way.
async fn farewell(conn: &Conn) {
    // A client that does not take it gets none.
    let _ = timeout(LINGER.1, conn.close()).await;
}

/// Closes so that the client gets the whole answer.
async fn linger(conn: &Conn) {
    let (whole, pause) = LINGER;
    let lingering = async {
        let mut rest = BytesMut::new();
        let mut more = conn.close().await.is_ok();
        while more {
            rest.clear();
            more = matches!(timeout(pause, conn.read(&mut rest)).await, Ok(Ok(true)));
        }
    };
    // What is not over by then ends without a farewell.
    let _ = timeout(whole, lingering).await;
}
