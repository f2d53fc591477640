//! Laws of the difference between two configurations.

use std::collections::BTreeSet;
use std::sync::Arc;

use postern_config::delta::{Contents, Delta, Inventory, Resource, ResourceKey};
use postern_config::{
    Backend, BackendKey, Certificate, Config, Listener, ObjectKey, PrivateKey, Protocol, Route, RouteKind,
    RouteName,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A few names and a few contents, so that configurations have much in common.
fn config() -> impl Strategy<Value = Config> {
    vec((0..4_u8, 0..5_u16, 0..3_u16), 0..16).prop_map(|resources| {
        let mut config = Config::default();
        let set = resources.into_iter().map(|(kind, name, content)| resource(kind, name, content));
        for resource in set {
            config.apply(Delta { set: vec![resource], removed: Vec::new() });
        }
        config
    })
}

fn resource(kind: u8, name: u16, content: u16) -> Resource {
    let key = ObjectKey::new("shop", format!("n{name}"));
    match kind {
        0 => {
            let listener = Listener { port: 80 + content, protocol: Protocol::Http, hostname: None };
            Resource::Listener(format!("l{name}"), Arc::new(listener))
        }
        1 => {
            let route = Route { created: content.into(), attachments: Vec::new(), rules: Vec::new() };
            Resource::Route(RouteName { key, kind: RouteKind::Http }, Arc::new(route))
        }
        2 => {
            let endpoints = (0..content).map(|n| ([10, 0, 0, 1], 8000 + n).into()).collect();
            Resource::Backend(BackendKey { service: key, port: 80 }, Arc::new(Backend { endpoints }))
        }
        _ => {
            let certificate = Certificate { chain: format!("chain {content}"), key: PrivateKey::new("key") };
            Resource::Certificate(key, Arc::new(certificate))
        }
    }
}

proptest! {
    #[test]
    fn the_difference_leads_from_one_to_the_other_in_any_order(old in config(), new in config(), turn in 0..16_usize) {
        let mut delta = old.diff(&new);
        let (set, removed) = (delta.set.len(), delta.removed.len());
        delta.set.rotate_left(turn % set.max(1));
        delta.removed.rotate_left(turn % removed.max(1));
        let mut there = old.clone();
        there.apply(delta.clone());
        prop_assert_eq!(&there, &new);
        // Twice is once.
        there.apply(delta);
        prop_assert_eq!(&there, &new);
        prop_assert!(new.diff(&there).is_empty());
    }

    #[test]
    fn only_what_differs_is_in_it(old in config(), new in config()) {
        let delta = Contents::of(&new).since(&Contents::of(&old).inventory);
        for resource in &delta.set {
            prop_assert_ne!(old.resource(&resource.key()), Some(resource.clone()));
        }
        let keys = delta.set.iter().map(Resource::key).chain(delta.removed.iter().cloned());
        prop_assert_eq!(keys.collect::<BTreeSet<_>>().len(), delta.set.len() + delta.removed.len());
        prop_assert_eq!(delta, old.diff(&new));
    }

    #[test]
    fn the_version_follows_from_the_content_alone(old in config(), new in config()) {
        let (direct, renewed) = (Contents::of(&new), Contents::of(&old).renewed(&new));
        prop_assert_eq!(&direct, &renewed);
        prop_assert_eq!(old == new, Contents::of(&old).version == direct.version);
        let all = Contents::of(&new).since(&Inventory::new());
        prop_assert_eq!(all.set.len(), direct.inventory.len());
    }

    #[test]
    fn a_resource_survives_its_text(kind in 0..4_u8, name in 0..5_u16, content in 0..3_u16) {
        let resource = resource(kind, name, content);
        let key: ResourceKey = resource.key().to_string().parse().expect("a key reads as it was written");
        prop_assert_eq!(Resource::parse(key, resource.body().as_bytes()), Ok(resource));
    }
}

#[test]
fn a_change_of_endpoints_is_a_change_of_one_backend() {
    let mut old = Config::default();
    let all = (0..3).flat_map(|kind| (0..5).map(move |name| resource(kind, name, 1)));
    old.apply(Delta { set: all.collect(), removed: Vec::new() });
    let mut new = old.clone();
    new.apply(Delta { set: vec![resource(2, 3, 2)], removed: Vec::new() });
    let delta = old.diff(&new);
    assert_eq!(delta, Delta { set: vec![resource(2, 3, 2)], removed: Vec::new() });
}

#[test]
fn what_is_wrong_with_a_certificate_is_said_without_quoting_it() {
    let key = "certificate/shop/web".parse().expect("a key");
    let wrong = Resource::parse(key, br#"{"chain":"c","key":{"canary":1}}"#).expect_err("no certificate");
    assert!(!wrong.contains("canary"), "{wrong}");
    assert!("secret/shop/web".parse::<ResourceKey>().is_err());
    assert!("listener/".parse::<ResourceKey>().is_err());
}
