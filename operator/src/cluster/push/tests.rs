//! The channel between an operator and data planes, over real sockets, with an API server that only knows tokens.

mod world;

use std::time::Duration;

use super::UNUSED;
use postern_config::delta::{Contents, Inventory, ResourceKey};
use postern_config::wire::{self, Standing};
use postern_config::{Backend, BackendKey, Certificate, Config, Listener, ObjectKey, PrivateKey, Protocol};
use postern_dataplane::{Binds, Plane, Settings, Subscriber, install_crypto};
use tokio::time::{Instant, sleep};
use tonic::Code;
use world::{Client, Pair, World, free_port, status_of, within};

fn listens(port: u16) -> Config {
    let mut config = Config::default();
    let listener = Listener { port, protocol: Protocol::Http, hostname: None };
    config.listeners.insert("web".into(), listener.into());
    config
}

fn with_endpoints(mut config: Config, count: u16) -> Config {
    for name in ["a", "b"] {
        let endpoints = (0..if name == "a" { count } else { 1 }).map(|n| ([10, 0, 0, 1], 8000 + n).into());
        let key = BackendKey { service: ObjectKey::new("shop", name), port: 80 };
        config.backends.insert(key, Backend { endpoints: endpoints.collect() }.into());
    }
    config
}

fn with_key(mut config: Config, chain: &str, key: &str) -> Config {
    let certificate = Certificate { chain: chain.into(), key: PrivateKey::new(key) };
    config.certificates.insert(ObjectKey::new("shop", "tls"), certificate.into());
    config
}

#[tokio::test]
async fn only_the_service_account_of_a_gateway_gets_a_configuration() {
    let world = World::start().await;
    world.publish(1, Config::default(), Config::default());
    for (token, code) in [
        ("", Code::Unauthenticated),
        ("nobody's", Code::Unauthenticated),
        ("expired", Code::Unauthenticated),
        ("for-another-audience", Code::Unauthenticated),
        ("of-a-server-without-audiences", Code::Unauthenticated),
        ("another-account-of-the-namespace", Code::PermissionDenied),
        ("same-names-in-another-namespace", Code::PermissionDenied),
        ("account-that-someone-else-made", Code::PermissionDenied),
        ("account-of-an-earlier-gateway", Code::PermissionDenied),
        ("a-person", Code::PermissionDenied),
    ] {
        let refused = Client::subscribe(&world, token, &Standing::default(), &Inventory::new()).await;
        assert_eq!(refused.err().map(|status| status.code()), Some(code), "{token}");
    }
    let mut client = Client::new(&world, "shop").await;
    assert_eq!(client.update().await.set.len(), 0);
}

#[tokio::test]
async fn a_gateway_gets_no_byte_of_the_keys_of_another() {
    let world = World::start().await;
    let (ours, theirs) = ("canary-of-shop", "canary-of-bank");
    world.publish(1, with_key(listens(80), "chain", ours), with_key(listens(80), "chain", theirs));
    for (token, own, foreign) in [("shop", ours, theirs), ("bank", theirs, ours)] {
        let mut client = Client::new(&world, token).await;
        let seen = format!("{:?}", client.update().await);
        assert!(seen.contains(own) && !seen.contains(foreign), "{token}");
    }
}

#[tokio::test]
async fn a_change_of_endpoints_sends_one_backend_and_a_reconnect_only_the_difference() {
    let world = World::start().await;
    let (first, second) = (with_endpoints(listens(80), 1), with_endpoints(listens(80), 2));
    world.publish(1, first.clone(), Config::default());
    let mut client = Client::new(&world, "shop").await;
    let update = client.update().await;
    assert_eq!(update.set.len(), 3);
    client.answer(&update).await;
    world.publish(1, second.clone(), Config::default());
    let keys =
        |update: &wire::Update| -> Vec<String> { update.set.iter().map(|it| it.key.clone()).collect() };
    let update = client.update().await;
    assert_eq!((keys(&update), update.removed.len()), (vec!["backend/shop/a:80".into()], 0));
    drop(client);

    let holds = Contents::of(&first);
    let standing = Standing { version: Some(holds.version.clone()), ..Standing::default() };
    let mut client = Client::subscribe(&world, "shop", &standing, &holds.inventory).await.expect("let in");
    assert_eq!(keys(&client.update().await), ["backend/shop/a:80"]);
    drop(client);

    let holds = Contents::of(&second);
    let standing = Standing { version: Some(holds.version.clone()), ..Standing::default() };
    let mut client = Client::subscribe(&world, "shop", &standing, &holds.inventory).await.expect("let in");
    let silence = tokio::time::timeout(Duration::from_millis(300), client.next()).await;
    assert!(silence.is_err(), "there is no difference: {silence:?}");
}

