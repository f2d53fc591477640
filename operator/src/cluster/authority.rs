//! Our own certificate authority: what data planes trust the operator by, and how it is replaced without a break.
//!
//! A Secret in the operator's namespace holds it. The replica that leads makes and renews it, all of them read it. A new CA
//! is trusted for an hour before anything is signed by it, which is longer than a ConfigMap takes to reach every pod, and
//! an old one is trusted until it ends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The lives of a CA and of a certificate that it signs.
const CA_LIFE: Duration = Duration::from_secs(365 * 86_400);
const LEAF_LIFE: Duration = Duration::from_secs(30 * 86_400);
/// How long a CA is trusted before it signs.
const SPREAD: Duration = Duration::from_secs(3600);
/// Certificates are valid from a moment before they were made: clocks differ.
const SKEW: Duration = Duration::from_secs(300);
/// How often the Secret is read, and how often while there is none.
const READ: Duration = Duration::from_secs(30);
const READ_FIRST: Duration = Duration::from_millis(500);
/// The key of all of it in the Secret.
const DATA: &str = "authority.json";

/// The CAs and the operator's certificate. Times are seconds since 1970.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
pub struct Authority {
    cas: Vec<Signed>,
    leaf: Signed,
    names: Vec<String>,
}

/// A certificate with its key, both PEM, and its life.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
struct Signed {
    certificate: String,
    key: String,
    since: u64,
    until: u64,
}

