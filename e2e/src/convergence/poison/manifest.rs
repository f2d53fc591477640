//! Manifests of poison: what is in them many times is written once, and what has to be said of them stands in them.
//!
//! `«TEXT×COUNT»` stands for so many copies of a text, in which `№` is the number of the copy. A document with a line
//! `# times COUNT` stands for so many documents, in which `§` is the number of the document. A line `# says: KIND/NAME[#LISTENER] TYPE=STATUS/REASON` is what a status
//! has to say, or `nothing` in place of the condition.

use std::fmt;

use kube::api::DynamicObject;
use serde_json::Value;

use super::healthy::CONTROLLER;

macro_rules! manifests {
    ($($name:literal)+) => {
        /// All of them, by name.
        pub const MANIFESTS: &[(&str, &str)] = &[$(($name, include_str!(concat!($name, ".yaml"))),)+];
    };
}

manifests! {
    "matches" "expressions" "same" "nothing" "certificates" "headers" "grants" "hostnames" "endpoints" "services"
    "annotations" "parents" "filters" "numbers" "names" "methods"
}

/// What a status has to say.
#[derive(Debug)]
pub struct Says<'a> {
    /// As in `kind:`
    pub kind: &'a str,
    /// The object.
    pub name: &'a str,
    /// A listener of a Gateway.
    pub listener: Option<&'a str>,
    /// Type, status and reason of a condition; `None` where there is no entry of ours.
    pub wanted: Option<(&'a str, &'a str, &'a str)>,
}

impl<'a> Says<'a> {
    /// All that a manifest has.
    pub fn all(text: &'a str) -> Vec<Self> {
        text.lines().filter_map(|line| Self::parse(line.strip_prefix("# says: ")?)).collect()
    }

    fn parse(line: &'a str) -> Option<Self> {
        let (object, wanted) = line.split_once(' ')?;
        let (kind, name) = object.split_once('/')?;
        let (name, listener) = name.split_once('#').map_or((name, None), |(name, of)| (name, Some(of)));
        let condition = |wanted: &'a str| {
            let (kind, rest) = wanted.split_once('=')?;
            let (status, reason) = rest.split_once('/')?;
            Some((kind, status, reason))
        };
        Some(Self { kind, name, listener, wanted: condition(wanted) })
    }

    /// Whether an object says it, of itself as it is now.
    pub fn is_told(&self, object: &DynamicObject) -> bool {
        let (status, generation) = (&object.data["status"], object.metadata.generation);
        if self.kind == "Gateway" {
            let listeners = status["listeners"].as_array();
            let listener = |name| listeners.into_iter().flatten().find(|it| it["name"] == name);
            let of = self.listener.map_or(Some(status), |name: &str| listener(name));
            return of.is_some_and(|of| self.is_in(&of["conditions"], generation));
        }
        let entries = status["parents"].as_array().into_iter().flatten();
        let mut ours = entries.filter(|entry| entry["controllerName"] == CONTROLLER).peekable();
        match self.wanted {
            Some(_) => {
                ours.peek().is_some() && ours.all(|entry| self.is_in(&entry["conditions"], generation))
            }
            None => ours.peek().is_none(),
        }
    }

    /// Whether it is among these conditions, and speaks of this generation.
    pub fn is_in(&self, conditions: &Value, generation: Option<i64>) -> bool {
        let Some((kind, status, reason)) = self.wanted else { return false };
        conditions.as_array().into_iter().flatten().any(|it| {
            it["type"] == kind
                && it["status"] == status
                && it["reason"] == reason
                && it["observedGeneration"].as_i64() == generation
        })
    }
}

impl fmt::Display for Says<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name)?;
        self.listener.map_or(Ok(()), |listener| write!(f, ", listener `{listener}`,"))?;
        match self.wanted {
            Some((kind, status, reason)) => write!(f, " says {kind} {status}, {reason}"),
            None => write!(f, " says nothing of ours"),
        }
    }
}

/// A manifest as the API server gets it.
pub fn expanded(text: &str) -> String {
    let documents = text.split("\n---\n").map(|document| {
        let times = document.lines().find_map(|line| line.strip_prefix("# times ")?.parse::<usize>().ok());
        let copies = (0..times.unwrap_or(1)).map(|number| match times {
            Some(_) => repeated(&document.replace('§', &number.to_string())),
            None => repeated(document),
        });
        copies.collect::<Vec<_>>().join("\n---\n")
    });
    documents.collect::<Vec<_>>().join("\n---\n")
}

/// The text with every `«TEXT×COUNT»` written out.
fn repeated(text: &str) -> String {
    let mut all = String::new();
    let mut parts = text.split('«');
    all.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (inner, rest) = part.split_once('»').expect("it is closed");
        let (inner, count) = inner.rsplit_once('×').expect("it has a count");
        for number in 0..count.parse::<usize>().expect("it is a number") {
            all.push_str(&inner.replace('№', &number.to_string()));
        }
        all.push_str(rest);
    }
    all
}
