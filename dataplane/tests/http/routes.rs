//! Which answers are the gateway's own, and what names the rule.

use serde_json::json;

use super::common::{Backend, Gateway, certificate, config, h2c, handshake, rule};

#[test]
fn what_cannot_be_forwarded_is_answered_with_its_reason() {
    let backend = Backend::echo();
    let mut failed = rule("/failed", "shop/web:80");
    failed["action"] = json!({ "type": "fail", "reason": "UnsupportedValue", "message": "no such filter" });
    let mut empty = rule("/empty", "shop/web:80");
    empty["action"]["backends"] = json!([]);
    let mut zero = rule("/zero", "shop/web:80");
    zero["action"]["backends"][0]["weight"] = json!(0);
    let mut invalid = rule("/invalid", "shop/web:80");
    invalid["action"]["backends"][0]["target"] =
        json!({ "invalid": { "reason": "BackendNotFound", "message": "no Service shop/x" } });
    let rules = [failed, empty, zero, invalid, rule("/none", "shop/none:80"), rule("/ok", "shop/web:80")];
    let mut config = config(&rules, &[("shop/web:80", backend.address())]);
    config["backends"]["shop/none:80"] = json!({ "endpoints": [] });
    let gateway = Gateway::with(|settings| settings.route_header = true, config);
    let mut client = gateway.client();
    for (path, status, body, route) in [
        ("/failed", 500, "the route for this request is not valid\n", Some("shop/web rule 0")),
        ("/empty", 500, "the route for this request is not valid\n", Some("shop/web rule 1")),
        ("/zero", 500, "the route for this request is not valid\n", Some("shop/web rule 2")),
        ("/invalid", 500, "the route for this request is not valid\n", Some("shop/web rule 3")),
        ("/none", 503, "no endpoint is ready\n", Some("shop/web rule 4")),
        ("/other", 404, "no route for this request\n", None),
    ] {
        // All on one connection: an answer of our own does not end it.
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let answer = client.answer();
        assert_eq!((answer.status, &*answer.body), (status, body), "{path}");
        assert_eq!(answer.header("x-postern-route"), route, "{path}");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.answer_to("HEAD").status, status, "{path}");
    }
    client.send("GET /ok HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().header("x-postern-route"), Some("shop/web rule 5"));
}

#[test]
fn an_invalid_backend_keeps_its_share() {
    let backend = Backend::echo();
    let mut shared = rule("/", "shop/web:80");
    let invalid =
        json!({ "target": { "invalid": { "reason": "BackendNotFound", "message": "none" } }, "weight": 1 });
    shared["action"]["backends"].as_array_mut().expect("backends").push(invalid);
    let gateway = Gateway::start(&[shared], &[("shop/web:80", backend.address())]);
    let mut client = gateway.client();
    let mut failed = 0;
    for _ in 0..100 {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        failed += usize::from(client.answer().status == 500);
    }
    assert!((45..=55).contains(&failed), "{failed} of 100");
}

#[test]
fn a_host_of_another_listener_than_the_server_name_is_misdirected() {
    let backend = Backend::echo();
    let mut config = config(&[rule("/", "shop/web:80")], &[("shop/web:80", backend.address())]);
    let https = json!({ "type": "https", "certificates": ["shop/cert"] });
    config["listeners"] = json!({
        "one": { "port": 443, "protocol": https, "hostname": "one.example" },
        "wild": { "port": 443, "protocol": https, "hostname": "*.wild.example" },
        "all": { "port": 443, "protocol": https },
    });
    config["routes"]["HTTPRoute/shop/web"]["attachments"] =
        json!([{ "listener": "one" }, { "listener": "wild", "hostnames": ["a.wild.example"] }]);
    config["certificates"] = json!({ "shop/cert": certificate(&["one.example", "*.wild.example"]) });
    let gateway = Gateway::with(|_| (), config);
    gateway.runtime().block_on(async {
        for (name, host, status) in [
            ("one.example", "one.example", 200),
            ("one.example", "ONE.example:443", 200),
            ("one.example", "a.wild.example", 421),
            ("one.example", "other.example", 421),
            ("a.wild.example", "a.wild.example", 200),
            ("b.wild.example", "a.wild.example", 200),
            ("a.wild.example", "b.wild.example", 404),
            ("a.wild.example", "one.example", 421),
            ("other.example", "another.example", 404),
            ("other.example", "one.example", 421),
        ] {
            let tls = handshake(gateway.address(443), name, &["h2"]).await;
            assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            let sender = h2c::speak(tls).await;
            let reply = h2c::ask(&sender, h2c::get(host, "/")).await.expect("an answer");
            assert_eq!(reply.head.status, status, "{name} {host}");
        }
    });
}
