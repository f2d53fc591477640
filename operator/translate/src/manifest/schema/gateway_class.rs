//! The schema of GatewayClass.

use super::pattern::CONTROLLER;
use super::references::any_object;
use super::{Schema, object, optional, required, text};

pub(super) fn spec() -> Schema {
    object([
        required("controllerName", text().least(1).most(253).like(&CONTROLLER)),
        optional("description", text().most(64)),
        optional("parametersRef", any_object()),
    ])
}
