//! The channel of an operator that runs: who is let in, with what, and what is sent then.

mod canary;
mod client;
mod tokens;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use canary::Canary;
use client::{Channel, Stream};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use tokens::AUDIENCE;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};

use crate::cluster::{Cluster, Error, wait};
use crate::facts::{Facts, say};

/// The namespaces of two Gateways, and one of none.
const OURS: &str = "channel-one";
const THEIRS: &str = "channel-two";
const NOBODYS: &str = "channel-none";
/// The Gateway in both, and all that is made for it.
const GATEWAY: &str = "web";
const WORKLOAD: &str = "web-postern";
/// By when a connection that nobody was let in on must have ended: 10 s are meant.
const UNUSED: Duration = Duration::from_secs(25);

/// Runs the suite.
pub async fn run(cluster: &Cluster, facts: &mut Facts) -> Result<(), Error> {
    let ended = all(cluster, facts).await;
    for namespace in [OURS, THEIRS, NOBODYS] {
        cluster.end(namespace).await?;
    }
    ended
}

async fn all(cluster: &Cluster, facts: &mut Facts) -> Result<(), Error> {
    for namespace in [OURS, THEIRS, NOBODYS] {
        cluster.namespace(namespace).await?;
    }
    let ours = gateway(cluster, OURS, "198.51.100.17").await?;
    let theirs = gateway(cluster, THEIRS, "203.0.113.71").await?;
    for namespace in [OURS, THEIRS] {
        cluster.address(namespace, GATEWAY).await?;
    }
    let channel = Channel::of(cluster, OURS, WORKLOAD).await?;
    say(format_args!("        the operator has {} replicas", channel.replicas.len()));
    refusals(cluster, facts, &channel).await?;
    snapshots(cluster, facts, &channel, [&ours, &theirs]).await?;
    made_by_a_user(cluster, facts, &channel, [&ours, &theirs]).await?;
    unused_connections(cluster, facts, &channel).await
}

/// A Gateway with a certificate of its own, and a route with values of its own.
async fn gateway(cluster: &Cluster, namespace: &str, endpoint: &str) -> Result<Canary, Error> {
    let hostname = format!("canary-host.{namespace}.test");
    let header = format!("canary-header-of-{namespace}");
    let service = format!("canary-service-of-{namespace}");
    let words =
        vec![namespace.to_owned(), hostname.clone(), header.clone(), service.clone(), endpoint.to_owned()];
    let canary = Canary::new(&hostname, words)?;
    let pem = |text: &str| text.replace('\n', "\n    ");
    let yaml = format!(
        r#"
apiVersion: v1
kind: Secret
metadata: {{ name: certificate }}
type: kubernetes.io/tls
stringData:
  tls.crt: |
    {}
  tls.key: |
    {}
---
apiVersion: v1
kind: Service
metadata: {{ name: {service} }}
spec: {{ ports: [{{ port: 80 }}] }}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{ name: {service}, labels: {{ kubernetes.io/service-name: {service} }} }}
addressType: IPv4
endpoints: [{{ addresses: [{endpoint}], conditions: {{ ready: true }} }}]
ports: [{{ name: "", port: 80, protocol: TCP }}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{ name: canary }}
spec:
  parentRefs: [{{ name: {GATEWAY} }}]
  hostnames: [{hostname}]
  rules:
    - filters:
        - type: RequestHeaderModifier
          requestHeaderModifier: {{ set: [{{ name: x-canary, value: {header} }}] }}
      backendRefs: [{{ name: {service}, port: 80 }}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{ name: {GATEWAY} }}
spec:
  gatewayClassName: postern
  listeners:
    - name: https
      port: 443
      protocol: HTTPS
      hostname: {hostname}
      tls: {{ certificateRefs: [{{ name: certificate }}] }}
"#,
        pem(&canary.chain),
        pem(&canary.key)
    );
    cluster.apply(namespace, &yaml).await?;
    Ok(canary)
}

