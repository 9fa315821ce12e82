//! Endpoints and their datagrams: when they wake, what they send, what they are given, what they say.

use carob_cc::controller::Gauge;
use carob_cc::time::Instant;
use carob_proto::endpoint::{Event, Output};
use carob_proto::trace::{Trace as Said, What as Protocol};

use super::Node;
use super::message::Made;
use super::network::Packet;
use super::scene::{Happening, Scene};
use crate::capture::{Captured, Content};
use crate::host::{address, number_of};
use crate::spec::Recording;
use crate::trace::What;

impl Scene<'_> {
    pub(super) fn wake(&mut self, host: u32) {
        let state = &mut self.hosts[host as usize];
        if !state.alarm.rings(self.now) {
            return; // an earlier wake-up took its place
        }
        if matches!(state.endpoint.poll(), Output::Wait(Some(at)) if at <= self.now) {
            state.endpoint.handle_timeout(self.now);
        }
        self.drain(host);
    }

    /// When a timer that is due at `at` runs out.
    pub(super) fn on_tick(&self, at: Instant) -> Instant {
        let tick = self.mesh.node.tick.as_micros();
        if tick == 0 {
            return at;
        }
        Instant::from_micros(at.as_micros().div_ceil(tick) * tick)
    }

    /// Does everything an endpoint has to do, until it waits.
    pub(super) fn drain(&mut self, number: u32) {
        loop {
            let host = &mut self.hosts[number as usize];
            match host.endpoint.poll() {
                Output::Transmit { to, bytes } => {
                    let body = self.bodies.take();
                    let kept = &mut self.bodies[body];
                    kept.clear();
                    kept.extend_from_slice(bytes);
                    self.sends(number, number_of(to), body);
                }
                Output::Event(event) => self.react(number, event),
                Output::Wait(at) => {
                    let at = at.map(|at| self.on_tick(at));
                    let host = &mut self.hosts[number as usize];
                    if let Some(at) = at
                        && host.alarm.set(at)
                    {
                        self.queue.push(at, Happening::Wake { host: number });
                    }
                    return;
                }
                _ => {}
            }
        }
    }

    /// An endpoint sends a datagram.
    pub(super) fn sends(&mut self, from: u32, to: u32, body: u32) {
        let bytes = &self.bodies[body];
        let (message_id, is_confirmable) = match bytes[..] {
            [first, _, high, low, ..] => (u16::from_be_bytes([high, low]), first >> 4 & 3 < 1),
            _ => (0, false),
        };
        let length = bytes.len() as u32;
        let mut copy = self.cause;
        if let Some(application) = &mut self.hosts[from as usize].application
            && is_confirmable
            && let Some(number) = application.copied(to, message_id)
        {
            copy = number;
        }
        let sent = What::Sent {
            item: message_id.into(),
            attempt: copy,
            bytes: length,
        };
        self.trace.add(self.now, from, sent);
        self.capture(from, from, to, body);
        let packet = self.packet(from, to);
        let carrier = &mut self.packets[packet];
        (carrier.body, carrier.copy) = (Some(body), copy);
        if !self.counts.has_begun(self.now) {
            // Registrations are no part of what is studied: they do not use the radio.
            let processed = Happening::Processed { host: to, packet };
            self.queue.push(self.now, processed);
            return;
        }
        self.leaves(from, packet);
    }

    /// A datagram has arrived, and the endpoint takes it.
    pub(super) fn processed(&mut self, host: u32, packet: u32) {
        let Packet {
            source, body, copy, ..
        } = self.packets[packet];
        let Some(body) = body else {
            return;
        };
        self.capture(host, source, host, body);
        let bytes = std::mem::take(&mut self.bodies[body]);
        let message_id = match bytes[..] {
            [_, _, high, low, ..] => u16::from_be_bytes([high, low]),
            _ => 0,
        };
        let arrived = What::Arrived {
            item: message_id.into(),
            attempt: copy,
        };
        self.trace.add(self.now, host, arrived);
        let state = &mut self.hosts[host as usize];
        if let Some(application) = &mut state.application {
            application.answer_arrived(message_id, copy);
        }
        self.cause = copy;
        let state = &mut self.hosts[host as usize];
        state
            .endpoint
            .handle_datagram(self.now, address(source, 0), &bytes);
        self.bodies[body] = bytes;
        self.release(packet);
        self.drain(host);
        self.cause = 0;
    }

    /// Takes an event of a host's endpoint.
    pub(super) fn react(&mut self, number: u32, event: Event) {
        match event {
            Event::Request(id) => self.answer(number, id),
            Event::Notification { response, .. } => {
                if let Some(made) = Made::read(response.bytes()) {
                    self.counts.received(self.now, made);
                }
            }
            Event::Response { id, response } => self.ended(number, id, response.code.is_success()),
            Event::Failed { id, .. } => self.ended(number, id, false),
            Event::Trace(said) => self.said(number, said),
            _ => {}
        }
    }

    pub(super) fn said(&mut self, number: u32, said: Said) {
        if (self.log.len() as u32) < self.spec.record.log.min(Recording::LOG_MAX) {
            self.log.push((number, said));
        }
        let Ok(node) = Node::try_from(number) else {
            return;
        };
        let host = &mut self.hosts[number as usize];
        let Some(application) = &mut host.application else {
            return;
        };
        if !self.counts.has_begun(self.now) {
            return;
        }
        self.counts.says(self.now, node, &said.what);
        match said.what {
            Protocol::Answered {
                retransmissions,
                since_original,
                ..
            } if retransmissions > 0 => {
                let mut weak = None;
                let mut visit = |name: &'static str, gauge| {
                    if let ("rttvar_weak", Gauge::Time(time)) = (name, gauge) {
                        weak = Some(time);
                    }
                };
                host.endpoint.gauges(self.now, said.peer, &mut visit);
                if let Some(weak) = weak
                    && application.rttvar_weak != Some(weak)
                {
                    application.rttvar_weak = Some(weak);
                    self.counts.record.rttvar_weak.add(weak);
                    self.counts.record.rtt_weak.add(since_original);
                }
            }
            Protocol::Sent {
                id,
                retransmissions,
                ..
            } if self.mesh.node.gives_up_at_last_copy
                && retransmissions >= self.spec.transmission.max_retransmit =>
            {
                if let Some(request) = application.request_of(id.0) {
                    host.endpoint.cancel(self.now, request);
                    self.ended(number, request, false);
                }
            }
            _ => {}
        }
    }

    /// Keeps a datagram that passes by host `at`, if packets are recorded.
    pub(super) fn capture(&mut self, at: u32, from: u32, to: u32, body: u32) {
        let most = self.spec.record.packets.min(Recording::PACKETS_MAX);
        if (self.captured.len() as u32) < most {
            self.captured.push(Captured {
                at: self.now,
                host: at,
                from,
                to,
                restarts: 0,
                content: Content::Datagram(bytes::Bytes::copy_from_slice(&self.bodies[body])),
            });
        }
    }
}
