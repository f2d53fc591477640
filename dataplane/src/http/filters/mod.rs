//! Filters, compiled: what they do to a request or a response, ready to be done.
//!
//! A filter is a file here and a line in [`compile`].

mod headers;
mod redirect;
mod rewrite;

use std::fmt::Debug;

use http::HeaderMap;
use pingora::http::RequestHeader;
use postern_config::{Filter, PathModifier, Scheme};

use super::forwarding::Forwarding;
use super::headers::target;

pub(super) use redirect::Location;

/// The filters of a rule or of a backendRef, in order.
#[derive(Debug, Default)]
pub(crate) struct Filters(Box<[Box<dyn Apply>]>);

/// What a filter does. One that is silent about a direction leaves it as it is.
trait Apply: Debug + Send + Sync {
    /// Changes a request on its way to the backend, or answers it.
    fn request(&self, _change: &mut Change<'_>) -> Option<Location> {
        None
    }

    /// Changes the headers of a response on its way to the client.
    fn response(&self, _headers: &mut HeaderMap) {}

    /// Whether it changes responses.
    fn is_for_responses(&self) -> bool {
        false
    }

    /// Whether it changes the headers that tell the backend about the client.
    fn is_for_forwarding(&self) -> bool {
        false
    }
}

/// A request that filters look at and change.
pub(super) struct Change<'a> {
    /// The head. Host and target stay as the client sent them; what they become is below.
    pub(super) request: &'a mut RequestHeader,
    /// The host that the backend is to see, if it is another.
    pub(super) host: Option<String>,
    /// Path and query that the backend is to see, if they are others.
    pub(super) path_and_query: Option<String>,
    /// How many bytes at the end of the path the rule's PathPrefix left over; `None` if it matched no prefix.
    pub(super) after_prefix: Option<usize>,
    /// How the client came.
    pub(super) scheme: Scheme,
    /// The port of the listener.
    pub(super) port: u16,
    /// Whether the forwarding headers were put into the request for filters to change.
    pub(super) settled: bool,
}

fn compile(filter: &Filter) -> Box<dyn Apply> {
    match filter {
        Filter::RequestHeaderModifier(modifier) => Box::new(headers::OfRequest::new(modifier)),
        Filter::ResponseHeaderModifier(modifier) => Box::new(headers::OfResponse::new(modifier)),
        Filter::RequestRedirect(redirect) => Box::new(redirect::Redirect::new(redirect)),
        Filter::UrlRewrite(rewrite) => Box::new(rewrite::Rewrite::new(rewrite)),
    }
}

impl Filters {
    /// Compiles filters that translation has checked.
    pub(crate) fn compile(filters: &[Filter]) -> Self {
        Self(filters.iter().map(compile).collect())
    }

    /// Does what they do to a response.
    pub(super) fn response(&self, headers: &mut HeaderMap) {
        self.0.iter().for_each(|filter| filter.response(headers));
    }

    /// Does what they do to a request that nobody has sent, so that it has no forwarding headers.
    pub(super) fn preview(&self, change: &mut Change<'_>) -> Option<Location> {
        self.0.iter().find_map(|filter| filter.request(change))
    }

    pub(super) fn are_for_responses(&self) -> bool {
        self.0.iter().any(|filter| filter.is_for_responses())
    }
}

impl Change<'_> {
    /// Runs filters on the request; the first that answers ends it.
    pub(super) fn run(&mut self, filters: &Filters, forwarding: &Forwarding) -> Option<Location> {
        if !self.settled && filters.0.iter().any(|filter| filter.is_for_forwarding()) {
            forwarding.settle(self.request);
            self.settled = true;
        }
        filters.0.iter().find_map(|filter| filter.request(self))
    }

    /// The path of the request and what stands after `?`.
    fn path_and_query(&self) -> (&str, Option<&str>) {
        let whole = match &self.path_and_query {
            Some(changed) => changed,
            None => target(self.request),
        };
        match whole.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (whole, None),
        }
    }

    /// Path and query after `modifier`.
    fn modified(&self, modifier: &PathModifier) -> String {
        let (path, query) = self.path_and_query();
        let mut changed = match modifier {
            PathModifier::ReplaceFullPath(full) => full.clone(),
            PathModifier::ReplacePrefixMatch(prefix) => replace_prefix(path, self.after_prefix, prefix),
        };
        if !changed.starts_with('/') {
            changed.insert(0, '/');
        }
        if let Some(query) = query {
            changed.push('?');
            changed.push_str(query);
        }
        changed
    }
}

/// HTTPPathModifier.replacePrefixMatch: the matched prefix becomes `prefix`, with exactly one slash before what follows it.
fn replace_prefix(path: &str, after_prefix: Option<usize>, prefix: &str) -> String {
    // Translation lets this through only beside a PathPrefix match; for any other there is no prefix, and nothing to replace.
    let Some(rest) = after_prefix.and_then(|rest| path.get(path.len().checked_sub(rest)?..)) else {
        return path.to_owned();
    };
    match rest.strip_prefix('/') {
        None => prefix.to_owned(),
        Some(rest) => format!("{}/{rest}", prefix.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::replace_prefix;

    /// The table in the specification of HTTPPathModifier.
    #[test]
    fn a_replaced_prefix_is_followed_by_one_slash() {
        for (path, rest, prefix, expected) in [
            ("/foo/bar", "/bar", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/bar", "/xyz/", "/xyz/bar"),
            ("/foo", "", "/xyz", "/xyz"),
            ("/foo/", "/", "/xyz", "/xyz/"),
            ("/foo/bar", "/bar", "", "/bar"),
            ("/foo/bar", "/bar", "/", "/bar"),
            ("/foo/", "/", "/", "/"),
            ("/foo", "", "/", "/"),
        ] {
            assert_eq!(replace_prefix(path, Some(rest.len()), prefix), expected, "{path} {prefix}");
        }
    }
}
