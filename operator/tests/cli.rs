//! What a person sees of the read-only commands: exit code, standard output, standard error.

#[path = "common/run.rs"]
mod run;

use std::io::Write;
use std::process::{Output, Stdio};

use run::{fixtures, postern};

/// Compares what is seen with the snapshot of this name.
fn check(name: &str, line: &str) {
    check_input(name, line, "");
}

fn check_input(name: &str, line: &str, input: &str) {
    insta::assert_snapshot!(name, seen(line, &run(line, input)));
}

#[test]
fn status_shows_what_is_wrong_and_why() {
    check("status", "status -f shop.yaml");
    check("status-json", "status -f shop.yaml -o json");
    check("status-yaml", "status -f shop.yaml -o yaml");
    check("status-of-two-gateways", "status -f edge.yaml");
}

#[test]
fn status_shows_one_namespace_when_asked() {
    check("status-namespace", "status -f shop.yaml -f edge.yaml -n edge");
    check("status-other-namespace", "status -f shop.yaml -n nowhere");
    check("status-all-namespaces-is-the-default", "status -f shop.yaml -n shop -A");
}

#[test]
fn an_invalid_object_is_reported_and_the_others_are_shown() {
    check("status-invalid", "status -f invalid.yaml");
    check("table-invalid", "table -f invalid.yaml");
}

#[test]
fn input_that_cannot_be_read_has_an_exit_code_of_its_own() {
    check("missing-file", "status -f no-such-file.yaml");
    check("empty-folder", "status -f ../common");
    check("not-yaml", "status -f broken.yaml");
}

#[test]
fn input_comes_from_files_folders_and_standard_input() {
    let shop = std::fs::read_to_string(fixtures().join("shop.yaml")).expect("the fixture is there");
    check_input("stdin", "table -f -", &shop);
    check_input("stdin-twice", "table -f - -f -", &shop);
}

#[test]
fn a_list_with_statuses_loads_as_it_is_and_gives_the_same_again() {
    let printed = run("status -f shop.yaml -o json", "").stdout;
    let mut list: serde_json::Value = serde_json::from_slice(&printed).expect("JSON");
    for name in ["blue", "green"] {
        let service = serde_json::json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": "shop" },
            "spec": { "ports": [{ "port": 8080 }] },
        });
        list["items"].as_array_mut().expect("items").push(service);
    }
    let again = run("status -f - -o json", &list.to_string());
    assert!(again.stdout == printed, "{}", seen("status -f - -o json", &again));
}

#[test]
fn a_parent_that_nobody_answers_for_is_told_by_its_silence() {
    check("status-stray", "status -f stray.yaml");
}

#[test]
fn other_controllers_entries_and_unchanged_times_are_kept() {
    check("status-shared", "status -f stray.yaml -o yaml");
}

#[test]
fn table_shows_matches_in_the_order_in_which_they_are_tried() {
    check("table", "table -f shop.yaml");
    check("table-of-a-gateway", "table -f edge.yaml edge/west");
    check("table-of-an-unknown-gateway", "table -f edge.yaml edge/north");
    check("table-yaml", "table -f shop.yaml -o yaml");
}

#[test]
fn route_gives_the_winners_of_the_lesson() {
    check("route-exact", "route -f shop.yaml GET http://app.shop.test/api/health -H 'x-version: v2'");
    check("route-header", "route -f shop.yaml get http://app.shop.test/api/users -H 'X-Version: v2'");
    check("route-rewrite", "route -f shop.yaml GET http://app.shop.test/v1/users");
    check("route-redirect", "route -f shop.yaml GET http://app.shop.test/old");
    check("route-canary", "route -f shop.yaml GET http://app.shop.test/canary");
    check("route-json", "route -f shop.yaml GET http://app.shop.test/canary -o json");
}

#[test]
fn route_says_why_there_is_no_backend() {
    check("route-404-path", "route -f shop.yaml GET http://app.shop.test/apis");
    check("route-404-host", "route -f shop.yaml GET http://other.example/");
    check("route-500-invalid-reference", "route -f shop.yaml GET http://app.shop.test/broken");
    check("route-500-weights", "route -f edge.yaml GET http://a.east.test/off --gateway edge/east");
    check("route-500-no-backends", "route -f edge.yaml GET http://a.east.test/nowhere --gateway edge/east");
    check("route-503", "route -f edge.yaml GET http://a.east.test/waiting --gateway edge/east");
    check("route-no-port", "route -f shop.yaml GET http://app.shop.test:8080/");
    check("route-no-certificate", "route -f edge.yaml GET https://secure.east.test/ready");
    check("route-no-tls", "route -f shop.yaml GET https://app.shop.test:80/");
}

