//! The operator: watches a cluster, translates what it finds, and writes workloads, statuses and events back.

pub mod apply;
pub mod authority;
pub mod client;
pub mod debounce;
pub mod discover;
pub mod editions;
pub mod events;
#[cfg(test)]
pub mod fake;
pub mod guarded;
pub mod identity;
pub mod leader;
pub mod merge;
pub mod observe;
pub mod push;
pub mod refusals;
#[cfg(test)]
pub mod scenarios;
pub mod settings;
pub mod telemetry;
pub mod translation;
pub mod watch;
pub mod write;

/// The field manager under which we write to a cluster.
pub const MANAGER: &str = "postern";
