//! Answers of our own: faults and redirects, in the form that the client understands.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::time::timeout;

use super::body::Piece;
use super::down::Down;
use super::fault::Fault;
use super::filters::Location;
use super::headers::Incoming;

/// How long a client may take for an answer of a line.
const PATIENCE: Duration = Duration::from_secs(10);
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Tells the client what went wrong. gRPC clients look for a status in trailers, not for one of HTTP.
pub(super) async fn fault(down: &mut Down, fault: &Fault, status: StatusCode, route: Option<&str>) -> u16 {
    let mut headers = HeaderMap::with_capacity(6);
    if fault.spoils_connection() {
        down.close();
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        // RFC 9110 15.5.6: "The origin server MUST generate an Allow header field in a 405 response"
        headers
            .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH"));
    }
    if is_grpc(&down.request().headers) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", grpc_status(status).into());
        if let Ok(message) = HeaderValue::try_from(fault.to_string()) {
            headers.insert("grpc-message", message);
        }
        return send(down, StatusCode::OK, headers, Bytes::new(), route).await;
    }
    send(down, status, headers, Bytes::from(format!("{fault}\n")), route).await
}

/// The answer to what could not even be read as a request: headers with a length, and the body.
pub(super) fn body(fault: &Fault) -> (HeaderMap, Vec<u8>) {
    let body = format!("{fault}\n").into_bytes();
    let mut headers = HeaderMap::with_capacity(2);
    headers.insert(header::CONTENT_TYPE, TEXT);
    headers.insert(header::CONTENT_LENGTH, body.len().into());
    (headers, body)
}

/// Tells the client to go elsewhere.
pub(super) async fn redirect(down: &mut Down, location: &Location, route: Option<&str>) -> u16 {
    let mut headers = HeaderMap::with_capacity(4);
    match HeaderValue::try_from(&location.url) {
        Ok(url) => headers.insert(header::LOCATION, url),
        Err(_) => {
            let malformed = Fault::Malformed("the request target is not one");
            return fault(down, &malformed, StatusCode::BAD_REQUEST, route).await;
        }
    };
    send(down, location.status, headers, Bytes::new(), route).await
}

async fn send(
    down: &mut Down,
    status: StatusCode,
    mut headers: HeaderMap,
    body: Bytes,
    route: Option<&str>,
) -> u16 {
    if !body.is_empty() {
        headers.insert(header::CONTENT_TYPE, TEXT);
        headers.insert(header::CONTENT_LENGTH, body.len().into());
    }
    let response = Incoming { status, reason: None, headers: &headers, route };
    // A client that has left needs no answer.
    if let Ok(mut writer) = down.answer(&response, body.is_empty(), false) {
        let offered = writer.offer(Piece::Shared(body)).and_then(|()| writer.end(None));
        let sent = timeout(PATIENCE, poll_fn(|cx| writer.poll_flush(cx))).await;
        if offered.is_err() || !matches!(sent, Ok(Ok(()))) {
            down.abort();
        }
    }
    status.as_u16()
}

/// Whether a client speaks gRPC.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// The status of gRPC for one of HTTP, from the point of view of a client (gRPC "HTTP to gRPC Status Code Mapping"), except
/// where gRPC has a word for what happened.
fn grpc_status(status: StatusCode) -> u16 {
    const INTERNAL: u16 = 13;
    match status.as_u16() {
        400 | 500 => INTERNAL,
        404 => 12,             // UNIMPLEMENTED
        408 | 504 => 4,        // DEADLINE_EXCEEDED
        431 => 8,              // RESOURCE_EXHAUSTED
        421 | 502 | 503 => 14, // UNAVAILABLE
        405 | 501 => 12,
        _ => 2, // UNKNOWN
    }
}
