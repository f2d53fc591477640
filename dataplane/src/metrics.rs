//! The numbers of the data plane, under OpenTelemetry's names in Prometheus form.
//!
//! Every worker counts into a shard of its own; only a scrape looks into all of them. Series of rules that are gone go
//! with them, and a limit on their number keeps one Gateway's routes from filling the memory: what is beyond it is counted
//! under `overflow`.

mod encode;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Method, Version};

use crate::limits::Connections;
use crate::report::Report;
use crate::state::RuleName;

/// All metrics of a plane.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<Counts>);

struct Counts {
    connections: Arc<Connections>,
    shards: Mutex<Vec<Arc<Mutex<Shard>>>>,
    handshakes_failed: AtomicU64,
    connects_failed: AtomicU64,
    log_lines_lost: AtomicU64,
    refused: Mutex<BTreeMap<&'static str, u64>>,
    malformed: Mutex<BTreeMap<&'static str, u64>>,
}

/// What one worker has counted.
#[derive(Default)]
struct Shard {
    requests: HashMap<Key, Series, foldhash::fast::RandomState>,
    backends: HashMap<Box<str>, Histogram, foldhash::fast::RandomState>,
    endpoint_connections: i64,
    active_requests: i64,
}

/// An open connection to an endpoint; it is counted where it was made until this is dropped there.
pub(crate) struct EndpointConnection(());

/// What tells series of requests apart.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
struct Key {
    rule: u32,
    status: u16,
    method: &'static str,
    version: &'static str,
    scheme: &'static str,
    reason: Option<&'static str>,
}

#[derive(Clone)]
struct Series {
    route: Box<str>,
    rule_index: usize,
    duration: Histogram,
    request_bytes: u64,
    response_bytes: u64,
}

#[derive(Clone, Default)]
struct Histogram {
    seconds: f64,
    counts: [u64; BOUNDS.len() + 1],
}

/// The boundaries that OpenTelemetry advises for HTTP durations, in seconds.
const BOUNDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
/// Series of one worker.
const MOST_SERIES: usize = 10_000;
/// The rule of requests that no rule took, and of those beyond the limit.
const NO_RULE: u32 = 0;
const OVERFLOW: u32 = u32::MAX;

thread_local! {
    static SHARD: RefCell<Option<Arc<Mutex<Shard>>>> = const { RefCell::new(None) };
}

/// A request that is being served; it is counted where it was begun until this is dropped there.
pub(crate) struct Active(());

impl Metrics {
    pub(crate) fn new(connections: Arc<Connections>) -> Self {
        Self(Arc::new(Counts {
            connections,
            shards: Mutex::default(),
            handshakes_failed: AtomicU64::new(0),
            connects_failed: AtomicU64::new(0),
            log_lines_lost: AtomicU64::new(0),
            refused: Mutex::default(),
            malformed: Mutex::default(),
        }))
    }

    /// Gives this thread a shard to count into.
    pub(crate) fn enter(&self) {
        let shard = Arc::<Mutex<Shard>>::default();
        lock(&self.0.shards).push(Arc::clone(&shard));
        SHARD.set(Some(shard));
    }

    /// Counts a request from now until the answer is dropped.
    pub(crate) fn active(&self) -> Active {
        count(|shard| shard.active_requests += 1);
        Active(())
    }

    /// Counts a request that is over.
    pub(crate) fn record(&self, report: &Report<'_>) {
        count(|shard| shard.record(report));
    }

    /// A connection was not taken.
    pub(crate) fn refused(&self, reason: &'static str) {
        *lock(&self.0.refused).entry(reason).or_default() += 1;
    }

    /// What a client sent could not be read as a request.
    pub(crate) fn malformed(&self, reason: &'static str) {
        *lock(&self.0.malformed).entry(reason).or_default() += 1;
    }

    /// A client did not get through its TLS handshake.
    pub(crate) fn handshake_failed(&self) {
        self.0.handshakes_failed.fetch_add(1, Relaxed);
    }

    /// An endpoint took no connection.
    pub(crate) fn connect_failed(&self) {
        self.0.connects_failed.fetch_add(1, Relaxed);
    }

    /// Lines of the access log that nobody could take.
    pub(crate) fn log_lines_lost(&self, count: u64) {
        self.0.log_lines_lost.fetch_add(count, Relaxed);
    }

    /// Forgets the series of rules that are gone.
    pub(crate) fn keep_rules(&self, rules: &HashSet<u32, foldhash::fast::RandomState>) {
        for shard in lock(&self.0.shards).iter() {
            let keep = |rule: u32| rule == NO_RULE || rule == OVERFLOW || rules.contains(&rule);
            lock(shard).requests.retain(|key, _| keep(key.rule));
        }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        count(|shard| shard.active_requests -= 1);
    }
}

impl EndpointConnection {
    pub(crate) fn new() -> Self {
        count(|shard| shard.endpoint_connections += 1);
        Self(())
    }
}

impl Drop for EndpointConnection {
    fn drop(&mut self) {
        count(|shard| shard.endpoint_connections -= 1);
    }
}

/// Counts in this thread's shard. Only a scrape ever waits for its lock beside us.
fn count(how: impl FnOnce(&mut Shard)) {
    // At the end of a thread there may be nothing left to count in.
    let _ = SHARD.try_with(|shard| {
        if let Some(shard) = &*shard.borrow() {
            how(&mut lock(shard));
        }
    });
}

impl Shard {
    fn record(&mut self, report: &Report<'_>) {
        let mut key = Key {
            rule: report.rule.map_or(NO_RULE, |rule| rule.id),
            status: report.status,
            method: method(report.method),
            version: version(report.version),
            scheme: report.inbound.scheme().as_str(),
            reason: report.reason,
        };
        if self.requests.len() >= MOST_SERIES && !self.requests.contains_key(&key) {
            key.rule = OVERFLOW;
        }
        let series = self.requests.entry(key).or_insert_with(|| Series::new(key.rule, report.rule));
        series.duration.observe(report.times.total);
        series.request_bytes += report.request_bytes;
        series.response_bytes += report.response_bytes;
        if let (Some(backend), Some(first_byte)) = (report.backend, report.times.first_byte) {
            if let Some(histogram) = self.backends.get_mut(backend) {
                histogram.observe(first_byte);
            } else if self.backends.len() < MOST_SERIES {
                self.backends.entry(backend.into()).or_default().observe(first_byte);
            }
        }
    }
}

impl Series {
    fn new(id: u32, rule: Option<&RuleName>) -> Self {
        let (route, rule_index) = match rule {
            _ if id == OVERFLOW => ("overflow", 0),
            Some(rule) => (&*rule.route_text, rule.index),
            None => ("", 0),
        };
        Self {
            route: route.into(),
            rule_index,
            duration: Histogram::default(),
            request_bytes: 0,
            response_bytes: 0,
        }
    }

    fn add(&mut self, other: &Self) {
        self.duration.add(&other.duration);
        self.request_bytes += other.request_bytes;
        self.response_bytes += other.response_bytes;
    }
}

impl Histogram {
    fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        self.seconds += seconds;
        self.counts[BOUNDS.partition_point(|bound| *bound < seconds)] += 1;
    }

    fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
    }
}

/// A method that is safe as a label: clients may send any word.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        _ => "_OTHER",
    }
}

/// `network.protocol.version` of an HTTP version.
pub(crate) fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    }
}

/// Counts stay usable after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
