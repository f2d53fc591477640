//! The known name that a mistyped one was most likely meant to be.

/// `: did you mean ...?` for the candidate closest to `name`, or nothing when none is close.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let closest = candidates
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= name.len().max(candidate.len()) / 3)
        .min();
    match closest {
        Some((_, candidate)) => format!("; did you mean `{candidate}`?"),
        None => String::new(),
    }
}
