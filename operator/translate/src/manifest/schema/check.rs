//! Walks a value along its schema: puts defaults in, and says what is wrong where.

use std::collections::BTreeMap;

use super::super::tree::{Content, Entry, Node, Position, push_index, push_key};
use super::{Field, Pattern, Rule, Schema, Shape, Step, Unique};

/// Something wrong with a value.
#[derive(Debug)]
pub(crate) struct Finding {
    pub at: Position,
    pub path: String,
    pub message: String,
    pub hint: Option<String>,
}

/// Checks `node`, which is at `path`, and puts the defaults of its schema in.
///
/// Like the API server: defaults come first, a null is absent, and rules are asked only where the shape is right.
pub(crate) fn check(schema: &Schema, node: &mut Node, path: &str) -> Vec<Finding> {
    let mut walk = Walk { path: path.to_owned(), found: Vec::new() };
    walk.value(schema, node);
    walk.found
}

struct Walk {
    path: String,
    found: Vec<Finding>,
}

impl Walk {
    fn value(&mut self, schema: &Schema, node: &mut Node) {
        let before = self.found.len();
        self.shape(&schema.shape, node);
        if self.found.len() == before {
            schema.rules.iter().for_each(|rule| self.rule(rule, node));
        }
    }

    fn shape(&mut self, shape: &Shape, node: &mut Node) {
        let at = node.at;
        match (shape, &mut node.content) {
            (Shape::Any, _) | (Shape::Boolean, Content::Bool(_)) | (Shape::Open, Content::Map(_)) => {}
            (Shape::Amount(pattern), Content::Text(text)) => self.text(text, Some(pattern), &[], at),
            (Shape::Amount(_), Content::Number(number)) if number.as_u64().is_some() => {}
            (Shape::Object(fields), Content::Map(entries)) => self.object(fields, entries, at),
            (Shape::Map { values, most }, Content::Map(entries)) => {
                entries.retain(|entry| !entry.value.is_null());
                self.at_most(*most, entries.len(), "key", at);
                for entry in entries {
                    self.below(
                        |path| push_key(path, &entry.key),
                        |walk| walk.value(values, &mut entry.value),
                    );
                }
            }
            (Shape::List { items: schema, least, most, unique }, Content::List(items)) => {
                self.at_least(*least, items.len(), "item", at);
                self.at_most(*most, items.len(), "item", at);
                for (index, item) in items.iter_mut().enumerate() {
                    self.below(|path| push_index(path, index), |walk| walk.value(schema, item));
                }
                self.unique(*unique, items);
            }
            (Shape::Text { least, most, pattern, one_of }, Content::Text(text)) => {
                self.text(text, *pattern, one_of, at);
                if *least > 0 || most.is_some() {
                    let length = text.chars().count();
                    self.at_least(*least, length, "character", at);
                    self.at_most(*most, length, "character", at);
                }
            }
            (Shape::Integer { least, most, int32, one_of }, Content::Number(number)) => {
                let Some(number) = number.as_i64() else {
                    return self.find(at, format!("must be a whole number, and is {number}"), None);
                };
                let (bottom, top) =
                    if *int32 { (i32::MIN.into(), i32::MAX.into()) } else { (i64::MIN, i64::MAX) };
                self.integer(number, least.unwrap_or(bottom), most.unwrap_or(top), one_of, at);
            }
            (wanted, content) => self.wrong_type(wanted, content, at),
        }
    }

    fn object(&mut self, fields: &[Field], entries: &mut Vec<Entry>, at: Position) {
        for field in fields {
            let Some(default) = &field.default else { continue };
            match entries.iter_mut().find(|entry| entry.key == field.name) {
                Some(entry) if entry.value.is_null() => {
                    entry.value = Node::from_value(default.clone(), entry.key_at)
                }
                Some(_) => {}
                None => entries.push(Entry {
                    key: field.name.into(),
                    key_at: at,
                    value: Node::from_value(default.clone(), at),
                }),
            }
        }
        let known = |entry: &Entry| fields.iter().any(|field| field.name == entry.key);
        entries.retain(|entry| !entry.value.is_null() || !known(entry));
        for field in fields.iter().filter(|field| field.required) {
            if !entries.iter().any(|entry| entry.key == field.name) {
                self.below(|path| push_key(path, field.name), |walk| walk.find(at, "is required", None));
            }
        }
        for entry in entries {
            match fields.iter().find(|field| field.name == entry.key) {
                Some(field) => {
                    self.below(
                        |path| push_key(path, field.name),
                        |walk| walk.value(&field.schema, &mut entry.value),
                    );
                }
                None => self.unknown_field(fields, entry),
            }
        }
    }

    fn unknown_field(&mut self, fields: &[Field], entry: &Entry) {
        let names = fields.iter().map(|field| field.name);
        let hint = match nearest(&entry.key, names.clone()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("known here: {}", names.collect::<Vec<_>>().join(", ")),
        };
        let message = format!("unknown field `{}`", entry.key);
        self.below(|path| push_key(path, &entry.key), |walk| walk.find(entry.key_at, message, Some(hint)));
    }

