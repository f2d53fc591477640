//! Regular expressions: anchored at both ends, linear in time, bounded in size.

use std::collections::HashMap;
use std::sync::Arc;

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, NFA};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind, meta};
use regex_syntax::hir::{Hir, Look};

use super::expressions::Expressions;
use crate::{PathMatch, Route, ValueMatch};

/// Bytes of a compiled expression. `[a-z0-9-]{1,63}` takes some thousands; what takes more than this is nested
/// repetition.
const EXPRESSION_LIMIT: usize = 256 << 10;

/// Bytes up to which an expression becomes a table with one step a byte and no memory of its own per search.
const TABLE_LIMIT: usize = 32 << 10;

/// Whether an expression can be served; if not, the reason for the person who wrote it.
///
/// The syntax is that of Rust's `regex`, close to RE2: no look-around and no back-references, so that matching is linear
/// in time. `\d`, `\s`, `\w` and `\b` mean ASCII, unless the expression says `(?u)`. An expression is for the whole text.
pub fn check_regex(pattern: &str) -> Result<(), String> {
    Engine::new(pattern).map(drop)
}

/// An expression to match whole texts with. One that cannot be served matches nothing.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    text: Arc<str>,
    engine: Option<Arc<Engine>>,
}

#[derive(Debug)]
enum Engine {
    /// Most expressions: small, and needs no scratch memory.
    Table(Box<dense::DFA<Vec<u32>>>),
    /// Those whose table would be big: states are made as they are met, in memory that is pooled per thread.
    Lazy(Box<meta::Regex>),
}

/// What a table has compiled: expressions by their text, and many in one by the texts of all.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    patterns: HashMap<Arc<str>, Pattern>,
    together: HashMap<Box<[Arc<str>]>, Option<Arc<Expressions>>>,
}

/// Compiles the expressions of a table. One costs as much as hundreds of other conditions, so each is compiled once, and
/// again for a later table only if it is new there.
#[derive(Debug, Default)]
pub(super) struct Compiler<'a> {
    previous: Option<&'a Compiled>,
    compiled: Compiled,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(previous: Option<&'a Compiled>) -> Self {
        Self { previous, compiled: Compiled::default() }
    }

    pub(super) fn pattern(&mut self, text: &str) -> Pattern {
        if let Some(pattern) = self.compiled.patterns.get(text) {
            return pattern.clone();
        }
        let known = self.previous.and_then(|previous| previous.patterns.get(text)).cloned();
        let pattern = known.unwrap_or_else(|| Pattern::new(text));
        self.compiled.patterns.insert(Arc::clone(&pattern.text), pattern.clone());
        pattern
    }

    /// Many in one. Listeners with the same routes share it.
    pub(super) fn together(&mut self, given: &[&Pattern]) -> Option<Arc<Expressions>> {
        let texts: Box<[Arc<str>]> = given.iter().map(|pattern| Arc::clone(&pattern.text)).collect();
        if let Some(expressions) = self.compiled.together.get(&texts) {
            return expressions.clone();
        }
        let known = self.previous.and_then(|previous| previous.together.get(&texts)).cloned();
        let expressions = known.unwrap_or_else(|| Expressions::new(given.iter().copied()).map(Arc::new));
        self.compiled.together.insert(texts, expressions.clone());
        expressions
    }

    /// Has the expressions of a route at hand, whether or not anything of it is compiled.
    pub(super) fn keep(&mut self, route: &Route) {
        for wanted in route.rules.iter().flat_map(|rule| &rule.matches) {
            if let PathMatch::RegularExpression(text) = &wanted.path {
                self.pattern(text);
            }
            for condition in wanted.headers.iter().chain(&wanted.query) {
                if let ValueMatch::RegularExpression(text) = &condition.value {
                    self.pattern(text);
                }
            }
        }
    }

    pub(super) fn finish(self) -> Compiled {
        self.compiled
    }
}

impl Pattern {
    pub(super) fn new(pattern: &str) -> Self {
        Self { text: pattern.into(), engine: Engine::new(pattern).ok().map(Arc::new) }
    }

    /// The expression as it was written, if it can be served.
    pub(super) fn text(&self) -> Option<&str> {
        self.engine.is_some().then_some(&*self.text)
    }

    #[inline]
    pub(super) fn is_match(&self, text: &[u8]) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.is_match(text))
    }
}

impl Engine {
    fn new(pattern: &str) -> Result<Self, String> {
        let hir = parse(pattern)?;
        let limits = thompson::Config::new().utf8(false).nfa_size_limit(Some(EXPRESSION_LIMIT));
        let nfa = thompson::Compiler::new().configure(limits.shrink(false)).build_from_hir(&hir);
        let nfa = nfa.map_err(|error| refused(&error))?;
        if let Some(table) = table(&nfa) {
            return Ok(Self::Table(Box::new(table)));
        }
        let limits = meta::Config::new()
            .utf8_empty(false)
            .nfa_size_limit(Some(EXPRESSION_LIMIT))
            .hybrid_cache_capacity(EXPRESSION_LIMIT)
            .onepass_size_limit(Some(TABLE_LIMIT));
        let lazy = meta::Builder::new().configure(limits).build_from_hir(&hir);
        lazy.map(|lazy| Self::Lazy(Box::new(lazy))).map_err(|error| refused(&error))
    }

