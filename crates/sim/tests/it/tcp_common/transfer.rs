//! Request and response over connections that share a link, without the CoAP stack.
//!
//! The exchange is the thesis's (`docs/algorithms.md#coap-over-tcp`). Each client connects and
//! sends its CSM and a request at once. The server sends its CSM when the connection is
//! established, and the response when it has the request. Completion time runs from the request
//! until the last byte of the response, without set-up.

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};

use carob_sim::hash::Words;
use carob_sim::link::{Counters as LinkCounters, Link, LinkSpec, Verdict};
use carob_sim::queue::EventQueue;
use carob_sim::random::Stream;
use carob_sim::tcp::counters::{Counters, Point};
use carob_sim::tcp::segment::{Ecn, Segment};
use carob_sim::tcp::settings::{SettingsError, TcpSettings};
use carob_sim::tcp::{Event, Output, Socket};

/// The maximum number of connections of a transfer.
pub(crate) const CLIENTS_MAX: u32 = 4_096;

/// A transfer: everything its results depend on.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// The seed all streams derive from.
    pub(crate) seed: u64,
    /// The link shared by all connections.
    pub(crate) link: LinkSpec,
    /// Connections, 1 to [`CLIENTS_MAX`].
    pub(crate) clients: u32,
    /// Clients begin uniformly within this span.
    pub(crate) start: Duration,
    /// Settings of the clients' ends.
    pub(crate) client: TcpSettings,
    /// Settings of the server's ends.
    pub(crate) server: TcpSettings,
    /// Settings of every second server, if they differ.
    pub(crate) rival: Option<TcpSettings>,
    /// Bytes of the client's CSM and request.
    pub(crate) request_bytes: u32,
    /// Bytes of the server's CSM.
    pub(crate) greeting_bytes: u32,
    /// Bytes of the response.
    pub(crate) response_bytes: u32,
    /// Time limit of the simulation.
    pub(crate) time_limit: Duration,
    /// Maximum points of the server's history per connection.
    pub(crate) points: u32,
}

impl Spec {
    /// The thesis's exchange: 17 bytes of CSM and request, 7 of CSM, 102,408 of response; one
    /// client; 12 hours at most.
    pub(crate) const fn thesis(link: LinkSpec, settings: TcpSettings, seed: u64) -> Self {
        Self {
            seed,
            link,
            clients: 1,
            start: Duration::ZERO,
            client: settings,
            server: settings,
            rival: None,
            request_bytes: 17,
            greeting_bytes: 7,
            response_bytes: 102_408,
            time_limit: Duration::from_secs(12 * 3_600),
            points: 0,
        }
    }
}

/// The results of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    /// Time from the SYN until the client is connected.
    pub(crate) setup: Option<Duration>,
    /// Time from the request until the last byte of the response.
    pub(crate) completion: Option<Duration>,
    /// Counters of the server's end at completion, or at the end.
    pub(crate) server: Counters,
    /// Counters of the client's end at the same time.
    pub(crate) client: Counters,
    /// The server's history, if recorded.
    pub(crate) points: Vec<Point>,
    /// True if every byte of the response was correct.
    pub(crate) intact: bool,
}

/// The results of a transfer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// One per client.
    pub(crate) flows: Vec<Flow>,
    /// Towards the clients.
    pub(crate) down: LinkCounters,
    /// Towards the server.
    pub(crate) up: LinkCounters,
    /// Events handled.
    pub(crate) events: u64,
    /// A hash over every packet's time, size and fate.
    pub(crate) hash: u64,
}

#[derive(Clone, Copy)]
enum TransferEvent {
    Begin(u32),
    Arrive {
        connection: u32,
        down: bool,
        slot: u32,
    },
    Wake {
        connection: u32,
        server: bool,
    },
}

struct End {
    socket: Socket,
    wake: Option<Instant>,
}

struct Connection {
    client: End,
    server: End,
    asked: Option<Instant>,
    /// Bytes that arrived at the client and at the server.
    received: [u64; 2],
    answered: bool,
    /// Data that the server's socket has not accepted yet.
    rest: Bytes,
    flow: Flow,
    done: bool,
}

