//! An operator of two Gateways, `shop/web` and `bank/web`, and the tokens that exist.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use postern_config::delta::{Inventory, Version};
use postern_config::wire::{self, Report, Standing, Update};
use postern_config::{Config, ObjectKey};
use postern_dataplane::Channel;
use postern_translate::{Plan, Translation};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::{Status, Streaming};

use crate::cluster::authority::Authority;
use crate::cluster::identity::TokenReviews;
use crate::cluster::observe::{Acknowledged, Acknowledgements};
use crate::cluster::push::serve;
use crate::cluster::telemetry::Telemetry;
use crate::cluster::translation::Current;
use crate::cluster::watch::Seen;

/// No step takes longer than this, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for `what`, and fails the test if it does not come.
pub async fn within<T>(what: &str, step: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, step).await.unwrap_or_else(|_| panic!("{what} took too long"))
}

/// A running operator, as far as the channel goes.
pub struct World {
    pub folder: PathBuf,
    address: SocketAddr,
    current: watch::Sender<Option<Arc<Current>>>,
    acknowledged: watch::Receiver<Acknowledgements>,
    operator: JoinHandle<()>,
    pub telemetry: Telemetry,
}

impl World {
    pub async fn start() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("postern-channel-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let authority = Authority::new(&["127.0.0.1".into()], SystemTime::now()).expect("certificates");
        std::fs::write(folder.join("ca.crt"), authority.bundle()).expect("a file");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (current, seen) = watch::channel(None);
        let (acknowledged_to, acknowledged) = watch::channel(Acknowledgements::new());
        let (_, tls) = watch::channel(Some(authority.server().expect("a certificate")));
        let reviews = TokenReviews::new(api_server(), seen.clone());
        let telemetry = Telemetry::default();
        let operator = tokio::spawn(serve(listener, tls, reviews, seen, acknowledged_to, telemetry.clone()));
        Self { folder, address, current, acknowledged, operator, telemetry }
    }