/// What makes it no authority.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// A certificate cannot be made or signed.
    #[error("cannot make a certificate: {0}")]
    Making(#[from] rcgen::Error),
    /// What is stored does not load.
    #[error("cannot load the certificate of the channel: {0}: delete the Secret, and a new one is made")]
    Loading(String),
    /// The API server says no.
    #[error("cannot read or write the Secret of the channel: {0}")]
    Api(#[from] kube::Error),
}

impl Authority {
    /// A new one for these names of the operator.
    ///
    /// Fails when the system gives no random numbers.
    pub fn new(names: &[String], now: SystemTime) -> Result<Self, Unusable> {
        let ca = new_ca(seconds(now))?;
        let leaf = new_leaf(&ca, names, seconds(now))?;
        Ok(Self { cas: vec![ca], leaf, names: names.to_vec() })
    }

    /// What it should be now; `None` when it is right as it is.
    pub fn renewed(&self, names: &[String], now: SystemTime) -> Result<Option<Self>, Unusable> {
        let now = seconds(now);
        let mut next = self.clone();
        next.cas.retain(|ca| now < ca.until);
        if next.cas.iter().all(|ca| ca.is_old(now)) {
            next.cas.push(new_ca(now)?);
        }
        let is_trusted = |ca: &&Signed| now >= ca.since + SPREAD.as_secs();
        let signer = next.cas.iter().rev().find(is_trusted).or(next.cas.first());
        let signer = signer.expect("one was made above if there was none");
        let is_signed_by_it = next.leaf.until <= signer.until && next.leaf.key_of(signer);
        if next.leaf.is_old(now) || next.names != names || !is_signed_by_it {
            next.leaf = new_leaf(signer, names, now)?;
            next.names = names.to_vec();
        }
        Ok((next != *self).then_some(next))
    }

    /// The certificates to trust, in PEM.
    pub fn bundle(&self) -> String {
        self.cas.iter().map(|ca| ca.certificate.as_str()).collect()
    }

    /// What the operator presents.
    ///
    /// Fails when the certificate does not load.
    pub fn server(&self) -> Result<Arc<ServerConfig>, Unusable> {
        let wrong = |error: &dyn fmt::Display| Unusable::Loading(error.to_string());
        let chain = CertificateDer::from_pem_slice(self.leaf.certificate.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(self.leaf.key.as_bytes());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| wrong(&error))?.with_no_client_auth();
        let chain = vec![chain.map_err(|error| wrong(&error))?];
        let mut config = config
            .with_single_cert(chain, key.map_err(|error| wrong(&error))?)
            .map_err(|error| wrong(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an authority of {} CAs", self.cas.len())
    }
}

impl Signed {
    /// Whether two thirds of its life are over.
    fn is_old(&self, now: u64) -> bool {
        now >= self.since + (self.until - self.since) / 3 * 2
    }

    /// Whether it was signed by the key of this CA: it names it by when it began.
    fn key_of(&self, ca: &Self) -> bool {
        let der = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        der.is_ok_and(|der| contains(&der, common_name(ca.since).as_bytes()))
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Tells CAs apart.
fn common_name(since: u64) -> String {
    format!("Postern channel {since}")
}

fn new_ca(now: u64) -> Result<Signed, Unusable> {
    let key = KeyPair::generate()?;
    let (parameters, until) = ca_parameters(now);
    let certificate = parameters.self_signed(&key)?.pem();
    Ok(Signed { certificate, key: key.serialize_pem(), since: now, until })
}

fn ca_parameters(since: u64) -> (CertificateParams, u64) {
    let until = since + CA_LIFE.as_secs();
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters.distinguished_name.push(DnType::CommonName, common_name(since));
    live(&mut parameters, since, until);
    (parameters, until)
}

fn new_leaf(ca: &Signed, names: &[String], now: u64) -> Result<Signed, Unusable> {
    let until = (now + LEAF_LIFE.as_secs()).min(ca.until);
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::new(names)?;
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.use_authority_key_identifier_extension = true;
    live(&mut parameters, now, until);
    let issuer = Issuer::new(ca_parameters(ca.since).0, KeyPair::from_pem(&ca.key)?);
    let certificate = parameters.signed_by(&key, &issuer)?.pem();
    Ok(Signed { certificate, key: key.serialize_pem(), since: now, until })
}

fn live(parameters: &mut CertificateParams, since: u64, until: u64) {
    let time = |seconds: u64| (SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).into();
    parameters.not_before = time(since.saturating_sub(SKEW.as_secs()));
    parameters.not_after = time(until);
}

/// The place of the authority in the cluster, and whom it is for.
pub struct Keeper {
    secrets: Api<Secret>,
    name: String,
    names: Vec<String>,
    leads: watch::Receiver<bool>,
}

impl Keeper {
    /// Keeps it in the Secret `name` of `namespace`, for an operator that goes by these names.
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        names: Vec<String>,
        leads: watch::Receiver<bool>,
    ) -> Self {
        Self { secrets: Api::namespaced(client, namespace), name: name.into(), names, leads }
    }

    /// Reads it from time to time until the runtime ends; makes and renews it while this replica leads.
    pub async fn run(
        mut self,
        tls: watch::Sender<Option<Arc<ServerConfig>>>,
        bundle: watch::Sender<Option<String>>,
    ) {
        let mut present = None;
        loop {
            match self.keep().await {
                Ok(Some(authority)) if present.as_ref() != Some(&authority) => match authority.server() {
                    Ok(server) => {
                        tracing::info!("The channel has a new certificate");
                        bundle.send_replace(Some(authority.bundle()));
                        tls.send_replace(Some(server));
                        present = Some(authority);
                    }
                    Err(error) => tracing::error!(%error, "The channel keeps its certificate"),
                },
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "The channel keeps its certificate"),
            }
            let pause = tokio::time::sleep(if present.is_some() { READ } else { READ_FIRST });
            tokio::select! {
                () = pause => {}
                changed = self.leads.changed() => if changed.is_err() { return },
            }
        }
    }

    /// What there is, after it was made or renewed if that is ours to do.
    async fn keep(&self) -> Result<Option<Authority>, Unusable> {
        let secret = self.secrets.get_opt(&self.name).await?;
        let stored = secret.as_ref().and_then(read);
        if !*self.leads.borrow() {
            return Ok(stored);
        }
        let now = SystemTime::now();
        let next = match &stored {
            Some(stored) => stored.renewed(&self.names, now)?,
            None => Some(Authority::new(&self.names, now)?),
        };
        let Some(next) = next else { return Ok(stored) };
        let parameters = PostParams::default();
        let written = match secret {
            Some(mut secret) => {
                secret.data = Some(data(&next));
                // The version that was read goes along: whoever wrote meanwhile wins.
                self.secrets.replace(&self.name, &parameters, &secret).await
            }
            None => {
                let labels = BTreeMap::from([("app.kubernetes.io/managed-by".into(), "postern".into())]);
                let metadata = ObjectMeta {
                    name: Some(self.name.clone()),
                    labels: Some(labels),
                    ..ObjectMeta::default()
                };
                let secret = Secret { metadata, data: Some(data(&next)), ..Secret::default() };
                self.secrets.create(&parameters, &secret).await
            }
        };
        written?;
        Ok(Some(next))
    }
}

fn read(secret: &Secret) -> Option<Authority> {
    serde_json::from_slice(&secret.data.as_ref()?.get(DATA)?.0).ok()
}

fn data(authority: &Authority) -> BTreeMap<String, ByteString> {
    let text = serde_json::to_vec(authority).expect("our types serialize");
    BTreeMap::from([(DATA.into(), ByteString(text))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(days: u64, hours: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + days * 86_400 + hours * 3600)
    }

    #[test]
    fn a_new_ca_is_trusted_before_it_signs_and_an_old_one_until_it_ends() {
        let names = vec![String::from("postern.test.svc")];
        let first = Authority::new(&names, at(0, 0)).expect("an authority");
        assert_eq!(first.renewed(&names, at(19, 0)).expect("renewal"), None, "nothing is old yet");
        let second = first.renewed(&names, at(21, 0)).expect("renewal").expect("the certificate is old");
        assert_eq!(second.bundle(), first.bundle(), "the CA is not");
        let trusted = second.renewed(&names, at(250, 0)).expect("renewal").expect("the CA is old");
        assert_eq!(trusted.cas.len(), 2);
        assert!(trusted.leaf.key_of(&trusted.cas[0]), "the new CA does not sign yet");
        assert_eq!(trusted.renewed(&names, at(250, 0)).expect("renewal"), None, "twice is once");
        let signing = trusted.renewed(&names, at(250, 2)).expect("renewal").expect("the new CA signs");
        assert!(signing.leaf.key_of(&signing.cas[1]) && signing.bundle() == trusted.bundle());
        let alone = signing.renewed(&names, at(366, 0)).expect("renewal").expect("the first CA has ended");
        assert_eq!(alone.cas.len(), 1);
    }

    #[test]
    fn another_name_gets_another_certificate_and_keys_are_not_printed() {
        let first = Authority::new(&["a.test".into()], at(0, 0)).expect("an authority");
        let second = first.renewed(&["b.test".into()], at(0, 0)).expect("renewal").expect("another name");
        assert!(second.bundle() == first.bundle() && second.leaf != first.leaf);
        assert!(second.server().is_ok());
        assert!(!format!("{first:?}").contains("PRIVATE"));
    }
}
