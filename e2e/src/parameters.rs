//! What PosternParameters do to the data planes of a Gateway, what a change of them restarts, and what is refused.

mod bench;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::cluster::{Cluster, Error, wait};
use crate::facts::Facts;
use crate::load::Load;
use bench::{Bench, GATEWAY, SLOW};

/// How long nothing may change, for us to believe that nothing does.
const REST: Duration = Duration::from_secs(12);

/// Runs the suite.
pub async fn run(cluster: &Cluster, facts: &mut Facts) -> Result<(), Error> {
    let bench = Bench::make(cluster).await?;
    let ended = all(&bench, facts).await;
    bench.clear().await?;
    ended
}

async fn all(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    what_cannot_work_is_refused(bench, facts).await;
    a_gateway_has_what_its_parameters_say(bench, facts).await?;
    changes_restart_only_what_they_must(bench, facts).await?;
    parameters_that_go_take_nothing_along(bench, facts).await?;
    without_parameters_all_is_as_before(bench, facts).await?;
    whoever_scales_is_left_alone(bench, facts).await?;
    a_class_has_parameters_for_its_gateways(bench, facts).await
}

async fn what_cannot_work_is_refused(bench: &Bench, facts: &mut Facts) {
    let apparmor = json!({ "container.apparmor.security.beta.kubernetes.io/postern": "unconfined" });
    for (what, spec, why) in [
        ("no replica", json!({ "replicas": 0 }), "spec.replicas"),
        ("a privilege", json!({ "pod": { "securityContext": {} } }), "spec.pod.securityContext"),
        (
            "pods without AppArmor",
            json!({ "pod": { "annotations": apparmor } }),
            "AppArmor cannot be set here",
        ),
        (
            "a traffic policy for a ClusterIP",
            json!({ "service": { "type": "ClusterIP", "externalTrafficPolicy": "Local" } }),
            "externalTrafficPolicy needs the type",
        ),
        (
            "a proxy without a network",
            json!({ "dataPlane": { "trustedProxies": ["everyone"] } }),
            "spec.dataPlane.trustedProxies[0]",
        ),
    ] {
        let answer = bench.parameters("refused", &spec).await;
        let refused = answer.is_err_and(|error| error.to_string().contains(why));
        facts.check(format_args!("the API server refuses {what}"), refused);
    }
}

async fn a_gateway_has_what_its_parameters_say(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    // Amounts as nobody but a person would spell them: what the API server makes of them is no difference.
    let spec = json!({
        "replicas": 2,
        "pod": {
            "labels": { "tier": "edge" },
            "resources": { "requests": { "cpu": "0.010", "memory": "32768Ki" }, "limits": { "memory": "0.25Gi" } },
            "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [] } },
        },
        "service": { "type": "ClusterIP" },
        "dataPlane": {
            "workers": 1, "accessLog": "None", "drainSeconds": 5, "connectionsPerClient": 1000,
            "trustedProxies": ["0.0.0.0/0", "::/0"],
        },
    });
    bench.parameters("own", &spec).await?;
    bench.gateway(Some("own")).await?;
    let address = bench.cluster.address(bench::NAMESPACE, GATEWAY).await?;
    let settled = bench.settled(GATEWAY, 2).await?;
    facts.check("a Gateway has the 2 replicas of its parameters", settled);
    let deployment = bench.deployment(GATEWAY).await?;
    let template = &deployment["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    let has_variable = |name: &str, value: &str| {
        container["env"].as_array().into_iter().flatten().any(|it| it["name"] == name && it["value"] == value)
    };
    facts.check("and their labels", template["metadata"]["labels"]["tier"] == "edge");
    facts.check("and their resources", container["resources"]["limits"]["memory"] == "256Mi");
    facts.check("and their workers", has_variable("POSTERN_WORKERS", "1"));
    facts.check("and their time to drain", template["spec"]["terminationGracePeriodSeconds"] == 10);
    let service = bench.service(GATEWAY).await?;
    facts.check(
        "and an address of the cluster",
        service["spec"]["type"] == "ClusterIP" && service["spec"]["clusterIP"] == address,
    );
    let answers = bench.answers(GATEWAY).await?;
    facts.check("where it answers, in a namespace that enforces restricted", answers);
    facts.check("it believes proxies that it shall trust", bench.believes(GATEWAY).await?);
    facts.check("and writes no access log", !bench.writes_access_log(GATEWAY).await?);
    let before = bench.versions(GATEWAY).await?;
    tokio::time::sleep(REST).await;
    facts.check("and then nothing more is written", bench.versions(GATEWAY).await? == before);
    Ok(())
}

