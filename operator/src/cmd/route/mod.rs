//! `postern route`: where a request goes, and why not elsewhere.

mod explain;
mod request;
mod view;

use http::Method;
use postern_config::routing::RouteTable;
use postern_config::{Config, ObjectKey};

use self::explain::{explain, no_port};
use self::request::{ExplainRequest, Header};
use self::view::Explained;
use crate::input::source::Files;
use crate::input::{self, Input};
use crate::output::failure::{Failure, Message, Verdict};
use crate::output::{self, Format};

/// Explain where a request goes: all candidates, the winner and what it wins by, filters and backends
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// The method, for example GET
    #[arg(value_parser = request::method)]
    method: Method,
    /// The URL as a client of the listener's port sees it, for example http://app.shop.test/api or https://shop.test:8443/
    url: String,
    /// A header of the request; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<Header>,
    /// The Gateway that is asked, where several have the port and the host
    #[arg(long, value_name = "NAMESPACE/NAME")]
    gateway: Option<ObjectKey>,
    /// text, or one object
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Prints the explanation. A request that reaches no backend and is not redirected is a finding.
pub fn run(args: &Args) -> Result<Verdict, Failure> {
    let request = ExplainRequest::new(args.method.clone(), &args.url, &args.headers)
        .map_err(|fact| Failure::Usage(Message::new(fact)))?;
    let input = input::load(&args.files)?;
    let explained = match choose(&input, args.gateway.as_ref(), &request)? {
        Choice::Gateway(gateway, config) => explain(gateway, config, &input.unknown, &request),
        Choice::Nobody(because) => Explained::new(&request).refuse(because),
    };
    output::answer(args.output, || &explained, || explained.text())?;
    Ok(Verdict::findings(!explained.is_served))
}

enum Choice<'a> {
    Gateway(&'a ObjectKey, &'a Config),
    Nobody(String),
}

/// The Gateway that is meant: the one that was named, else the only one with the port and the host, else the only one
/// with the port.
fn choose<'a>(
    input: &'a Input,
    named: Option<&ObjectKey>,
    request: &ExplainRequest,
) -> Result<Choice<'a>, Failure> {
    let plans = input.plans(named)?;
    let has_port = |config: &Config| config.listeners.values().any(|listener| listener.port == request.port);
    let with_port = Vec::from_iter(plans.iter().copied().filter(|(_, config)| has_port(config)));
    let with_host =
        Vec::from_iter(with_port.iter().copied().filter(|(_, config)| has_listener(config, request)));
    match (with_host.as_slice(), with_port.as_slice()) {
        (&[(gateway, config)], _) | (&[], &[(gateway, config)]) => Ok(Choice::Gateway(gateway, config)),
        (&[], &[]) => Ok(Choice::Nobody(no_port(&plans, request.port))),
        (&[], several) | (several, _) => {
            let names: Vec<_> = several.iter().map(|(gateway, _)| format!("`--gateway {gateway}`")).collect();
            let fact = format!("several Gateways have port {} for host `{}`", request.port, request.host);
            Err(Failure::Usage(Message::new(fact).hint(format!("choose with {}", names.join(" or ")))))
        }
    }
}

fn has_listener(config: &Config, request: &ExplainRequest) -> bool {
    let table = RouteTable::build(config, |_, _, _| ());
    table.port(request.port).is_some_and(|port| port.listener(&request.host).is_some())
}
