//! The life of an HTTP request, from its head to its line in the access log.
//!
//! [`serve`] is the whole of it. What it is given was read by the loop of a connection ([`connection1`], [`connection2`]);
//! the sessions of pingora stay behind [`down::Down`] and [`up::Up`].

mod attempt;
mod body;
mod clock;
mod connection1;
mod connection2;
mod down;
mod exchange;
mod fault;
pub(crate) mod filters;
mod forwarding;
mod head;
mod headers;
mod preview;
mod reply;
mod tunnel;
mod up;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use postern_config::Timeouts;
use postern_config::routing::{self, path};
use tokio::time::{Instant, Sleep};

use self::attempt::{Course, Target};
use self::clock::{Clock, Expired};
pub(crate) use self::connection1::serve_http1;
pub(crate) use self::connection2::serve_http2;
use self::down::Down;
use self::exchange::{Progress, Return, Upload};
use self::fault::Fault;
use self::filters::Change;
use self::forwarding::Forwarding;
pub use self::preview::{Preview, Previewed, preview};
use crate::listen::Inbound;
use crate::report::{Report, Times};
use crate::settings::Limits;
use crate::state::{Action, Destination, Does, State, Unlisted};

type Loaded = arc_swap::Guard<Arc<State>>;

/// What the requests of a connection have in common.
pub(crate) struct Scope {
    inbound: Arc<Inbound>,
    forwarding: Forwarding,
}

/// Which rule takes a request.
struct Routed {
    listener: Arc<str>,
    action: Arc<Action>,
    /// The path without dot segments, if it had any.
    normalized: Option<String>,
    /// How many bytes of the path follow the matched prefix.
    after_prefix: Option<usize>,
}

/// What is known of a request for its report.
#[derive(Default)]
struct Record {
    status: u16,
    reason: Option<&'static str>,
    backend: Option<Arc<str>>,
    endpoint: Option<SocketAddr>,
    tries: u32,
    connect: Option<Duration>,
    upload: Upload,
    progress: Progress,
}

impl Scope {
    fn new(inbound: Arc<Inbound>) -> Self {
        Self { forwarding: Forwarding::new(&inbound), inbound }
    }

    fn limits(&self) -> &Limits {
        &self.inbound.shared.settings.limits
    }
}

/// Serves a request whose head was read: routes it, changes it, forwards it or answers it, and reports it. Says when it was
/// over.
async fn serve(down: &mut Down, scope: &Scope, clock: &Clock, timer: Pin<&mut Sleep>) -> Instant {
    let began = Instant::now();
    let shared = &scope.inbound.shared;
    let _active = shared.metrics.active();
    // The pauses of a gRPC stream are the application's.
    let is_stream = reply::is_grpc(&down.request().headers);
    let limits = scope.limits();
    clock.begin(began, None, if is_stream { limits.tunnel_idle } else { limits.idle });

    let mut record = Record { upload: Upload::new(down.has_body()), ..Record::default() };
    let (routed, outcome) = match route(down, scope) {
        Err(fault) => (None, Err(fault)),
        Ok((routed, state)) => {
            clock.limit(began, routed.timeouts().request);
            let outcome = tokio::select! {
                biased;
                outcome = forward(down, scope, &routed, state, clock, &mut record) => outcome,
                expired = clock.expired(timer) => Err(match expired {
                    Expired::Limit => Fault::Timeout,
                    Expired::Idle if !record.upload.is_read() => Fault::ClientTooSlow,
                    Expired::Idle => Fault::Idle,
                }),
            };
            (Some(routed), outcome)
        }
    };
    let label = routed.as_ref().and_then(|routed| scope.label(routed));
    settle(down, outcome, label, &mut record).await;
    let ended = Instant::now();
    report(down, scope, routed.as_ref(), &record, (began, ended));
    ended
}

/// The rule that takes the request, or why none does; with the state that says so.
fn route(down: &mut Down, scope: &Scope) -> Result<(Routed, Loaded), Fault> {
    head::check(down.request())?;
    headers::remove_nominated(down.request_mut())?;
    let request = down.request();
    let (path, query) = headers::path_and_query(request);
    let normalized = path::normalize(path);
    let host = routing::host(headers::authority(request));
    let state = scope.inbound.shared.state.load();
    let listener = state.listener(&scope.inbound, &host).map_err(|unlisted| match unlisted {
        Unlisted::NotFound => Fault::NoRoute,
        Unlisted::Misdirected => Fault::Misdirected,
    })?;
    let asked = routing::Request {
        host: &host,
        path: &normalized,
        query,
        method: &request.method,
        headers: &request.headers,
    };
    let selected = listener.select(&asked).ok_or(Fault::NoRoute)?;
    let routed = Routed {
        listener: Arc::clone(listener.name()),
        action: Arc::clone(selected.action),
        after_prefix: selected.candidate.after_prefix(&normalized).map(str::len),
        normalized: match normalized {
            Cow::Borrowed(_) => None,
            Cow::Owned(path) => Some(path),
        },
    };
    Ok((routed, state))
}

