//! HTTP on a connection: the loops that read requests and write answers.

pub(crate) mod filters;

use std::sync::Arc;

use crate::listen::{Conn, Inbound};

/// Serves HTTP/1 until the connection ends.
pub(crate) async fn serve_http1(conn: Conn, inbound: Arc<Inbound>) {
    drop((conn, inbound));
}

/// Serves HTTP/2 until the connection ends.
pub(crate) async fn serve_http2(conn: Conn, inbound: Arc<Inbound>) {
    drop((conn, inbound));
}
