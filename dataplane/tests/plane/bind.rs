//! Which ports are open, where, and what is said when one cannot be.

use std::net::{SocketAddr, TcpListener};

use postern_dataplane::{Binds, Plane};

use crate::common::{Http1, Origin, Plan, apply, rule, serve, settings, within};

fn plan(origin: &Origin, ports: &[u16]) -> Plan {
    let names: Vec<String> = ports.iter().map(|port| format!("on-{port}")).collect();
    let listeners: Vec<&str> = names.iter().map(String::as_str).collect();
    let plan = ports.iter().zip(&listeners).fold(Plan::new(), |plan, (port, name)| plan.http(name, *port));
    plan.route("r", &listeners, [rule("/", "web")]).backend("web", [origin.address])
}

async fn is_served(address: SocketAddr) -> bool {
    let answer = async { Http1::connect(address).await?.get("x", "/").await };
    within("an answer", answer).await.is_ok_and(|answer| answer.status == 200)
}

#[tokio::test]
async fn a_port_that_cannot_be_opened_says_why_and_is_tried_again() {
    let origin = Origin::http1("web").await;
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound");
    let mut settings = settings([80]);
    settings.binds.overrides.insert(81, address);
    let plane = Plane::start(settings).expect("threads");
    let config = plan(&origin, &[80, 81, 60_000]).config();
    let applied = plane.apply(config.clone()).await;
    let message = &applied.failed[&81];
    assert!(
        message.contains(&address.to_string()) && message.contains("stop whatever listens there"),
        "{message}"
    );
    assert!(applied.failed[&60_000].contains("above 65535"), "{applied:?}");
    assert!(is_served(applied.open[&80]).await, "the others are served");

    drop(taken);
    let again = plane.apply(config).await;
    assert_eq!((again.open[&80], again.open[&81]), (applied.open[&80], address));
    assert!(is_served(address).await);
}

#[tokio::test]
async fn an_address_moves_from_one_port_to_another_at_once() {
    let origin = Origin::http1("web").await;
    let (plane, applied) = serve(settings([80]), plan(&origin, &[80]).config()).await;
    let address = applied.open[&80];
    for (round, port) in [81, 82, 80].into_iter().enumerate() {
        let mut open = Http1::connect(address).await.expect("open");
        assert!(within("an answer", open.get("x", "/")).await.is_ok());
        let overrides = [(port, address)].into();
        plane.rebind(Binds { overrides, ..Binds::default() }).await;
        let applied = apply(&plane, plan(&origin, &[port]).config()).await;
        assert_eq!(applied.open.into_iter().collect::<Vec<_>>(), [(port, address)], "round {round}");
        assert!(is_served(address).await);
    }
}
