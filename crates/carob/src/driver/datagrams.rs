//! The transport that is a UDP socket.

use std::io;
use std::net::{IpAddr, SocketAddr};

use carob_cc::time::Instant;

use super::core::{Core, Out};
use super::ears::Ears;
use super::sources::Sources;
use super::{Transport, TransportCounts};
use crate::socket::{BATCH, Destination, Outbox, Socket, Unreachable};

/// Datagrams put in the outbox before they are sent and what has come in has its turn: what a
/// crowd acknowledges would otherwise overflow the socket's buffer.
const DATAGRAMS_A_TURN: usize = BATCH;

/// A UDP socket and what waits to be sent on it.
pub(super) struct Datagrams {
    socket: Socket,
    leaving: Leaving,
    unreachable: Vec<Unreachable>,
    /// The groups we are in.
    groups: Vec<IpAddr>,
}

/// What the engine's datagrams are put into.
struct Leaving {
    outbox: Outbox,
    sources: Sources,
}

impl Out for Leaving {
    fn is_full(&self) -> bool {
        self.outbox.len() >= DATAGRAMS_A_TURN
    }

    fn transmit(&mut self, ears: &mut Ears, now: Instant, to: SocketAddr, bytes: &[u8]) {
        let source = self.sources.of(to);
        ears.goes(now, to, source, bytes);
        self.outbox.push(to, source, bytes);
    }

    fn answered_later(&mut self) {
        self.sources.remember();
    }
}

impl Datagrams {
    pub(super) fn new(socket: Socket, groups: Vec<IpAddr>, seed: u64) -> Self {
        Self {
            socket,
            leaving: Leaving {
                outbox: Outbox::default(),
                sources: Sources::new(seed),
            },
            unreachable: Vec::new(),
            groups,
        }
    }
}

impl Transport for Datagrams {
    fn out(&mut self) -> &mut impl Out {
        &mut self.leaving
    }

    async fn ready(&mut self) -> io::Result<()> {
        if self.socket.ready().await? {
            self.socket.errors(&mut self.unreachable);
        }
        Ok(())
    }

    /// Takes one batch of datagrams.
    fn receive(&mut self, core: &mut Core) -> bool {
        let now = core.clock.now();
        let Self {
            socket,
            leaving,
            unreachable,
            groups,
        } = self;
        let received = socket.receive(|from, destination, bytes| {
            match destination {
                Destination::Us(address) => {
                    core.ears.comes(now, from, address, bytes);
                    core.endpoint.handle_datagram(now, from, bytes);
                    leaving.sources.hear(from, address);
                }
                Destination::Group(address) if groups.contains(&address) => {
                    core.ears.comes(now, from, Some(address), bytes);
                    core.endpoint.handle_group_datagram(now, from, bytes);
                    leaving.sources.hear(from, None);
                }
                // The system hands on what others here have joined.
                Destination::Group(address) => {
                    tracing::debug!(%from, %address, "datagram to a group of others ignored");
                    return;
                }
            }
            core.drain(leaving, now);
        });
        leaving.sources.hear_nobody();
        received.unwrap_or_else(|error| {
            tracing::debug!(%error, "nothing received");
            socket.errors(unreachable);
            true
        })
    }

    /// Sends what there is to send. While the system has no room for it, nothing else happens:
    /// what cannot be answered need not be read.
    async fn flush(&mut self, core: &mut Core) -> io::Result<()> {
        let Self {
            socket,
            leaving,
            unreachable,
            ..
        } = self;
        loop {
            while let Err(error) = socket.send(&mut leaving.outbox, unreachable) {
                debug_assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                socket.writable().await?;
            }
            let Some(Unreachable {
                peer,
                error,
                quoted,
            }) = unreachable.pop()
            else {
                return Ok(());
            };
            // Only who saw a message of ours can quote it (RFC 7252 4.2).
            if quoted.is_some_and(|quoted| !core.endpoint.is_under_way(peer, quoted.as_slice())) {
                continue;
            }
            let now = core.clock.now();
            core.requests.os_error = Some(error);
            core.endpoint.handle_unreachable(now, peer);
            core.drain(leaving, now);
            core.requests.os_error = None;
        }
    }

    fn counts(&self) -> TransportCounts {
        TransportCounts::Datagrams {
            dropped: self.socket.dropped(),
        }
    }
}