    fn text(&mut self, text: &str, pattern: Option<&Pattern>, one_of: &[&str], at: Position) {
        if !one_of.is_empty() && !one_of.contains(&text) {
            let known = one_of.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ");
            let hint = nearest(text, one_of.iter().copied()).map(|value| format!("did you mean {value:?}?"));
            self.find(at, format!("unsupported value {}: supported are {known}", quoted(text)), hint);
        }
        if let Some(pattern) = pattern.filter(|pattern| !pattern.is_match(text)) {
            let hint = format!("must be {}", pattern.words);
            self.find(at, format!("{} does not match {}", quoted(text), pattern.text), Some(hint));
        }
    }

    fn integer(&mut self, number: i64, least: i64, most: i64, one_of: &[i64], at: Position) {
        if number < least {
            self.find(at, format!("must be at least {least}, and is {number}"), None);
        }
        if number > most {
            self.find(at, format!("must be at most {most}, and is {number}"), None);
        }
        if !one_of.is_empty() && !one_of.contains(&number) {
            let known = one_of.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
            self.find(at, format!("unsupported value {number}: supported are {known}"), None);
        }
    }

    fn unique(&mut self, unique: Unique, items: &[Node]) {
        let key = |item: &Node| match unique {
            Unique::No => None,
            Unique::Item => Some(shown(item)),
            Unique::Key(field) => item.field(field).map(shown),
        };
        if matches!(unique, Unique::No) || items.len() < 2 {
            return;
        }
        let mut seen = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            let Some(key) = key(item) else { continue };
            let Some(first) = seen.insert(key.clone(), index) else { continue };
            let what = if let Unique::Key(field) = unique { format!("{field} {key}") } else { key };
            self.below(
                |path| push_index(path, index),
                |walk| walk.find(item.at, format!("duplicate value: {what} is at [{first}] already"), None),
            );
        }
    }

    fn at_least(&mut self, least: usize, there: usize, what: &str, at: Position) {
        if there < least {
            let hint = (there == 0).then(|| "leave the field out, or fill it".to_owned());
            self.find(at, format!("must have at least {}, and has {there}", counted(least, what)), hint);
        }
    }

    fn at_most(&mut self, most: Option<usize>, there: usize, what: &str, at: Position) {
        if let Some(most) = most.filter(|most| there > *most) {
            self.find(at, format!("must have at most {}, and has {there}", counted(most, what)), None);
        }
    }

    fn wrong_type(&mut self, wanted: &Shape, content: &Content, at: Position) {
        let wanted_name = match wanted {
            Shape::Object(_) | Shape::Map { .. } | Shape::Open => "a mapping",
            Shape::List { .. } => "a list",
            Shape::Text { .. } => "a string",
            Shape::Integer { .. } => "a whole number",
            Shape::Amount(_) => "a whole number or a string",
            Shape::Boolean => "true or false",
            Shape::Any => "anything",
        };
        let (is, value) = match content {
            Content::Null => ("null", None),
            Content::Bool(it) => ("a boolean", Some(it.to_string())),
            Content::Number(it) => ("a number", Some(it.to_string())),
            Content::Text(_) => ("a string", None),
            Content::List(_) => ("a list", None),
            Content::Map(_) => ("a mapping", None),
            Content::Bad(_) => ("no value", None),
        };
        let hint = match (wanted, value, content) {
            (Shape::Text { .. } | Shape::Amount(_), Some(value), _) => {
                Some(format!("write it in quotes: \"{value}\""))
            }
            (Shape::Integer { .. }, _, Content::Text(text)) if text.parse::<i64>().is_ok() => {
                Some(format!("write it without quotes: {text}"))
            }
            (Shape::List { .. }, _, Content::Map(_)) => Some("put '- ' in front of its first line".into()),
            _ => None,
        };
        self.find(at, format!("must be {wanted_name}, and is {is}"), hint);
    }

    fn rule(&mut self, rule: &Rule, node: &Node) {
        for place in (rule.broken)(node) {
            let length = self.path.len();
            let mut here = node;
            for step in place {
                let next = match step {
                    Step::Field(name) => {
                        push_key(&mut self.path, name);
                        here.field(name)
                    }
                    Step::Key(name) => {
                        push_key(&mut self.path, &name);
                        here.field(&name)
                    }
                    Step::Index(index) => {
                        push_index(&mut self.path, index);
                        here.as_items().get(index)
                    }
                };
                here = next.unwrap_or(here);
            }
            let hint = (!rule.hint.is_empty()).then(|| rule.hint.to_owned());
            self.find(here.at, rule.message, hint);
            self.path.truncate(length);
        }
    }

    fn below(&mut self, push: impl FnOnce(&mut String), then: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        push(&mut self.path);
        then(self);
        self.path.truncate(length);
    }

    fn find(&mut self, at: Position, message: impl Into<String>, hint: Option<String>) {
        self.found.push(Finding { at, path: self.path.clone(), message: message.into(), hint });
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn shown(node: &Node) -> String {
    match &node.content {
        Content::Text(text) => format!("{text:?}"),
        _ => node.to_value().to_string(),
    }
}

/// A text as it is shown, shortened.
fn quoted(text: &str) -> String {
    const MOST: usize = 120;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// The known name that a wrong one was probably meant to be.
fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let close = |name: &'a str| {
        let most = 1 + name.len() / 4;
        if wrong.len().abs_diff(name.len()) > most {
            return None;
        }
        let distance = strsim::osa_distance(&wrong.to_lowercase(), &name.to_lowercase());
        (distance <= most).then_some((distance, name))
    };
    known.filter_map(close).min().map(|(_, name)| name)
}
