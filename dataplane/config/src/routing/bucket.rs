//! The candidates under one hostname, found by path.
//!
//! They stand in the order of precedence, and that order begins with the path: exact paths, prefixes from the longest,
//! expressions, the prefix `/`. So candidates with the same path are a run, and the runs that a path can match are
//! looked up in that same order. A prefix is looked up as a whole at each segment's end where a prefix of that length
//! exists: the answer of a trie, in one step for most paths instead of one for each segment.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use foldhash::fast::RandomState;
use smol_str::SmolStr;

use super::candidate::PathCondition;
use super::expressions::Expressions;
use super::header::LastHeader;
use super::lengths::Lengths;
use super::regex::{Compiler, Pattern};
use super::{Candidate, Request};
use crate::{Route, RouteName};

/// Up to so many candidates are quicker to look at than to look up.
const FEW: usize = 4;

/// So many expressions are quicker to match together than one after another.
const MANY_EXPRESSIONS: usize = 16;

/// The candidates under one hostname, to be shared by tables that have the same.
pub(super) struct Bucket<A> {
    candidates: Arc<[Candidate<A>]>,
    index: Option<Arc<Index>>,
    /// The routes that they are of.
    made_of: Arc<[(Arc<RouteName>, Arc<Route>)]>,
}

/// Candidates of a bucket that stand together, counted from its first.
type Run = Range<u32>;

#[derive(Default)]
struct Index {
    exact: HashMap<SmolStr, Run, RandomState>,
    prefixes: HashMap<SmolStr, Run, RandomState>,
    /// The lengths of the prefixes.
    lengths: Lengths,
    expressions: Run,
    /// The expressions in one, if they are many.
    together: Option<Arc<Expressions>>,
    everything: Run,
}

impl<A> Bucket<A> {
    /// A bucket of these candidates, in the order of precedence, of these routes.
    pub(super) fn new(
        candidates: Vec<Candidate<A>>,
        made_of: Vec<(Arc<RouteName>, Arc<Route>)>,
        compiler: &mut Compiler<'_>,
    ) -> Self {
        let index = (candidates.len() > FEW).then(|| Arc::new(Index::new(&candidates, compiler)));
        Self { candidates: candidates.into(), index, made_of: made_of.into() }
    }

    /// The candidates, in the order of precedence.
    pub(super) fn candidates(&self) -> &[Candidate<A>] {
        &self.candidates
    }

    /// Keeps at hand what many expressions of it were compiled to.
    pub(super) fn keep(&self, compiler: &mut Compiler<'_>) {
        if let Some(index) = self.index.as_ref().filter(|index| index.together.is_some()) {
            together(of_run(&self.candidates, &index.expressions), compiler);
        }
    }

    /// Whether it is of these very routes, as they are.
    pub(super) fn is_of(&self, routes: &[(&RouteName, &Arc<Route>)]) -> bool {
        let mut pairs = self.made_of.iter().zip(routes);
        self.made_of.len() == routes.len()
            && pairs.all(|((name, route), (other, now))| {
                **name == **other && (Arc::ptr_eq(route, now) || *route == **now)
            })
    }

    /// The first candidate that takes the request, whose path is `path` with slashes merged.
    #[inline]
    pub(super) fn first<'a, 'r>(
        &'a self,
        path: &str,
        request: &Request<'r>,
        last: &mut LastHeader<'a, 'r>,
    ) -> Option<&'a Candidate<A>> {
        match &self.index {
            Some(index) => index.first(&self.candidates, path, request, last),
            None => self.candidates.iter().find(|c| c.path.holds(path) && c.holds_beside_path(request, last)),
        }
    }
}

impl<A> Clone for Bucket<A> {
    fn clone(&self) -> Self {
        let Self { candidates, index, made_of } = self;
        Self { candidates: Arc::clone(candidates), index: index.clone(), made_of: Arc::clone(made_of) }
    }
}

impl Index {
    fn new<A>(candidates: &[Candidate<A>], compiler: &mut Compiler<'_>) -> Self {
        let mut index = Self::default();
        let mut start = 0;
        for run in candidates.chunk_by(|a, b| a.path.rank() == b.path.rank()) {
            let end = start + position(run.len());
            match &run[0].path {
                PathCondition::Exact(path) => {
                    index.exact.insert(path.clone(), start..end);
                }
                PathCondition::Prefix(prefix) if prefix.is_empty() => index.everything = start..end,
                PathCondition::Prefix(prefix) => {
                    index.lengths.insert(prefix.len());
                    index.prefixes.insert(prefix.clone(), start..end);
                }
                PathCondition::RegularExpression(_) => {
                    index.expressions = start..end;
                    index.together = together(run, compiler);
                }
            }
            start = end;
        }
        index
    }

    fn first<'a, 'r, A>(
        &self,
        candidates: &'a [Candidate<A>],
        path: &str,
        request: &Request<'r>,
        last: &mut LastHeader<'a, 'r>,
    ) -> Option<&'a Candidate<A>> {
        let mut of = |run: &Run| of_run(candidates, run).iter().find(|c| c.holds_beside_path(request, last));
        if let Some(found) = self.exact.get(path).and_then(&mut of) {
            return Some(found);
        }
        for length in self.lengths.descending_from(path.len()) {
            let ends_segment = path.as_bytes().get(length).is_none_or(|next| *next == b'/');
            if ends_segment && let Some(found) = self.prefixes.get(&path[..length]).and_then(&mut of) {
                return Some(found);
            }
        }
        let expression = self.first_expression(candidates, path, request, last);
        expression.or_else(|| {
            of_run(candidates, &self.everything).iter().find(|c| c.holds_beside_path(request, last))
        })
    }

    fn first_expression<'a, 'r, A>(
        &self,
        candidates: &'a [Candidate<A>],
        path: &str,
        request: &Request<'r>,
        last: &mut LastHeader<'a, 'r>,
    ) -> Option<&'a Candidate<A>> {
        let candidates = of_run(candidates, &self.expressions);
        match &self.together {
            Some(expressions) => expressions.find_map(path.as_bytes(), |position| {
                candidates.get(position).filter(|c| c.holds_beside_path(request, last))
            }),
            None => candidates.iter().find(|c| c.holds_beside_path(request, last) && c.path.holds(path)),
        }
    }
}

fn together<A>(run: &[Candidate<A>], compiler: &mut Compiler<'_>) -> Option<Arc<Expressions>> {
    if run.len() < MANY_EXPRESSIONS {
        return None;
    }
    let patterns = run.iter().filter_map(|candidate| match &candidate.path {
        PathCondition::RegularExpression(pattern) => Some(pattern),
        PathCondition::Exact(_) | PathCondition::Prefix(_) => None,
    });
    compiler.together(&patterns.collect::<Vec<&Pattern>>())
}

fn of_run<'a, A>(candidates: &'a [Candidate<A>], run: &Run) -> &'a [Candidate<A>] {
    &candidates[run.start as usize..run.end as usize]
}

fn position(index: usize) -> u32 {
    u32::try_from(index).expect("a table of four thousand million candidates does not fit into memory")
}
