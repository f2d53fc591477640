//! Which certificate and which listener a TLS client gets, and how both change while it is served.

use std::io;
use std::net::SocketAddr;

use crate::common::{
    Authority, Http1, Http2, Origin, Plan, apply, client, counted, rule, serve, settings, within,
};
use http::StatusCode;
use postern_config::{Certificate, ObjectKey, PrivateKey};
use postern_dataplane::Plane;
use rustls::HandshakeKind;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Listeners of all kinds on one port, each with a route to one backend under its own prefix-less rule.
fn plan(ca: &Authority, origin: &Origin) -> Plan {
    Plan::new()
        .certificate("exact", ca.certificate(&["a.example.com"]))
        .certificate("wild", ca.certificate(&["*.example.com", "*.b.example.com"]))
        .certificate("any", ca.certificate(&["other.test"]))
        .https("exact", 443, "a.example.com", &["exact"])
        .https("wild", 443, "*.example.com", &["wild"])
        .https("any", 443, "", &["any"])
        .https("none", 443, "none.example.com", &[])
        .route("on-exact", &["exact"], [rule("/exact", "web")])
        .route("on-wild", &["wild"], [rule("/wild", "web")])
        .route("on-any", &["any"], [rule("/any", "web")])
        .backend("web", [origin.address])
}

fn der(certificate: &Certificate) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(certificate.chain.as_bytes()).expect("PEM")
}

async fn start() -> (Plane, SocketAddr, Authority, Origin, Plan) {
    let ca = Authority::new();
    let origin = Origin::http1("web").await;
    let plan = plan(&ca, &origin);
    let (plane, applied) = serve(settings([443, 80]), plan.config()).await;
    (plane, applied.open[&443], ca, origin, plan)
}

/// The certificate that a client gets for a name.
async fn shown(address: SocketAddr, ca: &Authority, name: &str) -> io::Result<CertificateDer<'static>> {
    let stream = within("a handshake", client::tls(address, &ca.client(&["http/1.1"]), name)).await?;
    Ok(client::leaf(&stream))
}

#[tokio::test]
async fn the_server_name_chooses_exact_then_wildcard_then_catch_all() {
    let (_plane, address, ca, _origin, plan) = start().await;
    let expected = |name: &str| der(&plan.config().certificates[&ObjectKey::new("test", name)]);
    for (name, certificate) in [
        ("a.example.com", "exact"),
        ("A.Example.COM", "exact"),
        ("c.example.com", "wild"),
        ("x.b.example.com", "wild"),
        ("other.test", "any"),
    ] {
        let shown = shown(address, &ca, name).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(shown, expected(certificate), "{name}");
    }
}

#[tokio::test]
async fn a_name_that_nobody_serves_is_refused_with_an_alert_and_harms_nobody() {
    let (plane, address, ca, origin, _) = start().await;
    let refused = shown(address, &ca, "none.example.com").await.expect_err("the listener has no certificate");
    assert!(refused.to_string().contains("UnrecognisedName"), "{refused}");
    assert!(shown(address, &ca, "a.example.com").await.is_ok());

    // Without a listener for all names, a client without a server name is refused as well.
    let only = Plan::new()
        .certificate("exact", ca.certificate(&["a.example.com", "127.0.0.1"]))
        .https("exact", 443, "a.example.com", &["exact"])
        .route("r", &["exact"], [rule("/", "web")])
        .backend("web", [origin.address]);
    apply(&plane, only.config()).await;
    for name in ["127.0.0.1", "b.example.com"] {
        let refused = shown(address, &ca, name).await.expect_err("nobody serves it");
        assert!(refused.to_string().contains("UnrecognisedName"), "{name}: {refused}");
    }
    counted(&plane, "postern_tls_handshakes_failed_total 3").await;
}

#[tokio::test]
async fn a_certificate_that_does_not_load_is_named_and_refuses_its_listener_only() {
    let (plane, address, ca, _origin, plan) = start().await;
    let mut broken = ca.certificate(&["a.example.com"]);
    broken.key = ca.certificate(&["b.example.com"]).key;
    let not_pem = Certificate { chain: "nonsense".into(), key: PrivateKey::new("nonsense") };
    for wrong in [broken, not_pem] {
        let applied = plane.apply(plan.clone().certificate("exact", wrong).config()).await;
        assert_eq!(applied.refused.keys().collect::<Vec<_>>(), [&ObjectKey::new("test", "exact")]);
        assert!(applied.failed.is_empty(), "{applied:?}");
        let refused = shown(address, &ca, "a.example.com").await.expect_err("its certificate does not load");
        assert!(refused.to_string().contains("UnrecognisedName"), "{refused}");
        assert!(shown(address, &ca, "c.example.com").await.is_ok());
    }
}

#[tokio::test]
async fn the_first_certificate_that_covers_the_name_is_shown_else_the_first() {
    let ca = Authority::new();
    let (one, two) = (ca.certificate(&["one.test"]), ca.certificate(&["two.test", "*.three.test"]));
    let plan = Plan::new().certificate("one", one.clone()).certificate("two", two.clone()).https(
        "all",
        443,
        "",
        &["one", "two"],
    );
    let (_plane, applied) = serve(settings([443]), plan.config()).await;
    let address = applied.open[&443];
    assert_eq!(shown(address, &ca, "one.test").await.expect("served"), der(&one));
    assert_eq!(shown(address, &ca, "two.test").await.expect("served"), der(&two));
    assert_eq!(shown(address, &ca, "x.three.test").await.expect("served"), der(&two));
    // The client does not take it, but it was shown the first.
    let refused = shown(address, &ca, "four.test").await.expect_err("no certificate covers it");
    assert!(refused.to_string().contains("one.test"), "{refused}");
}

