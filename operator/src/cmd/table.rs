//! `postern table`: every match of every rule, in the order in which they are tried.

use std::collections::BTreeSet;

use postern_config::routing::{Candidate, ListenerTable, RouteTable};
use postern_config::{Config, ObjectKey, RouteMatch};
use serde::Serialize;

use crate::cmd::describe::{self, Answer, Share};
use crate::input;
use crate::input::source::Files;
use crate::output::columns::Columns;
use crate::output::failure::{Failure, Verdict};
use crate::output::{self, Format, TITLE, paint};

/// Show the routing table of each listener, in the order in which matches are tried
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// Show this Gateway only
    #[arg(value_name = "NAMESPACE/NAME")]
    gateway: Option<ObjectKey>,
    /// text, or the tables as a list
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Prints the tables. Findings are objects that did not load.
pub fn run(args: &Args) -> Result<Verdict, Failure> {
    let input = input::load(&args.files)?;
    let plans = input.plans(args.gateway.as_ref())?;
    let tables: Vec<_> =
        plans.iter().flat_map(|(gateway, config)| tables(gateway, config, &input.unknown)).collect();
    output::answer(args.output, || &tables, || text(&tables))?;
    Ok(Verdict::findings(input.has_errors))
}

/// The routing table of one listener.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    gateway: String,
    listener: String,
    port: u16,
    protocol: &'static str,
    hostname: String,
    entries: Vec<Entry>,
}

/// One match of one rule under one hostname.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    hostname: String,
    matches: RouteMatch,
    route: String,
    rule: usize,
    r#match: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    filters: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    backends: Vec<Share>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
    #[serde(skip)]
    label: String,
}

fn tables(gateway: &ObjectKey, config: &Config, unknown: &BTreeSet<ObjectKey>) -> Vec<Table> {
    let routes = RouteTable::build(config, |_, _, _| ());
    let listeners =
        routes.ports().flat_map(|(port, table)| table.listeners().map(move |listener| (port, listener)));
    listeners.map(|(port, listener)| table(gateway, config, unknown, port, listener)).collect()
}

fn table(
    gateway: &ObjectKey,
    config: &Config,
    unknown: &BTreeSet<ObjectKey>,
    port: u16,
    listener: &ListenerTable<()>,
) -> Table {
    Table {
        gateway: gateway.to_string(),
        listener: listener.name().to_string(),
        port,
        protocol: config
            .listeners
            .get(&**listener.name())
            .map_or("", |listener| describe::protocol(&listener.protocol)),
        hostname: describe::hostname(listener.hostname()),
        entries: listener.candidates().map(|candidate| entry(config, unknown, candidate)).collect(),
    }
}

fn entry(config: &Config, unknown: &BTreeSet<ObjectKey>, candidate: &Candidate<()>) -> Entry {
    let rule = candidate.rule().rule();
    Entry {
        hostname: describe::hostname(candidate.hostname()),
        matches: candidate.matches().clone(),
        route: candidate.route().to_string(),
        rule: rule.index,
        r#match: candidate.match_index(),
        filters: describe::filters(rule)
            .iter()
            .map(|filter| describe::named(describe::filter(filter)))
            .collect(),
        backends: describe::shares(config, rule, unknown),
        answer: describe::answer(rule),
        label: describe::rule(candidate.route(), rule.index),
    }
}

fn text(tables: &[Table]) -> String {
    tables.iter().map(table_text).collect::<Vec<_>>().join("\n")
}

fn table_text(table: &Table) -> String {
    let Table { gateway, listener, port, protocol, hostname, entries } = table;
    let title =
        format!("Gateway {gateway}, listener {listener}: port {port}, {protocol}, hostname {hostname}");
    let mut columns = Columns::new(2);
    columns.row(["#", "HOST", "MATCH", "RULE", "FILTERS", "ANSWERED BY"]);
    for (index, entry) in entries.iter().enumerate() {
        let filters = if entry.filters.is_empty() { "-".into() } else { entry.filters.join("; ") };
        let conditions = describe::conditions(&entry.matches);
        let number = (index + 1).to_string();
        columns.row([&number, &entry.hostname, &conditions, &entry.label, &filters, &target(entry)]);
    }
    if entries.is_empty() {
        return format!("{}\n  no routes\n", paint(TITLE, title));
    }
    format!("{}\n{}", paint(TITLE, title), columns.render())
}

/// The backends with their shares, or what Postern answers itself.
fn target(entry: &Entry) -> String {
    if let Some(answer) = &entry.answer {
        return answer.short();
    }
    let shares = entry.backends.iter().map(|share| {
        let answer = share.answer.as_ref().map(Answer::short);
        let percent = (share.percent < 100.0).then(|| format!("{:.1}%", share.percent));
        let parts = [share.backend.clone(), answer, percent];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    });
    shares.collect::<Vec<_>>().join(", ")
}
