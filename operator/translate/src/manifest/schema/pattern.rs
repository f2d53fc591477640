//! The patterns of the API, each with words for people.

use std::sync::OnceLock;

use regex_automata::meta::Regex;

/// A regular expression as upstream writes it, searched for unless it has anchors.
pub(crate) struct Pattern {
    pub text: &'static str,
    /// What it means, after "must be".
    pub words: &'static str,
    compiled: OnceLock<Regex>,
}

impl Pattern {
    pub(crate) const fn new(text: &'static str, words: &'static str) -> Self {
        Self { text, words, compiled: OnceLock::new() }
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.compiled
            .get_or_init(|| Regex::new(self.text).expect("the patterns of the API compile: tested"))
            .is_match(text)
    }
}

macro_rules! patterns {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $words:literal;)+) => {
        $($(#[$doc])* pub(crate) static $name: Pattern = Pattern::new($text, $words);)+

        #[cfg(test)]
        static ALL: &[&Pattern] = &[$(&$name),+];
    };
}

patterns! {
    DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "lower-case letters, digits and '-', with a letter or digit at both ends";
    DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part";
    /// The name of a Service.
    DNS_1035_LABEL = r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        "lower-case letters, digits and '-', with a letter first and a letter or digit last";
    GROUP = r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "an API group such as gateway.networking.k8s.io, or empty for the core group";
    KIND = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$", "a kind such as Service";
    CONTROLLER = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$",
        "a domain and a path, such as example.com/gateway-controller";
    HOSTNAME = r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "a lower-case host name without a port, such as shop.example or *.shop.example";
    HEADER_NAME = r"^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$", "a header name: letters, digits and !#$%&'*+-.^_`|~";
    HEADER_VALUE = r"^[!-~]+([\t ]?[!-~]+)*$",
        "printable ASCII, without a space or tab at either end or two in a row";
    DURATION = r"^([0-9]{1,5}(h|m|s|ms)){1,4}$", "a duration such as 10s, 500ms or 1h30m";
    PATH = r"^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$",
        "characters that a URL path may have; all others are written as %XX";
    PROTOCOL = r"^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9]+$",
        "HTTP, HTTPS, TLS, TCP, UDP, or a name with a domain such as example.com/quic";
    ADDRESS_TYPE = r"^Hostname|IPAddress|NamedAddress|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$",
        "IPAddress, Hostname, NamedAddress, or a name with a domain such as example.com/pool";
    ORIGIN = r"(^\*$)|(^(http(s)?):\/\/(((\*\.)?([a-zA-Z0-9\-]+\.)*[a-zA-Z0-9-]+|\*)(:([0-9]{1,5}))?)$)",
        "* or an origin such as https://shop.example, https://*.shop.example or http://*:8080";
    LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
        "letters, digits, '-', '_' and '.', with a letter or digit at both ends, or empty";
    /// The form that `infrastructure.labels` and `.annotations` ask of keys.
    LABEL_KEY = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$",
        "a name of at most 63 letters, digits, '-', '_' and '.', with an optional domain and '/' in front";
    AMOUNT = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$",
        "an amount such as 2, 500m or 256Mi";
    NETWORK = r"^[0-9A-Fa-f:.]+/[0-9]{1,3}$", "a network such as 10.0.0.0/8";
    GRPC_SERVICE = r"^(?i)\.?[a-z_][a-z_0-9]*(\.[a-z_][a-z_0-9]*)*$", "a gRPC service such as package.Service";
    GRPC_METHOD = r"^[A-Za-z_][A-Za-z_0-9]*$", "a gRPC method";
    /// What `routability` asks of a prefixed path, its domain apart.
    PREFIXED = r"^.*/.+$", "a domain and a path";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles_and_none_of_them_takes_a_line_break_at_the_end() {
        for pattern in ALL {
            // `$` is the end of the text, as it is in Go.
            assert!(!pattern.is_match("example.com/a\n"), "{}", pattern.text);
        }
    }
}
