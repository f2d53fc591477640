//! A data plane that shows the token it is given and keeps what it gets, byte for byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams};
use postern_config::delta::Inventory;
use postern_config::wire::{self, ConfigClient, Standing, Update, Updates};
use prost::Message;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::Endpoint;
use tonic::{Request, Status, Streaming};

use crate::cluster::{Cluster, Error};

/// How the data planes of a Gateway reach the operator.
#[derive(Clone)]
pub struct Channel {
    /// The name that the operator's certificate is for.
    host: String,
    tls: Arc<ClientConfig>,
    /// Each replica of the operator.
    pub replicas: Vec<SocketAddr>,
}

/// A stream that was let in.
pub struct Stream {
    updates: Streaming<Update>,
    reports: mpsc::Sender<wire::Report>,
}

/// What a stream brought.
pub struct Snapshot {
    /// As it came.
    pub bytes: Vec<u8>,
    version: String,
}

/// For one step, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(20);

impl Channel {
    /// As it is written in a Gateway's Deployment and ConfigMap.
    pub async fn of(cluster: &Cluster, namespace: &str, workload: &str) -> Result<Self, Error> {
        let deployments = Api::<Deployment>::namespaced(cluster.client.clone(), namespace);
        let deployment = serde_json::to_value(deployments.get(workload).await?)?;
        let variables = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
        let variables = variables.as_array().into_iter().flatten();
        let address =
            variables.filter(|it| it["name"] == "POSTERN_CHANNEL").find_map(|it| it["value"].as_str());
        let address: http::Uri = address.ok_or("the Deployment does not name the channel")?.parse()?;
        let (host, port) = (address.host().unwrap_or_default().to_owned(), address.port_u16().unwrap_or(443));
        let maps = Api::<ConfigMap>::namespaced(cluster.client.clone(), namespace);
        let bundle = maps.get(workload).await?.data.unwrap_or_default().remove("ca.crt");
        let tls = Arc::new(trust(&bundle.ok_or("the ConfigMap has no bundle")?)?);
        Ok(Self { tls, replicas: replicas(cluster, &host, port).await?, host })
    }

    /// A connection on which nothing was said.
    pub async fn dial(&self, replica: SocketAddr) -> Result<TcpStream, Error> {
        Ok(timeout(PATIENCE, TcpStream::connect(replica)).await??)
    }

    /// The same, encrypted.
    pub async fn dial_tls(&self, replica: SocketAddr) -> Result<TlsStream<TcpStream>, Error> {
        let name = ServerName::try_from(self.host.clone())?;
        let connecting = TlsConnector::from(self.tls.clone()).connect(name, self.dial(replica).await?);
        Ok(timeout(PATIENCE, connecting).await??)
    }

    /// Subscribes, holding nothing.
    ///
    /// Fails outside when there is no connection, and inside when the operator does not let this token in.
    pub async fn subscribe(
        &self,
        replica: SocketAddr,
        token: Option<&str>,
    ) -> Result<Result<Stream, Status>, Error> {
        let this = self.clone();
        let open = tower::service_fn(move |_: http::Uri| {
            let this = this.clone();
            async move { this.dial_tls(replica).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_shared(format!("http://{}", self.host))?;
        let mut client = ConfigClient::new(endpoint.connect_with_connector(open).await?);
        let (reports, mut sent) = mpsc::channel(8);
        let greeting = wire::greeting(&Standing::default(), &Inventory::new());
        let mut request =
            Request::new(stream::iter(greeting).chain(stream::poll_fn(move |cx| sent.poll_recv(cx))));
        if let Some(token) = token {
            request.metadata_mut().insert("authorization", format!("Bearer {token}").parse()?);
        }
        let answer = timeout(PATIENCE, client.subscribe(request)).await?;
        Ok(answer.map(|updates| Stream { updates: updates.into_inner(), reports }))
    }
}

impl Stream {
    /// The next update with all its parts, answered as one that is served. Fails inside when the stream ends instead.
    pub async fn snapshot(&mut self) -> Result<Result<Snapshot, Status>, Error> {
        let (mut bytes, mut whole) = (Vec::new(), Updates::default());
        loop {
            let part = match timeout(PATIENCE, self.updates.message()).await? {
                Ok(Some(part)) => part,
                Ok(None) => return Ok(Err(Status::ok("the stream ended"))),
                Err(status) => return Ok(Err(status)),
            };
            bytes.extend(part.encode_to_vec());
            if let Some(received) = whole.add(part)? {
                let standing = Standing { version: received.version, ..Standing::default() };
                self.reports.send(wire::report(&standing)).await?;
                let version = standing.version.map(|it| it.as_str().to_owned()).unwrap_or_default();
                return Ok(Ok(Snapshot { bytes, version }));
            }
        }
    }

    /// Whether the stream is open, and nothing comes for a while.
    pub async fn is_quiet(&mut self, time: Duration) -> bool {
        timeout(time, self.updates.message()).await.is_err()
    }
}

impl std::fmt::Display for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of version {}", self.bytes.len(), self.version)
    }
}

fn trust(bundle: &str) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// The addresses behind a Service of the name `SERVICE.NAMESPACE.svc`.
async fn replicas(cluster: &Cluster, host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
    let mut names = host.split('.');
    let (service, namespace) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    let slices = Api::<EndpointSlice>::namespaced(cluster.client.clone(), namespace);
    let of = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let mut replicas = Vec::new();
    for slice in slices.list(&of).await? {
        let ready = slice.endpoints.into_iter();
        let ready = ready.filter(|it| it.conditions.as_ref().is_some_and(|it| it.ready == Some(true)));
        for address in ready.flat_map(|endpoint| endpoint.addresses) {
            replicas.push(SocketAddr::new(address.parse()?, port));
        }
    }
    if replicas.is_empty() { Err("the operator has no replica that is ready".into()) } else { Ok(replicas) }
}