    /// What both Gateways should serve from now on.
    pub fn publish(&self, generation: i64, shop: Config, bank: Config) {
        let mut seen = Seen { since: Some(tokio::time::Instant::now()), ..Seen::default() };
        let mut translation = Translation::default();
        for (namespace, config) in [("shop", shop), ("bank", bank)] {
            let key = ObjectKey::new(namespace, "web");
            let gateway = json!({
                "metadata": { "namespace": namespace, "name": "web", "uid": format!("{namespace}-gateway"), "generation": generation },
                "spec": { "gatewayClassName": "postern", "listeners": [] },
            });
            let gateway = serde_json::from_value(gateway).expect("a Gateway");
            seen.objects.gateways.insert(key.clone(), Arc::new(gateway));
            translation.plans.insert(key, Plan { config, ..Plan::default() });
        }
        for (namespace, name, owner) in
            [("shop", "web-postern", "shop"), ("bank", "web-postern", "bank"), ("shop", "other", "shop")]
        {
            let account = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {
                    "namespace": namespace, "name": name, "uid": format!("{namespace}-{name}"),
                    "labels": { "app.kubernetes.io/managed-by": "postern" },
                    "ownerReferences": [{ "apiVersion": "v1", "kind": "Gateway", "name": "web", "uid": format!("{owner}-gateway") }],
                },
            });
            let account = serde_json::from_value(account).expect("a ServiceAccount");
            seen.made.insert(("ServiceAccount", ObjectKey::new(namespace, name)), Arc::new(account));
        }
        let current =
            Current { seen: Arc::new(seen), translation: Arc::new(translation), guilty: Arc::default() };
        self.current.send_replace(Some(Arc::new(current)));
    }

    /// Removes both Gateways.
    pub fn remove_all(&self) {
        let current = Current { seen: Arc::default(), translation: Arc::default(), guilty: Arc::default() };
        self.current.send_replace(Some(Arc::new(current)));
    }

    /// Waits until a new data plane is sent this version.
    pub async fn published(&self, version: &Version) {
        within("publication", async {
            loop {
                if Client::new(self, "shop").await.update().await.version == version.as_str() {
                    return;
                }
            }
        })
        .await;
    }

    /// Waits until this is so of what the data planes of `shop/web` acknowledged.
    pub async fn acknowledged(&mut self, is_so: impl Fn(Option<&Acknowledged>) -> bool) {
        let key = ObjectKey::new("shop", "web");
        let said = self.acknowledged.wait_for(|said| is_so(said.get(&key)));
        let said = tokio::time::timeout(PATIENCE, said).await.map(|_| ());
        assert!(said.is_ok(), "not acknowledged: {:?}", *self.acknowledged.borrow());
    }

    /// How a data plane with this token reaches the operator.
    pub fn channel(&self, token: &str) -> Channel {
        let file = self.folder.join(format!("token-{token}"));
        std::fs::write(&file, jwt(token)).expect("a file");
        let address = format!("https://{}", self.address).parse().expect("an address");
        Channel { address, ca: self.folder.join("ca.crt"), token: file }
    }

    /// A connection to the operator on which nothing was said.
    pub async fn dial(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the operator listens")
    }

    /// The same, encrypted.
    pub async fn dial_tls(&self) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(self.folder.join("ca.crt")).expect("a certificate");
        roots.add(ca).expect("a CA");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::from(self.address.ip());
        TlsConnector::from(Arc::new(config)).connect(name, self.dial().await).await.expect("TLS")
    }

    /// Ends the operator.
    pub fn stop(&self) {
        self.operator.abort();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.operator.abort();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Waits for the end of a connection.
pub async fn end(mut stream: impl AsyncRead + Unpin) {
    let mut all = Vec::new();
    // However it ends.
    let _ = stream.read_to_end(&mut all).await;
}

/// A data plane that does only what it is told to.
pub struct Client {
    reports: mpsc::Sender<Report>,
    updates: Streaming<Update>,
}

impl Client {
    /// One that holds nothing, and is let in.
    pub async fn new(world: &World, token: &str) -> Self {
        let client = Self::subscribe(world, token, &Standing::default(), &Inventory::new()).await;
        client.expect("let in")
    }

    pub async fn subscribe(
        world: &World,
        token: &str,
        standing: &Standing,
        holds: &Inventory,
    ) -> Result<Self, Status> {
        let channel = world.channel(token);
        let mut client = within("connecting", channel.connect(world.address)).await.expect("a connection");
        let (reports, mut sent) = mpsc::channel(8);
        let greeting = wire::greeting(standing, holds);
        let reports_out = stream::iter(greeting).chain(stream::poll_fn(move |cx| sent.poll_recv(cx)));
        let mut request = tonic::Request::new(reports_out);
        if !token.is_empty() {
            request.metadata_mut().insert("authorization", channel.credential().expect("a token"));
        }
        let updates = within("subscribing", client.subscribe(request)).await?.into_inner();
        Ok(Self { reports, updates })
    }

    /// The next update, which is in one part.
    pub async fn update(&mut self) -> Update {
        let update = self.next().await.expect("no error").expect("not the end");
        assert!(!update.more);
        update
    }

    /// The next update, or how the stream ended.
    pub async fn next(&mut self) -> Result<Option<Update>, Ended> {
        within("an update", self.updates.message()).await.map_err(Ended)
    }

    pub fn standing(update: &Update) -> Standing {
        Standing { version: Some(Version::new(&update.version)), ..Standing::default() }
    }

    /// Says that an update is served.
    pub async fn answer(&self, update: &Update) {
        self.say(wire::report(&Self::standing(update))).await;
    }

    pub async fn say(&self, report: Report) {
        self.reports.send(report).await.expect("the stream is open");
    }
}

/// A stream's end, comparable.
#[derive(Debug)]
pub struct Ended(pub Status);

impl Ended {
    pub fn code(&self) -> tonic::Code {
        self.0.code()
    }
}

impl PartialEq for Ended {
    fn eq(&self, other: &Self) -> bool {
        self.code() == other.code()
    }
}

/// Tokens by name: user, uid, audience and how many seconds they live.
fn tokens() -> BTreeMap<&'static str, (&'static str, &'static str, &'static str, i64)> {
    let ours = "system:serviceaccount:shop:web-postern";
    BTreeMap::from([
        ("shop", (ours, "shop-web-postern", "postern", 3600)),
        ("shop-for-two-seconds", (ours, "shop-web-postern", "postern", 2)),
        ("bank", ("system:serviceaccount:bank:web-postern", "bank-web-postern", "postern", 3600)),
        ("expired", (ours, "shop-web-postern", "postern", -1)),
        ("for-another-audience", (ours, "shop-web-postern", "https://kubernetes.default.svc", 3600)),
        ("of-a-server-without-audiences", (ours, "shop-web-postern", "", 3600)),
        (
            "another-account-of-the-namespace",
            ("system:serviceaccount:shop:other", "shop-other", "postern", 3600),
        ),
        (
            "same-names-in-another-namespace",
            ("system:serviceaccount:evil:web-postern", "evil-web-postern", "postern", 3600),
        ),
        (
            "account-that-someone-else-made",
            ("system:serviceaccount:shop:default", "shop-default", "postern", 3600),
        ),
        ("account-of-an-earlier-gateway", (ours, "an-earlier-uid", "postern", 3600)),
        ("a-person", ("alice", "shop-web-postern", "postern", 3600)),
    ])
}

