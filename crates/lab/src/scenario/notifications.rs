//! Notifications of a server, from the keys of the `workload` table.

use carob_cc::bottleneck_group::Constants;
use carob_cc::time::Duration;
use carob_sim::notifications::{ConfigError, NotificationQueue, Notifications, RESOURCES_MAX};
use carob_sim::spec::{CLIENTS_MAX, RunSpec, Workload};

use super::cell::Cell;
use super::error::ScenarioError;
use super::impossible;

keys! {
    /// Keys of notifications. Some are of wireless networks, too.
    pub(super) KEYS;

    "workload.subscribers", Whole(1, CLIENTS_MAX as u64), "1",
        "With `notifications`, clients that observe, each with a port of its own.";

    Notifications {
        has_device_each: "workload.device", Word { "one" => false, "each" => true }, "one",
            "With `notifications`, whether the subscribers observe `one` device together, or `each` one of its own, with its own radio or node.";
        resources: "workload.resources", Whole(1, RESOURCES_MAX as u64), "1",
            "With `notifications`, resources that each client observes.";
        interval: "workload.interval", Time, "60 s",
            "With `notifications`, time from one round to the next; in each all resources change.";
        offset: "workload.offset", Span, "0 s",
            "With `notifications`, when a client's rounds begin after the warm-up; if a range, drawn for each, and each observes resources of its own.";
        duration: "workload.duration", Time, "10 min",
            "How long `notifications` are made in rounds, or a `mesh` makes messages, and how long that is counted.";
        warm_up: "workload.warm_up", Time, "2 min",
            "Time before that, of which nothing is counted: with `notifications` for registrations, which are CON GETs, over a `mesh` for RPL alone.";
        message_bytes: "workload.message", Bytes(16, 1_024), "64 B",
            "Size of each of `notifications`, or of each message of a `mesh`, from CoAP's header to the end of the payload; Max-Age and Observe are part of it.";
        max_age: "workload.max_age", TimeOrNone, "none",
            "With `notifications`, their Max-Age; `none` leaves the option out, which means 60 s. A client that has heard nothing for longer registers again.";
        queue: "workload.notification_queue", Word { "supersede" => NotificationQueue::Supersede, "queue" => NotificationQueue::Queue }, "supersede",
            "With `notifications`, the handling of a state while an earlier one waits to be sent: it takes its place (RFC 7641 4.5.2), or waits behind it and is dropped if there is no room.";
        queue_of_client: "workload.queue_of_subscriber", Whole(1, u16::MAX as u64), "10",
            "Notifications that may wait for one client, where they queue.";
        queue_of_all: "workload.queue_of_all", Whole(1, 1_000_000), "1000",
            "Notifications that may wait for all clients together, where they queue.";
        unconfirmed_max: "workload.unconfirmed_max", Whole(1, u16::MAX as u64), "32",
            "With `notifications`, NON in a row of one observation before one asks, as CON, whether the client is still there, whatever the controller says.";
        bin: "workload.bin", Time, "10 s",
            "With `notifications` and `mesh`, spans of time to count in.";
    }

    Constants {
        _: "workload.aggregate", Word(&["off", "on"]), "off",
            "With `notifications`, whether the server has one budget for all clients together, in front of their controllers; a choice of this project (`carob_cc::bottleneck_group`).";
        initial_window: "workload.aggregate_initial", Bytes(1, 1_000_000), "1280 B",
            "Of that budget, the window before anything is known.";
        min_window: "workload.aggregate_least", Bytes(1, 1_000_000), "128 B",
            "The least window.";
        target: "workload.aggregate_target", Number, "1/4",
            "The time in queues that it aims at, as a share of the shortest round trip.";
        confirm_every: "workload.aggregate_confirm_every", Whole(1, u16::MAX as u64), "8",
            "Number of NON notifications in a row, to any observer, of which the last is made CON so that the controller learns something.";
    }
}

/// The notifications of a cell.
pub(super) fn of(cell: &Cell) -> Result<Notifications, ScenarioError> {
    let notifications: Notifications = cell.fields()?;
    let has_fraction = |age: &Duration| !age.as_micros().is_multiple_of(1_000_000);
    if let Some(age) = notifications.max_age.filter(has_fraction) {
        let path = "workload.max_age";
        let why = format!("{path} is {age}; Max-Age has whole seconds (RFC 7252 5.10.5)");
        return Err(impossible(cell.place(path), why));
    }
    // The server's budget for all its subscribers, if it has one.
    let has_budget: bool = cell.get("workload.aggregate")?;
    Ok(Notifications {
        token_bytes: cell.get("workload.token_bytes")?,
        aggregate: has_budget.then(|| cell.fields()).transpose()?,
        ..notifications
    })
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
