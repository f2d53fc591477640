//! A status as it is to be written: ours put into what is there, and what others wrote kept.

use crate::cluster::events::{News, news};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use postern_translate::CONDITION_TYPES;
use postern_translate::api::{Condition, GatewayClassStatus, GatewayStatus, ParentStatus, RouteStatus};

/// A status that can be put into the one that is there.
pub trait Merge: Clone + Default + PartialEq {
    /// `self` put into `present`, by the controller of this name at this time.
    fn merged(&self, present: &Self, controller: &str, now: Timestamp) -> Self;

    /// What is new in `self` against `present`, for the author of the object.
    fn news(&self, present: &Self) -> Vec<News>;

    /// Whether nobody waits for the difference from `present`: it is only how many routes there are.
    fn can_wait(&self, _present: &Self) -> bool {
        false
    }

    /// The newest generation that conditions of ours in it speak of.
    fn generation(&self, controller: &str) -> Option<i64>;
}

impl Merge for GatewayClassStatus {
    fn merged(&self, present: &Self, _: &str, now: Timestamp) -> Self {
        Self { conditions: conditions(&self.conditions, &present.conditions, now), ..self.clone() }
    }

    fn news(&self, present: &Self) -> Vec<News> {
        news(&self.conditions, &present.conditions)
    }

    fn generation(&self, _: &str) -> Option<i64> {
        newest(&self.conditions)
    }
}

impl Merge for GatewayStatus {
    fn merged(&self, present: &Self, _: &str, now: Timestamp) -> Self {
        let mut status = self.clone();
        status.conditions = conditions(&self.conditions, &present.conditions, now);
        for listener in &mut status.listeners {
            let there = present.listeners.iter().find(|there| there.name == listener.name);
            let there = there.map_or(&[][..], |there| &there.conditions);
            listener.conditions = conditions(&listener.conditions, there, now);
        }
        status
    }

    fn news(&self, present: &Self) -> Vec<News> {
        let mut all = news(&self.conditions, &present.conditions);
        for listener in &self.listeners {
            let there = present.listeners.iter().find(|there| there.name == listener.name);
            let of = news(&listener.conditions, there.map_or(&[], |there| &there.conditions));
            all.extend(of.into_iter().filter(|news| !news.is_good()).map(|news| news.of(&listener.name)));
        }
        all
    }

    fn can_wait(&self, present: &Self) -> bool {
        let mut recounted = present.clone();
        for (ours, theirs) in self.listeners.iter().zip(&mut recounted.listeners) {
            theirs.attached_routes = ours.attached_routes;
        }
        recounted == *self
    }

    fn generation(&self, _: &str) -> Option<i64> {
        newest(&self.conditions)
    }
}

impl Merge for RouteStatus {
    fn merged(&self, present: &Self, controller: &str, now: Timestamp) -> Self {
        let is_ours = |parent: &ParentStatus| parent.controller_name == controller;
        let ours = self.parents.iter().map(|parent| {
            let there =
                present.parents.iter().find(|there| is_ours(there) && there.parent_ref == parent.parent_ref);
            let there = there.map_or(&[][..], |there| &there.conditions);
            ParentStatus { conditions: conditions(&parent.conditions, there, now), ..parent.clone() }
        });
        let mut ours: Vec<ParentStatus> = ours.collect();
        // Entries keep their places, so that two controllers do not push each other around.
        let mut parents = Vec::new();
        for there in &present.parents {
            if !is_ours(there) {
                parents.push(there.clone());
            } else if let Some(at) = ours.iter().position(|parent| parent.parent_ref == there.parent_ref) {
                parents.push(ours.remove(at));
            }
        }
        parents.append(&mut ours);
        Self { parents }
    }

    fn news(&self, present: &Self) -> Vec<News> {
        let of = |parent: &ParentStatus| {
            let same = |there: &&ParentStatus| {
                there.controller_name == parent.controller_name && there.parent_ref == parent.parent_ref
            };
            let there = present.parents.iter().find(same);
            news(&parent.conditions, there.map_or(&[], |there| &there.conditions))
        };
        self.parents.iter().flat_map(of).collect()
    }

    fn generation(&self, controller: &str) -> Option<i64> {
        let ours = self.parents.iter().filter(|parent| parent.controller_name == controller);
        ours.filter_map(|parent| newest(&parent.conditions)).max()
    }
}

/// Our conditions with their times, and those of others as they are. Each keeps its place, so that two controllers do not
/// push each other around.
fn conditions(wanted: &[Condition], present: &[Condition], now: Timestamp) -> Vec<Condition> {
    let stamped = wanted.iter().map(|condition| {
        let same =
            present.iter().find(|there| there.kind == condition.kind && there.status == condition.status);
        let kept = same.and_then(|there| there.last_transition_time.clone());
        Condition { last_transition_time: Some(kept.unwrap_or(Time(now))), ..condition.clone() }
    });
    let mut ours: Vec<Condition> = stamped.collect();
    let mut all = Vec::new();
    for there in present {
        if !CONDITION_TYPES.contains(&there.kind.as_str()) {
            all.push(there.clone());
        } else if let Some(at) = ours.iter().position(|condition| condition.kind == there.kind) {
            all.push(ours.remove(at));
        }
    }
    all.append(&mut ours);
    all
}

fn newest(conditions: &[Condition]) -> Option<i64> {
    let ours = conditions.iter().filter(|condition| CONDITION_TYPES.contains(&condition.kind.as_str()));
    ours.filter_map(|condition| condition.observed_generation).max()
}