/// A token of this name, in the form of one.
fn jwt(name: &str) -> String {
    let lives = tokens().get(name).map_or(0, |token| token.3);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970").as_secs();
    let claims = json!({ "sub": name, "exp": now.saturating_add_signed(lives) });
    format!("e30.{}.signature", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

/// Answers TokenReviews, and nothing else.
fn api_server() -> kube::Client {
    let service = tower::service_fn(async |request: Request<Body>| {
        assert_eq!(request.uri().path(), "/apis/authentication.k8s.io/v1/tokenreviews");
        let body = request.into_body().collect().await.expect("a body").to_bytes();
        let mut review: Value = serde_json::from_slice(&body).expect("JSON");
        review["status"] = answer(&review["spec"]);
        Ok::<_, Infallible>(Response::new(Full::new(bytes::Bytes::from(review.to_string()))))
    });
    kube::Client::new(service, "default")
}

fn answer(spec: &Value) -> Value {
    let token = spec["token"].as_str().unwrap_or_default();
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap_or_default()).unwrap_or_default();
    let claims: Value = serde_json::from_slice(&payload).unwrap_or_default();
    let refused = json!({ "authenticated": false, "error": "invalid bearer token" });
    let tokens = tokens();
    let Some((user, uid, audience, lives)) = tokens.get(claims["sub"].as_str().unwrap_or_default()) else {
        return refused;
    };
    let user = json!({ "username": user, "uid": uid, "groups": ["system:serviceaccounts"] });
    if audience.is_empty() {
        return json!({ "authenticated": true, "user": user });
    }
    let is_asked = spec["audiences"].as_array().is_some_and(|asked| asked.contains(&json!(audience)));
    if *lives < 0 || !is_asked {
        return refused;
    }
    json!({ "authenticated": true, "user": user, "audiences": [audience] })
}

/// A certificate with its key, in PEM.
pub struct Pair {
    pub chain: String,
    pub key: String,
}

impl Pair {
    pub fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["shop.test".into()]).expect("a certificate");
        Self { chain: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }
}

/// A port that nobody has now.
pub fn free_port() -> u16 {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    socket.local_addr().expect("an address").port()
}

/// What a listener answers to a request that no route takes.
pub async fn status_of(port: u16) -> u16 {
    within("an answer", async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the port is open");
        let request = b"GET / HTTP/1.1\r\nhost: shop.test\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.expect("a connection");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
    })
    .await
}