#[tokio::test]
async fn a_slow_data_plane_gets_the_newest_difference_and_no_backlog() {
    let world = World::start().await;
    world.publish(1, with_endpoints(listens(80), 1), Config::default());
    let mut client = Client::new(&world, "shop").await;
    let first = client.update().await;
    for count in 2..50 {
        world.publish(1, with_endpoints(listens(80), count), Config::default());
        tokio::task::yield_now().await;
    }
    let newest = Contents::of(&with_endpoints(listens(80), 49)).version;
    world.published(&newest).await;
    client.answer(&first).await;
    assert_eq!(client.update().await.version, newest.as_str());
}

#[tokio::test]
async fn a_stream_ends_before_its_token_and_with_its_gateway() {
    let world = World::start().await;
    world.publish(1, Config::default(), Config::default());
    let mut short = Client::new(&world, "shop-for-two-seconds").await;
    let update = short.update().await;
    short.answer(&update).await;
    assert_eq!(short.next().await, Ok(None), "the token ends");
    let mut client = Client::new(&world, "shop").await;
    let update = client.update().await;
    client.answer(&update).await;
    world.remove_all();
    assert_eq!(client.next().await.map_err(|status| status.code()), Err(Code::PermissionDenied));
}

#[tokio::test]
async fn a_connection_without_a_stream_that_was_let_in_does_not_last() {
    let world = World::start().await;
    world.publish(1, listens(80), Config::default());
    let mut member = Client::new(&world, "shop").await;
    let update = member.update().await;
    member.answer(&update).await;
    let silent = tokio::spawn(world::end(world.dial().await));
    let encrypted = tokio::spawn(world::end(world.dial_tls().await));
    let (mut refused, connection) = h2::client::handshake(world.dial_tls().await).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    // From here on, time passes only while nothing else can happen.
    tokio::time::pause();
    let began = Instant::now();
    for _ in 0..3 {
        sleep(UNUSED / 4).await;
        let request = http::Request::post("https://operator/postern.config.v1.Config/Subscribe");
        let request = request.header("content-type", "application/grpc").body(()).expect("a request");
        let (answer, _) = refused.send_request(request, true).expect("the connection is there");
        assert_eq!(answer.await.expect("an answer").headers()["grpc-status"], "16");
    }
    let ends = within("the ends", futures::future::join3(silent, encrypted, connection)).await;
    assert!(matches!(ends, (Ok(()), Ok(()), Ok(_))), "{ends:?}");
    assert!(began.elapsed() <= UNUSED + Duration::from_secs(1), "{:?}", began.elapsed());
    world.publish(2, listens(81), Config::default());
    assert_eq!(member.update().await.set.len(), 1, "one with a stream stays");
}

#[tokio::test]
async fn all_data_planes_of_a_gateway_have_to_acknowledge_a_generation() {
    let mut world = World::start().await;
    world.publish(1, listens(80), Config::default());
    let (mut one, mut two) = (Client::new(&world, "shop").await, Client::new(&world, "shop").await);
    let (first, also_first) = (one.update().await, two.update().await);
    one.answer(&first).await;
    world.acknowledged(|said| said.is_some_and(|said| said.generation == Some(1))).await;
    two.answer(&also_first).await;
    world.publish(2, listens(81), Config::default());
    let (second, also_second) = (one.update().await, two.update().await);
    one.answer(&second).await;
    world.acknowledged(|said| said.is_some_and(|said| said.generation == Some(1))).await;
    two.answer(&also_second).await;
    world.acknowledged(|said| said.is_some_and(|said| said.generation == Some(2))).await;
    // A generation that changes nothing that is served is there at once.
    world.publish(3, listens(81), Config::default());
    world.acknowledged(|said| said.is_some_and(|said| said.generation == Some(3))).await;
    drop((one, two));
    world.acknowledged(|said| said.is_none()).await;
}

#[tokio::test]
async fn a_data_plane_says_which_listener_it_cannot_open() {
    let mut world = World::start().await;
    world.publish(1, listens(80), Config::default());
    let mut client = Client::new(&world, "shop").await;
    let update = client.update().await;
    let standing = Standing { failed: [(80, "in use".into())].into(), ..Client::standing(&update) };
    client.say(wire::report(&standing)).await;
    let is_named = |said: &crate::cluster::observe::Acknowledged| {
        said.failed_listeners.get("web").map(String::as_str) == Some("in use")
    };
    world.acknowledged(|said| said.is_some_and(is_named)).await;
}

fn plane(port: u16) -> std::sync::Arc<Plane> {
    install_crypto();
    let binds = Binds { overrides: [(80, ([127, 0, 0, 1], port).into())].into(), ..Binds::default() };
    Plane::start(Settings { workers: 1, binds, ..Settings::default() }).expect("threads").into()
}

