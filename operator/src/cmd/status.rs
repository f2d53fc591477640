//! `postern status`: the conditions that a cluster would show.

use std::sync::Arc;

use postern_config::ObjectKey;
use postern_translate::Translation;
use postern_translate::api::{Condition, GatewayStatus, ParentReference, ParentStatus, RouteStatus};
use postern_translate::kinds::ObjectSet;

use crate::input::source::Files;
use crate::input::{self, Input};
use crate::output::columns::Columns;
use crate::output::failure::{Failure, Verdict};
use crate::output::{self, BAD, Format, GOOD, TITLE, WARN, paint};
use crate::status::conditions::{self, is_wrong, parent, summary, word};
use crate::status::stamp;

/// Show the statuses that a cluster would show, and what is wrong
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// Show this namespace only
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// Show all namespaces, which is what happens without -n
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// text, or a `List` of the objects with their statuses
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Prints the statuses. Findings are objects that did not load and conditions that are not as they should be.
pub fn run(args: &Args) -> Result<Verdict, Failure> {
    let Input { snapshot, translation, has_errors, .. } = input::load(&args.files)?;
    let wanted = |namespace: &str| args.namespace.as_deref().is_none_or(|only| namespace == only);
    output::answer(
        args.output,
        || {
            let objects = &snapshot.objects;
            let statuses =
                stamp::stamped(translation.statuses.clone(), &stamp::present(objects), stamp::now());
            stamp::list(objects, &statuses, wanted)
        },
        || text(&snapshot.objects, &translation, wanted),
    )?;
    let any_wrong =
        conditions::findings(&translation.statuses).iter().any(|finding| wanted(&finding.namespace));
    Ok(Verdict::findings(has_errors || any_wrong))
}

fn text(objects: &ObjectSet, translation: &Translation, wanted: impl Fn(&str) -> bool) -> String {
    let statuses = &translation.statuses;
    let gateways = Vec::from_iter(statuses.gateways.iter().filter(|(key, _)| wanted(&key.namespace)));
    let grpc_routes =
        objects.grpc_routes.iter().filter(|(key, _)| wanted(&key.namespace)).map(|(key, route)| {
            let spec = &route.spec;
            RouteView {
                key,
                hostnames: &spec.hostnames,
                parents: &spec.parent_refs,
                status: statuses.grpc_routes.get(key).map(Arc::as_ref),
            }
        });
    let http_routes =
        objects.http_routes.iter().filter(|(key, _)| wanted(&key.namespace)).map(|(key, route)| {
            let spec = &route.spec;
            RouteView {
                key,
                hostnames: &spec.hostnames,
                parents: &spec.parent_refs,
                status: statuses.http_routes.get(key).map(Arc::as_ref),
            }
        });
    let tables = [
        if wanted("") { class_table(objects, translation) } else { String::new() },
        gateway_table(objects, &gateways),
        listener_table(objects, &gateways),
        route_table("GRPCROUTE", grpc_routes),
        route_table("HTTPROUTE", http_routes),
    ];
    tables.into_iter().filter(|table| !table.is_empty()).collect::<Vec<_>>().join("\n")
}

fn class_table(objects: &ObjectSet, translation: &Translation) -> String {
    let mut table = Table::new(["GATEWAYCLASS", "CONTROLLER", "ACCEPTED"]);
    for (name, status) in &translation.statuses.gateway_classes {
        let class = objects.gateway_classes.get(&ObjectKey::new("", name));
        let controller = class.map_or("", |class| &class.spec.controller_name);
        table.row([name, controller, &shown(&status.conditions, "Accepted")], &status.conditions);
    }
    table.render()
}

fn gateway_table(objects: &ObjectSet, gateways: &[(&ObjectKey, &GatewayStatus)]) -> String {
    let mut table = Table::new(["GATEWAY", "CLASS", "ADDRESS", "ACCEPTED", "PROGRAMMED"]);
    for (key, status) in gateways {
        let class = objects.gateways.get(key).map_or("", |gateway| &gateway.spec.gateway_class_name);
        let addresses = joined(status.addresses.iter().map(|address| address.value.as_str()), "-");
        let conditions = &status.conditions;
        let name = key.to_string();
        let cells: [&str; 5] =
            [&name, class, &addresses, &shown(conditions, "Accepted"), &shown(conditions, "Programmed")];
        table.row(cells, conditions);
    }
    table.render()
}