async fn changes_restart_only_what_they_must(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    let pods = bench.pods(GATEWAY).await?;
    let annotations = json!({ "example.com/pool": "public" });
    let spec = json!({
        "replicas": 2,
        "pod": { "labels": { "tier": "edge" } },
        "service": { "type": "LoadBalancer", "annotations": annotations, "externalTrafficPolicy": "Cluster" },
        "dataPlane": { "workers": 1 },
    });
    bench.parameters("own", &spec).await?;
    let is_balanced = wait(SLOW, async || {
        let service = bench.service(GATEWAY).await?;
        let has_address = !service["status"]["loadBalancer"]["ingress"].is_null();
        Ok(has_address && service["metadata"]["annotations"]["example.com/pool"] == "public")
    });
    facts.check("the Service follows its parameters", is_balanced.await?);
    facts.check("the Gateway answers at its new address", bench.answers(GATEWAY).await?);
    bench.settled(GATEWAY, 2).await?;
    let pods_after_resources = bench.pods(GATEWAY).await?;
    facts.check("other resources are other pods", pods.is_disjoint(&pods_after_resources));

    let spec = json!({
        "replicas": 3,
        "pod": { "labels": { "tier": "edge" } },
        "service": { "type": "LoadBalancer" },
        "dataPlane": { "workers": 1 },
    });
    bench.parameters("own", &spec).await?;
    let settled = bench.settled(GATEWAY, 3).await?;
    let scaled = bench.pods(GATEWAY).await?;
    facts.check(
        "another number of replicas, and a Service without its annotation, restart no pod",
        settled && pods_after_resources.is_subset(&scaled),
    );
    let has_lost_it = wait(SLOW, async || {
        Ok(bench.service(GATEWAY).await?["metadata"]["annotations"]["example.com/pool"].is_null())
    });
    facts.check("and the annotation is gone", has_lost_it.await?);

    let load = Load::start(bench.target(GATEWAY).await?, 100.0);
    let spec = json!({ "replicas": 2, "dataPlane": { "workers": 2 } });
    bench.parameters("own", &spec).await?;
    let replaced = wait(SLOW, async || {
        Ok(bench.settled(GATEWAY, 2).await? && bench.pods(GATEWAY).await?.is_disjoint(&scaled))
    });
    facts.check("other workers are other pods", replaced.await?);
    let outcome = load.stop(1000).await?;
    let causes: Vec<_> = outcome.causes().into_iter().map(|(cause, all)| (cause, all.len())).collect();
    facts.check(
        format_args!("of {outcome}, {} were lost meanwhile {causes:?}", outcome.lost.len()),
        outcome.lost.is_empty(),
    );
    Ok(())
}

async fn parameters_that_go_take_nothing_along(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    let before = bench.pods(GATEWAY).await?;
    bench.delete_parameters("own").await?;
    let message = bench.refusal(GATEWAY).await?;
    facts.check(
        format_args!("a Gateway whose parameters are gone says which: {message}"),
        message.contains("`postern-parameters/own` does not exist"),
    );
    facts.check("it serves on, also what is routed after that", bench.routes("after.example.com").await?);
    facts.check("with the pods that it had", bench.pods(GATEWAY).await? == before);
    Ok(())
}

async fn without_parameters_all_is_as_before(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    bench.gateway(None).await?;
    bench.cluster.address(bench::NAMESPACE, GATEWAY).await?;
    facts.check("without parametersRef, a Gateway has one replica", bench.settled(GATEWAY, 1).await?);
    let deployment = bench.deployment(GATEWAY).await?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let names: BTreeSet<_> =
        container["env"].as_array().into_iter().flatten().map(|it| it["name"].to_string()).collect();
    facts.check("and as many workers as it likes", !names.contains("\"POSTERN_WORKERS\""));
    facts.check("and answers", bench.answers(GATEWAY).await?);
    facts.check("and believes nobody", !bench.believes(GATEWAY).await?);
    facts.check("and writes an access log", bench.writes_access_log(GATEWAY).await?);
    Ok(())
}

async fn whoever_scales_is_left_alone(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    bench.scale(GATEWAY, 2).await?;
    bench.settled(GATEWAY, 2).await?;
    // A change makes the operator apply all of it again.
    bench.parameters("own", &json!({ "pod": { "annotations": { "example.com/round": "2" } } })).await?;
    bench.gateway(Some("own")).await?;
    let applied = wait(SLOW, async || {
        let deployment = bench.deployment(GATEWAY).await?;
        Ok(deployment["spec"]["template"]["metadata"]["annotations"]["example.com/round"] == "2")
    });
    let applied = applied.await?;
    let kept = bench.deployment(GATEWAY).await?["spec"]["replicas"] == 2;
    facts.check("a number of replicas that someone else has set is kept", applied && kept);
    Ok(())
}

async fn a_class_has_parameters_for_its_gateways(bench: &Bench, facts: &mut Facts) -> Result<(), Error> {
    let spec = json!({ "replicas": 2, "service": { "type": "ClusterIP" }, "dataPlane": { "workers": 1 } });
    bench.parameters("class", &spec).await?;
    bench.classic().await?;
    bench.cluster.address(bench::NAMESPACE, bench::CLASSIC).await?;
    facts.check("a Gateway has what its class says", bench.settled(bench::CLASSIC, 2).await?);
    let service = bench.service(bench::CLASSIC).await?;
    facts.check("also of the Service", service["spec"]["type"] == "ClusterIP");
    facts.check("and answers", bench.answers(bench::CLASSIC).await?);

    let pods = bench.pods(bench::CLASSIC).await?;
    let spec = json!({ "replicas": 2, "service": { "type": "Headless" }, "dataPlane": { "workers": 1 } });
    bench.parameters("class", &spec).await?;
    // The Service is made anew, and may not be there for a moment.
    let is_headless = wait(SLOW, async || {
        Ok(bench.service(bench::CLASSIC).await.is_ok_and(|service| service["spec"]["clusterIP"] == "None"))
    });
    facts.check("a change of it comes to them, also one to no address of the cluster", is_headless.await?);
    let name = format!("{}.{}.svc", bench::made(bench::CLASSIC), bench::NAMESPACE);
    let has_name = wait(SLOW, async || {
        Ok(bench.cluster.address(bench::NAMESPACE, bench::CLASSIC).await.is_ok_and(|address| address == name))
    });
    facts.check("whose name is the address then", has_name.await?);
    facts.check("with the pods that there were", bench.pods(bench::CLASSIC).await? == pods);
    Ok(())
}
