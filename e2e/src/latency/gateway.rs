//! New Gateways: from just before the write to `Programmed`, and to the first answer at their own address.

use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::figures::Times;
use super::kept::{Kept, Wanted};
use super::route;
use crate::cluster::{Cluster, Error, is_programmed};

/// How long they took.
pub struct New {
    /// Until the status said so.
    pub programmed: Times,
    /// Until the first right answer.
    pub answered: Times,
}

const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at a Gateway.
const LOOK: Duration = Duration::from_millis(10);
/// Between two Gateways: the pods of the last one end meanwhile.
const PAUSE: Duration = Duration::from_secs(2);

/// Creates so many, one after the other, each with a route that is there before.
pub async fn measure(cluster: &Cluster, namespace: &str, count: usize) -> Result<New, Error> {
    let gateways = cluster.gateway_api("Gateway", namespace);
    let routes = cluster.gateway_api("HTTPRoute", namespace);
    let (mut programmed, mut answered) = (Vec::new(), Vec::new());
    let how = PatchParams::apply("postern-e2e").force();
    for index in 0..count {
        let name = format!("new-{index}");
        routes.patch(&name, &how, &Patch::Apply(route(&name, &name, "1"))).await?;
        let gateway = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": { "name": name, "namespace": namespace },
            "spec": {
                "gatewayClassName": "postern",
                "listeners": [{ "name": "http", "port": 80, "protocol": "HTTP" }],
            },
        });
        let began = Instant::now();
        gateways.patch(&name, &how, &Patch::Apply(gateway)).await?;
        let (is, answer) = tokio::join!(
            time_of(&gateways, &name, |gateway| is_programmed(gateway).then_some(())),
            first_answer(&gateways, &name)
        );
        programmed.push(is?.0 - began);
        answered.push(answer? - began);
        gateways.delete(&name, &DeleteParams::default()).await?;
        routes.delete(&name, &DeleteParams::default()).await?;
        sleep(PAUSE).await;
    }
    Ok(New { programmed: Times::new(programmed), answered: Times::new(answered) })
}

/// When the first right answer came, from the address that the status names as soon as it names one.
async fn first_answer(gateways: &Api<DynamicObject>, name: &str) -> Result<Instant, Error> {
    let address = |gateway: &DynamicObject| {
        gateway.data["status"]["addresses"][0]["value"].as_str().map(ToOwned::to_owned)
    };
    let (_, address) = time_of(gateways, name, address).await?;
    Kept::new(&address)?.until(name, Wanted::Revision("1")).await
}

/// When something is found in a Gateway, and what.
async fn time_of<T>(
    gateways: &Api<DynamicObject>,
    name: &str,
    find: impl Fn(&DynamicObject) -> Option<T>,
) -> Result<(Instant, T), Error> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(found) = find(&gateways.get(name).await?) {
            return Ok((Instant::now(), found));
        }
        sleep(LOOK).await;
    }
    Err(format!("the Gateway {name} does not come to be").into())
}
