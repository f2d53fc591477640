//! Rules that several kinds share, and how a rule says where it is broken.

use super::super::tree::Node;
use super::{Place, Step};

/// The value itself, if the rule is broken.
pub(super) fn place(broken: bool) -> Vec<Place> {
    if broken { vec![Vec::new()] } else { Vec::new() }
}

/// The items of a list for which a rule is broken.
pub(super) fn items(list: &Node, broken: impl Fn(usize, &Node) -> bool) -> Vec<Place> {
    let places = list.as_items().iter().enumerate().filter(|(index, item)| broken(*index, item));
    places.map(|(index, _)| vec![Step::Index(index)]).collect()
}

/// The entries of a mapping for whose keys a rule is broken.
pub(super) fn keys(map: &Node, broken: impl Fn(&str) -> bool) -> Vec<Place> {
    let keys = map.entries().iter().map(|entry| &entry.key);
    keys.filter(|key| broken(key)).map(|key| vec![Step::Key(key.clone())]).collect()
}

/// The items of a list that equal one before them.
pub(super) fn repeated(list: &Node, same: impl Fn(&Node, &Node) -> bool) -> Vec<Place> {
    let all = list.as_items();
    items(list, |index, item| all[..index].iter().any(|other| same(other, item)))
}

/// Says that a rule is broken in a field of each place.
pub(super) trait Within {
    /// The field of the same name in each place.
    fn within(self, field: &'static str) -> Self;
}

impl Within for Vec<Place> {
    fn within(mut self, field: &'static str) -> Self {
        self.iter_mut().for_each(|place| place.push(Step::Field(field)));
        self
    }
}

fn same_parent(one: &Node, other: &Node) -> bool {
    ["group", "kind", "name", "namespace"].iter().all(|field| one.text(field) == other.text(field))
}

pub(super) fn parents_have_sections(parents: &Node) -> Vec<Place> {
    let says = |parent: &Node| (parent.has("sectionName"), parent.has("port"));
    repeated(parents, |one, other| same_parent(one, other) && says(one) != says(other))
}

pub(super) fn parents_differ(parents: &Node) -> Vec<Place> {
    let section = |parent: &Node| parent.text("sectionName").map(str::to_owned);
    repeated(parents, |one, other| {
        same_parent(one, other)
            && section(one) == section(other)
            && one.integer("port") == other.integer("port")
    })
}

/// `names` of the list's items are unique where they are there.
pub(super) fn names_differ(list: &Node) -> Vec<Place> {
    repeated(list, |one, other| one.has("name") && one.text("name") == other.text("name")).within("name")
}

/// "the total number of matches across all rules in a route must be less than 128"; what is enforced is at most 128.
pub(super) fn at_most_128_matches(rules: &Node) -> Vec<Place> {
    let total: usize = rules.as_items().iter().map(|rule| rule.items("matches").len()).sum();
    place(total > 128)
}
