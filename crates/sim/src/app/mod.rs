//! The applications of runs, one for each client group.

pub(crate) mod mesh_traffic;
pub(crate) mod notifications;
pub(crate) mod requests;

use carob_cc::time::Duration;

use crate::engine::application::{Applications, Endpoints};
use crate::engine::network::{Network, Placement};
use crate::engine::{Engine, Host, Role};
use crate::random::Stream;
use crate::spec::groups::Group;
use crate::spec::{self, RunError, Workload};

/// Makes the applications of all groups, and their hosts: clients of all groups, then a server of
/// each.
pub(crate) fn of_groups<N: Network>(
    engine: &mut Engine<'_, N>,
) -> Result<Applications<N>, RunError> {
    let run = engine.spec;
    let clients = run.all_clients();
    engine
        .hosts
        .reserve_exact(clients as usize + engine.groups.len());
    let mut applications: Applications<N> = Vec::new();
    let mut servers = Vec::new();
    let ready = engine.network.ready();
    for group in engine.groups.clone() {
        let server = clients + group.number;
        let endpoints = match &group.spec.workload {
            Workload::Notifications(_) if group.number > 0 => {
                return Err(RunError::Notifications(
                    spec::notifications::ConfigError::Company,
                ));
            }
            Workload::Notifications(workload) => {
                workload.check(run).map_err(RunError::Notifications)?;
                let (application, endpoints) =
                    notifications::Notifier::new(run, &group, workload, server, ready)?;
                applications.push(Box::new(application));
                endpoints
            }
            Workload::MeshTraffic(_) => {
                return Err(RunError::MeshTraffic(
                    spec::mesh_traffic::ConfigError::NoMesh,
                ));
            }
            Workload::Requests(requests) => {
                let (application, endpoints) =
                    requests::Clients::new(run, &group, requests, server, ready);
                applications.push(Box::new(application));
                endpoints
            }
        };
        servers.push(add_clients(engine, &group, server, endpoints));
    }
    engine.hosts.extend(servers);
    Ok(applications)
}

/// Adds the clients of a group. Returns its server, which is added after all clients.
fn add_clients<N: Network>(
    engine: &mut Engine<'_, N>,
    group: &Group<'_>,
    server: u32,
    endpoints: Endpoints,
) -> Host {
    let number = group.number as u16;
    for (endpoint, client) in endpoints.clients.into_iter().zip(0..) {
        let place = engine.network.place(match endpoints.placement {
            Placement::Server => Placement::Client(client),
            _ => Placement::RemoteClient(client),
        });
        let role = Role::Client { server };
        let mut host = Host::new(endpoint, number, role, place);
        if !endpoints.poll.is_zero() {
            // A random phase for each: devices that poll at the same moments would send in bursts.
            let mut stream = Stream::indexed(engine.spec.seed, "client/poll", group.first + client);
            let first = stream.uniform(Duration::ZERO, endpoints.poll);
            host.poll = Some((first, endpoints.poll));
        }
        engine.hosts.push(host);
    }
    let place = engine.network.place(endpoints.placement);
    Host::new(endpoints.server, number, Role::Server, place)
}
