//! The request that `route` is asked about: a method, a URL and headers.

use std::net::IpAddr;
use std::str::FromStr;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use postern_config::Scheme;
use postern_config::routing::{self, Request, path};

/// A request as a client would send it.
#[derive(Clone, Debug)]
pub struct ExplainRequest {
    /// As given.
    pub url: String,
    /// The method.
    pub method: Method,
    /// Whether TLS is spoken.
    pub scheme: Scheme,
    /// The port of the listener.
    pub port: u16,
    /// The host of the URL, which is the server name in the TLS handshake; empty for an IP address (RFC 6066 section 3).
    pub server_name: String,
    /// The host that routing looks at: that of the header `Host` if there is one, else that of the URL.
    pub host: String,
    /// The host as the client writes it, with its port.
    pub authority: String,
    /// The path, normalized.
    pub path: String,
    /// What stands after `?`.
    pub query: Option<String>,
    /// The headers.
    pub headers: HeaderMap,
}

/// `name: value`
#[derive(Clone, Debug)]
pub struct Header(HeaderName, HeaderValue);

impl FromStr for Header {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once(':').ok_or("write 'NAME: VALUE'")?;
        let name = name.trim().parse().map_err(|_| format!("`{name}` cannot be the name of a header"))?;
        let value = HeaderValue::from_str(value.trim())
            .map_err(|_| format!("`{value}` cannot be the value of a header"))?;
        Ok(Self(name, value))
    }
}

impl ExplainRequest {
    /// Fails with a message when the URL is not one that a client of a Gateway could ask for.
    pub fn new(method: Method, url: &str, headers: &[Header]) -> Result<Self, String> {
        if !url.contains("://") {
            return Err(format!("`{url}` has no scheme: write http://HOST[:PORT]/PATH"));
        }
        let uri: Uri = url.parse().map_err(|error| format!("`{url}` is not a URL: {error}"))?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) | None => return Err(format!("`{url}` is not a URL with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| format!("`{url}` has no host"))?;
        let url_host = routing::host(authority.as_str()).into_owned();
        let is_address = url_host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let headers =
            HeaderMap::from_iter(headers.iter().map(|Header(name, value)| (name.clone(), value.clone())));
        let named = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let target = uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        Ok(Self {
            url: url.into(),
            method,
            scheme,
            port: authority.port_u16().unwrap_or(scheme.port()),
            host: named.map_or_else(|| url_host.clone(), |host| routing::host(host).into_owned()),
            authority: named.unwrap_or(authority.as_str()).into(),
            server_name: if is_address { String::new() } else { url_host },
            path: path::normalize(target.path()).into_owned(),
            query: target.query().map(str::to_owned),
            headers,
        })
    }

    /// The head as it is sent.
    pub fn head(&self) -> Option<Parts> {
        let target = match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        };
        let mut request = http::Request::builder().method(self.method.clone()).uri(target).body(()).ok()?;
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().insert(header::HOST, HeaderValue::from_str(&self.authority).ok()?);
        Some(request.into_parts().0)
    }

    /// What routing looks at.
    pub fn routed(&self) -> Request<'_> {
        let Self { host, path, query, method, headers, .. } = self;
        Request { host, path, query: query.as_deref(), method, headers }
    }
}

/// A method in any case: methods are upper case in practice, and nobody means `get` to be another than `GET`.
pub fn method(text: &str) -> Result<Method, String> {
    Method::from_bytes(text.to_ascii_uppercase().as_bytes()).map_err(|_| format!("`{text}` is not a method"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(url: &str, headers: &[&str]) -> Result<ExplainRequest, String> {
        let headers: Vec<Header> = headers.iter().map(|text| text.parse().expect(text)).collect();
        ExplainRequest::new(Method::GET, url, &headers)
    }

    #[test]
    fn a_url_names_the_port_of_the_listener() {
        for (url, port) in [
            ("http://shop.test/", 80),
            ("https://shop.test", 443),
            ("http://shop.test:8080/a", 8080),
            ("http://[::1]:81/", 81),
        ] {
            assert_eq!(asked(url, &[]).map(|asked| asked.port), Ok(port), "{url}");
        }
        assert_eq!(
            asked("https://Shop.Test", &[]).map(|asked| (asked.host, asked.path)),
            Ok(("shop.test".into(), "/".into()))
        );
    }

    #[test]
    fn the_header_host_is_what_routing_looks_at() {
        let asked = asked("https://10.0.0.1/a/../b?x=1", &["Host: App.shop.test:443"]).expect("a request");
        assert_eq!((asked.host.as_str(), asked.server_name.as_str()), ("app.shop.test", ""));
        assert_eq!((asked.path.as_str(), asked.query.as_deref()), ("/b", Some("x=1")));
    }

    #[test]
    fn what_is_not_a_request_says_why() {
        assert!(asked("app.shop.test/", &[]).expect_err("no scheme").contains("http://HOST"));
        assert!(asked("ftp://app.shop.test/", &[]).expect_err("ftp").contains("http:// or https://"));
        assert!("x-version".parse::<Header>().is_err());
        assert!("a b: c".parse::<Header>().is_err());
    }
}
