//! `postern serve` over real sockets: the lesson's requests, changes of the files, TLS, and the end.

#[path = "../../dataplane/tests/http/common/anyone.rs"]
mod anyone;
#[path = "common/client.rs"]
mod client;
#[path = "common/run.rs"]
mod run;
#[path = "common/server.rs"]
mod server;
#[path = "common/tls.rs"]
mod tls;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use client::{get, try_get};
use run::fixtures;
use server::{Server, eventually};

const ANY_PORT: [&str; 2] = ["--bind", "80=127.0.0.1:0"];
const APP: &str = "app.shop.test";

fn shop() -> (Server, SocketAddr) {
    let mut server = Server::start_in(&fixtures(), ["-f", "shop.yaml", "--dev"].iter().chain(&ANY_PORT));
    let web = server.listener("shop/web http");
    (server, web)
}

/// A folder of its own with a copy of a fixture, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn with_shop(name: &str) -> Self {
        let folder = Self(std::env::temp_dir().join(format!("postern-{name}-{}", std::process::id())));
        fs::create_dir_all(&folder.0).expect("a folder can be made");
        fs::copy(fixtures().join("shop.yaml"), folder.file()).expect("the fixture is there");
        folder
    }

    fn file(&self) -> PathBuf {
        self.0.join("shop.yaml")
    }

    fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.file()).expect("readable");
        assert!(text.contains(from), "`{from}` is in the fixture");
        write_by_rename(&self.file(), &text.replace(from, to));
    }

    fn serve(&self) -> (Server, SocketAddr) {
        let path = self.0.to_str().expect("UTF-8");
        let mut server = Server::start_in(&fixtures(), ["-f", path, "--dev"].iter().chain(&ANY_PORT));
        let web = server.listener("shop/web http");
        (server, web)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// As editors do it.
fn write_by_rename(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).expect("writable");
    fs::rename(new, path).expect("renamed");
}

#[test]
fn the_requests_of_the_lesson_are_answered_as_it_says() {
    let (_server, web) = shop();
    let health = get(web, APP, "/api/health", &[]);
    assert_eq!((health.status, health.backend().as_str()), (200, "green"));
    assert_eq!(health.echo()["headers"]["x-route"], "exact");
    assert_eq!(health.header("x-postern-route"), "shop/app rule 0");

    assert_eq!(get(web, APP, "/api/users", &["x-version: v2"]).backend(), "green");
    assert_eq!(get(web, APP, "/api/users", &[]).backend(), "blue");

    let rewritten = get(web, APP, "/v1/users", &[]);
    assert_eq!((rewritten.backend().as_str(), &rewritten.echo()["path"]), ("blue", &"/api/users".into()));

    let moved = get(web, APP, "/old", &[]);
    assert_eq!((moved.status, moved.header("location")), (301, "http://app.shop.test/api/v1"));

    assert_eq!(get(web, APP, "/apis", &[]).status, 404);
    assert_eq!(get(web, APP, "/broken", &[]).status, 500);
    assert_eq!(get(web, "other.example", "/", &[]).status, 404);
}

#[test]
fn the_canary_gets_its_share() {
    const REQUESTS: u32 = 2_000;
    let (_server, web) = shop();
    let green = (0..REQUESTS).filter(|_| get(web, APP, "/canary", &[]).backend() == "green").count();
    // Binomial with p = 0.1: the mean is 200, the standard deviation 13.4.
    assert!((160..=240).contains(&green), "{green} of {REQUESTS} went to green");
}

#[test]
fn a_change_of_the_file_is_served_within_a_moment() {
    let folder = Folder::with_shop("change");
    let (_server, web) = folder.serve();
    assert_eq!(get(web, APP, "/new", &[]).status, 404);
    folder.edit("value: /canary", "value: /new");
    eventually("the new path", || get(web, APP, "/new", &[]).status, |status| *status == 200);
    assert_eq!(get(web, APP, "/canary", &[]).status, 404);
}

#[test]
fn no_request_is_lost_while_files_change() {
    let folder = Folder::with_shop("lossless");
    let (_server, web) = folder.serve();
    let done = std::sync::atomic::AtomicBool::new(false);
    let ordering = std::sync::atomic::Ordering::Relaxed;
    let answered = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut answered = 0;
            while !done.load(ordering) {
                assert_eq!(get(web, APP, "/api/health", &[]).status, 200);
                answered += 1;
            }
            answered
        });
        for round in 0..20 {
            let (from, to) =
                if round % 2 == 0 { ("weight: 90", "weight: 50") } else { ("weight: 50", "weight: 90") };
            folder.edit(from, to);
            std::thread::sleep(Duration::from_millis(100));
        }
        done.store(true, ordering);
        asking.join().expect("every request is answered")
    });
    assert!(answered > 20, "only {answered} requests were made");
}

