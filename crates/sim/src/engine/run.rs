//! Runs: a specification becomes a network, applications and an engine, and these a record.

use super::{Engine, RunError, server_queue};
use crate::app::mesh_traffic::MeshNodes;
use crate::app::{self, Applications};
use crate::client_groups::GroupSpec;
use crate::link::{DirectionSpec, Discipline};
use crate::net::Network;
use crate::net::fragments::MTU_MIN;
use crate::net::link::LinkNetwork;
use crate::net::mesh::{self, MeshNetwork};
use crate::spec::{CLIENTS_MAX, RunRecord, RunSpec, Transport, Workload};
use crate::tcp::segment::{IP_HEADER, TCP_HEADER};

/// Simulates a run.
pub fn run(spec: &RunSpec) -> Result<RunRecord, RunError> {
    check(spec)?;
    if let Some(mesh) = &spec.mesh {
        let mut engine = mesh::engine(spec, mesh)?;
        let applications: Applications<MeshNetwork<'_>> = match spec.workload {
            Workload::MeshTraffic(traffic) => vec![Box::new(MeshNodes::new(&mut engine, traffic))],
            _ => app::of_groups(&mut engine)?,
        };
        return execute(engine, applications);
    }
    let mut engine = Engine::new(spec, LinkNetwork::new(spec));
    let applications = app::of_groups(&mut engine)?;
    execute(engine, applications)
}

fn execute<N: Network>(
    mut engine: Engine<'_, N>,
    mut applications: Applications<N>,
) -> Result<RunRecord, RunError> {
    engine.start(&mut applications);
    let handled = engine.execute(&mut applications)?;
    Ok(engine.record(applications, handled))
}

fn check(spec: &RunSpec) -> Result<(), RunError> {
    let clients = spec.all_clients();
    if spec.clients == 0 || clients > CLIENTS_MAX {
        return Err(RunError::Clients(clients));
    }
    if spec.mtu_bytes < MTU_MIN {
        return Err(RunError::Mtu(spec.mtu_bytes));
    }
    for group in spec.groups() {
        if let Transport::Connections(tcp) = group.transport {
            tcp.check().map_err(RunError::Tcp)?;
            if tcp.mss > spec.mtu_bytes - IP_HEADER - TCP_HEADER {
                let (mss, mtu) = (tcp.mss, spec.mtu_bytes);
                return Err(RunError::Segment { mss, mtu });
            }
        }
    }
    for group in spec.groups() {
        let requests = group.workload.requests();
        if !requests.poll.is_zero() && *group.transport != Transport::Datagrams {
            return Err(RunError::SleepyOverConnections);
        }
        if requests.periodic.is_some_and(|p| p.period.is_zero()) {
            return Err(RunError::Period);
        }
    }
    let is_fair = |line: &DirectionSpec| matches!(line.buffer.discipline, Discipline::FqCoDel(_));
    let over_tcp = |group: &GroupSpec<'_>| *group.transport != Transport::Datagrams;
    let has_connections = spec.groups().iter().any(over_tcp);
    let has_queues = [&spec.link.down, &spec.link.up].into_iter().any(is_fair);
    if has_queues && has_connections {
        return Err(RunError::FairQueueOverConnections);
    }
    spec.device.check().map_err(RunError::Device)?;
    if spec.device.has_windows() && (has_queues || has_connections) {
        let why = "receive windows are of datagrams, and of links without FQ-CoDel";
        return Err(RunError::Device(why));
    }
    spec.faults.check(spec).map_err(RunError::Fault)?;
    server_queue::check(spec)
}
