//! Ninety-nine routes of a Gateway, each of which answers with its latest edition.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use futures::{StreamExt, stream};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::{ask, operator};
use crate::backend::echo;
use crate::cluster::{Cluster, Error, wait};
use crate::facts::Facts;

/// The name of our controller, by which entries in statuses are ours.
pub const CONTROLLER: &str = "postern.dev/gateway-controller";

/// The routes, and what they should answer.
pub struct Healthy {
    cluster: Cluster,
    namespace: &'static str,
    routes: Api<DynamicObject>,
    address: SocketAddr,
    /// The edition that each route has.
    editions: Vec<u32>,
    restarts: BTreeMap<String, i32>,
}

const ROUTES: usize = 99;
/// How many of them are changed after each poison.
const CHANGED: usize = 9;
/// A change is served by then, on a machine that has much else to do: its time is said.
const SOON: Duration = Duration::from_secs(10);
const PODS: &str = "gateway.networking.k8s.io/gateway-name=web";
const HOST: &str = "healthy.example.com";

const WORLD: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: web }
spec:
  gatewayClassName: postern
  listeners: [{ name: http, port: 80, protocol: HTTP }]
";

impl Healthy {
    /// Makes them, and waits until all answer.
    pub async fn start(cluster: &Cluster, namespace: &'static str) -> Result<Self, Error> {
        let mut yaml = WORLD.to_owned() + &echo("echo", 8080, 1);
        for route in 0..ROUTES {
            let _ = write!(
                yaml,
                "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: healthy-{route}}}\n\
                 spec: {{parentRefs: [{{name: web}}], rules: {}}}\n",
                rules(route, 0)
            );
        }
        cluster.apply(namespace, &yaml).await?;
        let address = cluster.address(namespace, "web").await?;
        let healthy = Self {
            cluster: cluster.clone(),
            namespace,
            routes: cluster.gateway_api("HTTPRoute", namespace),
            address: SocketAddr::new(address.parse()?, 80),
            editions: vec![0; ROUTES],
            restarts: operator::restarts(cluster, namespace, PODS).await?,
        };
        match wait(Duration::from_secs(60), async || Ok(healthy.wrong().await.is_empty())).await? {
            true => Ok(healthy),
            false => Err(format!("without any poison there is: {:?}", healthy.wrong().await).into()),
        }
    }

    /// Checks that all answer as they should, and that changes of some are served soon.
    pub async fn check(&mut self, facts: &mut Facts, beside: &str) -> Result<(), Error> {
        let wrong = self.wrong().await;
        facts.check(
            format_args!("beside {beside}, all {ROUTES} answer rightly {}", first(&wrong)),
            wrong.is_empty(),
        );
        let some: Vec<usize> = (0..ROUTES).step_by(ROUTES / CHANGED).collect();
        self.change(facts, beside, &some).await
    }

    /// The same, with changes of all of them.
    pub async fn check_all(&mut self, facts: &mut Facts) -> Result<(), Error> {
        let all: Vec<usize> = (0..ROUTES).collect();
        self.change(facts, "all of that", &all).await
    }

    async fn change(&mut self, facts: &mut Facts, beside: &str, some: &[usize]) -> Result<(), Error> {
        for route in some {
            self.editions[*route] += 1;
            let spec = json!({ "spec": { "rules": rules(*route, self.editions[*route]) } });
            let name = format!("healthy-{route}");
            self.routes.patch(&name, &PatchParams::default(), &Patch::Merge(&spec)).await?;
        }
        let began = Instant::now();
        let mut wrong = Vec::new();
        let served = wait(SOON, async || {
            wrong = self.wrong().await;
            Ok(wrong.is_empty())
        });
        let (served, time, count) = (served.await?, began.elapsed().as_millis(), some.len());
        facts.check(
            format_args!(
                "beside {beside}, {count} changes are served, {time} ms after the last {}",
                first(&wrong)
            ),
            served,
        );
        Ok(())
    }

    /// Checks that no data plane has started again.
    pub async fn check_pods(&self, facts: &mut Facts) -> Result<(), Error> {
        let now = operator::restarts(&self.cluster, self.namespace, PODS).await?;
        facts.check(format_args!("the data plane has not started again: {now:?}"), now == self.restarts);
        Ok(())
    }

    /// Which of them do not answer as they should, and what they answer.
    async fn wrong(&self) -> Vec<String> {
        let asked = self.editions.iter().enumerate().map(|(route, edition)| async move {
            let path = format!("/healthy/{route}");
            let edition = edition.to_string();
            match ask::get(self.address, HOST, &path).await {
                Ok(answer) if answer.status == 200 && answer.header("x-edition") == Some(&edition) => None,
                Ok(answer) => {
                    let there = answer.header("x-edition").unwrap_or("none").to_owned();
                    Some(format!("{path}: {} of edition {there} instead of {edition}", answer.status))
                }
                Err(error) => Some(format!("{path}: {error}")),
            }
        });
        stream::iter(asked).buffer_unordered(8).filter_map(async |wrong| wrong).collect().await
    }
}

fn rules(route: usize, edition: u32) -> Value {
    json!([{
        "matches": [{ "path": { "type": "PathPrefix", "value": format!("/healthy/{route}") } }],
        "filters": [{
            "type": "ResponseHeaderModifier",
            "responseHeaderModifier": { "set": [{ "name": "x-edition", "value": edition.to_string() }] },
        }],
        "backendRefs": [{ "name": "echo", "port": 8080 }],
    }])
}

fn first(wrong: &[String]) -> String {
    wrong.first().map(|first| format!("({} do not: {first})", wrong.len())).unwrap_or_default()
}
