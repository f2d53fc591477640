//! Changes of routes: from just before the write to the first right answer, and to the status.

use std::collections::HashMap;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::runtime::watcher::{Config, Event, watcher};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::figures::Times;
use super::kept::{Kept, Wanted};
use super::{NAMESPACE, route};
use crate::cluster::{Cluster, Error};

/// A kind of change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// A route that is there gets another filter.
    Edit,
    /// A route with a hostname of its own comes, and goes again.
    New,
    /// A route goes; it came before.
    Delete,
}

/// Changes one at a time, beside many other routes.
pub struct Changes {
    routes: Api<DynamicObject>,
    client: Kept,
    judged: watch::Receiver<Judged>,
    count: usize,
    revision: usize,
}

/// The generation that the status of a route speaks of, and when that was seen first.
type Judged = HashMap<String, (i64, Instant)>;

/// Routes that are written at once.
const AT_ONCE: usize = 8;
/// Between two changes: at least this, and at most three times as much.
const PAUSE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(120);
/// The label of the routes that are measured, whose statuses are watched.
const MEASURED: &str = "postern-e2e-measured";
/// The route that is edited.
const EDITED: &str = "edited";

impl Change {
    /// How many changes a round of all kinds makes for each that is counted: a new one is deleted and a deleted one was
    /// new.
    pub const ALL: usize = 5;

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::New => "new",
            Self::Delete => "delete",
        }
    }
}

impl Changes {
    /// So many of each kind, asked for at this address.
    pub async fn new(cluster: &Cluster, address: &str, count: usize) -> Result<Self, Error> {
        let routes = cluster.gateway_api("HTTPRoute", NAMESPACE);
        let (sender, judged) = watch::channel(Judged::new());
        let measured = Config::default().labels(MEASURED);
        tokio::spawn(judge(routes.clone(), measured, sender));
        Ok(Self { routes, client: Kept::new(address)?, judged, count, revision: 0 })
    }

    /// Waits for the first answer.
    pub async fn start(&mut self) -> Result<(), Error> {
        self.write(EDITED, "0").await?;
        self.client.until(EDITED, Wanted::Revision("0")).await?;
        Ok(())
    }

    /// Brings the number of other routes to this; says how long that took.
    pub async fn fill(&mut self, there: usize, wanted: usize) -> Result<Option<String>, Error> {
        if there >= wanted {
            return Ok(None);
        }
        let began = Instant::now();
        let names: Vec<String> = (there..wanted).map(|index| format!("other-{index}")).collect();
        let written = stream::iter(&names).map(|name| apply(&self.routes, name, "0", false));
        written.buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
        let written = began.elapsed();
        for name in &names {
            self.client.until(name, Wanted::Revision("0")).await?;
        }
        let answer = began.elapsed();
        let is_judged = |route: &DynamicObject| generation(route) == route.metadata.generation;
        while !self.routes.list(&ListParams::default()).await?.iter().all(is_judged) {
            if began.elapsed() > PATIENCE {
                return Err("routes that were written have no status".into());
            }
            sleep(Duration::from_millis(200)).await;
        }
        let judged = began.elapsed();
        Ok(Some(format!(
            "{} more routes: written in {written:.1?}, all answer after {answer:.1?}, all have a status after {judged:.1?}",
            names.len()
        )))
    }

    /// How long changes of a kind take until they answer, and until they have a status.
    pub async fn measure(&mut self, kind: Change) -> Result<(Times, Times), Error> {
        let (mut answered, mut judged) = (Vec::new(), Vec::new());
        for _ in 0..self.count {
            self.revision += 1;
            let revision = self.revision.to_string();
            let name = if kind == Change::Edit { EDITED.into() } else { format!("measured-{revision}") };
            if kind == Change::Delete {
                self.write(&name, &revision).await?;
                self.client.until(&name, Wanted::Revision(&revision)).await?;
            }
            sleep(PAUSE.mul_f64(1.0 + 2.0 * fastrand::f64())).await;
            let began = Instant::now();
            let wanted = if kind == Change::Delete { Wanted::Nothing } else { Wanted::Revision(&revision) };
            let asked = self.client.until(&name, wanted);
            let (generation, at) = if kind == Change::Delete {
                let how = DeleteParams::default();
                let (gone, at) = tokio::join!(self.routes.delete(&name, &how), asked);
                gone?;
                (None, at?)
            } else {
                let written = apply(&self.routes, &name, &revision, true);
                let (written, at) = tokio::join!(written, asked);
                (written?.metadata.generation, at?)
            };
            answered.push(at - began);
            if let Some(generation) = generation {
                judged.push(self.judged(&name, generation).await? - began);
            }
            if kind == Change::New {
                self.routes.delete(&name, &DeleteParams::default()).await?;
            }
        }
        Ok((Times::new(answered), Times::new(judged)))
    }

    async fn write(&self, name: &str, revision: &str) -> Result<DynamicObject, Error> {
        apply(&self.routes, name, revision, true).await
    }

    async fn judged(&mut self, name: &str, generation: i64) -> Result<Instant, Error> {
        let judged =
            self.judged.wait_for(|judged| judged.get(name).is_some_and(|(newest, _)| *newest >= generation));
        let judged = timeout(PATIENCE, judged).await.map_err(|_| format!("{name} gets no status"))??;
        Ok(judged[name].1)
    }
}

async fn apply(
    routes: &Api<DynamicObject>,
    name: &str,
    revision: &str,
    measured: bool,
) -> Result<DynamicObject, Error> {
    let mut route = route("web", name, revision);
    if measured {
        route["metadata"]["labels"] = serde_json::json!({ MEASURED: "yes" });
    }
    let how = PatchParams::apply("postern-e2e").force();
    Ok(routes.patch(name, &how, &Patch::Apply(&route)).await?)
}

/// Takes down when statuses are seen.
async fn judge(routes: Api<DynamicObject>, measured: Config, to: watch::Sender<Judged>) {
    let mut events = std::pin::pin!(watcher(routes, measured));
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(route) | Event::InitApply(route)) = event else { continue };
        let (Some(generation), Some(name)) = (generation(&route), route.metadata.name) else { continue };
        to.send_modify(|judged| {
            let newest = judged.entry(name).or_insert((generation, Instant::now()));
            if newest.0 < generation {
                *newest = (generation, Instant::now());
            }
        });
    }
}

/// The generation of a route that its status speaks of.
fn generation(route: &DynamicObject) -> Option<i64> {
    route.data["status"]["parents"][0]["conditions"][0]["observedGeneration"].as_i64()
}
