//! Clients of two kinds on one link, from the keys of the `mix` table.

use carob_sim::registry::Registry;
use carob_sim::spec::{CLIENTS_MAX, ClientGroup, Workload};

use super::algorithm::{self, Algorithm};
use super::cell::Cell;
use super::error::ScenarioError;
use super::settings::Settings;
use super::value::Value;
use super::{Setting, impossible};

keys! {
    /// Keys of the other clients.
    pub(super) KEYS;

    "mix.first", Text, -,
        "Where set, the only one of `run.algorithms` that runs in the cell.";
    "mix.second", Text, -,
        "Algorithm of other clients on the same network, which do the same but for the keys below; without it there are none.";
    "mix.second_kind", Word(&["blockwise-get", "exchanges"]), -, needs "mix.second",
        "`workload.kind` of the other clients; without it, the same.";
    "mix.second_requests", Whole(1, 1_000_000), -, needs "mix.second",
        "`workload.requests` of the other clients; without it, the same.";
    "mix.second_request", Bytes(0, 1 << 20), -, needs "mix.second",
        "`workload.request` of the other clients; without it, the same.";
    "mix.second_response", Bytes(0, 1 << 20), -, needs "mix.second",
        "`workload.response` of the other clients; without it, the same.";
    "mix.second_clients", Whole(1, CLIENTS_MAX as u64), -, needs "mix.second",
        "How many other clients; without it, as many as `workload.clients`.";
    "mix.second_nstart", Whole(1, u16::MAX as u64), -, needs "mix.second",
        "NSTART of the other clients; without it, that of their algorithm.";
    "mix.second_parallel", Whole(1, 1_024), -, needs "mix.second",
        "Requests at once of the other clients; without it, `workload.parallel`.";
}

/// The algorithm of the other clients, if there are any.
pub(super) fn second(
    settings: &Settings,
    registry: Registry,
) -> Result<Option<Algorithm>, ScenarioError> {
    match settings.get("mix.second") {
        Some(Setting {
            value: Value::Text(name),
            place,
        }) => algorithm::second(name, settings, place, registry).map(Some),
        _ => Ok(None),
    }
}

/// The other clients: like the first, except for the keys of the table.
pub(super) fn others(cell: &Cell) -> Result<Vec<ClientGroup>, ScenarioError> {
    if let Ok(first) = cell.text("mix.first")
        && !algorithm::is_known(first, cell.registry)
    {
        let hint = algorithm::near(first, cell.registry);
        let why = format!("mix.first: unknown controller \"{first}\"{hint}");
        return Err(impossible(cell.place("mix.first"), why));
    }
    let Some(second) = &cell.second else {
        return Ok(Vec::new());
    };
    let mut group = of_second(cell).group(second)?;
    let path = "mix.second_clients";
    if cell.has(path) {
        let (own, others) = (group.clients, cell.get::<u32>(path)?);
        if u64::from(own) + u64::from(others) > u64::from(CLIENTS_MAX) {
            let why =
                format!("{own} clients and {others} others; a link has at most {CLIENTS_MAX}");
            return Err(impossible(cell.place(path), why));
        }
        group.clients = others;
    }
    if cell.has("mix.second_nstart") {
        group.transmission.nstart = cell.get("mix.second_nstart")?;
    }
    if cell.has("mix.second_parallel")
        && let Workload::Requests(requests) = &mut group.workload
    {
        requests.parallel = cell.get("mix.second_parallel")?;
    }
    Ok(vec![group])
}

/// The cell as the other clients have it.
fn of_second(cell: &Cell) -> Cell {
    let mut own = cell.clone();
    for key in ["kind", "requests", "request", "response"] {
        if let Some(setting) = cell.settings.get(&format!("mix.second_{key}")) {
            let setting = setting.clone();
            own.settings.insert(format!("workload.{key}"), setting);
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use carob_sim::spec::Transport;

    use super::super::Scenario;
    use crate::run::{Plan, PlanError, Selection};
    use crate::testing::read;

    fn long(overrides: &[&str]) -> Result<Scenario, String> {
        read("thesis/long", overrides).map_err(|e| e.to_string())
    }

    #[test]
    fn other_clients_do_the_same_but_for_what_is_said_of_them() {
        let set = ["mix.second=tcp-newreno", "second_clients=3", "nstart=4"];
        let scenario = long(&set).expect("a valid one");
        let cell = scenario.cell("long-4c-low-2500").expect("a cell");
        let spec = scenario.spec(cell, &scenario.algorithms()[0], 1);
        assert_eq!((spec.measured.clients, spec.all_clients()), (4, 7));
        let [others] = &spec.others[..] else {
            panic!("one kind of others: {:?}", spec.others);
        };
        assert!(matches!(others.transport, Transport::Connections(_)));
        assert_eq!(others.workload, spec.measured.workload);

        let set = ["mix.second=cocoa-plus", "second_nstart=2", "nstart=4"];
        let scenario = long(&set).expect("a valid one");
        let cell = scenario.cell("long-4c-low-2500").expect("a cell");
        let spec = scenario.spec(cell, &scenario.algorithms()[0], 1);
        let [others] = &spec.others[..] else {
            panic!("one kind of others: {:?}", spec.others);
        };
        assert_eq!(others.controller.entry().name, "cocoa-plus");
        assert_eq!((others.clients, others.transmission.nstart), (4, 2));
        assert_eq!(spec.measured.transmission.nstart, 4);
    }

    #[test]
    fn the_first_of_a_cell_is_the_only_one_that_runs_there() {
        let scenario = long(&["mix.first=tcp-newreno"]).expect("a valid one");
        let cell = &scenario.cells()[0];
        let runs = scenario.algorithms().iter().filter(|a| a.applies_to(cell));
        let names: Vec<&str> = runs.map(|algorithm| algorithm.name.as_str()).collect();
        assert_eq!(names, ["tcp-newreno"]);
    }

    #[test]
    fn cells_named_after_an_algorithm_run_only_that_one() {
        let scenario = long(&["mix.first=cocoa-001"]).expect("a valid one");
        let selection = Selection {
            cell: Some("long-1c-low-2500".to_owned()),
            everywhere: true,
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).expect("one of its algorithms may");
        assert!(
            plan.jobs()
                .iter()
                .all(|job| job.algorithm.name == "cocoa-001")
        );
        let scenario = long(&["mix.first=fasor"]).expect("a known one");
        let error = Plan::new(&scenario, &selection).expect_err("nobody may");
        assert_eq!(error, PlanError::OfOthers);
        let unknown = long(&["mix.first=fasr"]).expect_err("it is wrong");
        assert!(unknown.contains("did you mean \"fasor\""), "{unknown}");
    }

    #[test]
    fn what_cannot_be_is_said_with_its_place() {
        let wrong = |overrides: &[&str]| long(overrides).expect_err("it is wrong");
        let stray = wrong(&["second_clients=3"]);
        assert!(stray.contains("needs mix.second"), "{stray}");
        let unknown = wrong(&["mix.second=cocoa-0"]);
        assert!(unknown.contains("did you mean \"cocoa-0"), "{unknown}");
        let many = wrong(&["mix.second=default", "second_clients=4096"]);
        assert!(many.contains("4096 others"), "{many}");
        let alike = wrong(&["parallel=2"]);
        assert!(alike.contains("set workload.token_bytes"), "{alike}");
    }
}
