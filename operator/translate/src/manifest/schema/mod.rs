//! A small language for the shape of objects: what upstream's CRDs say as OpenAPI and CEL, one file a kind.
//!
//! A schema states types, limits, patterns, list keys and defaults; a [`Rule`] holds what spans several fields, with upstream's
//! message. Kinds of Gateway API and our own are written here in full, status apart.

mod check;
mod filters;
mod gateway;
mod gateway_class;
mod grpc_route;
mod http_route;
pub(super) mod metadata;
mod openapi;
mod parameters;
mod pattern;
mod reference_grant;
mod references;
mod rules;
mod session;
mod tls_route;

use std::sync::LazyLock;

pub(super) use check::{Finding, check};
pub use openapi::openapi;
pub(super) use pattern::Pattern;
use serde_json::Value;

use super::tree::Node;
use crate::api::{GatewayClassSpec, GatewaySpec, GrpcRouteSpec, HttpRouteSpec, Kind, ReferenceGrantSpec};

/// The schema of `spec` of a kind of Gateway API or of ours; all versions that are read have the same.
pub(super) fn spec_of(kind: &str) -> Option<&'static Schema> {
    static KINDS: LazyLock<[(&str, Schema); 7]> = LazyLock::new(|| {
        [
            (GatewayClassSpec::KIND, gateway_class::spec()),
            (GatewaySpec::KIND, gateway::spec()),
            (HttpRouteSpec::KIND, http_route::spec()),
            (GrpcRouteSpec::KIND, grpc_route::spec()),
            (ReferenceGrantSpec::KIND, reference_grant::spec()),
            (crate::parameters::KIND, parameters::spec()),
            ("TLSRoute", tls_route::spec()),
        ]
    });
    KINDS.iter().find(|(name, _)| *name == kind).map(|(_, schema)| schema)
}

/// The fields of an object of a kind of Gateway API or of ours. What they hold is checked apart, and `status` is not: controllers wrote it.
pub(super) fn top_of(kind: &str) -> &'static Schema {
    fn fields() -> [Field; 4] {
        ["apiVersion", "kind", "metadata", "spec"].map(|name| required(name, any()))
    }
    static WITHOUT_STATUS: LazyLock<Schema> = LazyLock::new(|| object(fields()));
    static WITH_STATUS: LazyLock<Schema> = LazyLock::new(|| {
        let [api_version, kind, metadata, spec] = fields();
        object([api_version, kind, metadata, spec, optional("status", any())])
    });
    if [ReferenceGrantSpec::KIND, crate::parameters::KIND].contains(&kind) {
        &WITHOUT_STATUS
    } else {
        &WITH_STATUS
    }
}

/// What a value must be.
pub(super) struct Schema {
    pub shape: Shape,
    /// Asked only where the value has the shape.
    pub rules: Vec<Rule>,
}

/// The type of a value, and the limits of that type.
pub(super) enum Shape {
    /// A mapping with these fields; others are errors.
    Object(Vec<Field>),
    /// A mapping with any keys.
    Map {
        values: Box<Schema>,
        most: Option<usize>,
    },
    List {
        items: Box<Schema>,
        least: usize,
        most: Option<usize>,
        unique: Unique,
    },
    Text {
        least: usize,
        most: Option<usize>,
        pattern: Option<&'static Pattern>,
        one_of: &'static [&'static str],
    },
    Integer {
        least: Option<i64>,
        most: Option<i64>,
        int32: bool,
        one_of: &'static [i64],
    },
    Boolean,
    /// An amount such as `2`, `500m` or `256Mi`.
    Amount(&'static Pattern),
    /// A mapping that is read elsewhere.
    Open,
    /// Anything; it is read elsewhere.
    Any,
}

