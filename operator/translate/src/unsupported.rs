//! What Gateways and listeners can ask for and we do not do: what must not be served without it, and what may.

use postern_config::ObjectKey;
use serde_json::Value;

use crate::Note;
use crate::api::{self, CertificateMode, FromNamespaces, GatewaySpec, ListenerTls, ProtocolType};
use crate::namespaces;
use crate::status::{Reason, Refusal};

/// The protocols that are served.
pub(crate) fn protocol(spec: &api::Listener) -> Option<Refusal> {
    match spec.protocol {
        ProtocolType::Http | ProtocolType::Https => None,
        ProtocolType::Tls | ProtocolType::Tcp | ProtocolType::Udp | ProtocolType::Unknown(_) => {
            let message = format!("the protocol `{}` is not supported: use HTTP or HTTPS", spec.protocol);
            Some(Reason::UnsupportedProtocol.because(message))
        }
    }
}

/// What a Gateway asks for that no part of it may be served without.
pub(crate) fn gateway(spec: &GatewaySpec) -> Option<Refusal> {
    let address =
        spec.addresses.iter().find(|a| a.kind.as_deref().is_some_and(|kind| kind != "IPAddress"))?;
    let kind = address.kind.as_deref().unwrap_or_default();
    Some(
        Reason::UnsupportedAddress
            .because(format!("addresses of type `{kind}` are not supported: use IPAddress")),
    )
}

/// Settings that say how safe a listener has to be and that we cannot honour: without them it is not served.
pub(crate) fn settings(gateway: &GatewaySpec, spec: &api::Listener) -> Option<Refusal> {
    if spec.protocol == ProtocolType::Https && has(&gateway.tls, "frontend") {
        let message = "`tls.frontend` of the Gateway is not supported, and without it clients would not be validated: remove it";
        return Some(Reason::NoValidCACertificate.because(message));
    }
    if let Some(field) = unknown_field(&gateway.tls) {
        return Some(refuse(&format!("`tls.{field}` of the Gateway")));
    }
    if let Some(field) = spec.unknown.keys().next() {
        return Some(refuse(&format!("`{field}`")));
    }
    spec.tls.as_ref().and_then(|tls| self::tls(spec, tls)).or_else(|| unknown_namespaces(spec))
}

fn tls(spec: &api::Listener, tls: &ListenerTls) -> Option<Refusal> {
    if spec.protocol != ProtocolType::Https {
        return Some(refuse(&format!("`tls` on a listener of protocol {}", spec.protocol)));
    }
    if let Some(field) = tls.unknown.keys().next() {
        return Some(refuse(&format!("`tls.{field}`")));
    }
    match &tls.mode {
        None | Some(CertificateMode::Terminate) => None,
        Some(mode @ (CertificateMode::Passthrough | CertificateMode::Unknown(_))) => {
            let message = format!("the tls.mode `{mode}` is not supported for protocol HTTPS: use Terminate");
            Some(Reason::UnsupportedValue.because(message))
        }
    }
}

fn refuse(name: &str) -> Refusal {
    Reason::UnsupportedValue
        .because(format!("{name} is not supported: remove it, then this listener is served"))
}

/// Why the choice of namespaces takes none, if it is because of a mistake.
fn unknown_namespaces(spec: &api::Listener) -> Option<Refusal> {
    let namespaces = spec.allowed_routes.as_ref()?.namespaces.as_ref()?;
    match (&namespaces.from, &namespaces.selector) {
        (Some(FromNamespaces::Unknown(from)), _) => Some(Reason::UnsupportedValue.because(format!(
            "`allowedRoutes.namespaces.from` is `{from}`, which is not supported: use All, Same, Selector or None"
        ))),
        (Some(FromNamespaces::Selector), Some(selector)) => namespaces::mistake(selector),
        (Some(FromNamespaces::Selector), None) => Some(
            Reason::UnsupportedValue.because("`allowedRoutes.namespaces.from` is Selector: give a selector"),
        ),
        (None | Some(FromNamespaces::All | FromNamespaces::Same | FromNamespaces::None), _) => None,
    }
}

/// Client certificates towards backends: there is no TLS towards backends that could carry them.
pub(crate) fn backend_tls(spec: &GatewaySpec) -> Option<Refusal> {
    has(&spec.tls, "backend").then(|| {
        Reason::InvalidClientCertificateRef
            .because("`tls.backend` is not supported, so backends see no client certificate: remove it")
    })
}

fn has(tls: &Option<Value>, field: &str) -> bool {
    tls.as_ref().and_then(|tls| tls.get(field)).is_some_and(|value| !value.is_null())
}

fn unknown_field(tls: &Option<Value>) -> Option<&String> {
    tls.as_ref()?.as_object()?.keys().find(|key| !matches!(key.as_str(), "frontend" | "backend"))
}

/// Fields that ask for more than is served here, and whose absence does no harm to what is.
pub(crate) fn ignored_fields(key: &ObjectKey, spec: &GatewaySpec) -> Vec<Note> {
    let fields = [
        (
            spec.allowed_listeners.is_some(),
            "`allowedListeners` has no effect: ListenerSets are not supported",
        ),
        (
            spec.default_scope.is_some(),
            "`defaultScope` has no effect: routes attach by their parentRefs alone",
        ),
    ];
    let note = |message: &str| Note { kind: "Gateway", object: key.clone(), message: message.into() };
    fields.iter().filter(|(is_there, _)| *is_there).map(|(_, message)| note(message)).collect()
}

/// Options of TLS have no effect; each is named by its implementation's domain.
pub(crate) fn ignored_options(key: &ObjectKey, spec: &api::Listener) -> Option<Note> {
    let options = &spec.tls.as_ref()?.options;
    let names: Vec<&str> = options.keys().map(String::as_str).collect();
    (!names.is_empty()).then(|| Note {
        kind: "Gateway",
        object: key.clone(),
        message: format!("`tls.options` of listener `{}` have no effect: {}", spec.name, names.join(", ")),
    })
}
