//! Messages: large configurations go in parts, and what is half there or hostile does not count.

use std::sync::Arc;

use postern_config::delta::{Contents, Inventory};
use postern_config::wire::{self, Holdings, Standing, Update, Updates};
use postern_config::{Backend, BackendKey, Config, ObjectKey};

/// A configuration of this many backends with this many endpoints each.
fn large(backends: usize, endpoints: u8) -> Contents {
    let mut config = Config::default();
    for n in 0..backends {
        let endpoints = (0..endpoints).map(|host| ([10, 0, 0, host], 8080).into()).collect();
        let key = BackendKey { service: ObjectKey::new("shop", format!("s{n}")), port: 80 };
        config.backends.insert(key, Arc::new(Backend { endpoints }));
    }
    Contents::of(&config)
}

#[test]
fn a_large_configuration_arrives_in_parts_and_counts_with_the_last() {
    let contents = large(1000, 100);
    let (parts, too_large) = wire::updates(&Inventory::new(), &contents);
    assert!(parts.len() > 4 && too_large.is_empty(), "{} parts", parts.len());
    let mut updates = Updates::default();
    let (last, first) = parts.split_last().expect("parts");
    for part in first {
        assert_eq!(updates.add(part.clone()), Ok(None));
    }
    let received = updates.add(last.clone()).expect("in order").expect("the last part");
    let mut config = Config::default();
    config.apply(received.delta);
    assert_eq!((&config, &received.digests), (&*contents.config, &*contents.inventory));
    assert_eq!(received.version.as_ref(), Some(&contents.version));
}

#[test]
fn what_is_held_arrives_in_parts_too() {
    let contents = large(20_000, 1);
    let standing = Standing { version: Some(contents.version.clone()), ..Standing::default() };
    let parts = wire::greeting(&standing, &contents.inventory);
    assert!(parts.len() > 1, "{} parts", parts.len());
    let mut holdings = Holdings::default();
    let whole: Vec<_> = parts.iter().filter_map(|part| holdings.add(part).expect("in order")).collect();
    assert_eq!(whole, [Inventory::clone(&contents.inventory)]);
    assert_eq!(wire::standing(parts.last().expect("parts")), standing);
}

#[test]
fn an_update_that_begins_in_another_is_refused() {
    let mut updates = Updates::default();
    let part = |version: &str| Update { version: version.into(), more: true, ..Update::default() };
    assert_eq!(updates.add(part("a")), Ok(None));
    assert!(updates.add(part("b")).is_err());
}

#[test]
fn texts_of_a_data_plane_are_cut_and_cleaned() {
    let hostile = "\u{1b}[31mred\n".repeat(1000);
    let standing = Standing { failed: [(80, hostile)].into(), ..Standing::default() };
    let read = wire::standing(&wire::report(&standing));
    assert!(read.failed[&80].len() <= 500 && !read.failed[&80].contains(char::is_control));
}
