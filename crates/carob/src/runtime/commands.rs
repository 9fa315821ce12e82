//! Execution of the applications' commands.

use carob_cc::time::Instant;
use carob_proto::endpoint::Failure;

use super::core::{Core, Ending};
use super::messages::{Command, FailureCause, RequestControl};
use crate::transport::{Engine as _, Outbound};

impl Core {
    /// Executes a command.
    pub(super) fn command(&mut self, out: &mut impl Outbound, now: Instant, command: Command) {
        match command {
            Command::Request(request) if self.ending.is_none() => {
                if let Some(name) = &request.name {
                    out.set_peer_name(request.to, name);
                }
                self.requests.begin(&mut self.endpoint, now, *request);
            }
            Command::Ping(ping) if self.ending.is_none() => {
                if let Some(name) = &ping.name {
                    out.set_peer_name(ping.to, name);
                }
                self.requests.ping(&mut self.endpoint, now, ping);
            }
            Command::Multicast(new) if self.ending.is_none() => {
                self.requests.multicast(&mut self.endpoint, now, *new);
            }
            Command::Multicast(new) => new.refuse(FailureCause::Failure(Failure::ShutDown)),
            Command::Request(request) => request.refuse(FailureCause::Failure(Failure::ShutDown)),
            Command::Ping(ping) => ping.refuse(FailureCause::Failure(Failure::ShutDown)),
            Command::SetPeer(settings) => {
                let (peer, own) = *settings;
                self.endpoint.set_peer(peer, own.controller, own.parameters);
            }
            Command::Gauges(peer, reply) => {
                let mut gauges = Vec::new();
                let known = self
                    .endpoint
                    .gauges(now, peer, &mut |name, gauge| gauges.push((name, gauge)));
                // The receiver may be dropped, here and below; then the reply is not needed.
                let _ = reply.send(known.then_some(gauges));
            }
            Command::Snapshot(peer, reply) => {
                let _ = reply.send(self.endpoint.snapshot(now, peer));
            }
            Command::Identity(peer, reply) => {
                let _ = reply.send(out.identity(peer));
            }
            Command::EndSession(peer, reply) => {
                let _ = reply.send(out.end_session(peer));
            }
            Command::Peers(reply) => {
                let _ = reply.send(self.endpoint.peers().collect());
            }
            Command::Usage(reply) => {
                let _ = reply.send(self.endpoint.usage());
            }
            Command::Shutdown { limit, done } => {
                if let Some(service) = &mut self.service {
                    service.stop();
                }
                self.requests.end_observations(&mut self.endpoint, now);
                // After the observations, whose deregistrations still use the connections.
                self.endpoint.release(now, None);
                let at = now + limit.into();
                let ending = self.ending.get_or_insert(Ending {
                    at,
                    done: Vec::new(),
                });
                // Of two calls the more impatient one counts.
                ending.at = ending.at.min(at);
                ending.done.push(done);
            }
        }
        self.drain(out, now);
    }

    /// Executes a control of a request in progress.
    pub(super) fn control(
        &mut self,
        out: &mut impl Outbound,
        now: Instant,
        control: RequestControl,
    ) {
        let Self {
            requests, endpoint, ..
        } = self;
        match control {
            RequestControl::Cancel(ticket) => requests.cancel(endpoint, now, ticket),
            RequestControl::StopObserving(ticket) => requests.stop_observing(endpoint, now, ticket),
            RequestControl::Supply {
                ticket,
                bytes,
                last,
            } => {
                if let Some(id) = requests.find(ticket) {
                    endpoint.supply(now, id, bytes, last);
                }
            }
            RequestControl::ReadOn(ticket) => {
                if let Some(id) = requests.find(ticket) {
                    endpoint.read_on(now, id, 1);
                }
            }
        }
        self.drain(out, now);
    }
}
