//! Systems without batched calls: one datagram at a time, and no error queue.

use std::io;
use std::net::{SocketAddr, SocketAddrV6};

use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::{BATCH, DATAGRAM_BYTES, Destination, Outbox, Received, Unreachable, canonical};

/// The socket as the runtime watches it.
#[derive(Debug)]
pub(super) struct Io(UdpSocket);

impl Io {
    pub(super) fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        UdpSocket::from_std(socket).map(Self)
    }

    /// Waits until there are datagrams; errors are not reported.
    pub(super) async fn ready(&self) -> io::Result<bool> {
        self.0.ready(Interest::READABLE).await.map(|_| false)
    }

    pub(super) async fn writable(&self) -> io::Result<()> {
        self.0.writable().await
    }

    /// The socket, for its options.
    pub(super) fn socket(&self) -> socket2::SockRef<'_> {
        (&self.0).into()
    }

    /// Reads; the read itself clears the readiness.
    #[allow(clippy::unused_self, reason = "elsewhere it is this that remembers")]
    pub(super) fn try_read<T>(&self, read: impl FnOnce(&Self) -> io::Result<T>) -> io::Result<T> {
        read(self)
    }
}

/// Other systems do not distribute datagrams among sockets that share a port.
pub(super) fn share(_: &socket2::Socket) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[allow(clippy::unnecessary_wraps)]
pub(super) fn prepare(_: &socket2::Socket, _v6: bool, _any: bool) -> io::Result<()> {
    Ok(())
}

/// Dropped datagrams: unknown here.
pub(super) fn dropped(_: &Io) -> Option<u64> {
    None
}

/// Receives a batch; returns its number of datagrams.
pub(super) fn receive(
    io: &Io,
    _v6: bool,
    _any: bool,
    buffers: &mut [u8],
    mut take: impl FnMut(SocketAddr, Destination, Received<'_>),
) -> io::Result<usize> {
    for count in 0..BATCH {
        let buffer = &mut buffers[..DATAGRAM_BYTES];
        match io.0.try_recv_from(buffer) {
            Ok((length, from)) => {
                let received = Received {
                    bytes: &buffer[..length],
                    // A full buffer means that the datagram was truncated.
                    is_cut: length == DATAGRAM_BYTES,
                };
                // Without IP_PKTINFO the destination is unknown, and a multicast request is
                // answered like one to this host.
                take(canonical(from), Destination::Us(None), received);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(count),
            Err(error) if count == 0 => return Err(error),
            Err(_) => return Ok(count),
        }
    }
    Ok(BATCH)
}

/// Sends the first datagrams of `outbox`; how many went.
pub(super) fn send(io: &Io, v6: bool, outbox: &Outbox) -> io::Result<usize> {
    for (count, datagram) in outbox.rest().iter().take(BATCH).enumerate() {
        let to = match datagram.to {
            SocketAddr::V4(to) if v6 => {
                SocketAddrV6::new(to.ip().to_ipv6_mapped(), to.port(), 0, 0).into()
            }
            to => to,
        };
        match io
            .0
            .try_send_to(outbox.bytes(core::slice::from_ref(datagram)), to)
        {
            Ok(_) => {}
            Err(error) if count == 0 => return Err(error),
            // Those before it are out. It is the first of the next call, which reports the error.
            Err(_) => return Ok(count),
        }
    }
    Ok(outbox.rest().len().min(BATCH))
}

#[allow(clippy::unnecessary_wraps)]
pub(super) fn errors(_: &Io, _: &mut Vec<Unreachable>) -> io::Result<()> {
    Ok(())
}
