//! Our verdict on objects against the API server's, by upstream's CRDs: examples, invalid examples and mutations of them.
//!
//! `crds/fetch` brings the CRDs: it needs `go`, and the network once.

#![expect(clippy::print_stdout, reason = "counts and messages are what one reads a test's output for")]
#![expect(
    clippy::disallowed_methods,
    reason = "the bans are for translation: a test reads files and runs programs"
)]

mod fields;
mod mutate;
mod own;
mod sample;
mod schema;
mod seeds;
mod server;
mod tally;
mod upstream;

use std::collections::BTreeMap;

use postern_translate::manifest::{self, Source};
use sample::Sampler;
use serde_json::Value;
use server::Server;
use tally::Tally;
use upstream::Document;

/// The oracle itself: were it wrong about upstream's own files, its other verdicts would mean nothing.
#[test]
fn the_oracle_takes_every_example_and_refuses_every_invalid_one() {
    let server = Server::upstream();
    for document in upstream::documents("examples").iter().filter(|document| server.serves(&document.value)) {
        assert_eq!(server.refusals(&document.value), Vec::<String>::new(), "{}", document.name());
    }
    for document in
        upstream::documents("invalid-examples").iter().filter(|document| server.serves(&document.value))
    {
        assert!(!server.refusals(&document.value).is_empty(), "{} is taken", document.name());
    }
}

#[test]
fn our_verdict_on_mutations_is_the_oracles() {
    const MUTATIONS: usize = 30_000;
    let server = Server::upstream();
    let mut sampler = Sampler::new(1);
    let seeds = seeds::valid(&server, &mut sampler);
    let mut tally = Tally::default();
    for round in 0..MUTATIONS {
        let seed = &seeds[round % seeds.len()];
        let version = server.version(seed).expect("seeds are of versions that are served");
        if let Some(mutation) = mutate::mutate(seed, &version.schema, &mut sampler) {
            tally.compare(&server, &mutation.object, &format!("{} at {}", mutation.change, mutation.place));
        }
    }
    for (what, object) in seeds::wrong() {
        tally.compare(&server, &object, what);
    }
    tally.finish();
}

#[test]
fn every_example_loads() {
    let mut objects = 0;
    for (file, documents) in files("examples") {
        let loaded = manifest::load(&[source(&documents[0])]);
        assert_eq!(loaded.errors, [], "{file}");
        let ours = documents.iter().filter(|document| is_read(&document.value)).count();
        let twice = loaded.duplicates.iter().filter(|duplicate| duplicate.kind != "Namespace").count();
        assert_eq!(
            loaded.origins.keys().filter(|(kind, _)| seeds::KINDS.contains(kind)).count() + twice,
            ours,
            "{file}"
        );
        objects += ours;
    }
    println!("{objects} objects of our kinds in the examples, all loaded");
}

/// The snapshot has the places alone: the messages are upstream's words.
#[test]
fn every_invalid_example_is_refused_with_its_line_and_field() {
    let mut table = String::new();
    for (file, documents) in files("invalid-examples") {
        let loaded = manifest::load(&[source(&documents[0])]);
        for ignored in &loaded.ignored {
            table += &format!("{file}:{} {} is not read\n", ignored.first.line, ignored.kind);
        }
        assert!(!loaded.errors.is_empty() || !loaded.ignored.is_empty(), "{file} is taken");
        for error in &loaded.errors {
            println!("{error}");
            table +=
                &format!("{file}:{} {} {}\n", error.line, error.object.as_deref().unwrap_or("-"), error.path);
        }
    }
    insta::assert_snapshot!("invalid-examples", table);
}

#[test]
fn every_property_of_the_crds_is_in_our_types_or_on_the_list() {
    let expected = fields::expected();
    let mut found = BTreeMap::new();
    for ((_, kind), version) in
        Server::upstream().versions().filter(|((_, kind), _)| seeds::KINDS.contains(&kind.as_str()))
    {
        for (path, fate) in fields::not_typed(kind, &version.whole) {
            found.insert(format!("{kind} {path}"), fate);
        }
    }
    assert_eq!(
        found, expected,
        "properties that are not read into a type of ours, and the list of them in fields.rs"
    );
}

fn is_read(object: &Value) -> bool {
    object["kind"].as_str().is_some_and(|kind| seeds::KINDS.contains(&kind))
}

/// The documents by file.
fn files(folder: &str) -> BTreeMap<String, Vec<Document>> {
    let mut files: BTreeMap<String, Vec<Document>> = BTreeMap::new();
    for document in upstream::documents(folder) {
        files.entry(document.file.display().to_string()).or_default().push(document);
    }
    files
}

fn source(document: &Document) -> Source {
    Source { name: document.file.display().to_string(), text: document.text.clone() }
}
