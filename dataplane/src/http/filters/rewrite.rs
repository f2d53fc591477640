//! URLRewrite: the backend sees another host or path than the client asked for.

use postern_config::{PathModifier, UrlRewrite};

use super::{Apply, Change, Location};

#[derive(Debug)]
pub(super) struct Rewrite {
    hostname: Option<String>,
    path: Option<PathModifier>,
}

impl Rewrite {
    pub(super) fn new(rewrite: &UrlRewrite) -> Self {
        Self { hostname: rewrite.hostname.as_ref().map(ToString::to_string), path: rewrite.path.clone() }
    }
}

impl Apply for Rewrite {
    fn request(&self, change: &mut Change<'_>) -> Option<Location> {
        if let Some(hostname) = &self.hostname {
            change.host = Some(hostname.clone());
        }
        if let Some(path) = &self.path {
            change.path_and_query = Some(change.modified(path));
        }
        None
    }
}
