//! The messages that carry a configuration: the only file that names generated code.
//!
//! A message stays below [`MAX_MESSAGE`]: what is larger is sent in parts, and counts when the last part is there.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::delta::{Contents, Delta, Digest, Inventory, Resource, ResourceKey, Version};

#[expect(missing_docs, unused_qualifications, clippy::allow_attributes, reason = "generated")]
mod generated {
    include!("../proto/generated.rs");
}

pub use generated::config_client::ConfigClient;
pub use generated::config_server::{Config as ConfigService, ConfigServer};
pub use generated::{Report, Update};

/// Bytes of a message that either side takes.
pub const MAX_MESSAGE: usize = 4 * 1024 * 1024;
/// Bytes of a resource that fits in a message. Objects in a cluster are smaller (etcd takes 1.5 MiB).
pub const MAX_RESOURCE: usize = 3 * 1024 * 1024;
/// Bytes after which a message is sent and the next begun.
const PART: usize = 256 * 1024;
/// Resources that one side keeps for the other; a Gateway has fewer.
const MAX_RESOURCES: usize = 250_000;
/// Refusals and failures of a report that are looked at, and the bytes of a message in them.
const MAX_REFUSALS: usize = 100;
const MAX_REFUSAL: usize = 500;

/// What a data plane says of itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Standing {
    /// The version that it serves, if it serves any.
    pub version: Option<Version>,
    /// Resources of that version that it did not take, and why. What it had before is kept.
    pub refused: BTreeMap<ResourceKey, String>,
    /// The ports that it could not open, and why.
    pub failed: BTreeMap<u16, String>,
}

/// An update as it was received, in full.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Received {
    /// The version that it leads to.
    pub version: Option<Version>,
    /// The changes that could be read.
    pub delta: Delta,
    /// The digests of what is set, read or not.
    pub digests: Inventory,
    /// What could not be read, and why.
    pub refused: BTreeMap<ResourceKey, String>,
}

/// Puts the parts of an update together.
#[derive(Debug, Default)]
pub struct Updates(Received);

/// Puts the parts of what a data plane holds together.
#[derive(Debug, Default)]
pub struct Holdings(Inventory);

/// A message that its sender should not have sent.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
#[error("{0}")]
pub struct Malformed(String);

/// The update that leads from `held` to `wanted`, in parts; none when there is nothing to say. Resources too large for a
/// message are left out and returned.
pub fn updates(held: &Inventory, wanted: &Contents) -> (Vec<Update>, Vec<ResourceKey>) {
    let Delta { set, removed } = wanted.since(held);
    let set = set.iter().map(|resource| (resource.key(), Bytes::from(resource.body())));
    let (fits, too_large): (Vec<_>, Vec<_>) = set.partition(|(_, body)| body.len() <= MAX_RESOURCE);
    let version = || wanted.version.as_str().to_owned();
    let mut parts = Parts::new(|| Update { version: version(), more: true, ..Update::default() });
    for key in removed {
        let key = key.to_string();
        parts.with(key.len()).removed.push(key);
    }
    for (key, body) in fits {
        let key = key.to_string();
        parts.with(key.len() + body.len()).set.push(generated::Resource { key, body });
    }
    let mut parts = parts.all;
    parts.last_mut().expect("there is always one").more = false;
    (parts, too_large.into_iter().map(|(key, _)| key).collect())
}

/// What a data plane says when a stream begins, in parts.
pub fn greeting(standing: &Standing, holds: &Inventory) -> Vec<Report> {
    let mut parts = Parts::new(|| Report { more: true, ..Report::default() });
    for (key, digest) in holds {
        let digest = Bytes::copy_from_slice(digest.as_bytes());
        let key = key.to_string();
        parts.with(key.len() + digest.len()).holds.push(generated::Held { key, digest });
    }
    let mut parts = parts.all;
    let last = parts.last_mut().expect("there is always one");
    let holds = std::mem::take(&mut last.holds);
    *last = Report { holds, ..report(standing) };
    parts
}

