//! The routing table: which rule takes a request, and why.
//!
//! A port has listeners, the most specific one for the host is taken ([`PortTable::listener`]), and only its routes are
//! looked at. Every match of every rule of every attached route is a [`Candidate`], once for each hostname that the
//! route gives there. [`Rank`] orders them as the specification does, and the first that matches takes the request:
//! [`ListenerTable::select`] finds it by an index, [`ListenerTable::explain`] by judging them all.
//!
//! # What is compared with what
//! * **Host**: [`host`] of the request's authority, with the route's own hostnames.
//! * **Path**: [`path::normalize`] of the request's path, with the match's path normalized likewise, case-sensitive, a run
//!   of slashes counting as one. The path that goes to the backend keeps its slashes.
//! * **Method**: as it is, case-sensitive.
//! * **Headers**: names without case. The lines of a repeated header are one value, joined by `,` (RFC 9110 5.3), those of
//!   `cookie` by `; ` (RFC 9113 8.2.3).
//! * **Query**: names and values after percent-decoding, `+` being a space, case-sensitive; the first entry of a name counts.
//! * **Regular expressions**: [`check_regex`].

mod bucket;
mod candidate;
mod explain;
mod expressions;
mod header;
mod host;
mod lengths;
pub mod path;
mod query;
mod rank;
mod regex;
mod table;

pub use candidate::{Candidate, Rule, Selected};
pub use explain::{Condition, Explanation, Judgement, Mismatch, Outcome};
pub use host::host;
pub use rank::{Advantage, HostnameRank, PathRank, Rank};
pub use regex::check_regex;
pub use table::{ListenerTable, PortTable, RouteTable};

/// What routing looks at in a request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The host, as [`host`] gives it; empty if the request has none.
    pub host: &'a str,
    /// The path, as [`path::normalize`] gives it.
    pub path: &'a str,
    /// What stands after `?`, if there is one.
    pub query: Option<&'a str>,
    /// The method.
    pub method: &'a http::Method,
    /// The headers.
    pub headers: &'a http::HeaderMap,
}
