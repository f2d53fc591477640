//! Objects in, configuration and statuses out: the pure core, with no clock, file, client or channel.

pub mod api;
pub mod kinds;
pub mod manifest;
pub mod snapshot;