#[tokio::test]
async fn a_resource_that_is_refused_is_reported_and_what_was_before_is_kept() {
    let mut world = World::start().await;
    let Pair { chain, key } = Pair::new();
    let good = with_key(listens(80), &chain, &key);
    world.publish(1, good.clone(), Config::default());
    let state = world.folder.join("refused.json");
    let mut subscriber = Subscriber::new(plane(free_port()));
    subscriber.keep(state.clone()).await;
    let run = tokio::spawn(subscriber.run(world.channel("shop")));
    world.acknowledged(|said| said.is_some_and(|said| said.generation == Some(1))).await;

    world.publish(2, with_key(with_endpoints(listens(80), 1), &chain, "no key"), Config::default());
    let refuses = |said: &crate::cluster::observe::Acknowledged| {
        said.generation == Some(2) && said.refused.keys().any(|it| it.to_string() == "certificate/shop/tls")
    };
    world.acknowledged(|said| said.is_some_and(refuses)).await;
    let said = world.telemetry.text();
    assert!(said.lines().any(|line| line == "postern_config_rejects_total 1"), "{said}");
    let kept = within("the file", async {
        loop {
            sleep(Duration::from_millis(50)).await;
            let Ok(Some(kept)) = postern_dataplane::last_good::load(&state) else { continue };
            if !kept.config.backends.is_empty() {
                return kept;
            }
        }
    });
    let kept = kept.await;
    assert_eq!(kept.config.certificates, good.certificates);
    let certificate = ResourceKey::Certificate(ObjectKey::new("shop", "tls"));
    assert_eq!(kept.inventory.get(&certificate), Contents::of(&good).inventory.get(&certificate));

    world.publish(3, good, Config::default());
    world
        .acknowledged(|said| said.is_some_and(|said| said.generation == Some(3) && said.refused.is_empty()))
        .await;
    run.abort();
}

#[tokio::test]
async fn it_is_measured_how_long_a_change_takes_to_all_that_are_connected() {
    let mut world = World::start().await;
    world.publish(1, listens(80), Config::default());
    let mut one = Client::new(&world, "shop").await;
    let mut two = Client::new(&world, "shop").await;
    for client in [&mut one, &mut two] {
        let update = client.update().await;
        client.answer(&update).await;
    }
    world.acknowledged(|said| said.is_some_and(|said| said.generation == Some(1))).await;
    let telemetry = world.telemetry.clone();
    let says = |line: &str| telemetry.text().lines().any(|it| it == line);
    assert!(says("postern_connected_dataplanes 2"), "{}", telemetry.text());
    assert!(
        says("postern_config_propagation_seconds_count 0"),
        "nobody was connected when that was published"
    );

    world.publish(2, with_endpoints(listens(80), 1), Config::default());
    let update = one.update().await;
    one.answer(&update).await;
    let update = two.update().await;
    assert!(says("postern_config_propagation_seconds_count 0"), "one of two does not have it");
    two.answer(&update).await;
    world.acknowledged(|said| said.is_some_and(|said| said.generation == Some(2))).await;
    assert!(says("postern_config_propagation_seconds_count 1"), "{}", telemetry.text());
    assert!(says("postern_config_pushes_total 4"), "{}", telemetry.text());
}

#[tokio::test]
async fn a_data_plane_serves_without_the_operator_and_after_a_restart() {
    let mut world = World::start().await;
    world.publish(1, listens(80), Config::default());
    let (state, port) = (world.folder.join("state.json"), free_port());
    let mut subscriber = Subscriber::new(plane(port));
    subscriber.keep(state.clone()).await;
    let run = tokio::spawn(subscriber.run(world.channel("shop")));
    world.acknowledged(|said| said.is_some_and(|said| said.generation == Some(1))).await;
    assert_eq!(status_of(port).await, 404);
    within("the file", async {
        while !state.exists() {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let channel = world.channel("shop");
    world.stop();
    assert_eq!(status_of(port).await, 404, "the operator is gone");
    run.abort();

    let port = free_port();
    let mut subscriber = Subscriber::new(plane(port));
    subscriber.keep(state.clone()).await;
    let standing = subscriber.standing();
    let run = tokio::spawn(subscriber.run(channel));
    assert_eq!(standing.borrow().version, Some(Contents::of(&listens(80)).version));
    assert_eq!(status_of(port).await, 404, "a container that started again");
    run.abort();

    let mut damaged = std::fs::read(&state).expect("the file");
    *damaged.last_mut().expect("not empty") ^= 1;
    std::fs::write(&state, damaged).expect("a folder of ours");
    let mut subscriber = Subscriber::new(plane(free_port()));
    subscriber.keep(state).await;
    assert_eq!(subscriber.standing().borrow().version, None, "a damaged file counts for nothing");
}