    fn is_match(&self, text: &[u8]) -> bool {
        let input = Input::new(text).anchored(Anchored::Yes).earliest(true);
        match self {
            // The only errors are of expressions that a table is not made from.
            Self::Table(table) => matches!(table.try_search_fwd(&input), Ok(Some(_))),
            Self::Lazy(lazy) => lazy.is_match(input),
        }
    }
}

/// The expression between anchors. They are added to the parsed expression, not to its text, so that nothing written in
/// it (`a|b`, `(?x) #`) can get around them.
pub(super) fn parse(pattern: &str) -> Result<Hir, String> {
    let config = syntax::Config::new().unicode(false).utf8(false).nest_limit(64);
    let hir = syntax::parse_with(pattern, &config).map_err(|error| last_line(&error.to_string()))?;
    Ok(Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]))
}

fn table(nfa: &NFA) -> Option<dense::DFA<Vec<u32>>> {
    let config = dense::Config::new()
        .start_kind(StartKind::Anchored)
        .match_kind(MatchKind::LeftmostFirst)
        .accelerate(false)
        .dfa_size_limit(Some(TABLE_LIMIT))
        .determinize_size_limit(Some(4 * TABLE_LIMIT));
    dense::Builder::new().configure(config).build_from_nfa(nfa).ok()
}

fn refused(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// The parser draws the expression with a marker under the place; a status message has one line.
fn last_line(message: &str) -> String {
    let line = message.lines().last().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).is_match(text.as_bytes())
    }

    #[test]
    fn an_expression_is_for_the_whole_text() {
        assert!(matches("/v[12]", "/v1"));
        assert!(!matches("/v[12]", "/v12"));
        assert!(!matches("/v[12]", "x/v1"));
        assert!(matches("^/v1$", "/v1"));
        assert!(matches("a|ab", "ab"));
        assert!(!matches("a|b", "ax"));
        assert!(!matches("a|b", "xb"));
        assert!(!matches("a)|(?:b", "ax"), "unbalanced parentheses are no expression");
        assert!(!matches("(?x) a # comment", "ab"));
        assert!(matches("(?x) a # comment", "a"));
        assert!(!matches("(?m)^a$", "a\nb"));
        assert!(matches("", ""));
    }

    #[test]
    fn classes_are_ascii_unless_told() {
        assert!(matches(r"\d+", "42"));
        assert!(!matches(r"\d+", "٤"));
        assert!(matches(r"(?u)\d+", "٤"));
        assert!(matches(".*", "é"));
        assert!(Pattern::new(".*").is_match(&[0xff]));
    }

    #[test]
    fn what_cannot_be_linear_or_small_is_refused_with_a_reason() {
        for (pattern, reason) in [
            ("(", "unclosed group"),
            (r"(a)\1", "backreferences are not supported"),
            ("(?=a)", "look-around"),
            ("((a{1,1000}){1,1000}){1,1000}", "exceeded limit"),
        ] {
            let error = check_regex(pattern).expect_err(pattern);
            assert!(error.contains(reason) && !error.contains('\n'), "{pattern}: {error}");
            assert!(!matches(pattern, "a"), "{pattern}");
        }
        assert_eq!(check_regex("/api/.*"), Ok(()));
    }

    #[test]
    fn what_was_compiled_once_is_not_compiled_again() {
        let same = |a: &Option<Arc<Expressions>>, b: &Option<Arc<Expressions>>| {
            a.as_ref().zip(b.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
        };
        let mut compiler = Compiler::new(None);
        let given = ["/a.*", "/b.*"].map(|text| compiler.pattern(text));
        let given = [&given[0], &given[1]];
        let first = compiler.together(&given);
        assert!(same(&first, &compiler.together(&given)));
        assert!(!same(&first, &compiler.together(&given[..1])));
        let before = compiler.finish();
        let mut compiler = Compiler::new(Some(&before));
        assert!(same(&first, &compiler.together(&given)));
        assert!(Arc::ptr_eq(&compiler.pattern("/a.*").text, &given[0].text));
    }

    #[test]
    fn a_big_table_is_made_as_needed() {
        let pattern = "(?:.*[ab].{12})|[a-z0-9-]{1,63}";
        assert!(matches!(*Pattern::new(pattern).engine.expect("it compiles"), Engine::Lazy(_)));
        assert!(matches(pattern, "xxb012345678901"));
        assert!(matches(pattern, "my-service-1"));
        assert!(!matches(pattern, "MY"));
    }
}
