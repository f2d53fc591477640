//! What data planes refuse: an Event on the object that it comes from, once, and a condition on the listener.

use serde_json::Value;

use super::{condition, gateway_is, shop};
use crate::cluster::fake::Cluster;
use crate::cluster::observe::Acknowledged;

/// Who the Events about refusals are about, and what they say.
fn told(cluster: &Cluster) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let events = cluster.all("events").into_iter();
    let refusals = events.filter(|event| event["reason"] == "RefusedByDataPlane");
    refusals.map(|event| (text(&event["regarding"]["kind"]), text(&event["note"]))).collect()
}

#[tokio::test]
async fn a_refusal_is_told_once_to_who_can_do_something_about_it() {
    let (cluster, running) = shop().await;
    let said = |refused: &[(&str, &str)], listener: Option<&str>| {
        let refused = refused.iter().map(|(key, why)| (key.parse().expect("a key"), (*why).to_owned()));
        let why = listener.map(|why| ("http".to_owned(), why.to_owned()));
        let (refused, refused_listeners) = (refused.collect(), why.into_iter().collect());
        let said =
            Acknowledged { generation: Some(1), refused, refused_listeners, ..Acknowledged::default() };
        running.acknowledged.send_replace([("shop/web".parse().expect("a key"), said)].into());
    };
    said(&[("route/HTTPRoute/shop/app", "it is of a newer version")], None);
    running.until("the author of the route is told", |it| told(it).len() == 1).await;
    said(
        &[("route/HTTPRoute/shop/app", "it is of a newer version"), ("listener/http", "it is odd")],
        Some("it is odd"),
    );
    running.until("the author of the Gateway is told", |it| told(it).len() == 2).await;
    let programmed = |it: &Cluster| {
        condition(&it.get("gateways", "shop", "web")["status"]["listeners"][0]["conditions"], "Programmed")
    };
    running.until("the listener says so", |it| programmed(it) == "False/Invalid").await;
    assert!(gateway_is(&cluster, "Accepted", "True/Accepted"));
    running.at_rest().await;
    let kinds: Vec<String> = told(&cluster).into_iter().map(|(kind, _)| kind).collect();
    assert!(
        kinds.len() == 2
            && kinds.iter().any(|it| it == "HTTPRoute")
            && kinds.iter().any(|it| it == "Gateway")
    );
    assert!(told(&cluster).iter().all(|(_, note)| note.contains("serve what they had before")));

    said(&[], None);
    running.until("the listener is not refused any more", |it| programmed(it) != "False/Invalid").await;
}