struct Run<'a> {
    spec: &'a Spec,
    queue: EventQueue<TransferEvent>,
    link: Link,
    slots: Vec<Segment>,
    free: Vec<u32>,
    response: Bytes,
    hash: Words,
}

/// Byte `at` of the server's stream.
fn pattern(at: u64) -> u8 {
    (at ^ (at >> 8).wrapping_mul(31)) as u8
}

/// Simulates a transfer until every client is complete or the time limit is reached.
pub(crate) fn run(spec: &Spec) -> Result<Outcome, SettingsError> {
    if !(1..=CLIENTS_MAX).contains(&spec.clients) {
        return Err(SettingsError {
            name: "clients",
            why: "not between 1 and 4096",
        });
    }
    let total = u64::from(spec.greeting_bytes) + u64::from(spec.response_bytes);
    let mut run = Run {
        spec,
        queue: EventQueue::new(),
        link: Link::new(&spec.link, spec.seed, "link"),
        slots: Vec::new(),
        free: Vec::new(),
        response: (0..total).map(pattern).collect::<Vec<u8>>().into(),
        hash: Words::default(),
    };
    let mut connections = Vec::with_capacity(spec.clients as usize);
    for number in 0..spec.clients {
        let end = |settings: &TcpSettings, label: &str| {
            let stream = Stream::indexed(spec.seed, label, number);
            Socket::new(settings, stream).map(|socket| End { socket, wake: None })
        };
        let rival = spec.rival.as_ref().filter(|_| number % 2 == 1);
        let mut server = end(rival.unwrap_or(&spec.server), "tcp/server")?;
        server.socket.record(spec.points);
        let _ = server.socket.listen();
        connections.push(Connection {
            client: end(&spec.client, "tcp/client")?,
            server,
            asked: None,
            received: [0; 2],
            answered: false,
            rest: Bytes::new(),
            flow: Flow {
                intact: true,
                ..Flow::default()
            },
            done: false,
        });
        let wait =
            Stream::indexed(spec.seed, "client/start", number).uniform(Duration::ZERO, spec.start);
        run.queue
            .push(Instant::ZERO + wait, TransferEvent::Begin(number));
    }
    let (mut left, mut events) = (spec.clients, 0);
    while left > 0
        && let Some((now, event)) = run.queue.pop_until(Instant::ZERO + spec.time_limit)
    {
        events += 1;
        left -= run.handle(now, event, &mut connections);
    }
    let flows = connections.into_iter().map(Connection::into_flow).collect();
    Ok(Outcome {
        flows,
        down: run.link.down.counters(),
        up: run.link.up.counters(),
        events,
        hash: run.hash.finish(),
    })
}