/// Who is not let in, at every replica.
async fn refusals(cluster: &Cluster, facts: &mut Facts, channel: &Channel) -> Result<(), Error> {
    let of = async |namespace, account, audience| {
        tokens::token(cluster, (namespace, account), audience, None).await
    };
    let own = of(OURS, WORKLOAD, Some(AUDIENCE)).await?;
    for (namespace, account) in [(NOBODYS, WORKLOAD), (OURS, "ordinary"), (OURS, "leaver")] {
        make_account(cluster, namespace, account).await?;
    }
    let left = of(OURS, "leaver", Some(AUDIENCE)).await?;
    accounts(cluster, OURS).delete("leaver", &DeleteParams::default()).await?;
    let stranger = of(NOBODYS, WORKLOAD, Some(AUDIENCE)).await?;
    let ordinary = of(OURS, "ordinary", Some(AUDIENCE)).await?;
    let mut cases = vec![
        ("no token", None, Code::Unauthenticated),
        ("an empty token", Some(String::new()), Code::Unauthenticated),
        ("garbage", Some("garbage".into()), Code::Unauthenticated),
        ("garbage in the form of a token", Some("e30.e30.e30".into()), Code::Unauthenticated),
        ("a token whose end was put off", Some(tokens::prolonged(&own)?), Code::Unauthenticated),
        ("a token for the API server", Some(of(OURS, WORKLOAD, None).await?), Code::Unauthenticated),
        ("a token for somebody else", Some(of(OURS, WORKLOAD, Some("vault")).await?), Code::Unauthenticated),
        (
            "a token that has ended with its pod",
            Some(ended_with_its_pod(cluster).await?),
            Code::Unauthenticated,
        ),
        ("a token that has ended with its ServiceAccount", Some(left), Code::Unauthenticated),
        ("a ServiceAccount of that name in another namespace", Some(stranger), Code::PermissionDenied),
        ("an ordinary ServiceAccount of the namespace", Some(ordinary), Code::PermissionDenied),
    ];
    let mut control = None;
    match tokens::expired(&own)? {
        Some([expired, lasting]) => {
            cases.push(("an expired token", Some(expired), Code::Unauthenticated));
            control = Some(lasting);
        }
        None => say("        the key of this API server is not known here, so no token of it has expired"),
    }
    for (number, replica) in channel.replicas.iter().enumerate() {
        for (what, token, code) in &cases {
            let refused = refusal(channel, *replica, token.as_deref()).await?;
            let said = refused
                .as_ref()
                .map_or("it was let in".into(), |it| format!("{:?}: {}", it.code(), it.message()));
            let holds = refused.is_some_and(|status| status.code() == *code);
            facts.check(format_args!("replica {number} refuses {what}: {said}"), holds);
        }
        if let Some(lasting) = &control {
            let is_let_in = refusal(channel, *replica, Some(lasting)).await?.is_none();
            facts.check(
                format_args!("replica {number} lets in the same token, signed with a later end"),
                is_let_in,
            );
        }
    }
    Ok(())
}

/// How a stream ended without an update; `None` when an update came.
async fn refusal(
    channel: &Channel,
    replica: SocketAddr,
    token: Option<&str>,
) -> Result<Option<Status>, Error> {
    match channel.subscribe(replica, token).await? {
        Err(status) => Ok(Some(status)),
        Ok(mut stream) => Ok(stream.snapshot().await?.err()),
    }
}

/// The right tokens: each Gateway's own configuration, and not a byte of the other's.
async fn snapshots(
    cluster: &Cluster,
    facts: &mut Facts,
    channel: &Channel,
    [ours, theirs]: [&Canary; 2],
) -> Result<(), Error> {
    for (namespace, own, other) in [(OURS, ours, theirs), (THEIRS, theirs, ours)] {
        let token = tokens::token(cluster, (namespace, WORKLOAD), Some(AUDIENCE), None).await?;
        for (number, replica) in channel.replicas.iter().enumerate() {
            let (_, sent) = subscribed(channel, *replica, &token).await?;
            let found = other.found(own, &sent.bytes);
            let what = format!("replica {number} sends {namespace} {sent}");
            facts.check(
                format_args!("{what}, with its certificate, key and values"),
                own.is_whole(&sent.bytes),
            );
            facts.check(format_args!("{what}, with nothing of the other ({found} parts found)"), found == 0);
        }
    }
    Ok(())
}

async fn subscribed(
    channel: &Channel,
    replica: SocketAddr,
    token: &str,
) -> Result<(Stream, client::Snapshot), Error> {
    let mut stream = channel.subscribe(replica, Some(token)).await??;
    let sent = stream.snapshot().await??;
    Ok((stream, sent))
}

