//! After a 101: bytes both ways, whatever they mean, until either side ends.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::BytesMut;
use http::StatusCode;
use tokio::time::Instant;

use super::body::{BodyWriter, Framing, Piece};
use super::clock::Clock;
use super::down::Down;
use super::exchange::{Progress, Upload};
use super::fault::Fault;
use super::up::Up;
use crate::settings::Limits;

/// Turns the exchange into a tunnel, which has its own limit on idleness. A limit on the whole request stays in force.
pub(super) async fn run(
    down: &mut Down,
    mut up: Up,
    upload: &mut Upload,
    limits: &Limits,
    clock: &Clock,
    progress: &mut Progress,
) -> Result<(), Fault> {
    let wanted = match (&up, down.upgradable()) {
        (Up::H1(up), Some(conn)) if up.is_upgrade() => Some((conn.clone(), up.conn().clone())),
        _ => None,
    };
    // RFC 9110 15.2.2 knows a 101 only as the answer to an Upgrade that was sent.
    let Some((client, endpoint)) = wanted else {
        return Err(Fault::Upstream("a change of protocol that was not asked for".into()));
    };
    down.upgrade(&up.head());
    progress.status = Some(StatusCode::SWITCHING_PROTOCOLS);
    clock.allow_idle(Instant::now(), limits.tunnel_idle);

    let mut to_client = BodyWriter::h1(client.clone(), Framing::UntilClose);
    let mut to_endpoint = BodyWriter::h1(endpoint, Framing::UntilClose);
    let sent = async {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(16 * 1024);
            if !client.read(&mut buffer).await.map_err(|_| Fault::ClientGone)? {
                return to_endpoint
                    .flush(clock)
                    .await
                    .map_err(|_| Fault::Upstream("it takes no more".into()));
            }
            clock.moved();
            upload.bytes += buffer.len() as u64;
            to_endpoint.offer(Piece::Slice(&buffer)).map_err(|_| Fault::ClientGone)?;
            buffer.clear();
            to_endpoint.flush(clock).await.map_err(|_| Fault::Upstream("it takes no more".into()))?;
        }
    };
    let answered = async {
        to_client.flush(clock).await.map_err(|_| Fault::ClientGone)?;
        while let Some(piece) = up.read_body().await? {
            clock.moved();
            progress.bytes += piece.len() as u64;
            to_client.offer(piece).map_err(|_| Fault::ClientGone)?;
            to_client.flush(clock).await.map_err(|_| Fault::ClientGone)?;
        }
        Ok(())
    };
    let (mut sent, mut answered) = (pin!(sent), pin!(answered));
    poll_fn(|cx| match answered.as_mut().poll(cx) {
        Poll::Ready(answered) => Poll::Ready(answered),
        Poll::Pending => sent.as_mut().poll(cx),
    })
    .await
}
