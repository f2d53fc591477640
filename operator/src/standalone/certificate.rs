//! Self-signed certificates for Secrets that are not there yet, for `serve --dev`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use postern_config::ObjectKey;
use postern_translate::api::{Gateway, SecretObjectReference};
use postern_translate::kinds::{ObjectSet, Objects};
use rcgen::{CertificateParams, KeyPair};

/// The Secrets made so far, each once, so that a reload keeps its certificate.
#[derive(Default)]
pub struct SelfSigned {
    made: BTreeMap<ObjectKey, (BTreeSet<String>, Arc<Secret>)>,
}

impl SelfSigned {
    /// Adds a Secret for every certificate that a listener refers to and that is not among the objects. Gives the keys of
    /// those that were made new, with their names.
    ///
    /// What may not be referred to from another namespace stays refused: translation asks for the grant as ever.
    pub fn fill(&mut self, objects: &mut ObjectSet) -> Vec<(ObjectKey, Vec<String>)> {
        let mut news = Vec::new();
        for (key, names) in missing(&objects.gateways, &objects.secrets) {
            let known = self.made.get(&key).filter(|(covered, _)| *covered == names);
            let secret = match known {
                Some((_, secret)) => secret.clone(),
                None => {
                    let Ok(secret) = make(&key, &names) else { continue };
                    let secret = Arc::new(secret);
                    news.push((key.clone(), names.iter().cloned().collect()));
                    self.made.insert(key.clone(), (names, secret.clone()));
                    secret
                }
            };
            objects.secrets.insert(key, secret);
        }
        news
    }
}

/// The Secrets that listeners refer to and that are not there, with the names that they should cover.
fn missing(gateways: &Objects<Gateway>, secrets: &Objects<Secret>) -> BTreeMap<ObjectKey, BTreeSet<String>> {
    let mut missing = BTreeMap::<_, BTreeSet<_>>::new();
    for (gateway, object) in gateways {
        for listener in &object.spec.listeners {
            for reference in listener.tls.iter().flat_map(|tls| &tls.certificate_refs) {
                let Some(key) = secret_key(gateway, reference) else { continue };
                if secrets.contains_key(&key) {
                    continue;
                }
                let names = missing.entry(key).or_insert_with(|| BTreeSet::from(["localhost".to_owned()]));
                names.extend(listener.hostname.clone().filter(|name| !name.is_empty()));
            }
        }
    }
    missing
}

fn secret_key(gateway: &ObjectKey, reference: &SecretObjectReference) -> Option<ObjectKey> {
    let is_secret = reference.group.is_empty() && reference.kind == "Secret";
    let namespace = reference.namespace.as_ref().unwrap_or(&gateway.namespace);
    is_secret.then(|| ObjectKey::new(namespace, &reference.name))
}

/// Fails when a name cannot stand in a certificate.
fn make(key: &ObjectKey, names: &BTreeSet<String>) -> Result<Secret, rcgen::Error> {
    let pair = KeyPair::generate()?;
    let mut names = Vec::from_iter(names.iter().cloned());
    names.push("127.0.0.1".into());
    let certificate = CertificateParams::new(names)?.self_signed(&pair)?;
    let data = BTreeMap::from([
        ("tls.crt".to_owned(), ByteString(certificate.pem().into_bytes())),
        ("tls.key".to_owned(), ByteString(pair.serialize_pem().into_bytes())),
    ]);
    Ok(Secret {
        metadata: ObjectMeta {
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".into()),
        data: Some(data),
        ..Secret::default()
    })
}
