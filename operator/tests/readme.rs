//! Every command of the README, run as it stands there, with the answers compared. Those that need a cluster are run by
//! `e2e/run`.
//!
//! `README_SERVER=ADDRESS:PORT` asks a server that already runs instead of starting one.

#[path = "common/run.rs"]
mod run;
#[expect(dead_code, reason = "here it is started and read, and nothing else")]
#[path = "common/server.rs"]
mod server;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use server::Server;

/// The address that the README's first command announces.
const ADDRESS: &str = "127.0.0.1:8080";
const FIRST: &str = "cargo run --release -p postern -- ";
const SECOND: &str = "cargo test --workspace";
const IN_A_CLUSTER: &str = "\n## In a cluster\n";
const BINARY: &str = "target/release/postern ";

/// A command and what it prints.
struct Example {
    command: String,
    printed: String,
}

#[test]
fn every_command_of_the_readme_prints_what_it_says() {
    let examples = examples(&fs::read_to_string(root().join("README.md")).expect("there is a README"));
    let (first, rest) = examples.split_first().expect("there are commands");
    let serve = first.command.strip_prefix(FIRST).expect("the first command serves");
    let (_server, address) = match std::env::var("README_SERVER") {
        Ok(address) => (None, address.parse().expect("ADDRESS:PORT")),
        Err(_) => {
            let (server, address) = start(serve, &first.printed);
            (Some(server), address)
        }
    };
    let mut compared = 0;
    for Example { command, printed } in rest.iter().filter(|example| example.command != SECOND) {
        let answer = bash(command, address);
        let same = if command.ends_with("uniq -c") { nearly_same } else { |a: &str, b: &str| a == b };
        assert!(same(&answer, printed), "$ {command}\nREADME:\n{printed}answer:\n{answer}");
        compared += 1;
    }
    assert!(compared > 5, "only {compared} commands were found");
    assert!(rest.iter().any(|example| example.command == SECOND), "the second command tests");
}

fn root() -> PathBuf {
    PathBuf::from("..")
}

/// The commands of the `console` blocks, but for those of the section that is `e2e/run`'s.
fn examples(readme: &str) -> Vec<Example> {
    let mut examples = Vec::<Example>::new();
    let (before, in_a_cluster) = readme.split_once(IN_A_CLUSTER).expect("there is the section");
    let after = in_a_cluster.find("\n## ").map_or("", |end| &in_a_cluster[end..]);
    let mut inside = false;
    for line in before.lines().chain(after.lines()) {
        match (inside, line.strip_prefix("$ "), examples.last_mut()) {
            (false, ..) => inside = line == "```console",
            (true, ..) if line == "```" => inside = false,
            (true, Some(command), _) => {
                examples.push(Example { command: command.into(), printed: String::new() })
            }
            (true, None, Some(example)) => example.printed += &format!("{line}\n"),
            (true, None, None) => panic!("`{line}` stands before the first command"),
        }
    }
    examples
}

/// Starts the server on a free port and compares what it announces.
fn start(serve: &str, printed: &str) -> (Server, SocketAddr) {
    let arguments = serve.split(' ').skip(1).chain(["--bind", "80=127.0.0.1:0"]);
    let mut server = Server::start_in(&root(), arguments);
    let line = server.line();
    let address = line.split_whitespace().next().and_then(|url| url.strip_prefix("http://")).expect("a URL");
    assert_eq!(
        line.replace(address, ADDRESS).split_whitespace().collect::<Vec<_>>(),
        printed.split_whitespace().collect::<Vec<_>>()
    );
    let address = address.parse().expect("an address");
    (server, address)
}

/// What a command prints, standard error included, with this build and this server in place of the README's.
fn bash(command: &str, address: SocketAddr) -> String {
    let binary = format!("{} ", env!("CARGO_BIN_EXE_postern"));
    let script = command.replace(BINARY, &binary).replace(":8080", &format!(":{}", address.port()));
    let output =
        Command::new("bash").current_dir(root()).args(["-c", &format!("{{ {script}; }} 2>&1")]).output();
    let output = output.expect("bash is there");
    let text =
        String::from_utf8(output.stdout).expect("UTF-8").replace(&format!(":{}", address.port()), ":8080");
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The same words, with numbers that differ by 3 standard deviations of 200 requests at 10 % at most.
fn nearly_same(answer: &str, printed: &str) -> bool {
    let near = |(a, b): (&str, &str)| match (a.parse::<i32>(), b.parse::<i32>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 13,
        _ => a == b,
    };
    let (answer, printed): (Vec<_>, Vec<_>) =
        (answer.split_whitespace().collect(), printed.split_whitespace().collect());
    answer.len() == printed.len() && answer.into_iter().zip(printed).all(near)
}
