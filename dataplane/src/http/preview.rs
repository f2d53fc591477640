//! What filters would make of a request: for explanations, by the code that serves requests.

use http::request::Parts;
use pingora::http::RequestHeader;
use postern_config::{Filter, Scheme};

use super::filters::{Change, Filters};

/// A request as a client sends it to a listener.
#[derive(Debug)]
pub struct Previewed<'a> {
    /// Method, target (a path that is normalized, and a query) and headers, `Host` among them.
    pub head: &'a Parts,
    /// What the connection speaks.
    pub scheme: Scheme,
    /// The listener's port.
    pub port: u16,
    /// How many bytes at the end of the path the matched PathPrefix leaves over; `None` if another kind of match took it.
    pub after_prefix: Option<usize>,
}

/// What becomes of a request.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Preview {
    /// The status and the `Location` of a redirect, which is the answer then.
    pub redirect: Option<(u16, String)>,
    /// The host that the backend is to see, if it is another than the client asked for.
    pub host: Option<String>,
    /// The path and query that the backend is to see, if they are others.
    pub path_and_query: Option<String>,
}

/// Runs filters on a request that is not sent anywhere.
///
/// `None` when the request is one that cannot be sent, for example with a target that is no path.
pub fn preview(filters: &[Filter], request: &Previewed<'_>) -> Option<Preview> {
    let Previewed { head, scheme, port, after_prefix } = request;
    let target = head.uri.path_and_query()?.as_str();
    let mut built = RequestHeader::build(head.method.clone(), target.as_bytes(), None).ok()?;
    for (name, value) in &head.headers {
        built.append_header(name.clone(), value.clone()).ok()?;
    }
    let mut change = Change {
        request: &mut built,
        host: None,
        path_and_query: None,
        after_prefix: *after_prefix,
        scheme: *scheme,
        port: *port,
        settled: true,
    };
    let redirect = Filters::compile(filters).preview(&mut change);
    let Change { host, path_and_query, .. } = change;
    let redirect = redirect.map(|location| (location.status.as_u16(), location.url));
    Some(Preview { redirect, host, path_and_query })
}
