//! What holds for a data plane beside HTTP itself: TLS, changes, limits and the end, over real sockets.

mod bind;
mod common;
mod drain;
mod limits;
mod pool;
mod tls;
