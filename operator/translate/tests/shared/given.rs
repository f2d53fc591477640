//! A snapshot from YAML documents, the first of which may say what does not come from objects.

use std::collections::BTreeMap;

use postern_config::ObjectKey;
use postern_translate::api::GatewayStatusAddress;
use postern_translate::kinds::KINDS;
use postern_translate::manifest::{self, Source};
use postern_translate::snapshot::{Claim, Infrastructure, Observed, ObservedGateway, Snapshot};
use serde::Deserialize;
use serde_json::Value;

use crate::shared::{object, pairs};

/// An optional first document: what does not come from objects.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Given {
    /// Serve every Gateway, as for files; unless false.
    claim_every: Option<bool>,
    /// What was observed of Gateways; nobody was asked unless written.
    observed: Option<BTreeMap<ObjectKey, Seen>>,
    /// Make workloads of this image.
    image: Option<String>,
    /// Kinds that the cluster does not have.
    missing_kinds: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Seen {
    addresses: Vec<String>,
    acknowledged_generation: Option<i64>,
    failed_listeners: BTreeMap<String, String>,
    obstacle: Option<String>,
}

/// Reads documents of objects as a cluster would hold them. They are not validated: what the API server of today refuses,
/// the one of tomorrow may let through, and translation must stand it.
pub fn snapshot(yaml: &str) -> Snapshot {
    let (mut snapshot, documents) = read(yaml);
    for document in documents {
        snapshot.objects.insert(object(document));
    }
    snapshot
}

/// The same with the defaults written out that the API server writes, in those objects that it takes today.
pub fn snapshot_with_defaults(yaml: &str) -> Snapshot {
    let (mut snapshot, documents) = read(yaml);
    let (valid, others): (Vec<Value>, Vec<Value>) =
        documents.into_iter().partition(|document| manifest::validate(document).is_empty());
    let text = Value::Array(valid).to_string();
    let loaded = manifest::load(&[Source { name: "valid".into(), text }]);
    assert_eq!(loaded.errors, [], "what is valid loads");
    snapshot.objects = loaded.objects;
    for document in others {
        snapshot.objects.insert(object(document));
    }
    snapshot
}

fn read(yaml: &str) -> (Snapshot, Vec<Value>) {
    let mut snapshot = Snapshot::default();
    snapshot.settings.claim = Claim::Every;
    let mut documents: Vec<Value> = serde_saphyr::from_multiple(yaml).expect("the input is YAML");
    documents.retain(|document| !document.is_null());
    if let Some(given) = documents.first().and_then(|first| first.get("given")).cloned() {
        give(&mut snapshot, serde_json::from_value(given).expect("known settings"));
        documents.remove(0);
    }
    documents.iter_mut().for_each(pairs::fill);
    (snapshot, documents)
}

fn give(snapshot: &mut Snapshot, given: Given) {
    if given.claim_every == Some(false) {
        snapshot.settings.claim = Claim::OurClasses;
    }
    let kinds = KINDS.iter().map(|info| info.kind);
    snapshot.missing_kinds =
        kinds.filter(|kind| given.missing_kinds.iter().any(|missing| missing == kind)).collect();
    snapshot.settings.infrastructure = given.image.map(|image| Infrastructure {
        image,
        channel: "https://postern.postern-system.svc:15010".into(),
        ..Infrastructure::default()
    });
    let Some(observed) = given.observed else { return };
    let seen = observed.into_iter().map(|(key, seen)| {
        let addresses = seen
            .addresses
            .into_iter()
            .map(|value| GatewayStatusAddress { kind: Some("IPAddress".into()), value });
        let observed = ObservedGateway {
            addresses: addresses.collect(),
            acknowledged_generation: seen.acknowledged_generation,
            failed_listeners: seen.failed_listeners,
            refused_listeners: BTreeMap::new(),
            obstacle: seen.obstacle,
        };
        (key, observed)
    });
    snapshot.observed = Observed::Known(seen.collect());
}
