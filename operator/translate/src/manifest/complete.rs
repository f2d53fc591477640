//! What the API server fills in for core kinds, as far as somebody here reads it.

use std::sync::Arc;

use k8s_openapi::ByteString;

use crate::kinds::AnyObject;

const TCP: &str = "TCP";
/// Every namespace has it; selectors use it.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

pub(super) fn complete(object: &mut AnyObject) {
    match object {
        AnyObject::Secret(secret) => {
            let secret = Arc::make_mut(secret);
            let texts = secret.string_data.take().unwrap_or_default();
            if !texts.is_empty() {
                let bytes = texts.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes())));
                secret.data.get_or_insert_default().extend(bytes);
            }
        }
        AnyObject::Namespace(namespace) => {
            let metadata = &mut Arc::make_mut(namespace).metadata;
            let name = metadata.name.clone().unwrap_or_default();
            metadata.labels.get_or_insert_default().insert(NAMESPACE_NAME.into(), name);
        }
        AnyObject::Service(service) => {
            let spec = Arc::make_mut(service).spec.get_or_insert_default();
            spec.type_.get_or_insert_with(|| "ClusterIP".into());
            for port in spec.ports.iter_mut().flatten() {
                port.protocol.get_or_insert_with(|| TCP.into());
            }
        }
        AnyObject::EndpointSlice(slice) => {
            for port in Arc::make_mut(slice).ports.iter_mut().flatten() {
                port.protocol.get_or_insert_with(|| TCP.into());
                port.name.get_or_insert_default();
            }
        }
        AnyObject::GatewayClass(_)
        | AnyObject::Gateway(_)
        | AnyObject::HttpRoute(_)
        | AnyObject::GrpcRoute(_)
        | AnyObject::ReferenceGrant(_)
        | AnyObject::Parameters(_)
        | AnyObject::ConfigMap(_) => {}
    }
}