impl Run<'_> {
    /// Returns how many flows this ended.
    fn handle(&mut self, now: Instant, what: TransferEvent, connections: &mut [Connection]) -> u32 {
        let (number, server) = match what {
            TransferEvent::Begin(number) => {
                let _ = connections[number as usize].client.socket.connect(now);
                (number, false)
            }
            TransferEvent::Arrive {
                connection,
                down,
                slot,
            } => {
                let segment = std::mem::take(&mut self.slots[slot as usize]);
                self.free.push(slot);
                let it = &mut connections[connection as usize];
                let end = if down { &mut it.client } else { &mut it.server };
                end.socket.handle_segment(now, &segment);
                (connection, !down)
            }
            TransferEvent::Wake { connection, server } => {
                let it = &mut connections[connection as usize];
                let end = if server {
                    &mut it.server
                } else {
                    &mut it.client
                };
                if end.wake != Some(now) {
                    return 0; // an earlier wake-up took its place
                }
                end.wake = None;
                end.socket.handle_timeout(now);
                (connection, server)
            }
        };
        let connection = &mut connections[number as usize];
        let was_done = connection.done;
        self.drain(now, number, connection, server);
        u32::from(connection.done && !was_done)
    }

    fn drain(&mut self, now: Instant, number: u32, it: &mut Connection, server: bool) {
        loop {
            let end = if server {
                &mut it.server
            } else {
                &mut it.client
            };
            match end.socket.poll() {
                Output::Transmit(segment) => self.offer(now, number, segment, server),
                Output::Event(event) if server => self.at_server(now, it, event),
                Output::Event(event) => self.at_client(now, it, event),
                Output::Wait(deadline) => {
                    if let Some(at) = deadline
                        && end.wake.is_none_or(|wake| at < wake || wake < now)
                    {
                        let at = at.max(now);
                        end.wake = Some(at);
                        let connection = number;
                        self.queue
                            .push(at, TransferEvent::Wake { connection, server });
                    }
                    return;
                }
            }
        }
    }

    fn offer(&mut self, now: Instant, number: u32, mut segment: Segment, down: bool) {
        let direction = if down {
            &mut self.link.down
        } else {
            &mut self.link.up
        };
        let bytes = segment.wire_bytes();
        let capable = segment.ecn != Ecn::NotCapable;
        let verdict = direction.offer_packet(now, bytes, capable);
        self.hash.add(now.as_micros() << 1 | u64::from(down));
        self.hash
            .add(u64::from(segment.seq) << 32 | u64::from(bytes));
        let Verdict::Deliver { at, marked, .. } = verdict else {
            self.hash.add(u64::MAX);
            return;
        };
        self.hash.add(at.as_micros());
        if marked {
            segment.ecn = Ecn::Experienced;
        }
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = segment;
            slot
        } else {
            self.slots.push(segment);
            self.slots.len() as u32 - 1
        };
        let connection = number;
        self.queue.push(
            at,
            TransferEvent::Arrive {
                connection,
                down,
                slot,
            },
        );
    }

    fn at_server(&mut self, now: Instant, it: &mut Connection, event: Event) {
        let socket = &mut it.server.socket;
        match event {
            Event::Connected => {
                let greeting = self.response.slice(..self.spec.greeting_bytes as usize);
                socket.write(now, greeting);
            }
            Event::Readable => {
                while let Some(bytes) = socket.read() {
                    it.received[1] += bytes.len() as u64;
                }
                if it.received[1] >= u64::from(self.spec.request_bytes) && !it.answered {
                    it.answered = true;
                    it.rest = self.response.slice(self.spec.greeting_bytes as usize..);
                    let taken = socket.write(now, it.rest.clone());
                    it.rest = it.rest.slice(taken..);
                }
            }
            Event::Writable => {
                let taken = socket.write(now, it.rest.clone());
                it.rest = it.rest.slice(taken..);
            }
            Event::PeerClosed => socket.close(now),
            Event::Reset | Event::TimedOut => it.finish(None),
            Event::Closed => {}
        }
    }

    fn at_client(&mut self, now: Instant, it: &mut Connection, event: Event) {
        let socket = &mut it.client.socket;
        match event {
            Event::Connected => {
                it.asked = Some(now);
                socket.write(
                    now,
                    Bytes::from(vec![0x55; self.spec.request_bytes as usize]),
                );
            }
            Event::Readable => {
                while let Some(bytes) = socket.read() {
                    let at = it.received[0] as usize;
                    let expected = self.response.get(at..at + bytes.len());
                    it.flow.intact &= expected == Some(&bytes[..]);
                    it.received[0] += bytes.len() as u64;
                }
                if it.received[0] >= self.response.len() as u64 && !it.done {
                    let completion = it.asked.map(|asked| now.since(asked));
                    socket.close(now);
                    it.finish(completion);
                }
            }
            Event::Reset | Event::TimedOut => it.finish(None),
            Event::PeerClosed | Event::Closed | Event::Writable => {}
        }
    }
}

impl Connection {
    fn finish(&mut self, completion: Option<Duration>) {
        if self.done {
            return;
        }
        self.done = true;
        self.flow.completion = completion;
        self.flow.server = self.server.socket.counters();
        self.flow.client = self.client.socket.counters();
        self.flow.setup = self.flow.client.setup;
    }

    fn into_flow(mut self) -> Flow {
        self.finish(None);
        self.flow.points = self.server.socket.points().to_vec();
        self.flow
    }
}
