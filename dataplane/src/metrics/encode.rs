//! The metrics as OpenMetrics text.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::{BOUNDS, Histogram, Key, Metrics, Series, lock};

impl Metrics {
    /// Everything in OpenMetrics text form.
    pub(crate) fn encode(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut text, &registry);
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (requests, backends) = self.merge();
        let help = "Duration of HTTP requests, from the end of the head to the end of the answer";
        let mut family = encoder.encode_descriptor(
            "http_server_request_duration",
            help,
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (key, series) in &requests {
            series.duration.encode(family.encode_family(&series.labels(key).as_slice())?)?;
        }
        for (name, help, value) in [
            (
                "http_server_request_body",
                "Bytes of request bodies",
                (|s| s.request_bytes) as fn(&Series) -> u64,
            ),
            ("http_server_response_body", "Bytes of response bodies", |s| s.response_bytes),
        ] {
            let mut family =
                encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Counter)?;
            for (key, series) in &requests {
                let labels = series.labels(key);
                ConstCounter::new(value(series)).encode(family.encode_family(&labels.as_slice())?)?;
            }
        }
        let help = "Time to the head of a backend's answer";
        let mut family = encoder.encode_descriptor(
            "http_client_request_duration",
            help,
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (backend, histogram) in &backends {
            histogram.encode(family.encode_family(&[("backend", &**backend)].as_slice())?)?;
        }
        self.encode_plain(encoder)
    }
}

impl Metrics {
    /// The sums over all shards, in a stable order.
    fn merge(&self) -> (BTreeMap<Key, Series>, BTreeMap<Box<str>, Histogram>) {
        let (mut requests, mut backends) =
            (BTreeMap::<Key, Series>::new(), BTreeMap::<Box<str>, Histogram>::new());
        for shard in lock(&self.0.shards).iter() {
            let shard = lock(shard);
            for (key, series) in &shard.requests {
                requests.entry(*key).and_modify(|sum| sum.add(series)).or_insert_with(|| series.clone());
            }
            for (backend, histogram) in &shard.backends {
                backends.entry(backend.clone()).or_default().add(histogram);
            }
        }
        (requests, backends)
    }

    fn encode_plain(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = &self.0;
        let open = i64::try_from(counts.connections.open()).unwrap_or(i64::MAX);
        let (mut active, mut to_endpoints) = (0, 0);
        for shard in lock(&counts.shards).iter() {
            let shard = lock(shard);
            active += shard.active_requests;
            to_endpoints += shard.endpoint_connections;
        }
        for (name, help, value) in [
            ("http_server_active_requests", "Requests that are being served", active),
            ("http_client_open_connections", "Open connections to endpoints", to_endpoints),
            ("postern_connections", "Open client connections", open),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)?;
        }
        for (name, help, value) in [
            ("postern_tls_handshakes_failed", "TLS handshakes that failed", &counts.handshakes_failed),
            (
                "postern_endpoint_connects_failed",
                "Connections to endpoints that failed",
                &counts.connects_failed,
            ),
            (
                "postern_access_log_lines_lost",
                "Access log lines that were not written",
                &counts.log_lines_lost,
            ),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value.load(Relaxed)).encode(metric)?;
        }
        for (name, help, reasons) in [
            ("postern_connections_refused", "Client connections that were not taken", &counts.refused),
            ("postern_requests_malformed", "Requests that could not be read as such", &counts.malformed),
        ] {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (reason, count) in lock(reasons).iter() {
                ConstCounter::new(*count).encode(family.encode_family(&[("reason", *reason)].as_slice())?)?;
            }
        }
        Ok(())
    }
}

impl Series {
    fn labels(&self, key: &Key) -> Vec<(&'static str, String)> {
        let mut labels = vec![
            ("http_request_method", key.method.into()),
            ("http_response_status_code", key.status.to_string()),
            ("network_protocol_version", key.version.into()),
            ("url_scheme", key.scheme.into()),
        ];
        if !self.route.is_empty() {
            labels.push(("route", self.route.to_string()));
            labels.push(("rule", self.rule_index.to_string()));
        }
        if let Some(reason) = key.reason {
            labels.push(("error_type", reason.into()));
        }
        labels
    }
}

impl Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = BOUNDS.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(self.counts).collect();
        encoder.encode_histogram::<NoLabelSet>(self.seconds, self.counts.iter().sum(), &buckets, None)
    }
}
