//! Why something was or was not taken, in the API's own words.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use postern_config::Fault;

use crate::api::{Condition, ConditionStatus};

macro_rules! names {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
        pub(crate) enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// As it stands in a status.
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)+ }
            }
        }
    };
}

/// The types of conditions that are ours to set and to remove; others on the same object are not.
pub const CONDITION_TYPES: &[&str] = &[
    ConditionType::Accepted.as_str(),
    ConditionType::Conflicted.as_str(),
    ConditionType::OverlappingTLSConfig.as_str(),
    ConditionType::PartiallyInvalid.as_str(),
    ConditionType::Programmed.as_str(),
    ConditionType::ResolvedRefs.as_str(),
];

names! {
    /// The types of our conditions.
    ConditionType { Accepted, Conflicted, OverlappingTLSConfig, PartiallyInvalid, Programmed, ResolvedRefs, }
}

names! {
    /// The reasons of our conditions.
    Reason {
        Accepted,
        /// The load balancer or the network has given no address yet.
        AddressNotAssigned,
        /// A requested address was not given.
        AddressNotUsable,
        BackendNotFound,
        HostnameConflict,
        IncompatibleFilters,
        /// Not programmed because of another condition.
        Invalid,
        InvalidCertificateRef,
        InvalidClientCertificateRef,
        InvalidKind,
        InvalidParameters,
        InvalidRouteKinds,
        ListenersNotResolved,
        ListenersNotValid,
        NoConflicts,
        NoMatchingListenerHostname,
        NoMatchingParent,
        NotAllowedByListeners,
        NoValidCACertificate,
        OverlappingHostnames,
        /// It will be right soon, with nothing to do.
        Pending,
        PortUnavailable,
        Programmed,
        ProtocolConflict,
        RefNotPermitted,
        ResolvedRefs,
        UnsupportedAddress,
        UnsupportedProtocol,
        UnsupportedValue,
    }
}

impl Reason {
    /// The refusal for this reason, with a sentence for the author: the fact, then what to do.
    pub(crate) fn because(self, message: impl Into<String>) -> Refusal {
        Refusal { reason: self, message: sentence(message.into()) }
    }

    /// Whether a rule's refusal is about a reference that may not or cannot be followed (ResolvedRefs), and not about the
    /// rule itself (Accepted, PartiallyInvalid).
    pub(crate) fn is_of_a_reference(self) -> bool {
        matches!(
            self,
            Self::BackendNotFound | Self::InvalidKind | Self::RefNotPermitted | Self::UnsupportedProtocol
        )
    }
}

/// Why something that a user wrote is not taken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Refusal {
    /// The API's reason.
    pub(crate) reason: Reason,
    /// The fact, then what to do.
    pub(crate) message: String,
}

/// The longest message, in bytes.
const LONGEST: usize = 8_192;

/// Text with a capital letter first; names of fields and objects stand in backticks and stay as they are.
///
/// Names and expressions can be long, and the API server takes no status with a message of more than 32,768 characters.
fn sentence(mut text: String) -> String {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push_str(" ...");
    }
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

impl From<&Refusal> for Fault {
    fn from(refusal: &Refusal) -> Self {
        Self { reason: refusal.reason.as_str().into(), message: refusal.message.clone() }
    }
}

/// The conditions of one object, all of one generation.
pub(crate) struct Conditions {
    generation: i64,
    list: Vec<Condition>,
}

impl Conditions {
    /// Conditions that speak of this object.
    ///
    /// The API server numbers generations from 1, so an object from a file, which has none, is at its first.
    pub(crate) fn of(metadata: &ObjectMeta) -> Self {
        Self { generation: metadata.generation.unwrap_or(1), list: Vec::new() }
    }

    /// Adds a condition that holds.
    pub(crate) fn yes(self, kind: ConditionType, reason: Reason, message: impl Into<String>) -> Self {
        self.add(kind, ConditionStatus::True, reason, sentence(message.into()))
    }

    /// Adds a condition that does not hold.
    pub(crate) fn no(self, kind: ConditionType, refusal: &Refusal) -> Self {
        self.add(kind, ConditionStatus::False, refusal.reason, refusal.message.clone())
    }

    /// Adds a condition that holds unless there is a refusal.
    pub(crate) fn unless(
        self,
        refusal: Option<&Refusal>,
        kind: ConditionType,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        match refusal {
            Some(refusal) => self.no(kind, refusal),
            None => self.yes(kind, reason, message),
        }
    }

    pub(crate) fn add(
        mut self,
        kind: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: String,
    ) -> Self {
        self.list.push(Condition {
            kind: kind.as_str().into(),
            status,
            reason: reason.as_str().into(),
            message,
            observed_generation: Some(self.generation),
            last_transition_time: None,
        });
        self
    }

    /// The conditions in the order of their types.
    pub(crate) fn sorted(mut self) -> Vec<Condition> {
        self.list.sort_by(|a, b| a.kind.cmp(&b.kind));
        self.list
    }
}
