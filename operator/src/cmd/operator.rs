//! `postern operator`: watch, translate, and the three that act on it: apply, push and write.

use std::fmt::Display;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::cluster::apply::Applier;
use crate::cluster::authority::Keeper;
use crate::cluster::client::client;
use crate::cluster::events::Events;
use crate::cluster::identity::TokenReviews;
use crate::cluster::leader::Election;
use crate::cluster::observe::{Acknowledgements, Obstacles};
use crate::cluster::push;
use crate::cluster::refusals;
use crate::cluster::settings::{LogFormat, Settings};
use crate::cluster::telemetry::{self, Telemetry};
use crate::cluster::translation::{self, Inputs, Outputs};
use crate::cluster::watch as cluster;
use crate::cluster::write::Writer;
use crate::output::failure::{Failure, Message, Verdict};

/// Runs until it is told to stop.
pub fn run(settings: Settings) -> Result<Verdict, Failure> {
    log(settings.log_format);
    let runtime = Runtime::new().map_err(|error| failed("cannot start a runtime", error))?;
    let ended = runtime.block_on(operate(settings));
    runtime.shutdown_background();
    ended
}

async fn operate(settings: Settings) -> Result<Verdict, Failure> {
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|error| failed("cannot wait for signals", error))?;
    let telemetry = Telemetry::default();
    let client = client(&telemetry).await?;

    let (seen_to, seen) = watch::channel(None);
    let (current_to, current) = watch::channel(None);
    let (translations_to, translations) = watch::channel(None);
    let (obstacles_to, obstacles) = watch::channel(Obstacles::new());
    let (acknowledged_to, acknowledged) = watch::channel(Acknowledgements::new());
    let (ca_to, ca) = watch::channel(None);
    let (tls_to, tls) = watch::channel(None);
    let (leads_to, leads) = watch::channel(!settings.leader_election);
    let (stop_to, stop) = watch::channel(false);

    let bound = telemetry::serve(settings.admin, telemetry.clone(), translations).await;
    let bound =
        bound.map_err(|error| failed(&format!("cannot serve --admin at {}", settings.admin), error))?;
    let channel = TcpListener::bind(settings.channel_address).await.map_err(|error| {
        failed(&format!("cannot serve --channel-address at {}", settings.channel_address), error)
    })?;
    tracing::info!(admin = %bound, controller = settings.controller_name, "started");

    tokio::spawn(cluster::run(client.clone(), seen_to, telemetry.clone()));
    let said = acknowledged.clone();
    let inputs = Inputs { settings: settings.of_translation(), seen, acknowledged, obstacles };
    let outputs = Outputs { current: current_to, translations: translations_to };
    tokio::spawn(translation::run(inputs, outputs, telemetry.clone()));

    let secret = format!("{}-authority", settings.own_name());
    let names = settings.channel_names();
    let keeper = Keeper::new(client.clone(), &settings.namespace, &secret, names, leads.clone());
    tokio::spawn(keeper.run(tls_to, ca_to));
    let reviews = TokenReviews::new(client.clone(), current.clone());
    let channel = push::serve(channel, tls, reviews, current.clone(), acknowledged_to, telemetry.clone());
    tokio::spawn(channel);

    let applier = Applier::new(client.clone(), &settings.controller_name, telemetry.clone());
    tokio::spawn(applier.run(current.clone(), leads.clone(), ca, obstacles_to));
    let events = Events::new(client.clone(), &settings.controller_name, &settings.name);
    tokio::spawn(refusals::run(said, current.clone(), leads.clone(), events.clone()));
    let writer = Writer::new(client.clone(), &settings.controller_name, events, telemetry.clone());
    tokio::spawn(writer.run(current, leads.clone()));
    tokio::spawn(show_lead(leads, telemetry));

    let election = settings.leader_election.then(|| {
        let election = Election::new(client, &settings.namespace, settings.lease(), &settings.name);
        tokio::spawn(election.run(leads_to, stop))
    });
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    tracing::info!("stopping");
    stop_to.send_replace(true);
    if let Some(election) = election {
        let _ = election.await;
    }
    Ok(Verdict::Good)
}

async fn show_lead(mut leads: watch::Receiver<bool>, telemetry: Telemetry) {
    loop {
        telemetry.leads.set(i64::from(*leads.borrow_and_update()));
        if leads.changed().await.is_err() {
            return;
        }
    }
}

/// What the operator has to say, on standard error: what has changed, unless `RUST_LOG` asks for something else.
fn log(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::builder();
    let info = tracing_subscriber::filter::LevelFilter::INFO;
    let mut filter = filter.with_default_directive(info.into()).from_env_lossy();
    // Whoever asks with it says what went wrong, and what follows from that.
    if !std::env::var("RUST_LOG").is_ok_and(|asked| asked.contains("kube")) {
        filter = filter.add_directive("kube_client=off".parse().expect("a directive"));
    }
    let lines =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    match format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
}

fn failed(fact: &str, error: impl Display) -> Failure {
    Failure::Failed(Message::new(format!("{fact}: {error}")))
}