/// What a data plane says later.
pub fn report(standing: &Standing) -> Report {
    let failed = standing.failed.iter();
    let refused = standing.refused.iter().take(MAX_REFUSALS);
    Report {
        version: standing.version.as_ref().map(|version| version.as_str().to_owned()).unwrap_or_default(),
        holds: Vec::new(),
        refused: refused
            .map(|(key, message)| generated::Refusal { key: key.to_string(), message: clean(message) })
            .collect(),
        failed: failed
            .map(|(port, message)| generated::Failure { port: (*port).into(), message: clean(message) })
            .collect(),
        more: false,
        observes: false,
    }
}

/// Reads what a data plane says. It is not trusted: keys that are none are left out, texts are cut and cleaned.
pub fn standing(report: &Report) -> Standing {
    let refused = report.refused.iter().take(MAX_REFUSALS);
    let failed = report.failed.iter().take(MAX_REFUSALS);
    let version = Some(&report.version).filter(|version| !version.is_empty() && version.len() <= 64);
    Standing {
        version: version.map(Version::new),
        refused: refused
            .filter_map(|refusal| Some((refusal.key.parse().ok()?, clean(&refusal.message))))
            .collect(),
        failed: failed
            .filter_map(|failure| Some((failure.port.try_into().ok()?, clean(&failure.message))))
            .collect(),
    }
}

/// The text without control characters, cut to a length that a status can carry.
fn clean(text: &str) -> String {
    let text = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    text.scan(0, |length, c| {
        *length += c.len_utf8();
        (*length <= MAX_REFUSAL).then_some(c)
    })
    .collect()
}

/// Messages under way: a new one is begun when the last is large enough.
struct Parts<T, F> {
    all: Vec<T>,
    size: usize,
    new: F,
}

impl<T, F: Fn() -> T> Parts<T, F> {
    fn new(new: F) -> Self {
        Self { all: vec![new()], size: 0, new }
    }

    /// The message that the next `size` bytes go to.
    fn with(&mut self, size: usize) -> &mut T {
        if self.size > 0 && self.size + size > PART {
            self.all.push((self.new)());
            self.size = 0;
        }
        self.size += size;
        self.all.last_mut().expect("there is always one")
    }
}

impl Updates {
    /// Adds a part; gives the whole when it was the last.
    ///
    /// Fails when a part does not go with those before it, or names something that is no resource: the sender is of a
    /// version that cannot be understood.
    pub fn add(&mut self, part: Update) -> Result<Option<Received>, Malformed> {
        let version = Some(Version::new(part.version));
        if self.0.version.is_some() && self.0.version != version {
            return Err(Malformed("an update began before the last was complete".into()));
        }
        self.0.version = version;
        for generated::Resource { key, body } in part.set {
            let key: ResourceKey = parse(&key)?;
            if self.0.digests.insert(key.clone(), Digest::of(&body)).is_some() {
                return Err(Malformed(format!("{key} is set twice")));
            }
            match Resource::parse(key.clone(), &body) {
                Ok(resource) => self.0.delta.set.push(resource),
                Err(message) => _ = self.0.refused.insert(key, message),
            }
        }
        for key in part.removed {
            self.0.delta.removed.push(parse(&key)?);
        }
        if self.0.digests.len() + self.0.delta.removed.len() > MAX_RESOURCES {
            return Err(Malformed(format!("an update has more than {MAX_RESOURCES} resources")));
        }
        Ok((!part.more).then(|| std::mem::take(&mut self.0)))
    }
}

impl Holdings {
    /// Adds a part; gives the whole when it was the last.
    ///
    /// Fails when it names something that is no resource, or more than a Gateway has.
    pub fn add(&mut self, report: &Report) -> Result<Option<Inventory>, Malformed> {
        for generated::Held { key, digest } in &report.holds {
            let digest = Digest::from_bytes(digest);
            let digest = digest.ok_or_else(|| Malformed(String::from("a digest has 16 bytes")))?;
            self.0.insert(parse(key)?, digest);
        }
        if self.0.len() > MAX_RESOURCES {
            return Err(Malformed(format!("a Gateway has at most {MAX_RESOURCES} resources")));
        }
        Ok((!report.more).then(|| std::mem::take(&mut self.0)))
    }
}

fn parse(key: &str) -> Result<ResourceKey, Malformed> {
    key.parse().map_err(|error: crate::name::InvalidName| Malformed(error.to_string()))
}
