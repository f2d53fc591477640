//! Which of many regular expressions match a text, in one pass over it.

use std::collections::HashMap;
use std::panic::{RefUnwindSafe, UnwindSafe};

use regex_automata::util::pool::Pool;
use regex_automata::{Anchored, Input, MatchKind, PatternID, PatternSet, meta};

use super::regex::{EXPRESSION_LIMIT, Pattern, parse};

/// Bytes of all expressions together; beyond it they are matched one after another.
const TOGETHER_LIMIT: usize = 16 << 20;

/// Bytes for the states that one thread has met; when they are used up, it starts anew.
const STATES_LIMIT: usize = 2 << 20;

/// Regular expressions, each for the whole text.
pub(super) struct Expressions {
    all: meta::Regex,
    /// What stands for each given expression in `all`; `None` for one that cannot be served.
    patterns: Box<[Option<PatternID>]>,
    /// Memory for answers, so that asking allocates nothing once a thread has asked.
    answers: Pool<PatternSet, NewAnswer>,
}

type NewAnswer = Box<dyn Fn() -> PatternSet + Send + Sync + UnwindSafe + RefUnwindSafe>;

impl Expressions {
    /// The expressions in one; `None` if that gets too big.
    pub(super) fn new<'a>(given: impl Iterator<Item = &'a Pattern>) -> Option<Self> {
        let mut distinct = HashMap::new();
        let mut parsed = Vec::new();
        let mut patterns = Vec::new();
        for pattern in given {
            let Some(text) = pattern.text() else {
                patterns.push(None);
                continue;
            };
            let id = *distinct.entry(text).or_insert(parsed.len());
            if id == parsed.len() {
                parsed.push(parse(text).ok()?);
            }
            patterns.push(Some(PatternID::new(id).ok()?));
        }
        let config = meta::Config::new()
            .match_kind(MatchKind::All)
            .utf8_empty(false)
            .nfa_size_limit(Some(TOGETHER_LIMIT))
            .hybrid_cache_capacity(STATES_LIMIT)
            .onepass(false)
            .dfa_size_limit(Some(EXPRESSION_LIMIT));
        let all = meta::Builder::new().configure(config).build_many_from_hir(&parsed).ok()?;
        let size = all.pattern_len();
        let answers = Pool::new(Box::new(move || PatternSet::new(size)) as NewAnswer);
        Some(Self { all, patterns: patterns.into(), answers })
    }

    /// Asks `f` about the positions of the expressions that match, in ascending order, until it has an answer.
    pub(super) fn find_map<R>(&self, text: &[u8], mut f: impl FnMut(usize) -> Option<R>) -> Option<R> {
        let mut answer = self.answers.get();
        answer.clear();
        self.all.which_overlapping_matches(&Input::new(text).anchored(Anchored::Yes), &mut answer);
        if answer.is_empty() {
            return None;
        }
        let matches = |pattern: &Option<PatternID>| pattern.is_some_and(|id| answer.contains(id));
        let mut positions = self.patterns.iter().enumerate().filter(|(_, pattern)| matches(pattern));
        positions.find_map(|(position, _)| f(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_matching_expressions_are_found_in_the_given_order() {
        let given =
            ["/b.*", "/a", "(", "/a|/ab", "/a", "/a.*", "((a{1,1000}){1,1000}){1,1000}"].map(Pattern::new);
        let expressions = Expressions::new(given.iter()).expect("they are small");
        let matching = |text: &str| {
            let mut positions = Vec::new();
            expressions.find_map(text.as_bytes(), |position| {
                positions.push(position);
                None::<()>
            });
            positions
        };
        assert_eq!(matching("/a"), [1, 3, 4, 5]);
        assert_eq!(matching("/ab"), [3, 5]);
        assert_eq!(matching("/b/a"), [0]);
        assert!(matching("x/a").is_empty());
        assert!(matching("").is_empty());
    }
}
