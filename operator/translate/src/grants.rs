//! Whether a reference to another namespace is permitted: the ReferenceGrants, by what they allow.

use std::collections::{BTreeMap, BTreeSet};

use postern_config::ObjectKey;

use crate::kinds::ObjectSet;
use crate::status::{Reason, Refusal};

/// Group, kind and namespace of an object that refers to another.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Referrer<'a> {
    pub(crate) group: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
}

/// Group and kind of what is referred to.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct TargetKind {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
}

/// A core Service.
pub(crate) const SERVICE: TargetKind = TargetKind { group: "", kind: "Service" };
/// A core Secret.
pub(crate) const SECRET: TargetKind = TargetKind { group: "", kind: "Secret" };

/// The namespace that a grant is in, who may refer to it, and to what group and kind there.
type Subject<'a> = (&'a str, Referrer<'a>, (&'a str, &'a str));

/// All consent that was given.
pub(crate) struct Grants<'a>(BTreeMap<Subject<'a>, Names<'a>>);

/// Which names a grant covers.
#[derive(Default)]
struct Names<'a> {
    all: bool,
    some: BTreeSet<&'a str>,
}

impl<'a> Grants<'a> {
    /// The consent of all ReferenceGrants.
    pub(crate) fn of(objects: &'a ObjectSet) -> Self {
        let mut grants: BTreeMap<Subject<'a>, Names<'a>> = BTreeMap::new();
        for (key, grant) in &objects.reference_grants {
            for from in &grant.spec.from {
                let referrer = Referrer { group: &from.group, kind: &from.kind, namespace: &from.namespace };
                for to in &grant.spec.to {
                    let names = grants.entry((&key.namespace, referrer, (&to.group, &to.kind))).or_default();
                    match to.name.as_deref() {
                        None | Some("") => names.all = true,
                        Some(name) => {
                            names.some.insert(name);
                        }
                    }
                }
            }
        }
        Self(grants)
    }

    /// Whether `from` may refer to `target`: within its namespace always, elsewhere with a grant there.
    ///
    /// It is asked before anybody looks whether the target exists, so that the answer tells nothing of what is in
    /// another namespace.
    pub(crate) fn permit(
        &self,
        from: Referrer<'_>,
        kind: TargetKind,
        target: &ObjectKey,
    ) -> Result<(), Refusal> {
        if from.namespace == target.namespace {
            return Ok(());
        }
        let granted = self
            .0
            .get(&(target.namespace.as_str(), from, (kind.group, kind.kind)))
            .is_some_and(|names| names.all || names.some.contains(target.name.as_str()));
        if granted {
            return Ok(());
        }
        Err(Reason::RefNotPermitted.because(format!(
            "{} `{target}` is in another namespace: let a ReferenceGrant in namespace `{}` allow {}s of namespace `{}` to refer to it",
            kind.kind, target.namespace, from.kind, from.namespace
        )))
    }
}
