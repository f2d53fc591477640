//! What a host is found under: exact names, then wildcards from the longest, then all.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use smol_str::SmolStr;

use super::lengths::Lengths;
use crate::Hostname;

/// The host of an authority or a `Host` field as routing compares it: lower case, without port and without the dot of
/// the DNS root. An IPv6 address keeps its brackets. Borrowed when there is nothing to change or only to cut off.
pub fn host(authority: &str) -> Cow<'_, str> {
    let host = without_port(authority);
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    }
}

fn without_port(authority: &str) -> &str {
    if authority.starts_with('[') {
        return authority.find(']').map_or(authority, |end| &authority[..=end]);
    }
    match authority.split_once(':') {
        // A second colon makes it an IPv6 address without brackets, which has no port.
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        Some(_) | None => authority,
    }
}

/// Values by hostname, where "all hosts" is `None`.
#[derive(Debug)]
pub(super) struct HostMap<T> {
    exact: HashMap<SmolStr, T, RandomState>,
    /// By the suffix with its leading dot.
    wildcard: HashMap<SmolStr, T, RandomState>,
    suffixes: Lengths,
    all: Option<T>,
}

impl<T> Default for HostMap<T> {
    fn default() -> Self {
        Self {
            exact: HashMap::default(),
            wildcard: HashMap::default(),
            suffixes: Lengths::default(),
            all: None,
        }
    }
}

impl<T> HostMap<T> {
    /// The first insertion under a hostname stays.
    pub(super) fn insert(&mut self, hostname: Option<&Hostname>, value: T) {
        match hostname {
            Some(Hostname::Exact(name)) => {
                self.exact.entry(name.as_str().into()).or_insert(value);
            }
            Some(Hostname::Wildcard(suffix)) => {
                self.suffixes.insert(suffix.len());
                self.wildcard.entry(suffix.as_str().into()).or_insert(value);
            }
            None => {
                self.all.get_or_insert(value);
            }
        }
    }

    /// The value under this very hostname.
    pub(super) fn get(&self, hostname: Option<&Hostname>) -> Option<&T> {
        match hostname {
            Some(Hostname::Exact(name)) => self.exact.get(name.as_str()),
            Some(Hostname::Wildcard(suffix)) => self.wildcard.get(suffix.as_str()),
            None => self.all.as_ref(),
        }
    }

    /// All values, in no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.exact.values().chain(self.wildcard.values()).chain(&self.all)
    }

    /// Asks `f` about the values for `host`, from the most specific hostname on, until it has an answer.
    #[inline]
    pub(super) fn find_map<'a, R>(&'a self, host: &str, mut f: impl FnMut(&'a T) -> Option<R>) -> Option<R> {
        if let Some(found) = self.exact.get(host).and_then(&mut f) {
            return Some(found);
        }
        // A wildcard stands for at least one character before the dot.
        for length in self.suffixes.descending_from(host.len().saturating_sub(1)) {
            let at = host.len() - length;
            if host.as_bytes().get(at) == Some(&b'.')
                && let Some(found) = self.wildcard.get(&host[at..]).and_then(&mut f)
            {
                return Some(found);
            }
        }
        self.all.as_ref().and_then(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_no_port_no_case_and_no_root_dot() {
        for (authority, expected) in [
            ("example.com", "example.com"),
            ("Example.COM:8080", "example.com"),
            ("example.com.", "example.com"),
            ("example.com.:80", "example.com"),
            ("example.com:", "example.com"),
            ("[::1]:8080", "[::1]"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("2001:db8::1", "2001:db8::1"),
            ("127.0.0.1:80", "127.0.0.1"),
            ("", ""),
        ] {
            assert_eq!(host(authority), expected, "{authority}");
        }
        assert!(matches!(host("example.com:80"), Cow::Borrowed(_)));
    }

    #[test]
    fn exact_names_come_before_wildcards_from_the_longest_and_then_all() {
        let mut map = HostMap::default();
        for text in ["*.com", "a.example.com", "*.example.com", "*.a.example.com"] {
            map.insert(Some(&text.parse().expect(text)), text);
        }
        map.insert(None, "all");
        let order = |host: &str| {
            let mut seen = Vec::new();
            map.find_map(host, |value| {
                seen.push(*value);
                None::<()>
            });
            seen
        };
        assert_eq!(order("a.example.com"), ["a.example.com", "*.example.com", "*.com", "all"]);
        assert_eq!(order("b.a.example.com"), ["*.a.example.com", "*.example.com", "*.com", "all"]);
        assert_eq!(order("example.com"), ["*.com", "all"]);
        assert_eq!(order("com"), ["all"]);
        assert_eq!(order(".com"), ["all"]);
        assert_eq!(order(""), ["all"]);
    }
}
