//! What one client, or all together, cannot take.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use postern_dataplane::{Limits, Settings};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::common::{Authority, Http1, Origin, Plan, client, counted, rule, serve, settings, within};

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
        counted(&plane, &metric).await;

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
        "http_client_request_duration_seconds_bucket{le=\"+Inf\",backend=\"test/web:80\"}",
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

#[tokio::test]
async fn an_access_log_that_nobody_reads_costs_lines_and_no_requests() {
    let origin = Origin::http1("web").await;
    let settings =
        Settings { access_log: postern_dataplane::AccessLogTo::Writer(Box::new(Stuck)), ..settings([80]) };
    let (plane, applied) = serve(settings, plan(&origin).config()).await;
    let mut connection = Http1::connect(applied.open[&80]).await.expect("open");
    let path = format!("/{}", "long".repeat(4000));
    let mut asked = 0;
    while plane.metrics().contains("postern_access_log_lines_lost_total 0") {
        assert!(asked < 2000, "no line is lost");
        for _ in 0..50 {
            let answer = within("an answer", connection.get("x", &path)).await.expect("served");
            assert_eq!(answer.status, 200);
            asked += 1;
        }
    }
    drop(connection);
    within("the end", plane.drain(Duration::from_secs(1))).await;
}

/// A log that takes nothing and never says so.
struct Stuck;

impl Write for Stuck {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        loop {
            std::thread::park();
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A log in memory.
#[derive(Clone, Default)]
struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("text")
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Where the child finds the backend, and the sign that it is one.
const ORIGIN: &str = "POSTERN_TEST_ORIGIN";

#[tokio::test]
async fn a_plane_without_descriptors_recovers_when_connections_end() {
    let origin = Origin::http1("web").await;
    // A process of its own, since the limit is the process's; it is this program once more, with one test.
    let mut child = Command::new("sh")
        .args([
            "-c",
            "ulimit -n 64 && exec \"$0\" --exact limits::with_few_descriptors --ignored --nocapture",
        ])
        .arg(std::env::current_exe().expect("a name"))
        .env(ORIGIN, origin.address.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let read = tokio::task::spawn_blocking(|| {
        let mut lines = output.lines().map(|line| line.expect("text"));
        let said =
            lines.find_map(|line| line.split_once("listening on ").map(|(_, address)| address.to_owned()));
        // The rest is kept open: the child would fail to write to it.
        (said, lines)
    });
    let (said, _rest) = within("the child", read).await.expect("no panic");
    let said = said.expect("the child says where it listens");
    let address: std::net::SocketAddr = said.parse().expect("an address");
    let mut first = Http1::connect(address).await.expect("open");
    assert_eq!(within("an answer", first.get("x", "/")).await.expect("served").text(), "web /");
    let mut open = Vec::new();
    for _ in 0..200 {
        open.push(Http1::connect(address).await.expect("the kernel takes it"));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(within("an answer", first.get("x", "/")).await.expect("still served").text(), "web /");
    drop(open);
    let began = Instant::now();
    within("an answer", async {
        loop {
            let mut again = Http1::connect(address).await.expect("the kernel takes it");
            match again.get("x", "/").await {
                Ok(answer) if answer.status == 200 => break,
                Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // The end of its input ends it.
    drop(child.stdin.take());
    let ended = tokio::task::spawn_blocking(move || child.wait());
    assert!(within("the end of the child", ended).await.expect("no panic").expect("a child").success());
}

/// The child of the test above: serves with as many connections as it may have, until its input ends.
#[tokio::test]
#[ignore = "runs inside another test"]
async fn with_few_descriptors() {
    let origin = std::env::var(ORIGIN).expect("run by the other test").parse().expect("an address");
    let limits = Limits { connections: 1000, connections_per_client: 1000, ..Limits::default() };
    let plan = Plan::new().http("web", 80).route("r", &["web"], [rule("/", "web")]).backend("web", [origin]);
    let (plane, applied) = serve(limited(limits), plan.config()).await;
    writeln!(std::io::stdout(), "listening on {}", applied.open[&80]).expect("a reader");
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0; 1]));
    let _ = ended.await;
    plane.drain(Duration::from_secs(1)).await;
}
