//! What clients lose while something happens to Postern, to what it needs, or to what it serves.

mod bench;
mod events;

use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::time::sleep;

use crate::cluster::{Cluster, Error};
use crate::facts::{Facts, say};
use crate::load::{Load, Loss, Outcome};
use bench::Bench;

/// How much is sent during what.
#[derive(Args)]
pub struct Arguments {
    /// Requests during each event, at least
    #[arg(long, default_value_t = 100_000)]
    requests: u32,
    /// All of them unless given
    cases: Vec<Case>,
}

/// What happens.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Case {
    /// All replicas of the operator get KILL
    OperatorKilled,
    /// The replica that writes gets KILL and is deleted
    LeaderLost,
    /// The API server gets KILL, and is started again a minute later
    ApiServerStopped,
    /// The only data plane gets KILL while there is no operator
    DataPlaneKilled,
    /// One of two data planes gets KILL while there is no operator
    DataPlaneOfTwoKilled,
    /// Two data planes are replaced, twice
    DataPlaneRollout,
    /// The pods behind the route are replaced, twice
    BackendRollout,
    /// The route and its neighbours are changed, 30 times
    RouteChanges,
    /// A listener comes and goes, 10 times
    ListenerChanges,
}

/// A container that got KILL. Requests may be lost that were on its connections, or came while nobody could take them.
#[derive(Clone, Copy, Debug)]
struct Killed {
    /// It lived until here at least,
    from: Duration,
    /// and until here at most.
    to: Duration,
    /// When connections were taken again.
    back: Duration,
}

/// How long the load lasts before and after the event, at least.
const AROUND: Duration = Duration::from_secs(5);
/// What this machine is asked for in a second at least, and at most.
const RATES: (f64, f64) = (500.0, 2_000.0);

/// Runs the cases.
///
/// Fails when there is nothing to send requests to.
pub async fn run(cluster: &Cluster, facts: &mut Facts, arguments: &Arguments) -> Result<(), Error> {
    let cases = match &*arguments.cases {
        [] => Case::value_variants(),
        some => some,
    };
    let bench = Bench::make(cluster).await?;
    for case in cases {
        let ended = run_case(*case, &bench, facts, arguments.requests).await;
        if let Err(error) = ended {
            facts.check(format_args!("the case comes to its end: {error}"), false);
        }
    }
    bench.clear().await
}

async fn run_case(case: Case, bench: &Bench, facts: &mut Facts, requests: u32) -> Result<(), Error> {
    say(format_args!("==> {}", case.name()));
    case.prepare(bench).await?;
    let rate = (f64::from(requests) / case.lasts().as_secs_f64()).clamp(RATES.0, RATES.1);
    let load = Load::start(bench.target(), rate);
    sleep(AROUND).await;
    let begins = load.at();
    let event = case.happen(bench, &load, facts).await;
    let ends = load.at();
    let restored = case.restore(bench).await;
    sleep(AROUND).await;
    let outcome = load.stop(requests).await?;
    let from_to = format!("from {:.1} to {:.1} s", begins.as_secs_f64(), ends.as_secs_f64());
    tell(&outcome);
    let killed = event?;
    let (own, lost): (Vec<_>, Vec<_>) =
        outcome.lost.iter().partition(|loss| killed.is_some_and(|killed| killed.owns(loss)));
    let own = if killed.is_some() {
        format!(" ({} of the killed container's own)", own.len())
    } else {
        String::new()
    };
    facts.check(
        format_args!("{} lost{own} of {outcome}; the event was {from_to}", lost.len()),
        lost.is_empty(),
    );
    restored
}

/// What was lost, by cause.
fn tell(outcome: &Outcome) {
    for ((cause, way), losses) in outcome.causes() {
        let (first, last) = (losses[0], losses[losses.len() - 1]);
        let [first, last] = [first.sent, last.ended].map(|at| at.as_secs_f64());
        say(format_args!("        {} of {way:?} from {first:.2} to {last:.2} s: {cause}", losses.len()));
    }
}

impl Killed {
    /// Whether a loss is of a connection that the container had when it was killed, or was sent before it was back.
    fn owns(self, loss: &Loss) -> bool {
        let had = loss.connected.is_some_and(|connected| connected <= self.to);
        loss.ended >= self.from && (had || loss.sent <= self.back)
    }
}

impl Case {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// About how long the event takes with what is around it. The load is as dense as this asks for.
    fn lasts(self) -> Duration {
        Duration::from_secs(match self {
            Self::ApiServerStopped => 100,
            _ => 55,
        })
    }
}
