//! Nothing is lost and nothing is answered wrongly while everything changes: routes, backends, certificates and ports.

#[path = "plane/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::plan::rule_to;
use common::{Answer, Authority, Http1, Http2, Origin, Plan, apply, client, rule, serve, settings, within};
use futures::{SinkExt, StreamExt};
use http::{Request, StatusCode};
use postern_config::{AppProtocol, Certificate};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

const REQUESTS: usize = 100_000;
const CHANGES: usize = 200;
/// Connections of each kind.
const CLIENTS: usize = 6;
/// Requests that a TLS client makes before it connects anew, to see the certificate of the day.
const PER_HANDSHAKE: usize = 200;

/// Everything that takes part.
struct World {
    one: Origin,
    two: Origin,
    talk: Origin,
    grpc: Origin,
    certificates: Vec<Certificate>,
    clear: SocketAddr,
    secure: SocketAddr,
    tls: [Arc<ClientConfig>; 2],
    /// The version that is served for sure, and the latest that may be.
    served: AtomicUsize,
    begun: AtomicUsize,
    answered: AtomicUsize,
    /// Where the port that comes and goes is, if it is there.
    extra: Mutex<Option<SocketAddr>>,
    count: Mutex<BTreeMap<&'static str, usize>>,
    wrong: Mutex<Vec<String>>,
}

const PATHS: [&str; 4] = ["/flip", "/web", "/extra", "/nobody"];

impl World {
    /// The configuration of a version.
    fn plan(&self, version: usize) -> Plan {
        let mut plan = Plan::new()
            .http("clear", 80)
            .https("secure", 443, "", &["day"])
            .certificate("day", self.certificates[day(version)].clone());
        let mut listeners = vec!["clear", "secure"];
        if has_extra_port(version) {
            plan = plan.http("extra", 81);
            listeners.push("extra");
        }
        let flip = if version.is_multiple_of(2) { "one" } else { "two" };
        let mut rules = vec![
            rule("/flip", flip),
            rule("/web", "web"),
            rule("/talk", "talk"),
            rule_to("/grpc", "grpc", AppProtocol::H2c),
        ];
        if has_extra_route(version) {
            rules.insert(version % 3, rule("/extra", "one"));
        }
        let web = match version % 3 {
            0 => vec![self.one.address],
            1 => vec![self.one.address, self.two.address],
            _ => vec![self.two.address],
        };
        // What is open goes on even when its endpoint leaves.
        let is_talking = version % 10 < 8;
        plan.route("r", &listeners, rules)
            .backend("one", [self.one.address])
            .backend("two", [self.two.address])
            .backend("web", web)
            .backend("talk", is_talking.then_some(self.talk.address))
            .backend("grpc", is_talking.then_some(self.grpc.address))
    }

    /// Whether a version answers like this.
    fn is_right(version: usize, path: &str, answer: &Answer) -> bool {
        let is = |text: &str| answer.status == StatusCode::OK && answer.body == text.as_bytes();
        match path {
            "/flip" => is(if version.is_multiple_of(2) { "one /flip" } else { "two /flip" }),
            "/web" => (version % 3 != 2 && is("one /web")) || (!version.is_multiple_of(3) && is("two /web")),
            "/extra" if has_extra_route(version) => is("one /extra"),
            _ => answer.status == StatusCode::NOT_FOUND,
        }
    }

    /// Judges an answer to a request that was begun while version `since` was served for sure.
    fn judge(&self, kind: &'static str, since: usize, path: &str, answer: Result<Answer, String>) {
        let until = self.begun.load(SeqCst);
        self.answered.fetch_add(1, SeqCst);
        *self.count.lock().expect("not poisoned").entry(kind).or_default() += 1;
        let fault = match answer {
            Ok(answer) if (since..=until).any(|version| Self::is_right(version, path, &answer)) => return,
            Ok(answer) => format!("{kind} {path}: wrong in {since}..={until}: {answer:?}"),
            Err(error) => format!("{kind} {path}: lost in {since}..={until}: {error}"),
        };
        self.wrong.lock().expect("not poisoned").push(fault);
    }

    fn is_over(&self) -> bool {
        self.answered.load(SeqCst) >= REQUESTS
    }
}

fn day(version: usize) -> usize {
    version / 7
}

fn has_extra_route(version: usize) -> bool {
    version % 4 < 2
}

