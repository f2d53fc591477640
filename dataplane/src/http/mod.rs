//! The life of an HTTP request, from its head to its line in the access log.
//!
//! [`serve`] is the whole of it. What it is given was read by the loop of a connection ([`connection1`], [`connection2`]);
//! the sessions of pingora stay behind [`down::Down`] and [`up::Up`].

mod body;
mod clock;
mod connection1;
mod connection2;
mod down;
mod exchange;
mod fault;
pub(crate) mod filters;
mod head;
mod headers;
mod reply;
mod tunnel;
mod up;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use postern_config::routing::{self, path};
use postern_config::{AppProtocol, Timeouts};
use tokio::time::{Instant, Sleep};

use self::body::Framing;
use self::clock::{Clock, Expired};
pub(crate) use self::connection1::serve_http1;
pub(crate) use self::connection2::serve_http2;
use self::down::Down;
use self::exchange::{Progress, Return, Upload, exchange};
use self::fault::Fault;
use self::filters::Change;
use self::headers::{Forwarding, Incoming, Outgoing};
use self::up::Up;
use crate::backend::{self, Backend, DialError, InFlight, PoolKey};
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
    listener: String,
    action: Arc<Action>,
    /// The path without dot segments, if it had any.
    normalized: Option<String>,
    /// How many bytes of the path follow the matched prefix.
    after_prefix: Option<usize>,
}

/// What the backend sees that the client did not send.
struct Target {
    host: Option<String>,
    path_and_query: Option<String>,
    /// Whether the forwarding headers stand in the request already.
    settled: bool,
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
        listener: listener.name().clone(),
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
        closing: &|| scope.inbound.drain.has_begun(),
        limits: scope.limits(),
    };
    loop {
        record.tries += 1;
        clock.limit_attempt(rule.timeouts.backend_request);
        let not = record.endpoint.filter(|_| record.connect.is_some());
        let endpoint = backend.choose(not).ok_or(Fault::NoEndpoint)?;
        record.endpoint = Some(endpoint.address);
        let outcome = attempt(down, scope, share.protocol, &endpoint, &target, &back, clock, record).await;
        match outcome {
            Err(fault) if record.tries == 1 && is_repeatable(&fault, down, &record.upload, &backend) => {}
            outcome => return outcome,
        }
    }
}

/// What translation could not honour, which says so in the status of the route as well.
fn not_served(fault: &postern_config::Fault) -> Fault {
    tracing::debug!(reason = fault.reason, message = fault.message, "Rule or backend not served");
    Fault::Refused
}

/// Whether the request may be sent once more after this fault.
fn is_repeatable(fault: &Fault, down: &Down, upload: &Upload, backend: &Backend) -> bool {
    upload.can_begin_again()
        && match fault {
            Fault::Connect(_) => backend.endpoints().len() > 1,
            Fault::Unprocessed(_) => true,
            // RFC 9110 9.2.2: "A proxy MUST NOT automatically retry non-idempotent requests." On a connection that was
            // closed while it was idle nothing was processed; with a body under way, one cannot tell.
            Fault::Stale(_) => down.request().method.is_idempotent() || upload.bytes == 0,
            _ => false,
        }
}

/// Sends the request to one endpoint and passes its answer on.
#[expect(
    clippy::too_many_arguments,
    reason = "everything that an exchange needs comes together here, and only here"
)]
async fn attempt(
    down: &mut Down,
    scope: &Scope,
    protocol: AppProtocol,
    endpoint: &InFlight,
    target: &Target,
    back: &Return<'_>,
    clock: &Clock,
    record: &mut Record,
) -> Result<(), Fault> {
    let limits = scope.limits();
    let key = PoolKey { address: endpoint.address, protocol };
    let refused = |error: DialError| {
        endpoint.has_failed();
        scope.inbound.shared.metrics.connect_failed();
        Fault::Connect(error.to_string())
    };
    let began = Instant::now();
    let body = down.framing();
    let (up, writer, reused) = match protocol {
        AppProtocol::Http1 => {
            // What was found closed says that its neighbours may be, too.
            let kept = if record.tries == 1 { backend::take(&key) } else { None };
            let reused = kept.is_some();
            let conn = match kept {
                Some(conn) => conn,
                None => backend::connect(endpoint.address, limits).await.map_err(refused)?,
            };
            let (up, writer) = Up::h1(conn, key, reused, &target.outgoing(down, scope, protocol, body));
            (up, writer, reused)
        }
        AppProtocol::H2c => {
            let session = backend::stream(key, limits).await.map_err(refused)?;
            if down.expects_continue() && record.tries == 1 && body != Framing::None {
                let headers = HeaderMap::new();
                down.interim(&Incoming::new(StatusCode::CONTINUE, &headers)).await?;
            }
            let (up, writer) = Up::h2(session, &target.outgoing(down, scope, protocol, body))?;
            (up, writer, true)
        }
    };
    if !reused {
        record.connect = Some(began.elapsed());
    }
    record.upload.begin(writer).await.map_err(|_| match reused {
        true => Fault::Stale("closed while the request was sent".into()),
        false => Fault::Upstream("closed while the request was sent".into()),
    })?;
    exchange(down, up, &mut record.upload, back, clock, &mut record.progress).await
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

impl Target {
    fn outgoing<'a>(
        &'a self,
        down: &'a Down,
        scope: &'a Scope,
        protocol: AppProtocol,
        body: Framing,
    ) -> Outgoing<'a> {
        let request = down.request();
        let asked = headers::authority(request);
        let http1 = protocol == AppProtocol::Http1;
        let upgradable = http1 && body == Framing::None && down.upgradable().is_some();
        Outgoing {
            request,
            host: self.host.as_deref().unwrap_or(asked),
            asked,
            path_and_query: self.path_and_query.as_deref().unwrap_or_else(|| headers::target(request)),
            body,
            upgrade: if upgradable { headers::upgrade(request) } else { None },
            expect: http1 && body != Framing::None && down.expects_continue(),
            forwarding: (!self.settled).then_some(&scope.forwarding),
        }
    }
}
