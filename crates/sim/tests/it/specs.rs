//! Specifications of runs that tests change.

use carob_cc::TransmissionParameters;
use carob_cc::time::Duration;
use carob_sim::link::{DirectionSpec, LinkSpec};
use carob_sim::spec::{
    ControllerSpec, Faults, Recording, RunSpec, ServerSpec, Span, Transport, Until, Workload,
};

/// Clients of default CoAP that begin at once over a link with an MTU of 1280 B; an hour at most.
pub(crate) fn run_spec(clients: u32, link: LinkSpec, workload: Workload) -> RunSpec {
    RunSpec {
        seed: 1,
        clients,
        start: Span::default(),
        link,
        mesh: None,
        header_bytes: 28,
        mtu_bytes: 1_280,
        transport: Transport::Datagrams,
        workload,
        transmission: TransmissionParameters::DEFAULT,
        controller: ControllerSpec::default(),
        server: ServerSpec::default(),
        others: Vec::new(),
        faults: Faults::default(),
        device: carob_sim::link::DeviceSpec::default(),
        until: Until::Answered,
        time_limit: Duration::from_secs(3_600),
        record: Recording::default(),
    }
}

/// A link with the same direction both ways.
pub(crate) fn symmetric(direction: DirectionSpec) -> LinkSpec {
    LinkSpec {
        down: direction.clone(),
        up: direction,
    }
}
