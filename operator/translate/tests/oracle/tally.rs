//! How often we and the oracle agree, and where not.

use std::collections::BTreeMap;

use postern_translate::manifest;
use serde_json::Value;

use crate::server::Server;

/// Where we and the oracle differ, and mean to: kind, part of the path, and why.
const MEANT: [(&str, &str, &str); 3] = [
    (
        "Gateway",
        "caCertificateRefs[].namespace",
        "the rule against a ClusterTrustBundle with a namespace says `has(r.namespace)`; the oracle sees a field of that name as \
     `__namespace__`, so the rule is blind there, and what it is for is clear",
    ),
    (
        "PosternParameters",
        "loadBalancerSourceRanges[]",
        "a CRD that old clusters can read too has no rule for networks; that it is one is found when parameters are read",
    ),
    ("PosternParameters", "trustedProxies[]", "the same"),
];

/// How many ways to differ a failure shows.
const SHOWN: usize = 25;

/// Counts, and cases of disagreement.
#[derive(Default)]
pub struct Tally {
    taken: usize,
    refused: usize,
    meant: usize,
    /// By kind, direction and path without indexes.
    differences: BTreeMap<String, Vec<String>>,
}

impl Tally {
    /// Asks both for their verdict.
    pub fn compare(&mut self, server: &Server, object: &Value, what: &str) {
        let oracle = server.refusals(object);
        let ours: Vec<String> =
            manifest::validate(object).iter().map(|e| format!("{}: {}", e.path, e.message)).collect();
        let (direction, first) = match (ours.first(), oracle.first()) {
            (None, None) => return self.taken += 1,
            (Some(_), Some(_)) => return self.refused += 1,
            (None, Some(first)) => ("we take what the oracle refuses", first),
            (Some(first), None) => ("we refuse what the oracle takes", first),
        };
        let path = first.split(": ").next().unwrap_or_default().replace(|c: char| c.is_ascii_digit(), "");
        if MEANT.iter().any(|(kind, part, _)| object["kind"] == *kind && path.contains(part)) {
            return self.meant += 1;
        }
        let key = format!("{} {}: {direction}: {path}", object["apiVersion"], object["kind"]);
        self.differences.entry(key).or_default().push(format!("{what}: {first}\n{object}"));
    }

    /// Prints the counts, and fails when there was a difference that is not meant.
    pub fn finish(self) {
        println!("{} taken and {} refused by both, {} meant to differ", self.taken, self.refused, self.meant);
        let mut report = format!("{} ways to differ\n", self.differences.len());
        for (what, cases) in self.differences.iter().take(SHOWN) {
            report += &format!("\n{what}: {} times, first after {}\n", cases.len(), cases[0]);
        }
        assert!(self.differences.is_empty(), "{report}");
    }
}
