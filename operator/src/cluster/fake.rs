//! An API server in memory, for tests: objects, versions, watches, server-side apply, conflicts, and a list of what was written.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The kinds of the Gateway API as the fake has them, with their plurals.
pub const GATEWAY_API: [(&str, &str); 5] = [
    ("GatewayClass", "gatewayclasses"),
    ("Gateway", "gateways"),
    ("HTTPRoute", "httproutes"),
    ("GRPCRoute", "grpcroutes"),
    ("ReferenceGrant", "referencegrants"),
];
const CORE: [(&str, &str); 5] = [
    ("Service", "services"),
    ("Secret", "secrets"),
    ("ConfigMap", "configmaps"),
    ("Namespace", "namespaces"),
    ("ServiceAccount", "serviceaccounts"),
];
const OTHERS: [(&str, &str, &str); 5] = [
    ("apps/v1", "Deployment", "deployments"),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
    ("coordination.k8s.io/v1", "Lease", "leases"),
    ("events.k8s.io/v1", "Event", "events"),
    ("postern.dev/v1alpha1", "PosternParameters", "posternparameters"),
];

/// A cluster. Clones are the same one.
#[derive(Clone, Default)]
pub struct Cluster(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// By plural, namespace and name.
    objects: BTreeMap<[String; 3], Value>,
    version: u64,
    watches: Vec<(String, bool, mpsc::UnboundedSender<Bytes>)>,
    written: Vec<String>,
    missing: BTreeSet<String>,
    meddle: Option<(&'static str, Meddle)>,
    is_down: bool,
}

/// What somebody else does to an object just before a write to it.
type Meddle = Box<dyn FnMut(&mut Value) + Send>;

impl Cluster {
    /// A client of it.
    pub fn client(&self) -> Client {
        let this = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| this.clone().answer(request));
        Client::new(service, "default")
    }

    /// Puts objects there, as a user would.
    pub fn put(&self, yaml: &str) {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).expect("the test's YAML is right");
        for mut object in documents {
            let kind = text(&object["kind"]);
            let plural = plural(&kind).to_owned();
            let key = [plural, text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"])];
            let before = self.state().objects.get(&key).cloned();
            if let Some(before) = before {
                object["metadata"]["uid"] = before["metadata"]["uid"].clone();
                object["metadata"]["generation"] = before["metadata"]["generation"].clone();
                object["status"] = before["status"].clone();
            }
            self.state().store(key, object);
        }
    }

    /// Changes an object, as another controller would.
    pub fn change(&self, plural: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let key = [plural.into(), namespace.into(), name.into()];
        let mut object = self.get(plural, namespace, name);
        change(&mut object);
        self.state().store(key, object);
    }

    /// Removes an object.
    pub fn remove(&self, plural: &str, namespace: &str, name: &str) {
        self.state().delete(&[plural.into(), namespace.into(), name.into()]);
    }

    /// An object; null where there is none.
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Value {
        let key = [plural.to_owned(), namespace.into(), name.into()];
        self.state().objects.get(&key).cloned().unwrap_or_default()
    }

    /// All objects of a kind, by its plural.
    pub fn all(&self, plural: &str) -> Vec<Value> {
        let state = self.state();
        let all = state.objects.iter().filter(|(key, _)| key[0] == plural);
        all.map(|(_, object)| object.clone()).collect()
    }

    /// What was written since the last time: `METHOD plural/namespace/name[/status]`. Leases and Events are left out.
    pub fn written(&self) -> Vec<String> {
        std::mem::take(&mut self.state().written)
    }

    /// Whether a kind, by its plural, is not installed.
    pub fn uninstall(&self, plural: &str, is_missing: bool) {
        let mut state = self.state();
        if is_missing {
            state.missing.insert(plural.into())
        } else {
            state.missing.remove(plural)
        };
    }

    /// Does this to an object just before the next write to it: `PLURAL` or `PLURAL/status`.
    pub fn meddle(&self, place: &'static str, meddle: impl FnMut(&mut Value) + Send + 'static) {
        self.state().meddle = Some((place, Box::new(meddle)));
    }

    /// Ends all watches, and answers nothing but errors while it is down.
    pub fn down(&self, is_down: bool) {
        let mut state = self.state();
        state.is_down = is_down;
        state.watches.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics in here")
    }

    fn answer(
        self,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<BoxBody<Bytes, Infallible>>, Infallible>> {
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let query = parts.uri.query().unwrap_or_default().to_owned();
            Ok(self.state().respond(&parts.method, parts.uri.path(), &query, body))
        }
        .boxed()
    }
}

