//! What a data plane tells its surroundings: whether it is ready, and its metrics. Nothing here shows a configuration.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::Plane;

/// Whether new connections should be sent here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Readiness {
    /// Not yet: there is no configuration.
    Starting,
    /// Yes.
    Ready,
    /// Not any more.
    Leaving,
}

const READY: &str = "/healthz/ready";
/// Connections at one time; probes and scrapers need few.
const CONNECTIONS: usize = 64;
/// Time for a request to arrive, and for a connection in all.
const HEAD_TIME: Duration = Duration::from_secs(5);
const LIFE: Duration = Duration::from_secs(60);
/// How long a probe is kept that comes before the configuration does. Kubelet waits for a second, and then for the next
/// probe: a data plane that has its configuration a moment after it was asked would be held back for all of that time.
const SOON: Duration = Duration::from_millis(800);

/// Serves `/healthz/ready`, `/healthz/live` and `/metrics` until the runtime ends; gives the address. It does not keep the
/// plane, which has metrics until it is drained.
///
/// Fails when the address cannot be bound.
pub async fn start(
    address: SocketAddr,
    plane: Weak<Plane>,
    readiness: watch::Receiver<Readiness>,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(accept(listener, plane, readiness));
    Ok(bound)
}

async fn accept(listener: TcpListener, plane: Weak<Plane>, readiness: watch::Receiver<Readiness>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: others will be closed.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (plane, readiness) = (Weak::clone(&plane), readiness.clone());
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let (plane, readiness) = (&plane, readiness.clone());
                async move {
                    let readiness = match request.uri().path() {
                        READY => settled(readiness).await,
                        _ => *readiness.borrow(),
                    };
                    Ok::<_, Infallible>(answer(&request, plane, readiness))
                }
            });
            let mut server = hyper::server::conn::http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
            let connection = server.serve_connection(TokioIo::new(stream), service);
            // A probe that breaks off is its own business.
            let _ = tokio::time::timeout(LIFE, connection).await;
            drop(permit);
        });
    }
}

/// Whether we are ready, or will be in a moment.
async fn settled(mut readiness: watch::Receiver<Readiness>) -> Readiness {
    let is_settled = readiness.wait_for(|readiness| *readiness != Readiness::Starting);
    match tokio::time::timeout(SOON, is_settled).await {
        Ok(Ok(readiness)) => *readiness,
        _ => Readiness::Starting,
    }
}

fn answer(request: &Request<Incoming>, plane: &Weak<Plane>, readiness: Readiness) -> Response<Full<Bytes>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    /// What the text format is called (OpenMetrics 1.0.0, section "Content type").
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let (status, kind, body) = match (is_read, request.uri().path()) {
        (true, READY) => match readiness {
            Readiness::Ready => (StatusCode::OK, TEXT, "ready\n".into()),
            Readiness::Starting => {
                let why = "no configuration yet: waiting for the operator\n";
                (StatusCode::SERVICE_UNAVAILABLE, TEXT, why.into())
            }
            Readiness::Leaving => (StatusCode::SERVICE_UNAVAILABLE, TEXT, "ending\n".into()),
        },
        (true, "/healthz/live") => (StatusCode::OK, TEXT, "live\n".into()),
        (true, "/metrics") => {
            let metrics = plane.upgrade().map(|plane| plane.metrics());
            (StatusCode::OK, OPENMETRICS, metrics.unwrap_or_else(|| "# EOF\n".into()))
        }
        (true, _) => (StatusCode::NOT_FOUND, TEXT, "not found\n".into()),
        (false, _) => (StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET\n".into()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nhost: probe\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it answers");
        answer
    }

    #[tokio::test]
    async fn a_probe_that_comes_before_the_configuration_waits_for_it_and_nothing_else_does() {
        let (readiness, ready) = watch::channel(Readiness::Starting);
        let address = start((Ipv4Addr::LOCALHOST, 0).into(), Weak::new(), ready).await.expect("a port");
        let probe = tokio::spawn(get(address, READY));
        assert!(get(address, "/healthz/live").await.starts_with("HTTP/1.1 200 "));
        assert!(!probe.is_finished());
        readiness.send_replace(Readiness::Ready);
        assert!(probe.await.expect("a probe").starts_with("HTTP/1.1 200 "));
        readiness.send_replace(Readiness::Leaving);
        assert!(get(address, READY).await.starts_with("HTTP/1.1 503 "));
    }

    #[tokio::test]
    async fn a_probe_that_waited_in_vain_is_told_so() {
        let (_readiness, ready) = watch::channel(Readiness::Starting);
        let address = start((Ipv4Addr::LOCALHOST, 0).into(), Weak::new(), ready).await.expect("a port");
        let answer = get(address, READY).await;
        assert!(
            answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("waiting for the operator\n"),
            "{answer}"
        );
    }
}
