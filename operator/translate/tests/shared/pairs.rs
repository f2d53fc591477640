//! Certificates for tests, made when they are asked for, so that no key lies in the repository.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;

/// Chain and key by name.
static PAIRS: Mutex<BTreeMap<String, (String, String)>> = Mutex::new(BTreeMap::new());

/// Replaces `@certificate NAME` and `@key NAME` in the `stringData` of a Secret by a pair for that host; the same name is
/// the same pair.
pub fn fill(document: &mut Value) {
    let Some(entries) = document.get_mut("stringData").and_then(Value::as_object_mut) else { return };
    for entry in entries.values_mut() {
        let text = entry.as_str().unwrap_or_default().to_owned();
        if let Some(name) = text.strip_prefix("@certificate ") {
            *entry = pair(name).0.into();
        } else if let Some(name) = text.strip_prefix("@key ") {
            *entry = pair(name).1.into();
        }
    }
}

fn pair(name: &str) -> (String, String) {
    let mut pairs = PAIRS.lock().unwrap_or_else(PoisonError::into_inner);
    pairs.entry(name.into()).or_insert_with(|| make(name)).clone()
}

fn make(name: &str) -> (String, String) {
    let key = KeyPair::generate().expect("a key of the default kind");
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a host name");
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(if name.starts_with("expired") { 2021 } else { 2036 }, 1, 1);
    let certificate = params.self_signed(&key).expect("parameters that can be signed");
    (certificate.pem(), key.serialize_pem())
}
