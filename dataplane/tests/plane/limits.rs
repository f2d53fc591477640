//! What one client, or all together, cannot take.

use std::time::{Duration, Instant};

use postern_dataplane::{Limits, Settings};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::common::{Authority, Http1, Origin, Plan, client, rule, serve, settings, within};

fn limited(limits: Limits) -> Settings {
    Settings { limits, ..settings([80, 443]) }
}

fn plan(origin: &Origin) -> Plan {
    Plan::new().http("web", 80).route("r", &["web"], [rule("/", "web")]).backend("web", [origin.address])
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_and_come_again_when_others_end() {
    let origin = Origin::http1("web").await;
    for limits in [
        Limits { connections: 3, ..Limits::default() },
        Limits { connections_per_client: 3, ..Limits::default() },
    ] {
        let word = if limits.connections == 3 { "connections" } else { "connections_per_client" };
        let (plane, applied) = serve(limited(limits), plan(&origin).config()).await;
        let address = applied.open[&80];
        let mut open = Vec::new();
        for _ in 0..3 {
            let mut connection = Http1::connect(address).await.expect("open");
            assert_eq!(within("an answer", connection.get("x", "/")).await.expect("served").text(), "web /");
            open.push(connection);
        }
        let mut refused = Http1::connect(address).await.expect("the kernel takes it");
        assert!(within("the end", refused.is_closed()).await);
        assert!(within("an answer", open[0].get("x", "/")).await.is_ok(), "the others go on");
        let metric = format!("postern_connections_refused_total{{reason=\"{word}\"}} 1");
        assert!(plane.metrics().contains(&metric), "{}", plane.metrics());

        open.pop();
        within("a place", async {
            while plane.connections() > 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let mut again = Http1::connect(address).await.expect("open");
        assert_eq!(within("an answer", again.get("x", "/")).await.expect("served").text(), "web /");
    }
}

#[tokio::test]
async fn a_client_that_says_nothing_is_closed() {
    let (origin, ca) = (Origin::http1("web").await, Authority::new());
    let short = Duration::from_millis(300);
    let limits = Limits { handshake: short, idle: short, ..Limits::default() };
    let plan =
        plan(&origin).certificate("any", ca.certificate(&["a.test"])).https("secure", 443, "", &["any"]);
    let (plane, applied) = serve(limited(limits), plan.config()).await;
    for port in [80, 443] {
        let began = Instant::now();
        let mut silent = TcpStream::connect(applied.open[&port]).await.expect("open");
        assert_eq!(within("the end", silent.read(&mut [0; 1])).await.unwrap_or(0), 0, "port {port}");
        assert!(began.elapsed() >= short, "port {port}: {:?}", began.elapsed());
    }
    let secure = client::tls(applied.open[&443], &ca.client(&["http/1.1"]), "a.test").await.expect("served");
    assert!(within("the end", Http1::over(secure).is_closed()).await, "silent after the handshake");
    within("the end of all", async {
        while plane.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_access_log_and_the_metrics_tell_what_happened() {
    let origin = Origin::http1("web").await;
    let log = Log::default();
    let settings = Settings {
        access_log: postern_dataplane::AccessLogTo::Writer(Box::new(log.clone())),
        ..settings([80])
    };
    let (plane, applied) = serve(settings, plan(&origin).config()).await;
    let mut connection = Http1::connect(applied.open[&80]).await.expect("open");
    for path in ["/one?secret", "/two\"\\"] {
        within("an answer", connection.get("shop.test:8080", path)).await.expect("served");
    }
    let metrics = plane.metrics();
    for part in [
        "http_server_request_duration_seconds_count{http_request_method=\"GET\",http_response_status_code=\"200\"",
        "route=\"HTTPRoute/test/r\",rule=\"0\"",
        "http_client_request_duration_seconds_count{backend=\"test/web:80\"}",
        "postern_connections 1",
    ] {
        assert!(metrics.contains(part), "no {part} in\n{metrics}");
    }
    drop(connection);
    plane.drain(Duration::from_secs(5)).await;
    let text = log.text();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let first = lines.first().expect("a line");
    for (key, value) in [
        ("http.request.method", "GET"),
        ("url.scheme", "http"),
        ("server.address", "shop.test"),
        ("url.path", "/one"),
        ("network.protocol.version", "1.1"),
        ("client.address", "127.0.0.1"),
        ("listener", "web"),
        ("route", "HTTPRoute/test/r"),
        ("backend", "test/web:80"),
    ] {
        assert_eq!(first[key], value, "{key} in {first}");
    }
    assert_eq!(first["http.response.status_code"], 200);
    assert_eq!(first["endpoint"], origin.address.to_string());
    assert!(first["time"].as_str().is_some_and(|time| time.ends_with('Z') && time.len() == 24), "{first}");
    assert!(!text.contains("secret"), "queries may hold what logs must not");
}

/// A log in memory.
#[derive(Clone, Default)]
struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("text")
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