#[test]
fn route_follows_the_server_name_over_tls() {
    let mut manifests = std::fs::read_to_string(fixtures().join("edge.yaml")).expect("the fixture is there");
    for name in ["east", "other"] {
        let made = rcgen::generate_simple_self_signed(vec!["*.east.test".to_owned()]).expect("a certificate");
        let secret = serde_json::json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": "edge" },
            "type": "kubernetes.io/tls",
            "stringData": { "tls.crt": made.cert.pem(), "tls.key": made.signing_key.serialize_pem() },
        });
        manifests += &format!("---\n{secret}\n");
    }
    let check = |name, line| check_input(name, line, &manifests);
    check("route-tls", "route -f - GET https://secure.east.test/ready");
    check("route-tls-421", "route -f - GET https://secure.east.test/ready -H 'Host: other.east.test'");
    check("route-tls-404", "route -f - GET https://secure.east.test/ready -H 'Host: nobody.test'");
    check("route-tls-unknown-name", "route -f - GET https://nobody.test/ --gateway edge/east");
    check("route-tls-address", "route -f - GET https://127.0.0.1/ready -H 'Host: secure.east.test'");
}

#[test]
fn route_knows_where_ready_endpoints_are() {
    check("route-endpoints", "route -f edge.yaml GET http://a.east.test/ready --gateway edge/east");
}

#[test]
fn route_asks_which_gateway_is_meant_only_when_it_must() {
    check("route-several-gateways", "route -f edge.yaml GET http://a.east.test/ready");
    check("route-the-only-gateway-with-the-host", "route -f edge.yaml GET http://north.test/ready");
}

#[test]
fn wrong_usage_says_what_is_right() {
    check("usage-no-command", "");
    check("usage-no-file", "status");
    check("usage-format", "status -f shop.yaml -o xml");
    check("usage-url", "route -f shop.yaml GET app.shop.test/api");
    check("usage-header", "route -f shop.yaml GET http://app.shop.test/ -H x-version");
    check("usage-backend", "serve -f shop.yaml --backend shop/blue=https://127.0.0.1:1");
    check("usage-bind", "serve -f shop.yaml --bind http=8080");
}

#[test]
fn help_is_an_answer() {
    check("help", "--help");
    check("help-serve", "serve --help");
    check("help-route", "route --help");
}

#[test]
fn completions_and_manual_come_from_the_same_definitions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = run(&format!("completions {shell}"), "");
        let script = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && script.contains("postern") && script.contains("route"), "{shell}");
    }
    let page = run("man", "");
    assert!(page.status.success() && String::from_utf8_lossy(&page.stdout).starts_with(".ie"), "{page:?}");
    let folder = std::env::temp_dir().join(format!("postern-man-{}", std::process::id()));
    let written = run(&format!("man {}", folder.display()), "");
    assert!(written.status.success() && folder.join("postern-route.1").exists(), "{written:?}");
    std::fs::remove_dir_all(&folder).expect("the pages can be removed");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut command = postern();
    command.args(["completions", "zsh"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the binary ends");
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn colour_is_for_terminals() {
    let coloured = |setting: &str| {
        let output = postern().args(["status", "-f", "shop.yaml"]).env(setting, "1").output();
        output.expect("the binary runs").stdout.contains(&0x1b)
    };
    assert!(!coloured("NO_COLOR"), "NO_COLOR is honoured");
    assert!(coloured("CLICOLOR_FORCE"), "CLICOLOR_FORCE is honoured");
}

/// Runs it with a line of arguments, split at spaces outside of quotes, and `input` on standard input.
fn run(line: &str, input: &str) -> Output {
    let mut command = postern();
    command.args(words(line)).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("piped");
    // A command that does not read its input closes the pipe.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("the binary ends")
}

/// What a person sees of a run: the command, the exit code, and both outputs.
fn seen(line: &str, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().map_or("signal".into(), |code| code.to_string());
    format!(
        "$ postern {line}\nexit code: {code}\n----- stdout -----\n{}----- stderr -----\n{}",
        text(&output.stdout),
        text(&output.stderr)
    )
}

fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}
