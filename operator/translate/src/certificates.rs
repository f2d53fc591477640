//! Certificates of listeners: from a reference to a chain and its key that belong together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use postern_config::{Certificate, CertificateKey, ObjectKey, PrivateKey};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::Plan;
use crate::api::{GROUP, ListenerTls, ProtocolType, SecretObjectReference};
use crate::classes::Classes;
use crate::grants::{Grants, Referrer, SECRET};
use crate::kinds::ObjectSet;
use crate::status::{Reason, Refusal};

/// What the Secrets hold that our Gateways name, each read once however many listeners share it; those that exist.
pub(crate) type Secrets = BTreeMap<ObjectKey, Result<Pair, String>>;

/// A certificate with its key, and until when it is valid.
#[derive(Clone)]
pub(crate) struct Pair {
    certificate: Arc<Certificate>,
    until: Timestamp,
}

/// The certificates of one listener.
#[derive(Default)]
pub(crate) struct Certificates {
    /// Those that could be resolved, in the order of the object.
    pub(crate) found: Vec<(CertificateKey, Arc<Certificate>)>,
    /// Until when each is valid. Translation has no clock, so it tells the time and people compare: an expired certificate
    /// is served, since a client that minds will say so itself.
    pub(crate) validity: Vec<String>,
    /// Why one could not be resolved; the first.
    pub(crate) refusal: Option<Refusal>,
}

/// When the certificates end that are served, in seconds since 1970.
pub(crate) fn expiries(secrets: &Secrets, plans: &BTreeMap<ObjectKey, Plan>) -> BTreeMap<ObjectKey, i64> {
    let served = plans.values().flat_map(|plan| plan.config.certificates.keys());
    let ends = |key: &CertificateKey| secrets.get(key)?.as_ref().ok().map(|pair| pair.until.as_second());
    served.filter_map(|key| Some((key.clone(), ends(key)?))).collect()
}

/// Reads the Secrets that HTTPS listeners of our Gateways name. Whether they may name them is asked later.
pub(crate) fn secrets(objects: &ObjectSet, classes: &Classes<'_>) -> Secrets {
    let ours = objects.gateways.iter().filter(|(_, gateway)| classes.claim(gateway));
    let references = ours.flat_map(|(key, gateway)| {
        let https = gateway.spec.listeners.iter().filter(|listener| listener.protocol == ProtocolType::Https);
        let tls = https.filter_map(|listener| listener.tls.as_ref());
        tls.flat_map(|tls| &tls.certificate_refs).map(|reference| secret_key(key, reference))
    });
    let keys: BTreeSet<ObjectKey> = references.collect();
    keys.into_iter().filter_map(|key| objects.secrets.get(&key).map(|secret| (key, read(secret)))).collect()
}

fn secret_key(gateway: &ObjectKey, reference: &SecretObjectReference) -> ObjectKey {
    ObjectKey::new(reference.namespace.as_ref().unwrap_or(&gateway.namespace), &reference.name)
}

/// Follows the certificateRefs of a listener of `gateway` on which TLS ends.
pub(crate) fn resolve(
    secrets: &Secrets,
    grants: &Grants<'_>,
    gateway: &ObjectKey,
    tls: Option<&ListenerTls>,
) -> Certificates {
    let references = tls.map(|tls| tls.certificate_refs.as_slice()).unwrap_or_default();
    let mut certificates = Certificates::default();
    if references.is_empty() {
        let message = "protocol HTTPS needs a certificate: name a Secret in `tls.certificateRefs`";
        certificates.refusal = Some(Reason::InvalidCertificateRef.because(message));
    }
    for reference in references {
        match follow(secrets, grants, gateway, reference) {
            Ok((key, Pair { certificate, until })) => {
                certificates.validity.push(format!("`{key}` is valid until {until}"));
                certificates.found.push((key, certificate));
            }
            Err(refusal) => {
                certificates.refusal.get_or_insert(refusal);
            }
        }
    }
    certificates
}

fn follow(
    secrets: &Secrets,
    grants: &Grants<'_>,
    gateway: &ObjectKey,
    reference: &SecretObjectReference,
) -> Result<(CertificateKey, Pair), Refusal> {
    let refuse = |message: String| Reason::InvalidCertificateRef.because(message);
    if (reference.group.as_str(), reference.kind.as_str()) != (SECRET.group, SECRET.kind) {
        let (group, kind) = (&reference.group, &reference.kind);
        return Err(refuse(format!(
            "`certificateRefs` names {kind} of group `{group}`: only core Secrets are supported"
        )));
    }
    let key = secret_key(gateway, reference);
    let from = Referrer { group: GROUP, kind: "Gateway", namespace: &gateway.namespace };
    grants.permit(from, SECRET, &key)?;
    match secrets.get(&key) {
        Some(Ok(pair)) => Ok((key, pair.clone())),
        Some(Err(problem)) => Err(refuse(format!("Secret `{key}` {problem}"))),
        None => Err(refuse(format!("Secret `{key}` does not exist: create it"))),
    }
}

/// The certificate in a Secret and the end of its validity, or what is wrong with it.
fn read(secret: &Secret) -> Result<Pair, String> {
    match secret.type_.as_deref() {
        None | Some("kubernetes.io/tls" | "Opaque") => {}
        Some(other) => return Err(format!("is of type `{other}`: use kubernetes.io/tls")),
    }
    let (chain, key) = (entry(secret, "tls.crt")?, entry(secret, "tls.key")?);
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|e| format!("holds no PEM certificates in tls.crt: {e}"))?;
    let Some(leaf) = certificates.first().cloned() else {
        return Err("holds no PEM certificate in tls.crt".into());
    };
    let parsed_key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|_| "holds no PEM private key in tls.key".to_owned())?;
    let signing = any_supported_type(&parsed_key)
        .map_err(|_| "holds a private key of a kind that is not supported: use RSA of 2048 bits or more, ECDSA or Ed25519".to_owned())?;
    CertifiedKey::new(certificates, signing).keys_match().map_err(|e| match e {
        rustls::Error::InconsistentKeys(_) => {
            "holds a key that is not the certificate's: tls.key and tls.crt must belong together".to_owned()
        }
        other => format!("holds no usable certificate in tls.crt: {other}"),
    })?;
    let (_, x509) = X509Certificate::from_der(&leaf)
        .map_err(|e| format!("holds no usable certificate in tls.crt: {e}"))?;
    // Later than the last time that there is: it ends never.
    let until = Timestamp::from_second(x509.validity().not_after.timestamp()).unwrap_or(Timestamp::MAX);
    Ok(Pair { certificate: Arc::new(Certificate { chain, key: PrivateKey::new(key) }), until })
}

/// An entry of a Secret as text. Files may have it in `stringData`, which the API server would have folded into `data`.
fn entry(secret: &Secret, name: &str) -> Result<String, String> {
    if let Some(text) = secret.string_data.as_ref().and_then(|data| data.get(name)) {
        return Ok(text.clone());
    }
    let bytes = secret
        .data
        .as_ref()
        .and_then(|data| data.get(name))
        .ok_or_else(|| format!("has no entry {name}: add it"))?;
    String::from_utf8(bytes.0.clone()).map_err(|_| format!("holds no PEM in {name}"))
}
