//! Tokens of ServiceAccounts, right and wrong ones.

use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use rustls::SignatureScheme;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Error};

/// The audience of data planes.
pub const AUDIENCE: &str = "postern";

/// Asks the API server for a token; without an audience it is for the API server, and `bound` is a pod that it ends with.
pub async fn token(
    cluster: &Cluster,
    (namespace, account): (&str, &str),
    audience: Option<&str>,
    bound: Option<&str>,
) -> Result<String, Error> {
    let mut request = json!({ "spec": { "audiences": Vec::from_iter(audience), "expirationSeconds": 600 } });
    if let Some(pod) = bound {
        request["spec"]["boundObjectRef"] = json!({ "apiVersion": "v1", "kind": "Pod", "name": pod });
    }
    let request: TokenRequest = serde_json::from_value(request)?;
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client.clone(), namespace);
    let made = accounts.create_token_request(account, &PostParams::default(), &request).await?;
    Ok(made.status.ok_or("the API server made no token")?.token)
}

/// The token with a later end, and the signature that it had.
pub fn prolonged(token: &str) -> Result<String, Error> {
    let mut claims = claims(token)?;
    claims["exp"] = (claims["exp"].as_u64().unwrap_or_default() + 86_400).into();
    let parts: Vec<&str> = token.split('.').collect();
    Ok([parts[0], &URL_SAFE_NO_PAD.encode(claims.to_string()), parts[2]].join("."))
}

/// The token as one that has ended an hour ago, and as one that has not, both signed anew. `None` where the key of the API
/// server is not beside the kubeconfig.
pub fn expired(token: &str) -> Result<Option<[String; 2]>, Error> {
    let kubeconfig = std::env::var("KUBECONFIG").unwrap_or_default();
    let key = Path::new(&kubeconfig).with_file_name("sa.key");
    if !key.exists() {
        return Ok(None);
    }
    let key = PrivateKeyDer::from_pem_file(key)?;
    let key = rustls::crypto::ring::sign::any_supported_type(&key)?;
    let signer =
        key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]).ok_or("the key is not one of RSA")?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let signed = |end: Duration| -> Result<String, Error> {
        let mut claims = claims(token)?;
        claims["exp"] = end.as_secs().into();
        for since in ["iat", "nbf"] {
            claims[since] = (now.as_secs() - 7200).into();
        }
        let header = token.split('.').next().unwrap_or_default();
        let text = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = signer.sign(text.as_bytes())?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    };
    let hour = Duration::from_secs(3600);
    Ok(Some([signed(now - hour)?, signed(now + hour)?]))
}

fn claims(token: &str) -> Result<Value, Error> {
    let payload = token.split('.').nth(1).ok_or("it is no token")?;
    Ok(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload)?)?)
}