/// What is done with a request that a rule takes: its filters, then one of its backends.
async fn forward(
    down: &mut Down,
    scope: &Scope,
    routed: &Routed,
    state: Loaded,
    clock: &Clock,
    record: &mut Record,
) -> Result<(), Fault> {
    let rule = match &routed.action.does {
        Does::Forward(rule) => rule,
        Does::Fail(fault) => return Err(not_served(fault)),
    };
    let mut change = routed.change(down, scope);
    if let Some(location) = change.run(&rule.filters, &scope.forwarding) {
        record.status = reply::redirect(down, &location, scope.label(routed)).await;
        return Ok(());
    }
    // HTTPBackendRef: "When a HTTPBackendRef is invalid, 500 status codes MUST be returned for requests that would have
    // otherwise been routed to an invalid backend." Without any weight there is nothing to route to.
    let share = rule.shares.choose().ok_or(Fault::Refused)?;
    if let Some(location) = change.run(&share.filters, &scope.forwarding) {
        record.status = reply::redirect(down, &location, scope.label(routed)).await;
        return Ok(());
    }
    let target = Target { host: change.host, path_and_query: change.path_and_query, settled: change.settled };
    let backend = match &share.to {
        Destination::Backend(index) => Arc::clone(state.backend(*index)),
        Destination::Invalid(fault) => return Err(not_served(fault)),
    };
    // A tunnel may live long: it must not keep a whole configuration.
    drop(state);
    record.backend = Some(Arc::clone(&backend.name));

    let filter = |headers: &mut HeaderMap| {
        share.filters.response(headers);
        rule.filters.response(headers);
    };
    let filters = rule.filters.are_for_responses() || share.filters.are_for_responses();
    let back = Return {
        filter: if filters { Some(&filter) } else { None },
        route: scope.label(routed),
        inbound: &scope.inbound,
        limits: scope.limits(),
    };
    let limit = rule.timeouts.backend_request;
    Course { scope, clock, protocol: share.protocol, backend: &backend, target, back, limit }
        .run(down, record)
        .await
}

/// What translation could not honour, which says so in the status of the route as well.
fn not_served(fault: &postern_config::Fault) -> Fault {
    tracing::debug!(reason = fault.reason, message = fault.message, "Rule or backend not served");
    Fault::Refused
}

/// Tells the client what went wrong, if it can still be told, or ends what cannot be completed.
async fn settle(down: &mut Down, outcome: Result<(), Fault>, label: Option<&str>, record: &mut Record) {
    if let Some(status) = record.progress.status {
        record.status = status.as_u16();
    }
    let Err(fault) = outcome else { return };
    tracing::debug!(reason = fault.reason(), cause = fault.cause(), "Request not served");
    record.reason = Some(fault.reason());
    match fault.status() {
        Some(status) if !down.is_answered() => {
            record.status = reply::fault(down, &fault, status, label).await
        }
        Some(_) | None => down.abort(),
    }
}

fn report(
    down: &Down,
    scope: &Scope,
    routed: Option<&Routed>,
    record: &Record,
    (began, ended): (Instant, Instant),
) {
    let request = down.request();
    let (path, _) = headers::path_and_query(request);
    scope.inbound.shared.report(&Report {
        inbound: &scope.inbound,
        method: &request.method,
        version: request.version,
        host: &routing::host(headers::authority(request)),
        path,
        status: record.status,
        reason: record.reason,
        listener: routed.map(|routed| &*routed.listener),
        rule: routed.map(|routed| &*routed.action.rule),
        backend: record.backend.as_deref(),
        endpoint: record.endpoint,
        tries: record.tries,
        request_bytes: record.upload.bytes,
        response_bytes: record.progress.bytes,
        times: Times {
            total: ended.duration_since(began),
            connect: record.connect,
            first_byte: record.progress.first_byte.map(|at| at.duration_since(began)),
        },
    });
}

impl Scope {
    /// `x-postern-route` for a rule, if responses are to name it.
    fn label<'a>(&self, routed: &'a Routed) -> Option<&'a str> {
        let wanted = self.inbound.shared.settings.route_header;
        if wanted { routed.action.rule.label.to_str().ok() } else { None }
    }
}

impl Routed {
    fn timeouts(&self) -> Timeouts {
        match &self.action.does {
            Does::Forward(rule) => rule.timeouts,
            Does::Fail(_) => Timeouts::default(),
        }
    }

    /// The request, ready to be changed by filters.
    fn change<'a>(&self, down: &'a mut Down, scope: &Scope) -> Change<'a> {
        let request = down.request_mut();
        let (_, query) = headers::path_and_query(request);
        // What was matched is what is forwarded: a dot segment must not lead elsewhere behind the rule's back.
        let path_and_query = self.normalized.as_ref().map(|path| match query {
            Some(query) => format!("{path}?{query}"),
            None => path.clone(),
        });
        Change {
            request,
            host: None,
            path_and_query,
            after_prefix: self.after_prefix,
            scheme: scope.inbound.scheme(),
            port: scope.inbound.port,
            settled: false,
        }
    }
}
