//! Whose data plane it is that asks: the answer follows from its token alone.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::api::PostParams;
use kube::{Api, Client};
use postern_config::ObjectKey;
use postern_translate::workload::{self, AUDIENCE};
use tokio::sync::{Semaphore, watch};

use crate::cluster::translation::Current;

/// A data plane.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// The Gateway that it serves.
    pub gateway: ObjectKey,
    /// Its pod, for logs.
    pub pod: String,
    /// When its token ends.
    pub expires: Option<SystemTime>,
}

/// Why someone is not let in. The texts tell nothing of what is there.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Denied {
    /// The token proves nothing.
    #[error("the token is not valid for the audience `{AUDIENCE}`")]
    Unauthenticated,
    /// The token is that of someone who has no data plane.
    #[error("the ServiceAccount is not that of a data plane")]
    Forbidden,
    /// The answer is not known.
    #[error("the token cannot be reviewed now: {0}")]
    Unknown(String),
}

/// Tells data planes by their tokens.
pub trait Authenticate: Send + Sync + 'static {
    /// Whose token it is.
    fn authenticate(&self, token: &str) -> impl Future<Output = Result<Identity, Denied>> + Send;
}

/// Asks the API server about tokens, and trusts only ServiceAccounts that this operator made for its Gateways.
pub struct TokenReviews {
    client: Client,
    current: watch::Receiver<Option<Arc<Current>>>,
    /// Whoever floods this operator with tokens does not flood the API server.
    permits: Semaphore,
}

/// Reviews under way at one time.
const REVIEWS: usize = 16;
/// Time for a review, waiting included.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a token; those of ServiceAccounts have about 1,000.
const LONGEST: usize = 8 * 1024;

impl TokenReviews {
    /// Reviews with this client.
    pub fn new(client: Client, current: watch::Receiver<Option<Arc<Current>>>) -> Self {
        Self { client, current, permits: Semaphore::new(REVIEWS) }
    }

    async fn review(&self, token: &str) -> Result<UserInfo, Denied> {
        let unknown = |error: &dyn fmt::Display| Denied::Unknown(error.to_string());
        let _permit = self.permits.acquire().await.map_err(|error| unknown(&error))?;
        let spec = TokenReviewSpec { token: Some(token.into()), audiences: Some(vec![AUDIENCE.into()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews = Api::<TokenReview>::all(self.client.clone());
        let reviewed = reviews.create(&PostParams::default(), &review).await;
        let status = reviewed.map_err(|error| unknown(&error))?.status.unwrap_or_default();
        // An API server that knows no audiences names none, and then the token may be meant for anyone.
        let is_for_us = status.audiences.iter().flatten().any(|audience| audience == AUDIENCE);
        if status.authenticated != Some(true) || status.error.is_some() || !is_for_us {
            return Err(Denied::Unauthenticated);
        }
        status.user.ok_or(Denied::Unauthenticated)
    }
}

impl Authenticate for TokenReviews {
    async fn authenticate(&self, token: &str) -> Result<Identity, Denied> {
        if token.is_empty() || token.len() > LONGEST {
            return Err(Denied::Unauthenticated);
        }
        let reviewed = tokio::time::timeout(PATIENCE, self.review(token)).await;
        let user = reviewed.map_err(|_| Denied::Unknown("the API server does not answer".into()))??;
        let account = service_account(&user).ok_or(Denied::Forbidden)?;
        let Some(current) = self.current.borrow().clone() else {
            return Err(Denied::Unknown("the cluster is not known yet".into()));
        };
        let gateway = gateway(&current, &account, user.uid.as_deref()).ok_or(Denied::Forbidden)?;
        Ok(Identity { gateway, pod: pod(&user), expires: expiry(token) })
    }
}

/// The ServiceAccount of a user that is one.
fn service_account(user: &UserInfo) -> Option<ObjectKey> {
    let name = user.username.as_deref()?.strip_prefix("system:serviceaccount:")?;
    let (namespace, name) = name.split_once(':')?;
    Some(ObjectKey::new(namespace, name))
}

/// The Gateway that this very ServiceAccount was made for. One of the same name that someone else made, or that was made
/// for an earlier Gateway, stands for nothing.
fn gateway(current: &Current, account: &ObjectKey, uid: Option<&str>) -> Option<ObjectKey> {
    let made = current.seen.made.get(&("ServiceAccount", account.clone()))?;
    if uid.is_none() || made.metadata.uid.as_deref() != uid {
        return None;
    }
    let of_namespace = current.translation.plans.keys().filter(|key| key.namespace == account.namespace);
    let is_its = |key: &&ObjectKey| {
        current.seen.objects.gateways.get(*key).is_some_and(|gateway| {
            workload::name(&key.name, &gateway.spec.gateway_class_name) == account.name
                && workload::is_of(&made.metadata, gateway)
        })
    };
    of_namespace.clone().find(is_its).cloned()
}

fn pod(user: &UserInfo) -> String {
    let names = user.extra.as_ref().and_then(|extra| extra.get("authentication.kubernetes.io/pod-name"));
    names.and_then(|names| names.first()).cloned().unwrap_or_default()
}

/// When a token ends, by its own word. It was reviewed before, so that the word is the API server's.
fn expiry(token: &str) -> Option<SystemTime> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&payload).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(claims.get("exp")?.as_u64()?))
}