#[test]
fn an_object_that_becomes_invalid_is_left_out_and_the_others_are_served() {
    let folder = Folder::with_shop("invalid");
    let (mut server, web) = folder.serve();
    folder.edit("value: /broken", "value: broken");
    server.says("HTTPRoute shop/broken");
    server.says("shop.yaml:");
    eventually("the route is gone", || get(web, APP, "/broken", &[]).status, |status| *status == 404);
    assert_eq!(get(web, APP, "/api/health", &[]).backend(), "green");
}

#[test]
fn a_file_that_is_no_yaml_for_a_moment_is_served_as_it_was() {
    let folder = Folder::with_shop("broken");
    let (mut server, web) = folder.serve();
    let good = fs::read_to_string(folder.file()).expect("readable");
    write_by_rename(&folder.file(), "kind: [");
    server.says("what it held before is served");
    assert_eq!(get(web, APP, "/api/health", &[]).backend(), "green");
    write_by_rename(&folder.file(), &good.replace("value: /canary", "value: /again"));
    eventually("the file is read again", || get(web, APP, "/again", &[]).status, |status| *status == 200);
}

#[test]
fn files_may_come_and_go() {
    let folder = Folder::with_shop("folder");
    let (_server, web) = folder.serve();
    let route = "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: more, namespace: shop},
        spec: {parentRefs: [{name: web}], hostnames: [more.shop.test], rules: [{backendRefs: [{name: blue, port: 8080}]}]}}";
    let below = folder.0.join("team");
    fs::create_dir(&below).expect("a folder can be made");
    fs::write(below.join("more.yaml"), route).expect("writable");
    eventually(
        "the new file",
        || get(web, "more.shop.test", "/", &[]).backend(),
        |backend| backend == "blue",
    );
    fs::remove_file(below.join("more.yaml")).expect("removable");
    eventually("the file is gone", || get(web, "more.shop.test", "/", &[]).status, |status| *status == 404);
}

#[test]
fn a_mounted_config_map_is_followed() {
    let folder = Folder::with_shop("mount");
    // As the kubelet mounts it: data -> version 1, files -> data; a change is a new folder and one renamed link.
    let text = fs::read_to_string(folder.file()).expect("readable");
    let version = |name: &str, text: &str| {
        fs::create_dir(folder.0.join(name)).expect("a folder can be made");
        fs::write(folder.0.join(name).join("shop.yaml"), text).expect("writable");
    };
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, folder.0.join(name)).expect("a link can be made")
    };
    version("..v1", &text);
    fs::remove_file(folder.file()).expect("removable");
    link("..v1", "..data");
    link("..data/shop.yaml", "shop.yaml");
    let (_server, web) = folder.serve();
    assert_eq!(get(web, APP, "/canary", &[]).status, 200);
    version("..v2", &text.replace("value: /canary", "value: /mounted"));
    link("..v2", "..new");
    fs::rename(folder.0.join("..new"), folder.0.join("..data")).expect("renamed");
    eventually("the new version", || get(web, APP, "/mounted", &[]).status, |status| *status == 200);
}

/// A backend for one request of the shop's green Service.
struct Green {
    url: String,
    asked: Receiver<()>,
}

impl Green {
    /// Answers after `wait`.
    fn start(wait: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("shop/green=http://{}", listener.local_addr().expect("bound"));
        let (sender, asked) = channel();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the proxy comes");
            let mut head = [0; 4096];
            let read = stream.read(&mut head).expect("a request");
            assert!(head[..read].starts_with(b"GET /api/health HTTP/1.1\r\n"));
            sender.send(()).expect("the test waits");
            std::thread::sleep(wait);
            // The proxy may have been told to give up.
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nmine");
        });
        Self { url, asked }
    }

    fn serve(&self) -> (Server, SocketAddr) {
        let arguments = ["-f", "shop.yaml", "--backend", &self.url];
        let mut server = Server::start_in(&fixtures(), arguments.iter().chain(&ANY_PORT));
        let web = server.listener("shop/web http");
        (server, web)
    }
}

#[test]
fn a_backend_can_be_given_on_the_command_line() {
    let green = Green::start(Duration::ZERO);
    let (_server, web) = green.serve();
    assert_eq!(get(web, APP, "/api/health", &[]).body, "mine");
    assert_eq!(get(web, APP, "/api/users", &[]).status, 503, "blue has no endpoints without --dev");
}

#[test]
fn termination_waits_for_open_requests() {
    let green = Green::start(Duration::from_millis(500));
    let (mut server, web) = green.serve();
    let asking = std::thread::spawn(move || get(web, APP, "/api/health", &[]).body);
    green.asked.recv().expect("the request is under way");
    server.terminate();
    assert_eq!(asking.join().expect("answered"), "mine");
    assert_eq!(server.wait().code(), Some(0));
    assert!(try_get(web, APP, "/", &[]).is_err(), "the port is closed");
}

