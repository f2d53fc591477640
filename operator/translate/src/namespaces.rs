//! Whether a namespace is one of those that a listener takes routes from.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use postern_config::ObjectKey;

use crate::api::{FromNamespaces, RouteNamespaces};
use crate::kinds::ObjectSet;
use crate::status::{Reason, Refusal};

/// The label that every namespace has, with its own name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Whether `choice`, made by an object in namespace `own`, takes `namespace`. What it does not understand takes none.
pub(crate) fn allow(
    objects: &ObjectSet,
    choice: Option<&RouteNamespaces>,
    own: &str,
    namespace: &str,
) -> bool {
    let from = choice.and_then(|choice| choice.from.as_ref()).unwrap_or(&FromNamespaces::Same);
    match from {
        FromNamespaces::All => true,
        FromNamespaces::Same => own == namespace,
        FromNamespaces::Selector => {
            choice.and_then(|choice| choice.selector.as_ref()).is_some_and(|s| selects(objects, s, namespace))
        }
        FromNamespaces::None | FromNamespaces::Unknown(_) => false,
    }
}

/// Why a selector can take no namespace, if it is because of a mistake: the API server does not look into selectors.
pub(crate) fn mistake(selector: &LabelSelector) -> Option<Refusal> {
    let wrong = selector.match_expressions.iter().flatten().find(|expression| {
        let values = expression.values.as_ref().map_or(0, Vec::len);
        match expression.operator.as_str() {
            "In" | "NotIn" => values == 0,
            "Exists" | "DoesNotExist" => values != 0,
            _ => true,
        }
    })?;
    Some(Reason::UnsupportedValue.because(format!(
        "`allowedRoutes.namespaces.selector` has the expression `{} {}` for label `{}`: use In or NotIn with values, Exists or DoesNotExist without",
        wrong.operator,
        wrong.values.iter().flatten().cloned().collect::<Vec<_>>().join(","),
        wrong.key
    )))
}

fn selects(objects: &ObjectSet, selector: &LabelSelector, namespace: &str) -> bool {
    let object = objects.namespaces.get(&ObjectKey::new("", namespace));
    let labels = object.and_then(|object| object.metadata.labels.as_ref());
    let label = |key: &str| match key {
        NAME_LABEL => Some(namespace),
        _ => labels.and_then(|labels: &BTreeMap<String, String>| labels.get(key)).map(String::as_str),
    };
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| label(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|expression| {
            let found = label(&expression.key);
            let listed =
                || found.is_some_and(|found| expression.values.iter().flatten().any(|value| value == found));
            match expression.operator.as_str() {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}
