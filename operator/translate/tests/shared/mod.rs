//! What the tests share: objects from YAML or JSON, with certificates made on the way.

pub mod pairs;

use postern_translate::kinds::AnyObject;
use serde_json::Value;

/// Reads one object.
pub fn object(value: Value) -> AnyObject {
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let parsed = AnyObject::parse(group, &kind, &value);
    parsed.unwrap_or_else(|| panic!("{kind} is a known kind")).unwrap_or_else(|e| panic!("{e} in {value}"))
}
