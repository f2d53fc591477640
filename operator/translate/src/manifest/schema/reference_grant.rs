//! The schema of ReferenceGrant.

use super::references::{group, kind, namespace, object_name};
use super::{Schema, list, object, optional, required};

pub(super) fn spec() -> Schema {
    let from =
        object([required("group", group()), required("kind", kind()), required("namespace", namespace())]);
    let to = object([required("group", group()), required("kind", kind()), optional("name", object_name())]);
    object([required("from", list(from).least(1).most(16)), required("to", list(to).least(1).most(16))])
}
