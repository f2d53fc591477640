//! Filters, compiled: what they do to a request or a response, ready to be done.

use postern_config::Filter;

/// The filters of a rule or of a backendRef, in order.
#[derive(Debug, Default)]
pub(crate) struct Filters;

impl Filters {
    /// Compiles filters that translation has checked.
    pub(crate) fn compile(_filters: &[Filter]) -> Self {
        Self
    }
}