fn listener_table(objects: &ObjectSet, gateways: &[(&ObjectKey, &GatewayStatus)]) -> String {
    let title =
        ["LISTENER", "PORT", "PROTOCOL", "HOSTNAME", "ROUTES", "ACCEPTED", "PROGRAMMED", "RESOLVEDREFS"];
    let mut table = Table::new(title);
    for (key, status) in gateways {
        let Some(gateway) = objects.gateways.get(key) else { continue };
        for listener in &status.listeners {
            let Some(spec) = gateway.spec.listeners.iter().find(|spec| spec.name == listener.name) else {
                continue;
            };
            let conditions = &listener.conditions;
            let hostname = spec.hostname.as_deref().filter(|name| !name.is_empty()).unwrap_or("*");
            let cells: [&str; 8] = [
                &format!("{key}/{}", listener.name),
                &spec.port.to_string(),
                spec.protocol.as_str(),
                hostname,
                &listener.attached_routes.to_string(),
                &shown(conditions, "Accepted"),
                &shown(conditions, "Programmed"),
                &shown(conditions, "ResolvedRefs"),
            ];
            table.row(cells, conditions);
        }
    }
    table.render()
}

/// What is shown of a route of any kind.
struct RouteView<'a> {
    key: &'a ObjectKey,
    hostnames: &'a [String],
    parents: &'a [ParentReference],
    status: Option<&'a RouteStatus>,
}

fn route_table<'a>(title: &str, routes: impl Iterator<Item = RouteView<'a>>) -> String {
    let mut table = Table::new([title, "PARENT", "HOSTNAMES", "ACCEPTED", "RESOLVEDREFS"]);
    for route in routes {
        let name = route.key.to_string();
        let hostnames = joined(route.hostnames.iter().map(String::as_str), "*");
        let answered = route.status.map_or(&[][..], |status| &status.parents);
        for ParentStatus { parent_ref, conditions, .. } in answered {
            let parent = parent(parent_ref, &route.key.namespace);
            let cells: [&str; 5] = [
                &name,
                &parent,
                &hostnames,
                &shown(conditions, "Accepted"),
                &shown(conditions, "ResolvedRefs"),
            ];
            table.row(cells, conditions);
        }
        // A parent that no controller owns is told by the absence of an entry.
        for reference in route
            .parents
            .iter()
            .filter(|wanted| !answered.iter().any(|p| same(&p.parent_ref, wanted, route.key)))
        {
            table.row([&name, &parent(reference, &route.key.namespace), &hostnames, "-", "-"], &[]);
        }
    }
    table.render()
}

fn same(answered: &ParentReference, wanted: &ParentReference, route: &ObjectKey) -> bool {
    parent(answered, &route.namespace) == parent(wanted, &route.namespace)
        && (&answered.group, &answered.kind) == (&wanted.group, &wanted.kind)
}

/// The status of a condition in the colour of its meaning, `-` when it is absent.
fn shown(conditions: &[Condition], kind: &str) -> String {
    match conditions.iter().find(|condition| condition.kind == kind) {
        Some(condition) => paint(if is_wrong(condition) { BAD } else { GOOD }, word(condition.status)),
        None => "-".into(),
    }
}

fn joined<'a>(words: impl Iterator<Item = &'a str>, none: &str) -> String {
    let all = words.collect::<Vec<_>>().join(",");
    if all.is_empty() { none.into() } else { all }
}

/// Columns, and under each row the conditions that are not as they should be.
struct Table {
    columns: Columns,
    is_empty: bool,
}

impl Table {
    fn new<const N: usize>(title: [&str; N]) -> Self {
        let mut columns = Columns::new(0);
        let title = title.map(|name| paint(TITLE, name));
        columns.row(title.each_ref().map(String::as_str));
        Self { columns, is_empty: true }
    }

    fn row<const N: usize>(&mut self, cells: [&str; N], conditions: &[Condition]) {
        self.columns.row(cells);
        self.is_empty = false;
        for condition in conditions.iter().filter(|condition| is_wrong(condition)) {
            let fact = paint(WARN, summary(condition));
            self.columns.line(format!("{fact}: {}", condition.message));
        }
    }

    /// Nothing when there are no rows.
    fn render(&self) -> String {
        if self.is_empty { String::new() } else { self.columns.render() }
    }
}
