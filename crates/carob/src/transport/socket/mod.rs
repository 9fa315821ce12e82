//! The UDP socket, for one or both address families, read and written in batches.
//!
//! On Linux a batch is one system call (`recvmmsg`, `sendmmsg`), and ICMP errors are read from the
//! socket's error queue, so that a closed port is detected at once. Elsewhere datagrams pass one by
//! one.

#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "portable.rs"]
mod system;

mod groups;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use socket2::{Domain, Protocol, Type};

use system::Io;

pub(crate) use groups::ToGroups;
pub use groups::{Group, GroupError};

/// Datagrams per system call.
pub(crate) const BATCH: usize = 64;

/// The largest datagram that is read, in bytes; a longer one is dropped.
///
/// The engine never sends more than 1232, and a body in blocks never needs more than 1152
/// (RFC 7252 4.6); more than twice that leaves room for peers that are less careful.
pub(crate) const DATAGRAM_BYTES: usize = 4_096;

/// The requested receive buffer, in bytes; the system may grant less.
pub(crate) const RECEIVE_BUFFER: usize = 4 << 20;

/// A report of the network or the system that a peer cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreachable {
    pub(crate) peer: SocketAddr,
    /// The system's error number.
    pub(crate) error: i32,
    /// The message quoted by an ICMP error, which may be forged.
    pub(crate) quoted: Option<Quoted>,
}

/// Bytes stored of a quoted message: its header and the longest token.
pub(crate) const QUOTED: usize = 12;

/// The beginning of a message sent by this endpoint.
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "other systems report no ICMP")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quoted {
    bytes: [u8; QUOTED],
    length: usize,
}

impl Quoted {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A non-blocking UDP socket.
#[derive(Debug)]
pub(crate) struct Socket {
    io: Io,
    local: SocketAddr,
    /// Bound to the unspecified address: each reply must name the address that its request came to.
    any: bool,
    buffers: Vec<u8>,
}

impl Socket {
    /// Opens a socket at `address`; the unspecified IPv6 address takes IPv4 as well.
    pub(crate) fn open(address: SocketAddr, receive_buffer: usize) -> io::Result<Self> {
        Self::bind(address, receive_buffer, false)
    }

    /// Opens several sockets at one address and port, among which the system shares the peers
    /// (`SO_REUSEPORT`): datagrams of one address and port reach the same socket as long as all
    /// are there.
    pub(crate) fn open_together(
        address: SocketAddr,
        receive_buffer: usize,
        count: usize,
    ) -> io::Result<Vec<Self>> {
        if count < 2 {
            return Self::open(address, receive_buffer).map(|socket| vec![socket]);
        }
        if address.port() != 0 {
            // Sockets that share a port also share it with other programs of this user, without an
            // error.
            drop(Self::open(address, receive_buffer)?);
        }
        let first = Self::bind(address, receive_buffer, true)?;
        let address = SocketAddr::new(address.ip(), first.local.port());
        let mut sockets = vec![first];
        for _ in 1..count {
            sockets.push(Self::bind(address, receive_buffer, true)?);
        }
        Ok(sockets)
    }

