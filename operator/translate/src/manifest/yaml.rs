//! YAML text into located trees, one a document; a document that is not YAML is an error with its place.
//!
//! JSON is read as the YAML that it is. Aliases and merge keys are resolved here, within a budget, so that a small text
//! cannot become a large tree.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{Event, Marker, Parser, ScalarStyle, StrInput, Tag};
use serde::de::IgnoredAny;

use super::scalar;
use super::tree::{Content, Entry, Node, Position};

/// Deepest nesting of lists and mappings. Gateway API nests 16 deep.
const MAX_DEPTH: usize = 128;
/// What all aliases of one text may add, in bytes, besides eight times its length.
const ALIAS_BUDGET: usize = 16 << 20;
/// What a node costs besides its text.
const NODE_COST: usize = 64;

/// Why a document cannot be read.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub at: Position,
    pub message: String,
}

/// The documents of a text, in order. After an error the next document is read.
pub(super) fn documents(text: &str) -> impl Iterator<Item = Result<Node, SyntaxError>> {
    json_values(text).into_iter().flat_map(|(before, value)| Documents::new(value, before))
}

/// The values of a text that holds several JSON values without separators, which is no YAML, each with the place that it
/// begins after; any other text whole.
fn json_values(text: &str) -> Vec<(Position, &str)> {
    let whole = vec![(Position::default(), text)];
    if !text.trim_start().starts_with(['{', '[']) {
        return whole;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut ends = vec![0];
    while let Some(value) = values.next() {
        if value.is_err() {
            return whole;
        }
        ends.push(values.byte_offset());
    }
    if ends.len() <= 2 {
        return whole;
    }
    let mut here = Position::default();
    let value = |pair: &[usize]| {
        let (before, value) = (here, &text[pair[0]..pair[1]]);
        here.line += value.matches('\n').count();
        here.column = match value.rsplit_once('\n') {
            Some((_, last)) => last.chars().count(),
            None => here.column + value.chars().count(),
        };
        (before, value)
    };
    ends.windows(2).map(value).collect()
}

struct Documents<'a> {
    parser: Parser<'a, StrInput<'a>>,
    before: Position,
    building: Building,
    ended: bool,
}

impl<'a> Documents<'a> {
    fn new(text: &'a str, before: Position) -> Self {
        let options = granit_parser::options! {
            emit_comments: false,
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
        };
        let parser = Parser::new_from_str_with_options(text, options);
        let budget = ALIAS_BUDGET + 8 * text.len();
        Self { parser, before, building: Building::new(budget), ended: false }
    }

    fn place(&self, marker: &Marker) -> Position {
        let after = if marker.line() == 1 { self.before.column } else { 0 };
        Position { line: marker.line() + self.before.line, column: marker.col() + after + 1 }
    }

    /// What has been built; the next document begins.
    fn take(&mut self) -> Option<Node> {
        let next = Building::new(self.building.budget);
        std::mem::replace(&mut self.building, next).root
    }

    /// Leaves the rest of a document out.
    fn skip(&mut self) {
        self.take();
        self.ended = !self.parser.proceed_next_document().unwrap_or(false);
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<Node, SyntaxError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.parser.next_event() {
                None => self.ended = true,
                Some(Err(error)) => {
                    let at = self.place(error.marker());
                    self.skip();
                    return Some(Err(SyntaxError { at, message: format!("not YAML: {}", error.info()) }));
                }
                Some(Ok((Event::DocumentEnd, _))) => {
                    if let Some(document) = self.take() {
                        return Some(Ok(document));
                    }
                }
                Some(Ok((event, span))) => {
                    let at = self.place(&span.start);
                    if let Err(message) = self.building.take(event, at) {
                        self.skip();
                        return Some(Err(SyntaxError { at, message: message.into() }));
                    }
                }
            }
        }
        None
    }
}

/// A tree that grows by events.
struct Building {
    open: Vec<Open>,
    root: Option<Node>,
    anchors: BTreeMap<usize, Finished>,
    /// What aliases and anchors may still cost.
    budget: usize,
}

/// A list or mapping that has not ended.
struct Open {
    at: Position,
    anchor: usize,
    cost: usize,
    height: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<Key>, merged: Vec<Node> },
}

/// A key whose value is still to come.
enum Key {
    Name(String, Position),
    /// `<<`
    Merge,
}

/// A node that has ended, with what a copy of it costs and how deep it nests.
#[derive(Clone)]
struct Finished {
    node: Node,
    cost: usize,
    height: usize,
}

const MERGE: &str = "<<";
const NO_KEY: &str = "a key must be a word or a string";
const TEMPLATE: &str = "`{{` is not YAML: a template is to be rendered first, as `helm template` does";

impl Building {
    fn new(budget: usize) -> Self {
        Self { open: Vec::new(), root: None, anchors: BTreeMap::new(), budget }
    }