impl State {
    fn respond(
        &mut self,
        method: &Method,
        path: &str,
        query: &str,
        body: Value,
    ) -> Response<BoxBody<Bytes, Infallible>> {
        if self.is_down {
            return failure(StatusCode::SERVICE_UNAVAILABLE, "down");
        }
        let mut segments: Vec<&str> = path.trim_start_matches('/').split('/').skip(1).collect();
        let versioned = if path.starts_with("/apis/") { 2 } else { 1 };
        let rest = segments.split_off(versioned);
        let api_version = segments.join("/");
        let (namespace, rest) = match rest.as_slice() {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let Some((plural, rest)) = rest.split_first() else { return self.discover(&api_version) };
        if self.missing.contains(*plural) {
            return failure(StatusCode::NOT_FOUND, "no such kind");
        }
        let made_only = query.contains("labelSelector");
        match rest {
            [] if method == Method::POST => {
                let name = text(&body["metadata"]["name"]);
                self.note("POST", &[plural, namespace, &name]);
                let key = [(*plural).to_owned(), namespace.into(), name];
                ok(&self.store(key, body))
            }
            [] if query.contains("watch=true") => {
                let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion="));
                self.watch(plural, made_only, from == Some(&self.version.to_string()))
            }
            [] => self.list(plural, made_only),
            [name, sub @ ..] => {
                let key = [(*plural).to_owned(), namespace.into(), (*name).to_owned()];
                self.one(method, key, sub.first() == Some(&"status"), query.contains("force=true"), body)
            }
        }
    }

    fn one(
        &mut self,
        method: &Method,
        key: [String; 3],
        is_status: bool,
        is_apply: bool,
        body: Value,
    ) -> Response<BoxBody<Bytes, Infallible>> {
        if method == Method::GET {
            return match self.objects.get(&key) {
                Some(object) => ok(object),
                None => is_not_there(&key),
            };
        }
        let place = if is_status { "status" } else { "" };
        self.note(method.as_str(), &[&key[0], &key[1], &key[2], place]);
        if method == Method::DELETE {
            self.delete(&key);
            return ok(&json!({ "kind": "Status", "status": "Success" }));
        }
        let written = format!("{}{}", key[0], if is_status { "/status" } else { "" });
        if let Some((_, mut meddle)) = self.meddle.take_if(|(place, _)| *place == written) {
            let mut object = self.objects[&key].clone();
            meddle(&mut object);
            self.store(key.clone(), object);
        }
        let before = self.objects.get(&key).cloned();
        let Some(before) = before.or_else(|| is_apply.then(|| json!({}))) else {
            return is_not_there(&key);
        };
        let wanted = &body["metadata"]["resourceVersion"];
        let uid = &body["metadata"]["uid"];
        let is_another = !uid.is_null() && *uid != before["metadata"]["uid"];
        if is_another || !wanted.is_null() && *wanted != before["metadata"]["resourceVersion"] {
            return failure(StatusCode::CONFLICT, "the object has been modified");
        }
        let mut after = before.clone();
        if is_status {
            merge(&mut after["status"], &body["status"]);
        } else if method == Method::PUT {
            after = body;
        } else {
            merge(&mut after, &body);
        }
        ok(&self.store(key, after))
    }

    /// Stores an object and tells who watches; one that does not change keeps its version.
    fn store(&mut self, key: [String; 3], mut object: Value) -> Value {
        let before = self.objects.get(&key).cloned();
        let metadata = &mut object["metadata"];
        metadata["name"] = key[2].as_str().into();
        if !key[1].is_empty() {
            metadata["namespace"] = key[1].as_str().into();
        }
        if metadata["uid"].is_null() {
            metadata["uid"] = format!("uid-{}", self.version + 1).into();
            metadata["generation"] = 1.into();
        }
        if let Some(before) = &before {
            object["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
            if object == *before {
                return object;
            }
            if object["spec"] != before["spec"] {
                object["metadata"]["generation"] =
                    (before["metadata"]["generation"].as_i64().unwrap_or_default() + 1).into();
            }
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.tell(&key[0], if before.is_some() { "MODIFIED" } else { "ADDED" }, &object);
        self.objects.insert(key, object.clone());
        object
    }

    fn delete(&mut self, key: &[String; 3]) {
        if let Some(mut object) = self.objects.remove(key) {
            self.version += 1;
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
            self.tell(&key[0], "DELETED", &object);
        }
    }

    fn tell(&mut self, plural: &str, kind: &str, object: &Value) {
        let line = Bytes::from(json!({ "type": kind, "object": object }).to_string() + "\n");
        self.watches.retain(|(of, made_only, watcher)| {
            of != plural || (*made_only && !is_made(object)) || watcher.send(line.clone()).is_ok()
        });
    }

    fn watch(
        &mut self,
        plural: &str,
        made_only: bool,
        is_newest: bool,
    ) -> Response<BoxBody<Bytes, Infallible>> {
        if !is_newest {
            // It remembers no history.
            let status = json!({ "kind": "Status", "status": "Failure", "message": "too old", "reason": "Expired", "code": 410 });
            return ok(&json!({ "type": "ERROR", "object": status }));
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        self.watches.push((plural.into(), made_only, sender));
        let lines =
            stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
        Response::new(BodyExt::boxed(SyncBody::of(lines)))
    }

    fn list(&self, plural: &str, made_only: bool) -> Response<BoxBody<Bytes, Infallible>> {
        let items =
            self.objects.iter().filter(|(key, object)| key[0] == plural && (!made_only || is_made(object)));
        let items: Vec<&Value> = items.map(|(_, object)| object).collect();
        ok(&json!({ "apiVersion": "v1", "kind": "List", "items": items,
            "metadata": { "resourceVersion": self.version.to_string() } }))
    }

    fn discover(&self, api_version: &str) -> Response<BoxBody<Bytes, Infallible>> {
        let of = |kinds: &[(&'static str, &'static str)]| kinds.to_vec();
        let kinds = match api_version {
            "v1" => of(&CORE),
            "gateway.networking.k8s.io/v1" => of(&GATEWAY_API),
            other => OTHERS.iter().filter(|it| it.0 == other).map(|it| (it.1, it.2)).collect(),
        };
        let kinds: Vec<_> = kinds.into_iter().filter(|(_, plural)| !self.missing.contains(*plural)).collect();
        if kinds.is_empty() {
            return failure(StatusCode::NOT_FOUND, "no such version");
        }
        let resources = kinds.iter().map(|(kind, plural)| {
            json!({ "kind": kind, "name": plural, "namespaced": true, "singularName": "", "verbs": ["list", "watch"] })
        });
        ok(
            &json!({ "kind": "APIResourceList", "groupVersion": api_version, "resources": Vec::from_iter(resources) }),
        )
    }

    fn note(&mut self, method: &str, place: &[&str]) {
        if !["leases", "events"].contains(&place[0]) {
            let place: Vec<&str> = place.iter().filter(|it| !it.is_empty()).copied().collect();
            self.written.push(format!("{method} {}", place.join("/")));
        }
    }
}

/// A body of lines that can be shared, as boxed bodies have to be.
struct SyncBody;

impl SyncBody {
    fn of(
        lines: impl futures::Stream<Item = Bytes> + Send + Sync + 'static,
    ) -> StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + Sync> {
        StreamBody::new(lines.map(|line| Ok(Frame::data(line))))
    }
}

fn is_made(object: &Value) -> bool {
    object["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "postern"
}

/// JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (field, value) in fields {
        if value.is_null() {
            target.as_object_mut().expect("made above").remove(field);
        } else {
            merge(&mut target[field], value);
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}

fn plural(kind: &str) -> &'static str {
    let others = OTHERS.iter().map(|it| (it.1, it.2));
    let mut all = GATEWAY_API.into_iter().chain(CORE).chain(others);
    all.find(|(known, _)| *known == kind).map(|(_, plural)| plural).expect("a kind of the fake")
}

fn ok(value: &Value) -> Response<BoxBody<Bytes, Infallible>> {
    Response::new(Full::from(value.to_string()).boxed())
}

fn is_not_there(key: &[String; 3]) -> Response<BoxBody<Bytes, Infallible>> {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {}, "message": "there is none",
        "reason": "NotFound", "details": { "kind": key[0], "name": key[2] }, "code": 404 });
    refusal(StatusCode::NOT_FOUND, &status)
}

fn failure(code: StatusCode, message: &str) -> Response<BoxBody<Bytes, Infallible>> {
    let reason = match code {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::CONFLICT => "Conflict",
        _ => "ServiceUnavailable",
    };
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {},
        "message": message, "reason": reason, "code": code.as_u16() });
    refusal(code, &status)
}

fn refusal(code: StatusCode, status: &Value) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = ok(status);
    *response.status_mut() = code;
    response
}
