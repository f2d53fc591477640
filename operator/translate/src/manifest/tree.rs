//! A document as a tree whose nodes know where they stand.

use std::collections::BTreeSet;

use serde_json::{Number, Value};

use super::scalar;

/// A place in a text; both count from 1. 0 is "not from a text".
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// A value and where it stands: scalars where they begin, lists and mappings at the key that holds them.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub at: Position,
    pub content: Content,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// A scalar that JSON cannot hold, with the reason.
    Bad(&'static str),
}

/// A key of a mapping and its value. A key may come twice, until [`Node::flaws`] has been asked.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: String,
    pub key_at: Position,
    pub value: Node,
}

/// Something wrong in a tree whatever its kind.
pub(super) struct Flaw {
    pub at: Position,
    pub path: String,
    pub message: String,
}

impl Node {
    pub(super) fn new(at: Position, content: Content) -> Self {
        Self { at, content }
    }

    /// The same tree for a value that has no text.
    pub(super) fn from_value(value: Value, at: Position) -> Self {
        let content = match value {
            Value::Null => Content::Null,
            Value::Bool(it) => Content::Bool(it),
            Value::Number(it) => {
                let whole = it.as_f64().filter(|_| it.is_f64()).and_then(scalar::from_float);
                Content::Number(whole.unwrap_or(it))
            }
            Value::String(it) => Content::Text(it),
            Value::Array(items) => {
                Content::List(items.into_iter().map(|item| Self::from_value(item, at)).collect())
            }
            Value::Object(fields) => Content::Map(
                fields
                    .into_iter()
                    .map(|(key, value)| Entry { key, key_at: at, value: Self::from_value(value, at) })
                    .collect(),
            ),
        };
        Self { at, content }
    }

    /// The value; of a key that is there twice the last one.
    pub(super) fn to_value(&self) -> Value {
        match &self.content {
            Content::Null | Content::Bad(_) => Value::Null,
            Content::Bool(it) => Value::Bool(*it),
            Content::Number(it) => Value::Number(it.clone()),
            Content::Text(it) => Value::String(it.clone()),
            Content::List(items) => items.iter().map(Self::to_value).collect(),
            Content::Map(entries) => {
                let fields = entries.iter().map(|entry| (entry.key.clone(), entry.value.to_value()));
                Value::Object(fields.collect())
            }
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.content, Content::Null)
    }

    /// The field of a mapping; a field that is null is absent, as it is for the API server.
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        let Content::Map(entries) = &self.content else { return None };
        entries
            .iter()
            .find(|entry| entry.key == name)
            .map(|entry| &entry.value)
            .filter(|value| !value.is_null())
    }

    pub(super) fn field_mut(&mut self, name: &str) -> Option<&mut Node> {
        let Content::Map(entries) = &mut self.content else { return None };
        let found = entries.iter_mut().find(|entry| entry.key == name)?;
        (!found.value.is_null()).then_some(&mut found.value)
    }

    /// Sets a field of a mapping; it stands where the mapping does, unless there was one.
    pub(super) fn set(&mut self, name: &str, content: Content) {
        let at = self.at;
        let Content::Map(entries) = &mut self.content else { return };
        match entries.iter_mut().find(|entry| entry.key == name) {
            Some(entry) => entry.value.content = content,
            None => entries.push(Entry { key: name.into(), key_at: at, value: Node::new(at, content) }),
        }
    }

    /// Removes a field of a mapping.
    pub(super) fn remove(&mut self, name: &str) {
        if let Content::Map(entries) = &mut self.content {
            entries.retain(|entry| entry.key != name);
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text of a field.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.field(name)?.as_text()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.field(name).is_some()
    }

    /// The whole number of a field.
    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        match &self.field(name)?.content {
            Content::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    pub(super) fn as_items(&self) -> &[Node] {
        match &self.content {
            Content::List(items) => items,
            _ => &[],
        }
    }

    /// The items of a field; none where there is no such list.
    pub(super) fn items(&self, name: &str) -> &[Node] {
        self.field(name).map_or(&[], Node::as_items)
    }

    /// The entries of a mapping; none where it is none.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The node at a path such as `spec.rules[0].name` or `data.tls.crt`, or the last one on the way to it.
    pub(super) fn nearest(&self, path: &str) -> &Node {
        let path = path.strip_prefix('.').unwrap_or(path);
        let next = match &self.content {
            // Keys may have dots: the longest that the path begins with is meant.
            Content::Map(entries) => entries
                .iter()
                .filter_map(|entry| Some((entry, path.strip_prefix(entry.key.as_str())?)))
                .filter(|(entry, rest)| {
                    !entry.key.is_empty() && (rest.is_empty() || rest.starts_with(['.', '[']))
                })
                .max_by_key(|(entry, _)| entry.key.len())
                .map(|(entry, rest)| (&entry.value, rest)),
            Content::List(items) => path
                .strip_prefix('[')
                .and_then(|path| path.split_once(']'))
                .and_then(|(index, rest)| Some((items.get(index.parse::<usize>().ok()?)?, rest))),
            _ => None,
        };
        next.map_or(self, |(next, rest)| next.nearest(rest))
    }

    /// Keys that come twice and scalars that JSON cannot hold, in all of the tree.
    pub(super) fn flaws(&self) -> Vec<Flaw> {
        let mut found = Vec::new();
        self.collect_flaws(&mut String::new(), &mut found);
        found
    }

    fn collect_flaws(&self, path: &mut String, found: &mut Vec<Flaw>) {
        let length = path.len();
        match &self.content {
            Content::Bad(message) => {
                found.push(Flaw { at: self.at, path: path.clone(), message: (*message).into() });
            }
            Content::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    push_index(path, index);
                    item.collect_flaws(path, found);
                    path.truncate(length);
                }
            }
            Content::Map(entries) => {
                for (entry, twice) in entries.iter().zip(repeated(entries)) {
                    push_key(path, &entry.key);
                    if twice {
                        let message = format!("the key `{}` is here twice", entry.key);
                        found.push(Flaw { at: entry.key_at, path: path.clone(), message });
                    }
                    entry.value.collect_flaws(path, found);
                    path.truncate(length);
                }
            }
            Content::Null | Content::Bool(_) | Content::Number(_) | Content::Text(_) => {}
        }
    }
}

/// For each entry whether its key was there before.
fn repeated(entries: &[Entry]) -> Vec<bool> {
    if entries.len() <= 8 {
        let twice =
            |(index, entry): (usize, &Entry)| entries[..index].iter().any(|other| other.key == entry.key);
        return entries.iter().enumerate().map(twice).collect();
    }
    let mut seen = BTreeSet::new();
    entries.iter().map(|entry| !seen.insert(entry.key.as_str())).collect()
}

/// Adds `[0]`.
pub(super) fn push_index(path: &mut String, index: usize) {
    path.push('[');
    path.push_str(&index.to_string());
    path.push(']');
}

/// Adds `.name`, or `["name"]` where the name is not that of a field.
pub(super) fn push_key(path: &mut String, key: &str) {
    if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
    } else {
        path.push_str(&format!("[{key:?}]"));
    }
}