    fn spend(&mut self, cost: usize) -> Result<(), &'static str> {
        self.budget = self.budget.checked_sub(cost).ok_or("anchors and aliases make this text too large")?;
        Ok(())
    }

    fn take(&mut self, event: Event<'_>, at: Position) -> Result<(), &'static str> {
        match event {
            Event::Scalar(text, style, anchor, tag) => self.scalar(text, style, anchor, tag.as_deref(), at),
            Event::SequenceStart(_, anchor, _) => self.open(OpenKind::List(Vec::new()), anchor, at),
            Event::MappingStart(_, anchor, _) => {
                let kind = OpenKind::Map { entries: Vec::new(), key: None, merged: Vec::new() };
                self.open(kind, anchor, at)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(anchor, at),
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        at: Position,
    ) -> Result<(), &'static str> {
        let content = match tag.map(Tag::core_suffix) {
            Some(Some(tag)) => scalar::tagged(tag, &text),
            Some(None) => Content::Text(text.into_owned()),
            None if style == ScalarStyle::Plain => {
                if text == MERGE && anchor == 0 && self.expects_key() {
                    return self.key(Key::Merge, MERGE.len());
                }
                scalar::plain(&text)
            }
            None => Content::Text(text.into_owned()),
        };
        let cost = NODE_COST + if let Content::Text(text) = &content { text.len() } else { 0 };
        self.finished(Finished { node: Node::new(at, content), cost, height: 0 }, anchor)
    }

    fn alias(&mut self, anchor: usize, at: Position) -> Result<(), &'static str> {
        let unfinished = "an alias cannot be inside its own anchor";
        let &Finished { cost, height, .. } = self.anchors.get(&anchor).ok_or(unfinished)?;
        if self.open.len() + height > MAX_DEPTH {
            return Err("aliases nest too deep");
        }
        self.spend(cost)?;
        let mut copy = self.anchors.get(&anchor).ok_or(unfinished)?.clone();
        if self.expects_key() {
            copy.node.at = at;
        }
        self.finished(copy, 0)
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { kind: OpenKind::Map { key: None, .. }, .. }))
    }

    fn open(&mut self, kind: OpenKind, anchor: usize, at: Position) -> Result<(), &'static str> {
        if self.expects_key() {
            let beside = |it: &Open| (it.at.line, it.at.column + 1) == (at.line, at.column);
            let is_template = matches!(kind, OpenKind::Map { .. }) && self.open.last().is_some_and(beside);
            return Err(if is_template { TEMPLATE } else { NO_KEY });
        }
        if self.open.len() >= MAX_DEPTH {
            return Err("lists and mappings nest too deep");
        }
        self.open.push(Open { at, anchor, cost: NODE_COST, height: 0, kind });
        Ok(())
    }

    fn close(&mut self) -> Result<(), &'static str> {
        let Open { at, anchor, cost, height, kind } =
            self.open.pop().expect("the parser closes what it opened");
        let content = match kind {
            OpenKind::List(items) => Content::List(items),
            OpenKind::Map { mut entries, merged, .. } => {
                if !merged.is_empty() {
                    merge(&mut entries, merged)?;
                }
                Content::Map(entries)
            }
        };
        self.finished(Finished { node: Node::new(at, content), cost, height: height + 1 }, anchor)
    }

    /// Puts a node into what is open.
    fn finished(&mut self, mut it: Finished, anchor: usize) -> Result<(), &'static str> {
        if anchor != 0 {
            self.spend(it.cost)?;
            self.anchors.insert(anchor, it.clone());
        }
        if self.expects_key() {
            let name = match it.node.content {
                Content::Text(text) => text,
                Content::Bool(it) => it.to_string(),
                Content::Number(it) => it.to_string(),
                Content::Null | Content::List(_) | Content::Map(_) | Content::Bad(_) => return Err(NO_KEY),
            };
            let length = name.len();
            return self.key(Key::Name(name, it.node.at), length);
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(it.node);
            return Ok(());
        };
        open.cost += it.cost;
        open.height = open.height.max(it.height);
        match &mut open.kind {
            OpenKind::List(items) => items.push(it.node),
            OpenKind::Map { entries, key, merged } => match key.take().expect("a value follows a key") {
                Key::Merge => merged.push(it.node),
                Key::Name(key, key_at) => {
                    if matches!(it.node.content, Content::List(_) | Content::Map(_)) {
                        it.node.at = key_at;
                    }
                    entries.push(Entry { key, key_at, value: it.node });
                }
            },
        }
        Ok(())
    }

    fn key(&mut self, it: Key, length: usize) -> Result<(), &'static str> {
        if let Some(Open { cost, kind: OpenKind::Map { key, .. }, .. }) = self.open.last_mut() {
            *cost += length;
            *key = Some(it);
        }
        Ok(())
    }
}

/// Adds what merge keys bring: what is there already counts.
fn merge(entries: &mut Vec<Entry>, sources: Vec<Node>) -> Result<(), &'static str> {
    let mut known: BTreeSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    let maps = sources.into_iter().flat_map(|source| match source.content {
        Content::List(sources) => sources,
        _ => vec![source],
    });
    for map in maps {
        let Content::Map(more) = map.content else {
            return Err("the value of the merge key `<<` must be a mapping or a list of mappings");
        };
        entries.extend(more.into_iter().filter(|entry| known.insert(entry.key.clone())));
    }
    Ok(())
}