/// A ServiceAccount with the name of the operator's that a user made in its place gets nothing; the operator's own, made
/// again, gets what there is.
async fn made_by_a_user(
    cluster: &Cluster,
    facts: &mut Facts,
    channel: &Channel,
    [ours, theirs]: [&Canary; 2],
) -> Result<(), Error> {
    let before = tokens::token(cluster, (OURS, WORKLOAD), Some(AUDIENCE), None).await?;
    let is_made = wait(Duration::from_secs(30), async || {
        accounts(cluster, OURS).delete(WORKLOAD, &DeleteParams::default()).await?;
        // The operator makes its own again within milliseconds.
        if make_account(cluster, OURS, WORKLOAD).await.is_err() {
            return Ok(false);
        }
        sleep(Duration::from_millis(500)).await;
        let there = accounts(cluster, OURS).get(WORKLOAD).await?;
        Ok(there.metadata.owner_references.is_none())
    });
    if !is_made.await? {
        return Err("no user is faster than the operator".into());
    }
    let after = tokens::token(cluster, (OURS, WORKLOAD), Some(AUDIENCE), None).await?;
    for (number, replica) in channel.replicas.iter().enumerate() {
        for (what, token, code) in [
            ("the user's ServiceAccount of the same name", &after, Code::PermissionDenied),
            ("a token of the one before", &before, Code::Unauthenticated),
        ] {
            let refused = refusal(channel, *replica, Some(token)).await?.map(|status| status.code());
            facts.check(format_args!("replica {number} refuses {what}: {refused:?}"), refused == Some(code));
        }
    }
    accounts(cluster, OURS).delete(WORKLOAD, &DeleteParams::default()).await?;
    let is_ours = |account: &ServiceAccount| account.metadata.owner_references.is_some();
    // The user's was not watched: the operator tries again from time to time, at least every 30 s.
    cluster.until(Duration::from_secs(60), &accounts(cluster, OURS), WORKLOAD, is_ours).await?;
    let token = tokens::token(cluster, (OURS, WORKLOAD), Some(AUDIENCE), None).await?;
    for (number, replica) in channel.replicas.iter().enumerate() {
        let is_let_in =
            wait(Duration::from_secs(10), async || match channel.subscribe(*replica, Some(&token)).await? {
                Ok(mut stream) => {
                    let sent = stream.snapshot().await??;
                    Ok(ours.is_whole(&sent.bytes) && theirs.found(ours, &sent.bytes) == 0)
                }
                Err(_) => Ok(false),
            });
        facts.check(
            format_args!("replica {number} lets in the one that the operator has made again"),
            is_let_in.await?,
        );
    }
    Ok(())
}

/// Connections on which nobody is let in end, and one with a stream does not.
async fn unused_connections(cluster: &Cluster, facts: &mut Facts, channel: &Channel) -> Result<(), Error> {
    let replica = channel.replicas[0];
    let token = tokens::token(cluster, (THEIRS, WORKLOAD), Some(AUDIENCE), None).await?;
    let (mut stream, _) = subscribed(channel, replica, &token).await?;
    let silent = tokio::spawn(life(channel.dial(replica).await?));
    let encrypted = tokio::spawn(life(channel.dial_tls(replica).await?));
    for (what, life) in [("says nothing", silent), ("is encrypted and subscribes to nothing", encrypted)] {
        let life = life.await?;
        let said = life.map_or("not at all".into(), |life| format!("after {} s", life.as_secs()));
        facts.check(format_args!("a connection that {what} ends: {said}"), life.is_some());
    }
    facts.check("one with a stream stays", stream.is_quiet(Duration::from_secs(1)).await);
    Ok(())
}

/// How long a connection lasts, if not too long.
async fn life(mut stream: impl AsyncRead + Unpin) -> Option<Duration> {
    let (began, mut all) = (Instant::now(), Vec::new());
    // However it ends.
    timeout(UNUSED, stream.read_to_end(&mut all)).await.ok().map(|_| began.elapsed())
}

/// A token of our ServiceAccount for a pod that is gone. The pod never ran: no node has what it wants.
async fn ended_with_its_pod(cluster: &Cluster) -> Result<String, Error> {
    let pods = Api::<Pod>::namespaced(cluster.client.clone(), OURS);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "short" },
        "spec": {
            "serviceAccountName": WORKLOAD,
            "nodeSelector": { "example.com/nowhere": "true" },
            "securityContext": { "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "none", "image": "localhost/none:1",
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            }],
        },
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    let token = tokens::token(cluster, (OURS, WORKLOAD), Some(AUDIENCE), Some("short")).await?;
    pods.delete("short", &DeleteParams::default().grace_period(0)).await?;
    Ok(token)
}

fn accounts(cluster: &Cluster, namespace: &str) -> Api<ServiceAccount> {
    Api::namespaced(cluster.client.clone(), namespace)
}

/// A ServiceAccount as a user makes it.
async fn make_account(cluster: &Cluster, namespace: &str, name: &str) -> Result<(), Error> {
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } });
    accounts(cluster, namespace).create(&PostParams::default(), &serde_json::from_value(account)?).await?;
    Ok(())
}
