//! What applications do: nodes make messages, sinks take and answer them.

use carob_proto::codec::{Code, OptionNumber};
use carob_proto::endpoint::{IncomingId, RequestId, Sending, Subject};
use carob_proto::message::Payload;
use carob_proto::{Request, Response};

use super::Node;
use super::host::{Application, Host, Waiting};
use super::message::{About, Made};
use super::scene::{Happening, Scene};
use super::spec::{BurstKind, Bursts};
use crate::host::address;
use crate::world::RunError;

/// Max-Age of notifications: so long that lost ones make nobody register anew.
const MAX_AGE: u32 = 3_600;

impl Scene<'_> {
    pub(super) fn application(&self, node: Node) -> Option<&Application> {
        self.hosts[usize::from(node)].application.as_deref()
    }

    /// A node's application makes a message.
    pub(super) fn make(&mut self, node: Node, to: u32, about: About) {
        self.counts.generated(self.now, node);
        let message = Waiting {
            to,
            at: self.now,
            about,
        };
        let nstart = usize::from(self.spec.transmission.nstart);
        let limit = self.mesh.node.queue;
        let Some(application) = &mut self.hosts[usize::from(node)].application else {
            return;
        };
        if application.is_free(to, nstart) {
            self.ask(node, message);
        } else if !application.wait(message, limit) {
            self.counts.node(node).app_drops += 1;
        }
    }

    /// Sends a message as a request.
    pub(super) fn ask(&mut self, node: Node, message: Waiting) {
        let Host {
            endpoint,
            application: Some(application),
            ..
        } = &mut self.hosts[usize::from(node)]
        else {
            return;
        };
        let made = Made {
            by: node,
            number: application.number(),
            at: message.at,
            about: message.about,
        };
        let request = self.form.post(&made);
        let to = address(message.to, 0);
        match endpoint.request(self.now, to, request, Sending::default()) {
            Ok(id) => application.opened(id, message.to),
            Err(error) => self.error = Some(RunError::Request(error)),
        }
        self.drain(node.into());
    }

    /// A node's application makes a burst of messages, each after the other.
    pub(super) fn burst(&mut self, node: Node, bursts: Bursts) {
        let to = self.application(node).map_or(0, |a| a.burst_sink);
        for subject in 0..bursts.messages {
            match bursts.kind {
                BurstKind::Posts => self.make(node, to, About::Burst),
                BurstKind::Notifications => self.tell(node, subject),
            }
        }
        if let Some(every) = bursts.every {
            self.queue.push(self.now + every, Happening::Burst { node });
        }
    }

    /// A node tells who observes it of a new state.
    pub(super) fn tell(&mut self, node: Node, subject: u16) {
        self.counts.generated(self.now, node);
        let Host {
            endpoint,
            application: Some(application),
            ..
        } = &mut self.hosts[usize::from(node)]
        else {
            return;
        };
        let made = Made {
            by: node,
            number: application.number(),
            at: self.now,
            about: About::Burst,
        };
        let state = state(self.form.told(&made));
        let told = endpoint.notify(self.now, Subject(subject.into()), &state, false);
        debug_assert!(told.is_ok(), "the size was checked: {told:?}");
        self.drain(node.into());
    }

    /// Sinks ask all nodes to tell them, before there is traffic: beside the radio.
    pub(super) fn register(&mut self) {
        let Some(bursts) = self.mesh.traffic.bursts else {
            return;
        };
        let generators = self.topology.generators.clone();
        for node in generators {
            let Some(sink) = self.application(node).map(|a| a.burst_sink) else {
                continue;
            };
            let host = &mut self.hosts[sink as usize];
            if host
                .endpoint
                .snapshot(self.now, address(node.into(), 0))
                .is_some()
            {
                continue; // it was asked
            }
            for subject in 0..bursts.messages {
                let request = Request::get().with_path(&subject.to_string());
                let mut sending = Sending::default();
                sending.observe = true;
                let to = address(node.into(), 0);
                let request = request.unwrap_or_else(|_| Request::get());
                let asked = self.hosts[sink as usize]
                    .endpoint
                    .request(self.now, to, request, sending);
                if let Err(error) = asked {
                    self.error = Some(RunError::Request(error));
                }
            }
            self.drain(sink);
        }
    }

    /// A request of a node is over, one way or the other.
    pub(super) fn ended(&mut self, number: u32, id: RequestId, is_answered: bool) {
        let Ok(node) = Node::try_from(number) else {
            return;
        };
        let nstart = usize::from(self.spec.transmission.nstart);
        let Some(application) = &mut self.hosts[number as usize].application else {
            return;
        };
        let Some(spurious) = application.closed(id) else {
            return;
        };
        let next = application.next(nstart);
        let record = self.counts.node(node);
        record.spurious += spurious;
        record.answered += u64::from(is_answered);
        if let Some(message) = next {
            self.ask(node, message);
        }
    }

    /// Answers a request: a message to a sink, or a sink's to observe.
    pub(super) fn answer(&mut self, number: u32, id: IncomingId) {
        let endpoint = &mut self.hosts[number as usize].endpoint;
        let Some(asked) = endpoint.incoming(id) else {
            return;
        };
        if asked.message.code() == Code::POST {
            let made = Made::read(asked.message.payload());
            if let Some(made) = made {
                self.counts.received(self.now, made);
            }
            let response = Response::new(Code::CHANGED);
            endpoint.respond(self.now, id, &response);
            return;
        }
        let path = asked.message.values(OptionNumber::URI_PATH).next();
        let subject = path.and_then(|path| std::str::from_utf8(path).ok()?.parse::<u64>().ok());
        let response = match subject {
            Some(subject) => {
                endpoint.observe(self.now, id, Subject(subject));
                state(self.form.nothing())
            }
            None => Response::new(Code::NOT_FOUND),
        };
        endpoint.respond(self.now, id, &response);
    }
}

/// A state as notifications tell it.
fn state(payload: bytes::Bytes) -> Response {
    let mut response = Response::new(Code::CONTENT);
    response.payload = Payload::Fixed(payload);
    let set = response.options.set_uint(OptionNumber::MAX_AGE, MAX_AGE);
    debug_assert!(set.is_ok(), "a number is an option's value");
    response
}
