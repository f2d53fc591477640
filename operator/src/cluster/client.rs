//! The client of the API server, whose requests are counted.

use std::fmt::Display;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use kube::client::ClientBuilder;
use kube::{Client, Config};
use tower::Service;
use tower::layer::layer_fn;

use crate::cluster::telemetry::{RequestLabels, Telemetry};
use crate::output::failure::{Failure, Message};

/// How long a connection to the API server may take.
const CONNECT: Duration = Duration::from_secs(5);

/// A client of the cluster that the environment names: the one of this pod, or the one of KUBECONFIG.
///
/// Fails when there is none.
pub async fn client(telemetry: &Telemetry) -> Result<Client, Failure> {
    let no_cluster = |error: &dyn Display| {
        let hint = "run it in a pod with a ServiceAccount, or set KUBECONFIG";
        Failure::Failed(Message::new(format!("no cluster: {error}")).hint(hint))
    };
    let mut config = Config::infer().await.map_err(|error| no_cluster(&error))?;
    config.connect_timeout = Some(CONNECT);
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    let counted = layer_fn(|inner| Counted { inner, host: host.clone(), telemetry: telemetry.clone() });
    let builder = ClientBuilder::try_from(config).map_err(|error| no_cluster(&error))?;
    Ok(builder.with_layer(&counted).build())
}

/// Counts what the service behind it answers.
struct Counted<S> {
    inner: S,
    host: String,
    telemetry: Telemetry,
}

impl<S, In, Out> Service<Request<In>> for Counted<S>
where
    S: Service<Request<In>, Response = Response<Out>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        let (host, method) = (self.host.clone(), request.method().to_string());
        let requests = self.telemetry.requests.clone();
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await;
            // The word that client-go has for it.
            let code = answer.as_ref().map_or("<error>".into(), |it| it.status().as_str().to_owned());
            requests.get_or_create(&RequestLabels { code, host, method }).inc();
            answer
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, StatusCode};

    use super::*;

    #[tokio::test]
    async fn requests_are_counted_by_how_they_ended() {
        let telemetry = Telemetry::default();
        let inner = tower::service_fn(async |request: Request<bool>| match request.into_body() {
            true => Response::builder().status(StatusCode::CONFLICT).body(()).map_err(|_| "odd"),
            false => Err("broken"),
        });
        let mut counted = Counted { inner, host: "10.96.0.1:443".into(), telemetry: telemetry.clone() };
        for (method, is_answered) in [(Method::PATCH, true), (Method::PATCH, true), (Method::GET, false)] {
            let request = Request::builder().method(method).body(is_answered).expect("a request");
            assert_eq!(counted.call(request).await.is_ok(), is_answered);
        }
        let text = telemetry.text();
        for line in [
            r#"rest_client_requests_total{code="409",host="10.96.0.1:443",method="PATCH"} 2"#,
            r#"rest_client_requests_total{code="<error>",host="10.96.0.1:443",method="GET"} 1"#,
        ] {
            assert!(text.lines().any(|it| it == line), "{text}");
        }
    }
}