fn has_extra_port(version: usize) -> bool {
    version % 5 < 3
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

async fn http1_clear(world: Arc<World>) {
    let mut connection: Option<Http1> = None;
    for path in PATHS.into_iter().cycle() {
        if world.is_over() {
            return;
        }
        let since = world.served.load(SeqCst);
        let answer = async {
            if connection.is_none() {
                connection = Some(Http1::connect(world.clear).await?);
            }
            connection.as_mut().ok_or(io::ErrorKind::NotConnected)?.get("x.test", path).await
        };
        let answer = within("an answer", answer).await;
        if answer.is_err() || connection.as_ref().is_some_and(|connection| connection.closing) {
            connection = None;
        }
        world.judge("HTTP/1.1", since, path, answer.map_err(text));
    }
}

/// Connects over TLS and judges the certificate.
async fn connect(
    world: &World,
    config: &Arc<ClientConfig>,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let since = world.served.load(SeqCst);
    let stream = client::tls(world.secure, config, "x.test").await?;
    let shown = client::leaf(&stream);
    let until = world.begun.load(SeqCst);
    // A resumed session keeps the certificate that it was made with.
    let resumed = stream.get_ref().1.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
    let first = if resumed { 0 } else { day(since) };
    let is_right = world.certificates[first..=day(until)].iter().any(|certificate| {
        CertificateDer::from_pem_slice(certificate.chain.as_bytes()).is_ok_and(|expected| expected == shown)
    });
    if !is_right {
        world.wrong.lock().expect("not poisoned").push(format!("a wrong certificate in {since}..={until}"));
    }
    *world.count.lock().expect("not poisoned").entry("TLS handshakes").or_default() += 1;
    Ok(stream)
}

async fn http1_tls(world: Arc<World>) {
    let mut connection: Option<Http1> = None;
    for (count, path) in PATHS.into_iter().cycle().enumerate() {
        if world.is_over() {
            return;
        }
        if count.is_multiple_of(PER_HANDSHAKE) {
            connection = None;
        }
        let since = world.served.load(SeqCst);
        let answer = async {
            if connection.is_none() {
                connection = Some(Http1::over(connect(&world, &world.tls[0]).await?));
            }
            connection.as_mut().ok_or(io::ErrorKind::NotConnected)?.get("x.test", path).await
        };
        let answer = within("an answer", answer).await;
        if answer.is_err() || connection.as_ref().is_some_and(|connection| connection.closing) {
            connection = None;
        }
        world.judge("HTTP/1.1 over TLS", since, path, answer.map_err(text));
    }
}

/// All paths at once on one connection.
async fn http2_tls(world: Arc<World>) {
    let mut connection: Option<Http2> = None;
    let mut rounds = 0;
    while !world.is_over() {
        if rounds % (PER_HANDSHAKE / PATHS.len()) == 0 {
            connection = None;
        }
        rounds += 1;
        let open = match &connection {
            Some(open) => open.clone(),
            None => {
                let stream = within("a handshake", connect(&world, &world.tls[1])).await.expect("served");
                within("a handshake", Http2::over(stream)).await.expect("served")
            }
        };
        let all = PATHS.map(|path| {
            let (mut open, world) = (open.clone(), &world);
            async move {
                let since = world.served.load(SeqCst);
                let answer = open.get(&format!("https://x.test{path}")).await;
                world.judge("HTTP/2", since, path, answer.map_err(text));
            }
        });
        within("answers", futures::future::join_all(all)).await;
        connection = Some(open);
    }
}

/// New connections to the port that comes and goes: whenever it is there, they are served.
async fn extra_port(world: Arc<World>) {
    while !world.is_over() {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let since = world.served.load(SeqCst);
        let Some(address) = *world.extra.lock().expect("not poisoned") else { continue };
        let answer =
            within("an answer", async { Http1::connect(address).await?.get("x.test", "/flip").await }).await;
        let until = world.begun.load(SeqCst);
        // Once it may have gone, there is nobody to lose anything.
        if (since..=until).all(has_extra_port) {
            world.judge("on a port that comes and goes", since, "/flip", answer.map_err(text));
        }
    }
}

/// Messages there and back until all is over; the number of them.
async fn websocket(world: Arc<World>) -> usize {
    let tcp = TcpStream::connect(world.clear).await.expect("open");
    let (mut socket, _) =
        within("an upgrade", client_async("ws://x.test/talk", tcp)).await.expect("upgraded");
    let mut count = 0;
    while !world.is_over() {
        let message = Message::text(format!("message {count}"));
        socket.send(message.clone()).await.expect("the WebSocket is open");
        let echo = within("an echo", socket.next()).await.expect("open").expect("open");
        assert_eq!(echo, message);
        count += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    count
}

/// The same over one gRPC-like stream, which ends with its trailers.
async fn stream(world: Arc<World>) -> usize {
    let tls = within("a handshake", connect(&world, &world.tls[1])).await.expect("served");
    let mut h2 = within("a handshake", Http2::over(tls)).await.expect("served");
    let request = Request::post("https://x.test/grpc").header("content-type", "application/grpc");
    let (pending, mut body) = h2.send(request.body(()).expect("a request"), false).await.expect("open");
    let mut answer = within("a head", pending.0).await.expect("served").into_body();
    let mut count = 0;
    while !world.is_over() {
        let message = Bytes::from(format!("message {count}"));
        body.send_data(message.clone(), false).expect("the stream is open");
        let echo = within("an echo", answer.data()).await.expect("open").expect("open");
        answer.flow_control().release_capacity(echo.len()).expect("the stream is open");
        assert_eq!(echo, message);
        count += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    body.send_data(Bytes::new(), true).expect("the stream is open");
    while let Some(rest) = within("the end", answer.data()).await {
        assert!(rest.expect("the stream is open").is_empty());
    }
    let trailers = within("trailers", answer.trailers()).await.expect("open").expect("trailers");
    assert_eq!(trailers["grpc-status"], "0");
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_answered_wrongly_while_everything_changes() {
    let ca = Authority::new();
    let mut world = World {
        one: Origin::http1("one").await,
        two: Origin::http1("two").await,
        talk: Origin::http1("talk").await,
        grpc: Origin::h2c("grpc").await,
        certificates: (0..=day(CHANGES)).map(|_| ca.certificate(&["x.test"])).collect(),
        clear: SocketAddr::from(([127, 0, 0, 1], 0)),
        secure: SocketAddr::from(([127, 0, 0, 1], 0)),
        tls: [ca.client(&["http/1.1"]), ca.client(&["h2"])],
        served: AtomicUsize::new(0),
        begun: AtomicUsize::new(0),
        answered: AtomicUsize::new(0),
        extra: Mutex::default(),
        count: Mutex::default(),
        wrong: Mutex::default(),
    };
    let (plane, applied) = serve(settings([80, 81, 443]), world.plan(0).config()).await;
    (world.clear, world.secure) = (applied.open[&80], applied.open[&443]);
    let world = Arc::new(world);
    *world.extra.lock().expect("not poisoned") = applied.open.get(&81).copied();

    let began = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(http1_clear(Arc::clone(&world)));
        clients.spawn(http1_tls(Arc::clone(&world)));
        clients.spawn(http2_tls(Arc::clone(&world)));
    }
    clients.spawn(extra_port(Arc::clone(&world)));
    let (socket, stream) =
        (tokio::spawn(websocket(Arc::clone(&world))), tokio::spawn(stream(Arc::clone(&world))));

    let mut longest = Duration::ZERO;
    for version in 1..=CHANGES {
        while world.answered.load(SeqCst) < version * REQUESTS / (CHANGES + 1) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let config = world.plan(version).config();
        if !has_extra_port(version) {
            *world.extra.lock().expect("not poisoned") = None;
        }
        world.begun.store(version, SeqCst);
        let change = Instant::now();
        let applied = apply(&plane, config).await;
        longest = longest.max(change.elapsed());
        world.served.store(version, SeqCst);
        *world.extra.lock().expect("not poisoned") = applied.open.get(&81).copied();
    }
    while let Some(ended) = clients.join_next().await {
        ended.expect("a client does not panic");
    }
    let (messages, on_stream) = (socket.await.expect("the WebSocket"), stream.await.expect("the stream"));

    let wrong = std::mem::take(&mut *world.wrong.lock().expect("not poisoned"));
    let counts = std::mem::take(&mut *world.count.lock().expect("not poisoned"));
    report(format_args!(
        "{counts:?}; {CHANGES} changes, the longest {longest:?}; {messages} messages on one WebSocket, {on_stream} on \
         one stream; {} lost or wrong, in {:?}",
        wrong.len(),
        began.elapsed()
    ));
    assert!(
        wrong.is_empty(),
        "{} lost or wrong, among them: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(10)]
    );
    assert!(messages > CHANGES / 4 && on_stream > CHANGES / 4, "{messages} and {on_stream} messages");
    within("the end", plane.drain(Duration::from_secs(5))).await;
}

/// For whoever runs this by hand.
fn report(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = writeln!(io::stderr(), "{line}");
}
