//! Notifications of a server, from the keys of the `workload` table.

use carob_cc::bottleneck_group::Constants;
use carob_sim::notifications::{ConfigError, NotificationQueue, Notifications};
use carob_sim::spec::{RunSpec, Workload};

use super::cell::Cell;
use super::error::ScenarioError;
use super::impossible;

/// The notifications of a cell.
pub(super) fn of(cell: &Cell) -> Result<Notifications, ScenarioError> {
    let path = "workload.max_age";
    let max_age = cell.time_or_none(path)?;
    if let Some(age) = max_age.filter(|age| age.as_micros() % 1_000_000 != 0) {
        let why = format!("{path} is {age}; Max-Age has whole seconds (RFC 7252 5.10.5)");
        return Err(impossible(cell.place(path), why));
    }
    Ok(Notifications {
        has_device_each: cell.text("workload.device")? == "each",
        resources: cell.whole("workload.resources")? as u32,
        warm_up: cell.time("workload.warm_up")?,
        interval: cell.time("workload.interval")?,
        offset: cell.span("workload.offset")?,
        duration: cell.time("workload.duration")?,
        message_bytes: cell.bytes("workload.message")? as u32,
        token_bytes: cell.whole("workload.token_bytes")? as u8,
        max_age,
        queue: match cell.text("workload.notification_queue")? {
            "queue" => NotificationQueue::Queue,
            _ => NotificationQueue::Supersede,
        },
        queue_of_client: cell.whole("workload.queue_of_subscriber")? as u32,
        queue_of_all: cell.whole("workload.queue_of_all")? as u32,
        unconfirmed_max: cell.whole("workload.unconfirmed_max")? as u16,
        aggregate: aggregate(cell)?,
        bin: cell.time("workload.bin")?,
    })
}

/// The server's budget for all its subscribers, if it has one.
fn aggregate(cell: &Cell) -> Result<Option<Constants>, ScenarioError> {
    if !cell.is_on("workload.aggregate")? {
        return Ok(None);
    }
    let mut constants = Constants::DEFAULT;
    constants.initial_window = cell.bytes("workload.aggregate_initial")? as u32;
    constants.min_window = cell.bytes("workload.aggregate_least")? as u32;
    constants.target = cell.number("workload.aggregate_target")?;
    constants.confirm_every = cell.whole("workload.aggregate_confirm_every")? as u16;
    Ok(Some(constants))
}

/// Checks that the notifications of a run can be sent.
pub(super) fn check(cell: &Cell, spec: &RunSpec) -> Result<(), ScenarioError> {
    let Workload::Notifications(told) = &spec.measured.workload else {
        return Ok(());
    };
    told.check(spec).map_err(|why| {
        let path = match why {
            ConfigError::Resources(_) => "workload.resources",
            ConfigError::NoTime => "workload.interval",
            ConfigError::TooLong | ConfigError::TimeLimit => "workload.duration",
            ConfigError::Message(_) | ConfigError::Mtu(_) => "workload.message",
            ConfigError::Token => "workload.token_bytes",
            ConfigError::Budget => "workload.aggregate",
            _ => "run.algorithms",
        };
        impossible(cell.place(path), format!("{path}: {why}"))
    })
}
