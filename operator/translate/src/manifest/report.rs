//! What loading tells the user: errors, ignored kinds and duplicates, each with its place.

use std::fmt;

use postern_config::ObjectKey;

/// A place in a text.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Origin {
    /// The name of the text.
    pub source: String,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.line)
    }
}

/// Something wrong in a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ManifestError {
    /// The name of the text.
    pub source: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// Kind, namespace and name, as far as they are known: `HTTPRoute shop/app`. Absent where the text is not YAML.
    pub object: Option<String>,
    /// The field: `spec.rules[0].filters[1].urlRewrite`. Empty where the whole object or text is meant.
    pub path: String,
    /// What is wrong, in upstream's words where upstream has a rule.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.source, self.line)?;
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Something wrong with one field of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FieldError {
    /// The field: `spec.rules[0].filters[1].urlRewrite`. Empty where the whole object is meant.
    pub path: String,
    /// What is wrong, in upstream's words where upstream has a rule.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// A kind that is not read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ignored {
    /// As in `apiVersion:`
    pub api_version: String,
    /// As in `kind:`
    pub kind: String,
    /// How many objects of it there are.
    pub count: usize,
    /// Where the first one stands.
    pub first: Origin,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api_version, kind, count, first } = self;
        write!(f, "{kind} ({api_version}) is not read: {count} ignored, first at {first}")
    }
}

/// An object that came twice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Duplicate {
    /// As in `kind:`
    pub kind: &'static str,
    /// Its name.
    pub key: ObjectKey,
    /// The one that counts: the later one.
    pub kept: Origin,
    /// The one that does not count.
    pub replaced: Origin,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, key, kept, replaced } = self;
        write!(f, "{kept}: {kind} {} replaces the one at {replaced}", object_name(key))
    }
}

/// `namespace/name`, or `name` for cluster-scoped objects.
pub(super) fn object_name(key: &ObjectKey) -> String {
    match key.namespace.as_str() {
        "" => key.name.clone(),
        namespace => format!("{namespace}/{}", key.name),
    }
}
