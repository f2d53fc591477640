//! What parameters make the operator write, and what they leave as it is.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Running, SHOP, gateway_is, start};
use crate::cluster::fake::Cluster;

/// Makes `shop/web` refer to these parameters.
fn refer(cluster: &Cluster) {
    cluster.change("gateways", "shop", "web", |gateway| {
        let reference = json!({ "group": "postern.dev", "kind": "PosternParameters", "name": "own" });
        gateway["spec"]["infrastructure"] = json!({ "parametersRef": reference });
        gateway["metadata"]["generation"] = 2.into();
    });
}

fn parameters(cluster: &Cluster, spec: &str) {
    cluster.put(&format!(
        "apiVersion: postern.dev/v1alpha1\nkind: PosternParameters\nmetadata: {{name: own, namespace: shop}}\nspec: {spec}"
    ));
}

#[tokio::test(start_paused = true)]
async fn without_the_kind_the_gateway_says_how_to_get_it_and_with_it_all_is_well() {
    let cluster = Cluster::default();
    cluster.uninstall("posternparameters", true);
    cluster.put(SHOP);
    refer(&cluster);
    let running = start(&cluster);
    running.until("it is refused", |it| gateway_is(it, "Accepted", "False/InvalidParameters")).await;
    let says = cluster.get("gateways", "shop", "web").to_string();
    assert!(says.contains("helm install postern-crds"), "{says}");
    assert!(cluster.get("deployments", "shop", "web-postern").is_null(), "it runs without its parameters");

    cluster.uninstall("posternparameters", false);
    parameters(&cluster, "{replicas: 2}");
    sleep(Duration::from_secs(25)).await;
    running.until("it is accepted", |it| gateway_is(it, "Accepted", "True/Accepted")).await;
    running
        .until("it has its replicas", |it| {
            it.get("deployments", "shop", "web-postern")["spec"]["replicas"] == 2
        })
        .await;
}

fn service(cluster: &Cluster) -> Value {
    cluster.get("services", "shop", "web-postern")
}

async fn shop_with_an_address_of_the_cluster() -> (Cluster, Running) {
    let cluster = Cluster::default();
    cluster.put(SHOP);
    refer(&cluster);
    parameters(&cluster, "{service: {type: ClusterIP}}");
    let running = start(&cluster);
    running.until("it has a Service", |it| service(it)["spec"]["type"] == "ClusterIP").await;
    running.at_rest().await;
    (cluster, running)
}

#[tokio::test]
async fn a_change_of_the_service_is_written_to_the_service_alone() {
    let (cluster, running) = shop_with_an_address_of_the_cluster().await;

    parameters(&cluster, "{service: {type: NodePort, annotations: {example.com/pool: public}}}");
    running.until("it has another type", |it| service(it)["spec"]["type"] == "NodePort").await;
    assert_eq!(running.at_rest().await, ["PATCH services/shop/web-postern"]);
}

#[tokio::test]
async fn a_service_gets_and_loses_an_address_of_the_cluster_by_being_made_anew() {
    let (cluster, running) = shop_with_an_address_of_the_cluster().await;

    parameters(&cluster, "{service: {type: Headless}}");
    running.until("it is headless", |it| service(it)["spec"]["clusterIP"] == "None").await;
    let mut written = running.at_rest().await;
    written.retain(|write| !write.ends_with("/status"));
    assert_eq!(written, ["DELETE services/shop/web-postern", "PATCH services/shop/web-postern"]);
}

#[tokio::test]
async fn what_runs_is_left_as_it_is_while_its_parameters_are_gone() {
    let cluster = Cluster::default();
    cluster.put(SHOP);
    refer(&cluster);
    parameters(&cluster, "{replicas: 3}");
    let running = start(&cluster);
    running
        .until("it has its replicas", |it| {
            it.get("deployments", "shop", "web-postern")["spec"]["replicas"] == 3
        })
        .await;
    running.at_rest().await;

    cluster.remove("posternparameters", "shop", "own");
    running.until("it is refused", |it| gateway_is(it, "Accepted", "False/InvalidParameters")).await;
    let written = running.at_rest().await;
    assert!(written.iter().all(|write| write.ends_with("/status")), "{written:?}");
}