#[test]
fn a_second_signal_ends_open_requests() {
    let green = Green::start(Duration::from_secs(15));
    let (mut server, web) = green.serve();
    let asking = std::thread::spawn(move || try_get(web, APP, "/api/health", &[]).is_err());
    green.asked.recv().expect("the request is under way");
    server.terminate();
    server.says("a second signal");
    let begin = Instant::now();
    server.terminate();
    assert_eq!(server.wait().code(), Some(1));
    assert!(begin.elapsed() < Duration::from_secs(10), "at once, not after the drain");
    assert!(asking.join().expect("no panic"), "nobody answers");
}

#[test]
fn https_listeners_get_a_certificate_for_their_hostname() {
    let arguments = ["-f", "edge.yaml", "--dev", "--bind", "80=127.0.0.1:0", "--bind", "443=127.0.0.1:0"];
    let mut server = Server::start_in(&fixtures(), arguments);
    let (http, https) = (server.listener("edge/east http"), server.listener("edge/east https"));
    let (first, _) = tls::get(https, "secure.east.test", "/ready", None).expect("any certificate will do");
    let certificate = first.certificate;
    let (_, trusted) =
        tls::get(https, "secure.east.test", "/waiting", Some(&certificate)).expect("the name is in it");
    assert_eq!(trusted.status, 503);
    assert!(
        tls::get(https, "other.east.test", "/waiting", Some(&certificate)).is_err(),
        "another listener's"
    );
    assert_eq!(get(http, "a.east.test", "/waiting", &[]).status, 503);
}

#[test]
fn the_second_gateway_on_a_port_gets_a_free_one() {
    // A port that is free a moment ago; with two Gateways asking for it, one has to move.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
    let bind = format!("80={free}");
    let mut server =
        Server::start_in(&fixtures(), ["-f", "edge.yaml", "--bind", &bind, "--bind", "443=127.0.0.1:0"]);
    let east = server.listener("edge/east http");
    server.listener("edge/east https");
    server.listener("edge/east other");
    let west = server.listener("edge/west http");
    assert_eq!(east, free);
    assert_ne!(west.port(), free.port());
    server.says("--bind edge/west:80=");
    assert_eq!(get(east, "a.east.test", "/off", &[]).status, 500);
    assert_eq!(get(west, "a.west.test", "/off", &[]).status, 500);
}

#[test]
fn a_port_that_is_taken_is_said_and_is_the_end_when_it_is_the_only_one() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let bind = format!("80={}", taken.local_addr().expect("bound"));
    let mut server = Server::start_in(&fixtures(), ["-f", "shop.yaml", "--bind", &bind]);
    server.says("no port could be opened");
    assert_eq!(server.wait().code(), Some(1));
}

#[test]
fn the_admin_address_shows_statuses_metrics_and_no_keys() {
    let arguments = ["-f", "edge.yaml", "--dev", "--admin", "127.0.0.1:0", "--bind", "80=127.0.0.1:0"];
    let mut server = Server::start_in(&fixtures(), arguments.iter().chain(&["--bind", "443=127.0.0.1:0"]));
    let east = server.listener("edge/east http");
    server.says("admin: http://");
    let (_, address) = server.said.split_once("admin: http://").expect("said");
    let admin: SocketAddr = address.lines().next().and_then(|line| line.parse().ok()).expect("an address");
    get(east, "a.east.test", "/ready", &[]);

    assert_eq!(get(admin, "admin", "/ready", &[]).body, "ready\n");
    let status: serde_json::Value =
        serde_json::from_str(&get(admin, "admin", "/status", &[]).body).expect("JSON");
    assert_eq!(status["kind"], "List");
    assert_eq!(status["items"][0]["status"]["addresses"][0]["value"], "127.0.0.1");
    let config = get(admin, "admin", "/config", &[]).body;
    assert!(config.contains("BEGIN CERTIFICATE") && config.contains("[redacted]"), "{config}");
    assert!(!config.contains("PRIVATE KEY"), "keys stay inside");
    let metrics = get(admin, "admin", "/metrics", &[]);
    assert!(metrics.body.contains("{gateway=\"edge/east\""), "{}", metrics.body);
    assert!(metrics.body.ends_with("# EOF\n"));
    assert_eq!(get(admin, "admin", "/other", &[]).status, 404);
}

#[test]
fn the_access_log_has_a_line_for_each_request() {
    let mut server =
        Server::start_in(&fixtures(), ["-f", "shop.yaml", "--dev", "--access-log"].iter().chain(&ANY_PORT));
    let web = server.listener("shop/web http");
    get(web, APP, "/api/health", &[]);
    let line: serde_json::Value = serde_json::from_str(&server.line()).expect("a line of JSON");
    assert!(line.to_string().contains("shop/app"), "{line}");
}
