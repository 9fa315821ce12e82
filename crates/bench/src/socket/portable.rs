//! Where there are no batches: datagrams one by one, and sockets tried in turn.

use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::{BATCH, Outbox};

/// Interval at which sockets are tried while nothing arrives.
const TURN: Duration = Duration::from_micros(200);

pub(super) fn prepare(_: &UdpSocket) {}

/// Nothing, where one datagram is one call.
pub(super) struct Scratch;

#[allow(clippy::unused_self, reason = "elsewhere it needs what it keeps")]
impl Scratch {
    pub(super) fn new() -> Self {
        Self
    }

    /// Receives a batch; returns the number of datagrams.
    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        buffers: [&mut [u8]; BATCH],
        lengths: &mut [Option<usize>; BATCH],
    ) -> io::Result<usize> {
        for (count, buffer) in buffers.into_iter().enumerate() {
            match socket.recv(buffer) {
                // A full buffer may hold a part only.
                Ok(length) => lengths[count] = (length < buffer.len()).then_some(length),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(count),
                // What came before it is not lost; the error, if it stays, comes again.
                Err(_) if count > 0 => return Ok(count),
                Err(error) => return Err(error),
            }
        }
        Ok(BATCH)
    }

    /// Sends the first datagram of `outbox`.
    pub(super) fn send(&mut self, socket: &UdpSocket, outbox: &Outbox) -> io::Result<usize> {
        let first = outbox.rest().next().unwrap_or_default();
        socket.send(first).map(|_| 1)
    }
}

/// Waits for many sockets, and for a time.
pub(crate) struct Poller {
    keys: Vec<usize>,
}

impl Poller {
    #[allow(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { keys: Vec::new() })
    }

    /// Watches a socket until it is [removed](Self::remove) and closed.
    #[allow(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    pub(crate) fn add(&mut self, _: &UdpSocket, key: usize) -> io::Result<()> {
        self.keys.push(key);
        Ok(())
    }

    /// Forgets a socket that is about to be closed.
    pub(crate) fn remove(&mut self, key: usize) {
        self.keys.retain(|other| *other != key);
    }

    /// Waits until a socket can be read or `until` has come; adds the keys of those that can.
    /// It may return early.
    #[allow(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    pub(crate) fn wait(
        &mut self,
        until: Option<Instant>,
        ready: &mut Vec<usize>,
    ) -> io::Result<()> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        std::thread::sleep(left.map_or(TURN, |left| left.min(TURN)));
        ready.extend(&self.keys);
        Ok(())
    }
}
