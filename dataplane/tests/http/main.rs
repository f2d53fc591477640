//! HTTP through a data plane in this process, on real sockets: what a client and a backend see of each other.

mod common;
mod drain;
mod early;
mod filters;
mod grpc;
mod http1;
mod http2;
mod hygiene;
mod retry;
mod routes;
mod timeouts;
mod websocket;
