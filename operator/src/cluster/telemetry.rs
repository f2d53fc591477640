//! The operator's own numbers, and whether it is up.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use postern_config::ObjectKey;
use postern_translate::Translation;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// All metrics of the operator. Clones count into the same numbers.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// Whether the API server answers.
    pub api_available: Gauge,
    /// Whether this replica writes.
    pub leads: Gauge,
    /// How long translations take.
    pub translations: Histogram,
    /// From when a change was seen until all connected data planes of a Gateway had what follows from it.
    pub propagation: Histogram,
    /// Connected data planes.
    pub data_planes: Gauge,
    /// Updates sent to data planes.
    pub pushes: Counter,
    /// Resources that data planes refused.
    pub rejects: Counter,
    /// Requests to the API server.
    pub requests: Family<RequestLabels, Counter>,
    /// When the certificates of listeners end.
    expiries: Family<Certificate, Gauge>,
    /// Translations that ended in a panic.
    pub panics: Counter,
    /// Gateways and routes by kind and what became of them.
    pub objects: Family<State, Gauge>,
    /// Statuses written.
    pub status_writes: Family<Write, Counter>,
    /// Objects of workloads written.
    pub workload_writes: Family<Write, Counter>,
    registry: Arc<Mutex<Registry>>,
}

/// A kind of object, and what became of it.
#[derive(Clone, Debug, Eq, EncodeLabelSet, Hash, PartialEq)]
pub struct State {
    /// As in `kind:`
    pub kind: &'static str,
    /// `accepted`, `refused`, and for Gateways `programmed`
    pub state: &'static str,
}

/// A request to the API server, and how it ended. The names are client-go's.
#[derive(Clone, Debug, Eq, EncodeLabelSet, Hash, PartialEq)]
pub struct RequestLabels {
    /// The status, or `<error>`
    pub code: String,
    /// The address of the API server
    pub host: String,
    /// As in HTTP
    pub method: String,
}

/// The Secret of a certificate.
#[derive(Clone, Debug, Eq, EncodeLabelSet, Hash, PartialEq)]
struct Certificate {
    namespace: String,
    secret: String,
}

/// A kind of object, and how writing it ended.
#[derive(Clone, Debug, Eq, EncodeLabelSet, Hash, PartialEq)]
pub struct Write {
    /// As in `kind:`
    pub kind: &'static str,
    /// `written`, `conflict` or `failed`
    pub result: &'static str,
}

impl Default for Telemetry {
    fn default() -> Self {
        let telemetry = Self {
            api_available: Gauge::default(),
            leads: Gauge::default(),
            translations: Histogram::new(exponential_buckets(0.000_25, 2.0, 14)),
            propagation: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            data_planes: Gauge::default(),
            pushes: Counter::default(),
            rejects: Counter::default(),
            requests: Family::default(),
            expiries: Family::default(),
            panics: Counter::default(),
            objects: Family::default(),
            status_writes: Family::default(),
            workload_writes: Family::default(),
            registry: Arc::default(),
        };
        telemetry.register();
        telemetry
    }
}

impl Telemetry {
    fn register(&self) {
        let mut registry = self.registry.lock().expect("nothing panics while it registers");
        let it = &mut *registry;
        it.register("postern_api_available", "Whether the API server answers", self.api_available.clone());
        it.register("leader_election_master_status", "Whether this replica writes", self.leads.clone());
        it.register("postern_translation_seconds", "How long translations take", self.translations.clone());
        it.register(
            "postern_config_propagation_seconds",
            "From when a change was seen until all connected data planes of a Gateway had acknowledged it",
            self.propagation.clone(),
        );
        it.register(
            "postern_connected_dataplanes",
            "Data planes that are connected to this replica",
            self.data_planes.clone(),
        );
        it.register("postern_config_pushes", "Updates sent to data planes", self.pushes.clone());
        it.register(
            "postern_config_rejects",
            "Resources that data planes refused to serve",
            self.rejects.clone(),
        );
        it.register("rest_client_requests", "Requests to the API server", self.requests.clone());
        it.register(
            "postern_certificate_expiry_timestamp_seconds",
            "When the certificates end that are served, in seconds since 1970",
            self.expiries.clone(),
        );
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        it.register("postern_build", "What runs", version);
        it.register(
            "postern_translation_panics",
            "Translations that failed by our fault",
            self.panics.clone(),
        );
        it.register("postern_objects", "Gateways and routes by what became of them", self.objects.clone());
        it.register("postern_status_writes", "Statuses written", self.status_writes.clone());
        it.register("postern_workload_writes", "Objects of workloads written", self.workload_writes.clone());
    }

    /// Takes down when certificates end, in seconds since 1970, by Secret; those that are not among them are forgotten.
    pub fn expire(&self, certificates: &BTreeMap<ObjectKey, i64>) {
        // Who reads meanwhile waits, and misses none.
        let _registry = self.registry.lock().expect("nothing panics while it registers");
        self.expiries.clear();
        for (key, until) in certificates {
            let label = Certificate { namespace: key.namespace.to_string(), secret: key.name.to_string() };
            self.expiries.get_or_create(&label).set(*until);
        }
    }

    /// All metrics as OpenMetrics text.
    pub fn text(&self) -> String {
        let mut to = String::new();
        let registry = self.registry.lock().expect("nothing panics while it registers");
        text::encode(&mut to, &registry).expect("a String takes everything");
        to
    }
}

/// Serves `/metrics`, `/healthz` and `/readyz` until the runtime ends; gives the address. Ready is who has seen the cluster.
///
/// Fails when the address cannot be bound.
pub async fn serve(
    address: SocketAddr,
    telemetry: Telemetry,
    known: watch::Receiver<Option<Arc<Translation>>>,
) -> std::io::Result<SocketAddr> {
    /// What the text format is called (OpenMetrics 1.0.0, section "Content type").
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let readyz = move || {
        let is_ready = known.borrow().is_some();
        async move {
            match is_ready {
                true => (StatusCode::OK, "ready\n"),
                false => (StatusCode::SERVICE_UNAVAILABLE, "the objects of the cluster are not known yet\n"),
            }
        }
    };
    let metrics =
        move || async move { ([(header::CONTENT_TYPE, OPENMETRICS)], telemetry.text()).into_response() };
    let app = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics));
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(bound)
}
