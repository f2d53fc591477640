//! What is made for Gateways: never over what others made, always again when it is gone, and no longer than it is needed.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::{SHOP, gateway_is, shop, start};
use crate::cluster::fake::Cluster;

/// A ServiceAccount as a user makes it, in the place of ours.
const ACCOUNT: &str = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web-postern, namespace: shop}";

/// What a Gateway has, each with the same name.
const MADE: [&str; 4] = ["deployments", "services", "serviceaccounts", "configmaps"];

fn has_our_account(cluster: &Cluster) -> bool {
    !cluster.get("serviceaccounts", "shop", "web-postern")["metadata"]["ownerReferences"].is_null()
}

#[tokio::test]
async fn what_others_made_is_never_adopted() {
    let cluster = Cluster::default();
    let theirs = "apiVersion: v1\nkind: Service\nmetadata: {name: web-postern, namespace: shop}\nspec: {ports: [{port: 5432}]}";
    cluster.put(theirs);
    cluster.put(SHOP);
    let before = cluster.get("services", "shop", "web-postern");
    let running = start(&cluster);
    running
        .until("the Gateway says so", |it| {
            let conditions = it.get("gateways", "shop", "web")["status"]["conditions"].to_string();
            conditions.contains("was not made for this Gateway")
        })
        .await;
    assert_eq!(cluster.get("services", "shop", "web-postern"), before);
}

#[tokio::test]
async fn what_others_put_in_the_place_of_ours_is_not_adopted_either() {
    let (cluster, running) = shop().await;
    running.at_rest().await;
    // We want to change our Service, and before we do somebody has another in its place.
    cluster.meddle("services", |service| {
        *service = json!({ "metadata": { "uid": "theirs" }, "spec": { "ports": [{ "port": 5432 }] } });
    });
    cluster.change("gateways", "shop", "web", |it| it["spec"]["listeners"][0]["port"] = 8080.into());
    let ports = |it: &Cluster| it.get("services", "shop", "web-postern")["spec"]["ports"].clone();
    let theirs = json!([{ "port": 5432 }]);
    running.until("theirs is there", |it| ports(it) == theirs).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(ports(&cluster), theirs);
}

#[tokio::test]
async fn what_is_in_the_way_is_missed_soon_after_it_has_gone_whatever_changed_meanwhile() {
    let cluster = Cluster::default();
    cluster.put(ACCOUNT);
    cluster.put(SHOP);
    let running = start(&cluster);
    running.until("the Gateway says so", |it| gateway_is(it, "Programmed", "False/Invalid")).await;
    for number in 0..20 {
        cluster.change("gateways", "shop", "web", |it| {
            it["metadata"]["annotations"] = json!({ "n": number.to_string() })
        });
        sleep(Duration::from_millis(50)).await;
    }
    cluster.remove("serviceaccounts", "shop", "web-postern");
    running.until("it is made", has_our_account).await;
}

#[tokio::test]
async fn what_is_taken_away_a_second_time_is_made_again_and_so_it_is_after_what_was_in_its_way() {
    let (cluster, running) = shop().await;
    running.at_rest().await;
    cluster.remove("serviceaccounts", "shop", "web-postern");
    running.until("it is made again", has_our_account).await;
    running.at_rest().await;
    cluster.remove("serviceaccounts", "shop", "web-postern");
    running.until("it is made a second time", has_our_account).await;
    running.at_rest().await;
    // Somebody is faster the third time.
    cluster.remove("serviceaccounts", "shop", "web-postern");
    cluster.put(ACCOUNT);
    running.until("the Gateway says so", |it| gateway_is(it, "Programmed", "False/Invalid")).await;
    cluster.remove("serviceaccounts", "shop", "web-postern");
    running.until("it is made after that", has_our_account).await;
}

#[tokio::test]
async fn what_is_made_and_taken_away_in_one_moment_is_made_again() {
    let (cluster, running) = shop().await;
    running.at_rest().await;
    let is_made = |it: &Cluster| !it.get("services", "shop", "web-postern")["spec"].is_null();
    // As soon as it is there again, it goes: what was applied is not seen to come back.
    for _ in 0..3 {
        cluster.remove("services", "shop", "web-postern");
        running.until("it is made again", is_made).await;
    }
    cluster.remove("services", "shop", "web-postern");
    running.until("it stays made", is_made).await;
}

#[tokio::test]
async fn a_gateway_that_is_not_ours_any_more_loses_its_workload() {
    let (cluster, running) = shop().await;
    running.at_rest().await;
    cluster.change("gateways", "shop", "web", |it| it["spec"]["gatewayClassName"] = "other".into());
    running
        .until("all of it is gone", |it| {
            MADE.iter().all(|plural| it.get(plural, "shop", "web-postern").is_null())
        })
        .await;
}

#[tokio::test]
async fn our_fields_are_put_back_and_those_of_others_stay() {
    let (cluster, running) = shop().await;
    running.at_rest().await;
    cluster.change("deployments", "shop", "web-postern", |it| {
        it["spec"]["replicas"] = 3.into();
        it["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/evil".into();
    });
    running
        .until("the image is ours", |it| {
            it.get("deployments", "shop", "web-postern")["spec"]["template"]["spec"]["containers"][0]["image"]
                == "example.com/postern:1"
        })
        .await;
    assert_eq!(cluster.get("deployments", "shop", "web-postern")["spec"]["replicas"], 3);
}

#[tokio::test]
async fn a_gateway_that_is_gone_takes_along_what_was_made_for_it() {
    let (cluster, running) = shop().await;
    running.at_rest().await;
    cluster.remove("gateways", "shop", "web");
    running
        .until("all of it is gone", |it| {
            MADE.iter().all(|plural| it.get(plural, "shop", "web-postern").is_null())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_gone_takes_nothing_along() {
    let (cluster, running) = shop().await;
    running.at_rest().await;
    cluster.uninstall("gateways", true);
    sleep(Duration::from_secs(60)).await;
    let mut written = cluster.written();
    written.retain(|write| !write.ends_with("/status"));
    assert_eq!(written, Vec::<String>::new());
    let is_there = |plural: &&str| !cluster.get(plural, "shop", "web-postern").is_null();
    assert!(MADE.iter().all(is_there));
}
