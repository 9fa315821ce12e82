//! Specifications of runs that tests change.

use carob_cc::time::Duration;
use carob_sim::link::{DirectionSpec, LinkSpec};
use carob_sim::spec::{ClientGroup, LinkNetworkSpec, NetworkSpec, RunSpec};

/// A run over a link with a time limit of an hour.
pub(crate) fn run_spec(measured: ClientGroup, mtu_bytes: u32, link: LinkSpec) -> RunSpec {
    let network = NetworkSpec::Link(LinkNetworkSpec::new(link, mtu_bytes));
    let time_limit = Duration::from_secs(3_600);
    RunSpec::new(1, network, measured, time_limit)
}

/// The link of a run.
pub(crate) fn link(spec: &mut RunSpec) -> &mut LinkSpec {
    match &mut spec.network {
        NetworkSpec::Link(network) => &mut network.link,
        NetworkSpec::Mesh(_) => panic!("a mesh"),
    }
}

/// A link with the same direction both ways.
pub(crate) fn symmetric(direction: DirectionSpec) -> LinkSpec {
    LinkSpec {
        down: direction.clone(),
        up: direction,
    }
}
