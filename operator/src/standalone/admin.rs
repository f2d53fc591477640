//! The admin address of `serve`: what is served, how it is, and whether it is up.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use super::gateways::Gateways;
use super::metrics;

/// What is shown, replaced as a whole at every reload. As text: as trees of JSON it would be the most that `serve` keeps.
#[derive(Clone, Debug)]
pub struct Shown {
    /// A `List` of the objects with their statuses, in JSON.
    pub status: Bytes,
    /// What each Gateway serves, private keys left out, in JSON.
    pub config: Bytes,
    /// Whether every port is open.
    pub is_ready: bool,
}

impl Shown {
    /// Shows these.
    pub fn new(status: &Value, config: &Value, is_ready: bool) -> Self {
        let text = |value| Bytes::from(serde_json::to_string_pretty(value).expect("a Value is JSON") + "\n");
        Self { status: text(status), config: text(config), is_ready }
    }
}

impl Default for Shown {
    fn default() -> Self {
        Self::new(&Value::Null, &Value::Null, false)
    }
}

/// The place where the newest [`Shown`] is.
pub type Board = Arc<RwLock<Shown>>;

/// Serves `/status`, `/config`, `/metrics` and `/ready` until the runtime ends; gives the address.
///
/// Fails when the address cannot be bound.
pub async fn start(
    address: SocketAddr,
    board: Board,
    gateways: Arc<Mutex<Gateways>>,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let app = Router::new()
        .route("/status", get(|State(board): State<Board>| async move { json(shown(&board).status) }))
        .route("/config", get(|State(board): State<Board>| async move { json(shown(&board).config) }))
        .route("/ready", get(ready))
        .route("/metrics", get(move || all_metrics(gateways)))
        .with_state(board);
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(bound)
}

async fn all_metrics(gateways: Arc<Mutex<Gateways>>) -> Response {
    /// What the text format is called (OpenMetrics 1.0.0, section "Content type").
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let texts = gateways.lock().await.metrics();
    let joined = metrics::join(texts.iter().map(|(gateway, text)| (gateway.clone(), text.as_str())));
    ([(header::CONTENT_TYPE, OPENMETRICS)], joined).into_response()
}

async fn ready(State(board): State<Board>) -> Response {
    match shown(&board).is_ready {
        true => text(StatusCode::OK, "ready\n".into()),
        false => text(StatusCode::SERVICE_UNAVAILABLE, "a port is not open; see /status\n".into()),
    }
}

fn shown(board: &Board) -> Shown {
    board.read().expect("nothing panics while it writes").clone()
}

fn json(text: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn text(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}