#[tokio::test]
async fn a_new_certificate_is_shown_at_once_and_open_connections_go_on() {
    let (plane, address, ca, _origin, plan) = start().await;
    let stream = client::tls(address, &ca.client(&["http/1.1"]), "a.example.com").await.expect("served");
    let mut open = Http1::over(stream);
    assert_eq!(
        within("an answer", open.get("a.example.com", "/exact")).await.expect("served").text(),
        "web /exact"
    );
    for _ in 0..3 {
        let new = ca.certificate(&["a.example.com"]);
        apply(&plane, plan.clone().certificate("exact", new.clone()).config()).await;
        assert_eq!(shown(address, &ca, "a.example.com").await.expect("served"), der(&new));
        let answer = within("an answer", open.get("a.example.com", "/exact")).await.expect("still open");
        assert_eq!(answer.text(), "web /exact");
    }
}

#[tokio::test]
async fn sessions_are_resumed_across_changes_of_the_configuration() {
    let (plane, address, ca, _origin, plan) = start().await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = ca.client_of(&[version], &["http/1.1"]);
        for (round, expected) in
            [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed].into_iter().enumerate()
        {
            let stream =
                within("a handshake", client::tls(address, &config, "a.example.com")).await.expect("served");
            assert_eq!(
                stream.get_ref().1.handshake_kind(),
                Some(expected),
                "{version:?}, connection {round}"
            );
            // The ticket for the next time comes with the answer.
            let answer = within("an answer", Http1::over(stream).get("a.example.com", "/exact")).await;
            assert_eq!(answer.expect("served").text(), "web /exact");
            apply(&plane, plan.clone().certificate("exact", ca.certificate(&["a.example.com"])).config())
                .await;
        }
    }
}

#[tokio::test]
async fn a_connection_serves_the_hosts_of_its_listener_and_sends_others_away() {
    let (plane, address, ca, _origin, plan) = start().await;
    let stream = client::tls(address, &ca.client(&["h2"]), "c.example.com").await.expect("served");
    let mut h2 = within("a handshake", Http2::over(stream)).await.expect("served");
    let stream = client::tls(address, &ca.client(&["http/1.1"]), "c.example.com").await.expect("served");
    let mut h1 = Http1::over(stream);
    let statuses = [
        ("c.example.com", "/wild", 200),
        ("d.example.com", "/wild", 200),
        ("d.example.com", "/exact", 404),
        ("a.example.com", "/exact", 421),
        ("other.test", "/any", 421),
    ];
    for (host, path, status) in statuses {
        let answer = within("an answer", h2.get(&format!("https://{host}{path}"))).await.expect("served");
        assert_eq!(answer.status.as_u16(), status, "HTTP/2 {host}{path}");
    }
    for (host, path, status) in statuses {
        let answer = within("an answer", h1.get(host, path)).await.expect("served");
        assert_eq!(answer.status.as_u16(), status, "HTTP/1.1 {host}{path}");
        if h1.closing {
            let stream =
                client::tls(address, &ca.client(&["http/1.1"]), "c.example.com").await.expect("served");
            h1 = Http1::over(stream);
        }
    }
    // A listener of its own for the connection's name: from now on, that is what the name stands for.
    let plan =
        plan.certificate("c", ca.certificate(&["c.example.com"])).https("c", 443, "c.example.com", &["c"]);
    apply(&plane, plan.route("on-c", &["c"], [rule("/c", "web")]).config()).await;
    for (host, path, status) in [("c.example.com", "/c", 200), ("d.example.com", "/wild", 421)] {
        let answer = within("an answer", h2.get(&format!("https://{host}{path}"))).await.expect("served");
        assert_eq!(answer.status.as_u16(), status, "{host}{path}");
    }
}

#[tokio::test]
async fn a_port_changes_between_cleartext_and_tls_without_closing() {
    let ca = Authority::new();
    let origin = Origin::http1("web").await;
    let base = Plan::new()
        .certificate("exact", ca.certificate(&["a.example.com"]))
        .route("r", &["web"], [rule("/", "web")])
        .backend("web", [origin.address]);
    let (plain, secure) = (base.clone().http("web", 80), base.https("web", 80, "", &["exact"]));
    let (plane, applied) = serve(settings([80]), plain.config()).await;
    let address = applied.open[&80];
    let mut before = Http1::connect(address).await.expect("open");
    assert_eq!(
        within("an answer", before.get("a.example.com", "/")).await.expect("served").status,
        StatusCode::OK
    );

    assert_eq!(apply(&plane, secure.config()).await.open[&80], address);
    assert!(shown(address, &ca, "a.example.com").await.is_ok());
    // What was cleartext before does not reach the routes of a listener with TLS.
    let answer = within("an answer", before.get("a.example.com", "/")).await.expect("answered");
    assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST);

    assert_eq!(apply(&plane, plain.config()).await.open[&80], address);
    let mut again = Http1::connect(address).await.expect("open");
    assert_eq!(
        within("an answer", again.get("a.example.com", "/")).await.expect("served").status,
        StatusCode::OK
    );
}
