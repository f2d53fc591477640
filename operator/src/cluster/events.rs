//! What authors of objects are told once: Events on the object that they edit, when a condition of it changes.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use postern_translate::api::{Condition, ConditionStatus};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Publishes Events beside the work that they tell of. What cannot be published, or not soon, is lost: the conditions say
/// it, too.
#[derive(Clone)]
pub struct Events(mpsc::Sender<(ObjectReference, News)>);

/// A condition that has become good or bad.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct News {
    is_good: bool,
    reason: String,
    message: String,
}

/// How long one Event may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many Events wait to be published; an API server that is slow gets no more.
const WAITING: usize = 1_000;
/// The longest note, in bytes (events.k8s.io/v1).
const LONGEST: usize = 1_000;

impl News {
    /// Something that the author should know, and that is not good.
    pub fn warning(reason: &str, message: String) -> Self {
        Self { is_good: false, reason: reason.into(), message }
    }

    /// Whether it is good.
    pub fn is_good(&self) -> bool {
        self.is_good
    }

    /// The same, said of a listener.
    pub fn of(self, listener: &str) -> Self {
        Self { message: format!("listener `{listener}`: {}", self.message), ..self }
    }
}

impl Events {
    /// Publishes with this client in the name of this controller's replica, until the last clone is gone.
    pub fn new(client: Client, controller: &str, instance: &str) -> Self {
        let reporter = Reporter { controller: controller.into(), instance: Some(instance.into()) };
        let recorder = Recorder::new(client, reporter);
        let (sender, mut waiting) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            while let Some((about, news)) = waiting.recv().await {
                publish(&recorder, &about, news).await;
            }
        });
        Self(sender)
    }

    /// Publishes what is new about an object.
    pub fn publish(&self, about: &ObjectReference, news: Vec<News>) {
        for news in news {
            let _ = self.0.try_send((about.clone(), news));
        }
    }
}

async fn publish(recorder: &Recorder, about: &ObjectReference, news: News) {
    let News { is_good, reason, mut message } = news;
    message.truncate(message.floor_char_boundary(LONGEST));
    let event = Event {
        type_: if is_good { EventType::Normal } else { EventType::Warning },
        reason,
        note: Some(message),
        action: "Translate".into(),
        secondary: None,
    };
    match timeout(PATIENCE, recorder.publish(&event, about)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "cannot publish an Event"),
        Err(_) => tracing::debug!("cannot publish an Event in time"),
    }
}

/// What is new in these conditions.
pub fn news(wanted: &[Condition], present: &[Condition]) -> Vec<News> {
    let told = wanted.iter().filter(|condition| {
        let before = present.iter().find(|there| there.kind == condition.kind);
        before.is_none_or(|before| before.status != condition.status || before.reason != condition.reason)
    });
    told.filter_map(|condition| {
        Some(News {
            is_good: is_good(condition)?,
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        })
    })
    .collect()
}

/// Whether a change to this condition is good or bad; `None` where there is nothing to tell: it will be right soon, or
/// another condition says why it is not.
fn is_good(condition: &Condition) -> Option<bool> {
    match (condition.kind.as_str(), condition.status, condition.reason.as_str()) {
        ("Programmed", ConditionStatus::True, _) => Some(true),
        ("Programmed", ConditionStatus::False, "AddressNotUsable" | "PortUnavailable") => Some(false),
        ("Accepted" | "ResolvedRefs", ConditionStatus::False, _) => Some(false),
        ("PartiallyInvalid", ConditionStatus::True, _) => Some(false),
        _ => None,
    }
}