/// What makes two items of a list the same, which they must not be.
#[derive(Clone, Copy)]
pub(super) enum Unique {
    No,
    /// The whole item.
    Item,
    /// One field of the item.
    Key(&'static str),
}

/// A field of an object.
pub(super) struct Field {
    pub name: &'static str,
    pub required: bool,
    pub default: Option<Value>,
    pub schema: Schema,
}

/// What upstream states in CEL.
pub(super) struct Rule {
    /// Upstream's message, word for word: users search for it.
    pub message: &'static str,
    /// What to do, where the message does not say it.
    pub hint: &'static str,
    /// Where below the value the rule is broken; nowhere if it holds. Defaults are there already.
    pub broken: fn(&Node) -> Vec<Place>,
}

/// A place below a value: the steps to it.
pub(super) type Place = Vec<Step>;

/// A step from a value into it.
#[derive(Clone)]
pub(super) enum Step {
    Field(&'static str),
    Key(String),
    Index(usize),
}

pub(super) fn object<const N: usize>(fields: [Field; N]) -> Schema {
    Schema::new(Shape::Object(fields.into()))
}

pub(super) fn map(values: Schema) -> Schema {
    Schema::new(Shape::Map { values: Box::new(values), most: None })
}

pub(super) fn list(items: Schema) -> Schema {
    Schema::new(Shape::List { items: Box::new(items), least: 0, most: None, unique: Unique::No })
}

pub(super) fn text() -> Schema {
    Schema::new(Shape::Text { least: 0, most: None, pattern: None, one_of: &[] })
}

pub(super) fn one_of(values: &'static [&'static str]) -> Schema {
    Schema::new(Shape::Text { least: 0, most: None, pattern: None, one_of: values })
}

/// A whole number of 64 bits.
pub(super) fn integer() -> Schema {
    Schema::new(Shape::Integer { least: None, most: None, int32: false, one_of: &[] })
}

/// A whole number of 32 bits.
pub(super) fn int32() -> Schema {
    Schema::new(Shape::Integer { least: None, most: None, int32: true, one_of: &[] })
}

pub(super) fn one_of_integers(values: &'static [i64]) -> Schema {
    Schema::new(Shape::Integer { least: None, most: None, int32: false, one_of: values })
}

pub(super) fn boolean() -> Schema {
    Schema::new(Shape::Boolean)
}

pub(super) fn amount(pattern: &'static Pattern) -> Schema {
    Schema::new(Shape::Amount(pattern))
}

pub(super) fn open_object() -> Schema {
    Schema::new(Shape::Open)
}

pub(super) fn any() -> Schema {
    Schema::new(Shape::Any)
}

pub(super) fn required(name: &'static str, schema: Schema) -> Field {
    Field { name, required: true, default: None, schema }
}

pub(super) fn optional(name: &'static str, schema: Schema) -> Field {
    Field { name, required: false, default: None, schema }
}

impl Field {
    /// What the field is when it is not written.
    pub(super) fn or(mut self, default: impl Into<Value>) -> Self {
        self.default = Some(default.into());
        self
    }
}

impl Schema {
    fn new(shape: Shape) -> Self {
        Self { shape, rules: Vec::new() }
    }

    /// At least so many characters or items, or at least this number.
    pub(super) fn least(mut self, limit: u32) -> Self {
        match &mut self.shape {
            Shape::Text { least, .. } | Shape::List { least, .. } => *least = limit as usize,
            Shape::Integer { least, .. } => *least = Some(limit.into()),
            Shape::Object(_)
            | Shape::Map { .. }
            | Shape::Boolean
            | Shape::Amount(_)
            | Shape::Open
            | Shape::Any => {}
        }
        self
    }

    /// At most so many characters, items or keys, or at most this number.
    pub(super) fn most(mut self, limit: u32) -> Self {
        match &mut self.shape {
            Shape::Text { most, .. } | Shape::List { most, .. } | Shape::Map { most, .. } => {
                *most = Some(limit as usize);
            }
            Shape::Integer { most, .. } => *most = Some(limit.into()),
            Shape::Object(_) | Shape::Boolean | Shape::Amount(_) | Shape::Open | Shape::Any => {}
        }
        self
    }

    pub(super) fn like(mut self, wanted: &'static Pattern) -> Self {
        if let Shape::Text { pattern, .. } = &mut self.shape {
            *pattern = Some(wanted);
        }
        self
    }

    /// No two items of the list are the same.
    pub(super) fn set(self) -> Self {
        self.unique(Unique::Item)
    }

    /// No two items of the list have the same value in a field.
    pub(super) fn keyed(self, field: &'static str) -> Self {
        self.unique(Unique::Key(field))
    }

    fn unique(mut self, wanted: Unique) -> Self {
        if let Shape::List { unique, .. } = &mut self.shape {
            *unique = wanted;
        }
        self
    }

    pub(super) fn rule(mut self, message: &'static str, broken: fn(&Node) -> Vec<Place>) -> Self {
        self.rules.push(Rule { message, hint: "", broken });
        self
    }

    /// Says what to do when the last rule is broken.
    pub(super) fn hint(mut self, hint: &'static str) -> Self {
        if let Some(rule) = self.rules.last_mut() {
            rule.hint = hint;
        }
        self
    }

    pub(super) fn rules(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }
}
