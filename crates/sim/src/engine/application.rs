//! Applications: what uses the hosts' endpoints.
//!
//! Each client group of a run has one. An application makes the endpoints of its hosts, sets timers
//! on the engine's queue, reacts to events of its endpoints, and tags their datagrams. It does not
//! know which network carries its datagrams, unless it belongs to one network.

use carob_cc::time::{Duration, Instant};
use carob_proto::endpoint::{Endpoint, Event};

use super::Engine;
use super::host::{Flow, Tag};
use super::network::{Network, Offer, Placement};
use crate::spec::RunRecord;

/// A timer of an application, which gives all three numbers their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    pub(crate) kind: u8,
    pub(crate) subject: u32,
    pub(crate) count: u32,
}

impl Timer {
    /// A timer without a count.
    pub(crate) const fn of(kind: u8, subject: u32) -> Self {
        Self {
            kind,
            subject,
            count: 0,
        }
    }
}

/// The applications of a run, by group.
pub(crate) type Applications<N> = Vec<Box<dyn Application<N>>>;

/// An application on a network.
pub(crate) trait Application<N: Network> {
    /// Schedules its first timers.
    fn start(&mut self, engine: &mut Engine<'_, N>);

    /// Handles a timer.
    fn on_timer(&mut self, engine: &mut Engine<'_, N>, timer: Timer);

    /// Handles an event of a host's endpoint.
    fn on_event(&mut self, engine: &mut Engine<'_, N>, host: u32, event: Event);

    /// The tag of a message that a host sends, in response to the datagram tagged `cause`.
    fn tag(&mut self, now: Instant, host: u32, to: u32, message: &[u8], cause: Tag) -> Tag;

    /// Reacts to an endpoint that waits. Returns whether it has to be polled again.
    fn on_idle(&mut self, _engine: &mut Engine<'_, N>, _host: u32) -> bool {
        false
    }

    /// Counts a datagram whose fate is known.
    fn on_offered(&mut self, _engine: &mut Engine<'_, N>, _datagram: u32, _offer: &Offer) {}

    /// Counts a datagram that arrives, before its endpoint handles it.
    fn on_received(&mut self, _now: Instant, _host: u32, _tag: Tag, _bytes: usize) {}

    /// A client's flow, if flows are measured.
    fn flow(&mut self, _host: u32) -> Option<&mut Flow> {
        None
    }

    /// Reacts to a client's connection, its first or a later one.
    fn on_connected(&mut self, _engine: &mut Engine<'_, N>, _client: u32, _is_first: bool) {}

    /// Reacts to a connection that was never made.
    fn on_connection_failed(&mut self, _engine: &mut Engine<'_, N>, _client: u32) {}

    /// Reacts to the close of a connection that a client has left, with the pause that follows.
    fn on_left_connection_closed(
        &mut self,
        _engine: &mut Engine<'_, N>,
        _client: u32,
        _pause: Duration,
    ) {
    }

    /// Gives a host that restarts a new endpoint, and lets it go on when it is up (`Host::down_until`).
    fn on_restart(&mut self, _engine: &mut Engine<'_, N>, _host: u32) {}

    /// The end of the run, if the application has a duration.
    fn end(&self) -> Option<Instant> {
        None
    }

    /// Adds its results to the record of the run.
    fn into_record(self: Box<Self>, engine: &mut Engine<'_, N>, record: &mut RunRecord);
}

/// The endpoints of an application.
pub(crate) struct Endpoints {
    pub(crate) clients: Vec<Box<Endpoint>>,
    pub(crate) server: Box<Endpoint>,
    /// Interval at which clients poll; zero for clients that always receive.
    pub(crate) poll: Duration,
    /// Where the server is; its clients are on the other side.
    pub(crate) placement: Placement,
}
