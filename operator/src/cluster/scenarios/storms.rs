//! Many changes at once: each route is told what became of it, and the API server is not flooded with numbers.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::shop;

fn route(number: usize) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: r{number}, namespace: shop}}\n\
         spec: {{parentRefs: [{{name: web}}], hostnames: [r{number}.test], rules: [{{}}]}}"
    )
}

#[tokio::test]
async fn the_numbers_of_routes_are_written_now_and_then_while_many_come() {
    let (cluster, running) = shop().await;
    running.at_rest().await;
    let began = Instant::now();
    for number in 0..150 {
        cluster.put(&route(number));
        sleep(Duration::from_millis(5)).await;
    }
    running
        .until("all are counted", |it| {
            it.get("gateways", "shop", "web")["status"]["listeners"][0]["attachedRoutes"] == 151
        })
        .await;
    let windows = began.elapsed().as_millis() / 300 + 2;
    let written = running.at_rest().await;
    let of_gateway = written.iter().filter(|it| it.contains("gateways/shop/web/status")).count();
    let of_routes = written.iter().filter(|it| it.contains("httproutes/shop/r")).count();
    assert!((2..=windows).contains(&(of_gateway as u128)), "{of_gateway} writes in {windows} windows");
    assert_eq!(of_routes, 150);
}

#[tokio::test]
async fn one_route_is_counted_at_once() {
    let (cluster, running) = shop().await;
    running.at_rest().await;
    let began = Instant::now();
    cluster.put(&route(0));
    running
        .until("it is counted", |it| {
            it.get("gateways", "shop", "web")["status"]["listeners"][0]["attachedRoutes"] == 2
        })
        .await;
    // Nothing was written before, so nothing keeps this from being written.
    assert!(began.elapsed() < Duration::from_millis(250), "{:?}", began.elapsed());
}
