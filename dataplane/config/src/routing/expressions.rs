//! Which of many regular expressions match a text, in one pass over it.

use std::collections::HashMap;
use std::panic::{RefUnwindSafe, UnwindSafe};

use regex_automata::hybrid::dfa;
use regex_automata::nfa::thompson;
use regex_automata::util::pool::Pool;
use regex_automata::{Anchored, Input, MatchKind, PatternID, PatternSet};

use super::regex::{Pattern, parse};

/// Bytes of all expressions together; beyond it they are matched one after another.
const TOGETHER_LIMIT: usize = 16 << 20;

/// Bytes for the states that one thread has met; when they are used up, it starts anew.
const STATES_LIMIT: usize = 2 << 20;

/// Regular expressions, each for the whole text, as one automaton whose states are made as they are met.
pub(super) struct Expressions {
    all: dfa::DFA,
    /// What stands for each given expression in `all`; `None` for one that cannot be served.
    patterns: Box<[Option<PatternID>]>,
    /// One for each thread that asks at the same time, so that asking allocates nothing but new states.
    scratch: Pool<Scratch, NewScratch>,
}

struct Scratch {
    states: dfa::Cache,
    matching: PatternSet,
}

type NewScratch = Box<dyn Fn() -> Scratch + Send + Sync + UnwindSafe + RefUnwindSafe>;

impl std::fmt::Debug for Expressions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} expressions in one", self.patterns.len())
    }
}

impl Expressions {
    /// The expressions in one; `None` if that is too big, or if one of them asks for Unicode word boundaries, which no
    /// such automaton has.
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
        let limits = thompson::Config::new().utf8(false).shrink(false).nfa_size_limit(Some(TOGETHER_LIMIT));
        let nfa = thompson::Compiler::new().configure(limits).build_many_from_hir(&parsed).ok()?;
        let config = dfa::Config::new()
            .match_kind(MatchKind::All)
            .cache_capacity(STATES_LIMIT)
            .skip_cache_capacity_check(true);
        let all = dfa::Builder::new().configure(config).build_from_nfa(nfa).ok()?;
        let of = all.clone();
        let scratch =
            move || Scratch { states: of.create_cache(), matching: PatternSet::new(of.pattern_len()) };
        Some(Self { all, patterns: patterns.into(), scratch: Pool::new(Box::new(scratch)) })
    }

    /// Asks `f` about the positions of the expressions that match, in ascending order, until it has an answer.
    pub(super) fn find_map<R>(&self, text: &[u8], mut f: impl FnMut(usize) -> Option<R>) -> Option<R> {
        let mut scratch = self.scratch.get();
        let Scratch { states, matching } = &mut *scratch;
        matching.clear();
        let input = Input::new(text).anchored(Anchored::Yes);
        self.all
            .try_which_overlapping_matches(states, &input, matching)
            .expect("it never gives up: no limit on clearing states, and no byte ends the search early");
        if matching.is_empty() {
            return None;
        }
        let matches = |pattern: &Option<PatternID>| pattern.is_some_and(|id| matching.contains(id));
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

    #[test]
    fn expressions_that_need_unicode_words_are_matched_alone() {
        let pattern = Pattern::new(r"(?u).*\bé");
        assert!(pattern.is_match("a é".as_bytes()));
        assert!(Expressions::new([&pattern].into_iter()).is_none());
    }
}