    fn bind(address: SocketAddr, receive_buffer: usize, shared: bool) -> io::Result<Self> {
        let address = canonical(address);
        if is_group(address.ip()) {
            let text = "a multicast address is not the address of an endpoint";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let socket = socket2::Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        if address.is_ipv6() {
            // Set on purpose: the default differs between systems (RFC 3493 5.3).
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        if let Err(error) = socket.set_recv_buffer_size(receive_buffer) {
            tracing::debug!(%error, receive_buffer, "the receive buffer keeps its size");
        }
        if shared {
            system::share(&socket)?;
        }
        socket.bind(&address.into())?;
        Self::of(socket.into())
    }

    /// Adopts a bound socket.
    pub(crate) fn of(io: std::net::UdpSocket) -> io::Result<Self> {
        let local = io.local_addr()?;
        let any = local.ip().is_unspecified();
        io.set_nonblocking(true)?;
        let socket = socket2::SockRef::from(&io);
        if let Err(error) = system::prepare(&socket, local.is_ipv6(), any) {
            tracing::debug!(%error, "no errors or local addresses from this socket");
        }
        let io = Io::new(io)?;
        Ok(Self {
            io,
            local,
            any,
            buffers: vec![0; BATCH * DATAGRAM_BYTES],
        })
    }

    /// Joins these groups, and sets the options of multicast messages.
    pub(crate) fn set_groups(&self, groups: &[Group], to_groups: &ToGroups) -> io::Result<()> {
        let socket = self.io.socket();
        to_groups.prepare(&socket, self.local.is_ipv6())?;
        if !groups.is_empty() && !self.any {
            let text = "only a socket bound to the unspecified address can join a group";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        for group in groups {
            let in_group = group.join(&socket);
            in_group.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot join {group}: {error}"))
            })?;
        }
        Ok(())
    }

    /// Opens a socket for requests to anyone: for both families, or for IPv4 where there is no
    /// IPv6.
    pub(crate) fn open_any(receive_buffer: usize) -> io::Result<Self> {
        Self::open((Ipv6Addr::UNSPECIFIED, 0).into(), receive_buffer)
            .or_else(|_| Self::open((Ipv4Addr::UNSPECIFIED, 0).into(), receive_buffer))
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns whether the socket can send to addresses of this family.
    pub(crate) fn reaches(local: SocketAddr, peer: SocketAddr) -> bool {
        match (local.ip(), peer.ip()) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => true,
            (IpAddr::V6(local), IpAddr::V4(_)) => local.is_unspecified(),
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        }
    }

    /// Waits until there is something to read: datagrams or errors. Whether errors.
    pub(crate) async fn ready(&self) -> io::Result<bool> {
        self.io.ready().await
    }

    /// Datagrams dropped by the system because the receive buffer was full, if the system reports
    /// them.
    pub(crate) fn dropped(&self) -> u64 {
        system::dropped(&self.io).unwrap_or_default()
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.io.writable().await
    }

    /// Receives one batch of datagrams; returns whether more may be available.
    ///
    /// Each comes with its sender and, if the socket is bound to the unspecified address, its
    /// destination.
    pub(crate) fn receive(
        &mut self,
        take: impl FnMut(SocketAddr, Destination, Received<'_>),
    ) -> io::Result<bool> {
        let Self {
            io,
            local,
            any,
            buffers,
        } = self;
        let taken = io.try_read(|io| {
            // A partial batch: the queue is empty, and another call can be spared. A datagram that
            // arrives meanwhile makes the socket ready again.
            if system::receive(io, local.is_ipv6(), *any, buffers, take)? < BATCH {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match taken {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends the datagrams of `outbox` in order; `WouldBlock` if some are left and the
    /// system has no room.
    pub(crate) fn send(
        &self,
        outbox: &mut Outbox,
        unreachable: &mut Vec<Unreachable>,
    ) -> io::Result<()> {
        let mut again = true;
        while !outbox.is_empty() {
            match system::send(&self.io, self.local.is_ipv6(), outbox) {
                Ok(count) => {
                    outbox.advance(count);
                    again = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                Err(error) => {
                    // The error may belong to an earlier datagram; the second in a row belongs to
                    // this one.
                    self.errors(unreachable);
                    if !core::mem::replace(&mut again, false) {
                        // The local address is gone: the system may choose another.
                        if outbox.forget_source() {
                            continue;
                        }
                        let peer = outbox.first().expect("the loop runs while there is one");
                        tracing::debug!(%peer, %error, "datagram not sent");
                        if is_unreachable(&error) {
                            let error = error.raw_os_error().unwrap_or_default();
                            unreachable.push(Unreachable {
                                peer,
                                error,
                                quoted: None,
                            });
                        }
                        outbox.advance(1);
                        again = true;
                    }
                }
            }
        }
        outbox.clear();
        Ok(())
    }

    /// Reads the reports of unreachable peers.
    pub(crate) fn errors(&self, unreachable: &mut Vec<Unreachable>) {
        if let Err(error) = system::errors(&self.io, unreachable) {
            tracing::debug!(%error, "the error queue cannot be read");
        }
    }
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'a> {
    pub(crate) bytes: &'a [u8],
    /// It was longer than [`DATAGRAM_BYTES`]: this is its beginning.
    pub(crate) is_cut: bool,
}

/// The destination of a datagram, if the system reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// This host; the address, if the socket has several.
    Us(Option<IpAddr>),
    /// A multicast group.
    Group(IpAddr),
}

/// Returns true for an address of more than one host.
pub(crate) fn is_group(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast(),
    }
}

/// Returns whether sending failed for good and because of the peer.
fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused
            | Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::AddrNotAvailable
            // A firewall of this host answers EPERM; it is as final as a closed port.
            | Kind::PermissionDenied
            | Kind::InvalidInput
    )
}

/// The address as the engine and people know it: IPv4 as such.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => (v4, v6.port()).into(),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

/// Outgoing datagrams; allocations are reused.
///
/// It holds the outputs of one input, which the engine's limits bound.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    datagrams: Vec<Datagram>,
    next: usize,
}

#[derive(Debug)]
struct Datagram {
    to: SocketAddr,
    /// The local source address, if the system does not choose it.
    source: Option<IpAddr>,
    range: Range<usize>,
}

impl Outbox {
    pub(crate) fn push(&mut self, to: SocketAddr, source: Option<IpAddr>, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.datagrams.push(Datagram {
            to,
            source,
            range: start..self.bytes.len(),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Datagrams not sent yet.
    pub(crate) fn len(&self) -> usize {
        self.datagrams.len() - self.next
    }

    fn rest(&self) -> &[Datagram] {
        &self.datagrams[self.next..]
    }

    fn first(&self) -> Option<SocketAddr> {
        self.rest().first().map(|datagram| datagram.to)
    }

    /// Leaves the next datagram's source to the system; returns whether it was set.
    fn forget_source(&mut self) -> bool {
        let next = self.datagrams.get_mut(self.next);
        next.is_some_and(|datagram| datagram.source.take().is_some())
    }

    /// The bytes of datagrams that follow each other.
    fn bytes(&self, run: &[Datagram]) -> &[u8] {
        match run {
            [] => &[],
            [first, ..] => &self.bytes[first.range.start..run[run.len() - 1].range.end],
        }
    }

    fn advance(&mut self, count: usize) {
        self.next += count;
        debug_assert!(
            self.next <= self.datagrams.len(),
            "no more is sent than there is"
        );
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.datagrams.clear();
        self.next = 0;
    }
}
