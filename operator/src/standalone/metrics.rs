//! The metrics of several data planes as one text: every sample says of which Gateway it is.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Joins OpenMetrics texts, the key of each becoming the label `gateway`.
///
/// A metric may be described once only, so the samples of all texts are gathered under the first description.
pub fn join<'a>(texts: impl IntoIterator<Item = (String, &'a str)>) -> String {
    let mut families = BTreeMap::<&str, Family<'a>>::new();
    for (gateway, text) in texts {
        let mut current = "";
        for line in text.lines() {
            match line.strip_prefix("# ") {
                Some("EOF") => {}
                Some(description) => {
                    current = description.split(' ').nth(1).unwrap_or_default();
                    let family = families.entry(current).or_default();
                    if !family.described.contains(&line) {
                        family.described.push(line);
                    }
                }
                None => families.entry(current).or_default().samples.push(labelled(line, &gateway)),
            }
        }
    }
    let mut joined = String::new();
    for Family { described, samples } in families.into_values() {
        for line in described.into_iter().map(str::to_owned).chain(samples) {
            let _ = writeln!(joined, "{line}");
        }
    }
    joined + "# EOF\n"
}

#[derive(Default)]
struct Family<'a> {
    described: Vec<&'a str>,
    samples: Vec<String>,
}

/// `name{a="b"} 1` and `name 1` with one label more.
fn labelled(sample: &str, gateway: &str) -> String {
    let end = sample.find(['{', ' ']).unwrap_or(sample.len());
    let (name, rest) = sample.split_at(end);
    match rest.strip_prefix('{') {
        Some(labels) => format!("{name}{{gateway=\"{gateway}\",{labels}"),
        None => format!("{name}{{gateway=\"{gateway}\"}}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_of_two_gateways_is_described_once() {
        let text = "# HELP requests Requests.\n# TYPE requests counter\nrequests_total{route=\"a\"} 1\n# TYPE open gauge\nopen 2\n# EOF\n";
        let joined = join([("shop/a".into(), text), ("shop/b".into(), text)]);
        let expected = "# TYPE open gauge\nopen{gateway=\"shop/a\"} 2\nopen{gateway=\"shop/b\"} 2\n\
            # HELP requests Requests.\n# TYPE requests counter\n\
            requests_total{gateway=\"shop/a\",route=\"a\"} 1\nrequests_total{gateway=\"shop/b\",route=\"a\"} 1\n# EOF\n";
        assert_eq!(joined, expected);
    }
}
