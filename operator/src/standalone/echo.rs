//! The built-in backend of `serve --dev`: it answers with its name and the request that it saw.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use futures::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use postern_config::ObjectKey;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// Starts an echo backend for a Service on a free loopback port; it speaks HTTP/1.1, HTTP/2 with prior knowledge,
/// WebSocket and gRPC (every message comes back).
///
/// It runs until the runtime ends. Fails when there is no free port.
pub async fn start(service: ObjectKey) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let service = Arc::new(service);
    let app = Router::new().fallback(move |request| answer(service.clone(), request));
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

async fn answer(service: Arc<ObjectKey>, request: Request<Body>) -> Response<Body> {
    if let Some(key) = websocket_key(request.headers()) {
        return websocket(&key, request);
    }
    if content_type(request.headers()).starts_with("application/grpc") {
        return grpc(&service, request);
    }
    json(&service, request).await
}

/// What an echo backend saw.
#[derive(Serialize)]
struct Seen<'a> {
    backend: &'a str,
    namespace: &'a str,
    service: &'a str,
    method: &'a str,
    path: &'a str,
    host: &'a str,
    headers: BTreeMap<&'a str, String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    body: &'a str,
}

async fn json(service: &ObjectKey, request: Request<Body>) -> Response<Body> {
    /// What of a body is repeated.
    const LIMIT: usize = 64 * 1024;
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, LIMIT).await.unwrap_or_default();
    let authority = head.uri.authority().map_or("", |authority| authority.as_str());
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or(authority);
    let seen = Seen {
        backend: &service.name,
        namespace: &service.namespace,
        service: &service.name,
        method: head.method.as_str(),
        path: head.uri.path_and_query().map_or("/", |path| path.as_str()),
        host,
        headers: by_name(&head.headers),
        body: &String::from_utf8_lossy(&body),
    };
    let text = serde_json::to_string_pretty(&seen).expect("names and strings make JSON") + "\n";
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn by_name(headers: &HeaderMap) -> BTreeMap<&str, String> {
    let mut all = BTreeMap::<&str, String>::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        all.entry(name.as_str())
            .and_modify(|seen| *seen += &format!(", {value}"))
            .or_insert_with(|| value.into());
    }
    all
}

/// Sends every gRPC message back, then status 0.
fn grpc(service: &ObjectKey, request: Request<Body>) -> Response<Body> {
    let content_type = request.headers().get(header::CONTENT_TYPE).cloned();
    let trailers =
        HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))]);
    let messages = request.into_body().with_trailers(async move { Some(Ok(trailers)) });
    let mut response = Response::new(Body::new(messages));
    let headers = response.headers_mut();
    headers.extend(content_type.map(|value| (header::CONTENT_TYPE, value)));
    if let Ok(name) = HeaderValue::from_str(&service.name) {
        headers.insert("x-backend", name);
    }
    response
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn websocket_key(headers: &HeaderMap) -> Option<HeaderValue> {
    let upgrade = headers.get(header::UPGRADE)?.to_str().ok()?;
    upgrade.eq_ignore_ascii_case("websocket").then(|| headers.get(header::SEC_WEBSOCKET_KEY).cloned())?
}

/// Sends every WebSocket message back until the peer closes.
fn websocket(key: &HeaderValue, mut request: Request<Body>) -> Response<Body> {
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(echo_messages(upgrade));
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).expect("base64 is a header value");
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    response
}

async fn echo_messages(upgrade: OnUpgrade) {
    let Ok(io) = upgrade.await else { return };
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(io), Role::Server, None).await;
    while let Some(Ok(message)) = socket.next().await {
        let is_data = message.is_text() || message.is_binary();
        if is_data && socket.send(message).await.is_err() {
            return;
        }
    }
}
