//! Runs: a specification becomes a network, applications and an engine, and these a record.

use crate::app;
use crate::app::mesh_traffic::MeshNodes;
use crate::engine::Engine;
use crate::engine::application::Applications;
use crate::engine::network::Network;
use crate::net::link::LinkNetwork;
use crate::net::mesh::{self, MeshNetwork};
use crate::spec::{NetworkSpec, RunError, RunRecord, RunSpec, Workload};

/// Simulates a run.
pub fn run(spec: &RunSpec) -> Result<RunRecord, RunError> {
    spec.check()?;
    match &spec.network {
        NetworkSpec::Link(network) => {
            let mut engine = Engine::new(spec, LinkNetwork::new(network, spec.seed));
            let applications = app::of_groups(&mut engine)?;
            execute(engine, applications)
        }
        NetworkSpec::Mesh(network) => {
            let mut engine = mesh::engine(spec, network)?;
            let applications: Applications<MeshNetwork<'_>> = match spec.measured.workload {
                Workload::MeshTraffic(traffic) => {
                    vec![Box::new(MeshNodes::new(&mut engine, traffic))]
                }
                _ => app::of_groups(&mut engine)?,
            };
            execute(engine, applications)
        }
    }
}

fn execute<N: Network>(
    mut engine: Engine<'_, N>,
    mut applications: Applications<N>,
) -> Result<RunRecord, RunError> {
    engine.start(&mut applications);
    let handled = engine.execute(&mut applications)?;
    Ok(engine.record(applications, handled))
}
