//! Objects made up from a schema: mostly of the right shape, so that the rules across fields get their say.

use std::collections::BTreeMap;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::server::{array, text};

/// What strings are made of. Where a schema has a pattern or lengths, those that fit it are taken.
#[rustfmt::skip]
pub const STRINGS: [&str; 81] = [
    "a", "web", "app-1", "example.com", "*.example.com", "a.b.example.com", "*", "", "-a", "a-", "A", "Web",
    "a_b", "a.b", "a..b", "/", "/a", "/a/b", "/a/", "//", "/a//b", "/a/./b", "/a/../b", "/a/..", "/a/.",
    "/a%2fb", "/a%2Fb", "/a#b", "/a?b", "/ä", "a/b", "/a b", "/%zz", "/(a|b)+", "[", "example.com/v1",
    "example.com/controller", "Example.com/x", "gateway.networking.k8s.io", "apps", "Service", "Secret",
    "ConfigMap", "Gateway", "HTTPRoute", "X-Version", "x-version", "a:b", "a b", " a", "a ", "a\tb", "a\nb",
    "ä", "1.2.3.4", "::1", "::ffff:1.2.3.4", "1.2.3.256", "10s", "0s", "1h30m", "1.5s", "100ms", "5m",
    "99999h", "100000h", "20s", "gateway.networking.x-k8s.io", "XBackend", "ClusterTrustBundle",
    "certificates.k8s.io", "TLS", "Header", "http://example.com", "https://*.example.com:8443", "http://*",
    "GET", "HTTP", "10.0.0.0/8", "2001:db8::/32", "10.0.0.0/33",
];

/// Makes values up. The same seed makes the same values.
pub struct Sampler {
    /// Where choices come from.
    pub rng: Rng,
    fitting: BTreeMap<String, Vec<Value>>,
}

impl Sampler {
    /// A sampler whose choices follow from the seed.
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), fitting: BTreeMap::new() }
    }

    /// An object of a kind.
    pub fn object(&mut self, api_version: &str, kind: &str, schema: &Value) -> Value {
        json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": { "name": "sample", "namespace": "default" },
            "spec": self.value(&schema["properties"]["spec"]),
        })
    }

    /// A value of a schema.
    pub fn value(&mut self, schema: &Value) -> Value {
        if !array(&schema["enum"]).is_empty() {
            return self.one_of(array(&schema["enum"]));
        }
        match schema["type"].as_str() {
            Some("object") => self.fields(schema),
            Some("array") => {
                let (min, max) =
                    (schema["minItems"].as_u64().unwrap_or(0), schema["maxItems"].as_u64().unwrap_or(3));
                (0..self.rng.u64(min..=max.min(min + 2))).map(|_| self.value(&schema["items"])).collect()
            }
            Some("integer") => {
                let (min, max) =
                    (schema["minimum"].as_i64().unwrap_or(0), schema["maximum"].as_i64().unwrap_or(1_000));
                self.one_of(&[json!(min), json!(max), json!(self.rng.clone().i64(min..=max))])
            }
            Some("boolean") => json!(self.rng.bool()),
            _ => self.string(schema),
        }
    }

    /// One of several.
    pub fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(0..of.len())].clone()
    }

    fn fields(&mut self, schema: &Value) -> Value {
        let mut fields = Map::new();
        let of_map = &schema["additionalProperties"];
        if of_map.is_object() {
            for _ in 0..self.rng.usize(0..3) {
                fields.insert(self.one_of(&["a", "example.com/a", "B_1", "-"]).into(), self.value(of_map));
            }
        }
        let Some(properties) = schema["properties"].as_object() else {
            return fields.into();
        };
        let required: Vec<&str> = array(&schema["required"]).iter().map(text).collect();
        for (name, property) in properties {
            if required.contains(&name.as_str()) || self.rng.u8(0..10) < 4 {
                fields.insert(name.clone(), self.value(property));
            }
        }
        self.follow_discriminator(&mut fields, properties);
        fields.into()
    }

    /// A `type` (or `protocol`) that names one of the fields beside it wants that field and none of the others: chance alone
    /// would seldom make a valid filter.
    fn follow_discriminator(&mut self, fields: &mut Map<String, Value>, properties: &Map<String, Value>) {
        let Some(discriminator) =
            ["type", "protocol"].into_iter().find(|name| properties.contains_key(*name))
        else {
            return;
        };
        if self.rng.u8(0..20) == 0 {
            return;
        }
        let chosen = fields.get(discriminator).and_then(Value::as_str).unwrap_or_default().to_lowercase();
        for value in array(&properties[discriminator]["enum"]) {
            let named = properties.iter().find(|(name, _)| name.to_lowercase() == text(value).to_lowercase());
            let Some((name, property)) = named else { continue };
            if name.to_lowercase() == chosen {
                fields.insert(name.clone(), self.value(property));
            } else {
                fields.remove(name);
            }
        }
    }

    fn string(&mut self, schema: &Value) -> Value {
        let limits = json!({ "pattern": schema["pattern"].as_str().unwrap_or(""), "minLength": schema["minLength"].as_u64().unwrap_or(0),
            "maxLength": schema["maxLength"].as_u64().unwrap_or(4096) });
        let fitting = self.fitting.entry(limits.to_string()).or_insert_with(|| {
            let options =
                jsonschema::draft4::options().with_pattern_options(jsonschema::PatternOptions::regex());
            let fits = options.build(&limits).expect("limits of a string are a schema");
            STRINGS.iter().map(|text| json!(text)).filter(|text| fits.is_valid(text)).collect()
        });
        let fitting = std::mem::take(fitting);
        assert!(!fitting.is_empty(), "no sample string fits {limits}");
        let chosen = self.one_of(&fitting);
        self.fitting.insert(limits.to_string(), fitting);
        chosen
    }
}
