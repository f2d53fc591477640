//! From a backend to an endpoint, a connection and an exchange; once more, if the first try came to nothing and that is safe.

use http::{HeaderMap, StatusCode};
use postern_config::AppProtocol;
use std::time::Duration;
use tokio::time::Instant;

use super::body::{BodyWriter, Framing};
use super::clock::Clock;
use super::down::Down;
use super::exchange::{Return, exchange};
use super::fault::Fault;
use super::headers::{self, Incoming, Outgoing};
use super::up::Up;
use super::{Record, Scope};
use crate::backend::{self, Backend, DialError, InFlight, PoolKey};

/// Where a request goes, and what becomes of the answer.
pub(super) struct Course<'a> {
    pub(super) scope: &'a Scope,
    pub(super) clock: &'a Clock,
    pub(super) backend: &'a Backend,
    /// What its endpoints speak.
    pub(super) protocol: AppProtocol,
    pub(super) target: Target,
    /// The limit on the time of one attempt.
    pub(super) limit: Option<Duration>,
    pub(super) back: Return<'a>,
}

/// What the backend sees that the client did not send.
pub(super) struct Target {
    pub(super) host: Option<String>,
    pub(super) path_and_query: Option<String>,
    /// Whether the forwarding headers stand in the request already.
    pub(super) settled: bool,
}

impl Course<'_> {
    /// Sends the request and passes the answer on.
    pub(super) async fn run(&self, down: &mut Down, record: &mut Record) -> Result<(), Fault> {
        let mut not = None;
        loop {
            record.tries += 1;
            self.clock.limit_attempt(self.limit);
            let endpoint = self.backend.choose(not).ok_or(Fault::NoEndpoint)?;
            record.endpoint = Some(endpoint.address);
            match self.attempt(&endpoint, down, record).await {
                Err(fault) if record.tries == 1 && self.is_repeatable(&fault, down, record) => {
                    not = matches!(fault, Fault::Connect(_)).then_some(endpoint.address);
                }
                outcome => return outcome,
            }
        }
    }

    /// Whether the request may be sent once more after this fault.
    fn is_repeatable(&self, fault: &Fault, down: &Down, record: &Record) -> bool {
        let upload = &record.upload;
        upload.can_begin_again()
            && match fault {
                Fault::Connect(_) => self.backend.endpoints().len() > 1,
                Fault::Unprocessed(_) => true,
                // RFC 9110 9.2.2: "A proxy MUST NOT automatically retry non-idempotent requests." One whose body is still to
                // come cannot have been acted on; any other that has left may have been.
                Fault::Stale(_) => {
                    let is_begun = upload.bytes > 0 || upload.is_read();
                    down.request().method.is_idempotent() || !is_begun
                }
                _ => false,
            }
    }

    /// One exchange with one endpoint.
    async fn attempt(&self, endpoint: &InFlight, down: &mut Down, record: &mut Record) -> Result<(), Fault> {
        let (up, writer) = match self.protocol {
            AppProtocol::Http1 => self.connect(endpoint, down, record).await?,
            AppProtocol::H2c => self.stream(endpoint, down, record).await?,
        };
        let is_reused = record.connect.is_none();
        record.upload.begin(writer, self.clock).await.map_err(|_| match is_reused {
            true => Fault::Stale("closed while the request was sent".into()),
            false => Fault::Upstream("closed while the request was sent".into()),
        })?;
        exchange(down, up, &mut record.upload, &self.back, self.clock, &mut record.progress).await
    }

    /// An exchange on a connection of its own, a kept one if there is one.
    async fn connect(
        &self,
        endpoint: &InFlight,
        down: &mut Down,
        record: &mut Record,
    ) -> Result<(Up, BodyWriter), Fault> {
        let key = PoolKey { address: endpoint.address, protocol: self.protocol };
        // What was found closed says that its neighbours may be, too.
        let kept = if record.tries == 1 { backend::take(&key) } else { None };
        let is_reused = kept.is_some();
        let conn = match kept {
            Some(conn) => conn,
            None => {
                let began = Instant::now();
                // Rare and large: boxed, so that it is no part of every connection.
                let dialed = Box::pin(backend::connect(endpoint.address, self.scope.limits())).await;
                let conn = dialed.map_err(|error| self.refused(endpoint, &error))?;
                record.connect = Some(began.elapsed());
                conn
            }
        };
        let body = down.framing();
        Ok(Up::h1(conn, key, is_reused, &self.outgoing(down, body)))
    }

    /// An exchange on a stream of a shared connection.
    async fn stream(
        &self,
        endpoint: &InFlight,
        down: &mut Down,
        record: &mut Record,
    ) -> Result<(Up, BodyWriter), Fault> {
        let key = PoolKey { address: endpoint.address, protocol: self.protocol };
        let session = backend::stream(key, self.scope.limits()).await;
        let session = session.map_err(|error| self.refused(endpoint, &error))?;
        let body = down.framing();
        if down.expects_continue() && record.tries == 1 && body != Framing::None {
            // The endpoint cannot say it, for the codec does not pass 1xx on.
            down.interim(&Incoming::new(StatusCode::CONTINUE, &HeaderMap::new())).await?;
        }
        Up::h2(session, &self.outgoing(down, body))
    }

    fn refused(&self, endpoint: &InFlight, error: &DialError) -> Fault {
        endpoint.has_failed();
        self.scope.inbound.shared.metrics.connect_failed();
        Fault::Connect(error.to_string())
    }

    fn outgoing<'a>(&'a self, down: &'a Down, body: Framing) -> Outgoing<'a> {
        let (request, target) = (down.request(), &self.target);
        let asked = headers::authority(request);
        let is_http1 = self.protocol == AppProtocol::Http1;
        let is_upgradable = is_http1 && body == Framing::None && down.upgradable().is_some();
        Outgoing {
            request,
            host: target.host.as_deref().unwrap_or(asked),
            asked,
            path_and_query: target.path_and_query.as_deref().unwrap_or_else(|| headers::target(request)),
            body,
            upgrade: if is_upgradable { headers::upgrade(request) } else { None },
            expect: is_http1 && body != Framing::None && down.expects_continue(),
            forwarding: (!target.settled).then_some(&self.scope.forwarding),
        }
    }
}
