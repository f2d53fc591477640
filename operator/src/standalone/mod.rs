//! What `serve` has besides the data plane: files over time, endpoints, certificates, addresses.

pub mod addresses;
pub mod admin;
pub mod certificate;
pub mod echo;
pub mod endpoints;
pub mod gateways;
pub mod metrics;
pub mod serving;
pub mod sources;
pub mod watch;
