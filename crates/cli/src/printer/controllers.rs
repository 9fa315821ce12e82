//! The congestion controllers.

use super::line;
use crate::commands::cc::Controller;

/// All controllers, a line each.
pub(crate) fn controllers(all: &[Controller]) {
    let width = all
        .iter()
        .map(|controller| controller.name.len())
        .max()
        .unwrap_or_default();
    for Controller { name, about, .. } in all {
        line(&format!("{name:width$}  {about}"));
    }
}

/// One controller.
pub(crate) fn controller(controller: &Controller) {
    let Controller {
        name,
        about,
        source,
        path: _,
        state_bytes: _,
        project_choice: _,
        choice,
        suggested,
        constants,
    } = controller;
    line(&format!("{name}: {about}"));
    line(&format!("source: {source}"));
    if let Some(choice) = choice {
        line(&format!("this project's choice: {choice}"));
    }
    if let Some(count) = suggested.max_retransmit {
        line(&format!("suggests MAX_RETRANSMIT = {count}"));
    }
    if let Some(cap) = &suggested.rto_max {
        line(&format!("suggests timers of at most {cap}"));
    }
    if constants.is_empty() {
        line("it has no constants besides the transmission parameters");
        return;
    }
    line("constants:");
    let names = constants
        .iter()
        .map(|constant| constant.name.len())
        .max()
        .unwrap_or_default();
    let values = constants
        .iter()
        .map(|constant| constant.value.len())
        .max()
        .unwrap_or_default();
    for constant in constants {
        let (name, value, about) = (constant.name, &constant.value, constant.about);
        line(&format!("  {name:names$}  {value:values$}  {about}"));
        line(&format!(
            "  {:names$}  {:values$}  ({})",
            "", "", constant.kind
        ));
    }
}
