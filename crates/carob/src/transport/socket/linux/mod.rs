//! Linux: batches in one system call, and the error queue.

mod sending;

use std::cell::RefCell;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicU32;

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrIn, SockaddrIn6, SockaddrLike,
    SockaddrStorage, getsockopt, recvmmsg, recvmsg, setsockopt, sockopt,
};
use nix::{getsockopt_impl, libc, sockopt_impl};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{
    BATCH, DATAGRAM_BYTES, Datagram, Destination, Outbox, QUOTED, Quoted, Received, Unreachable,
    canonical, is_group,
};

pub(in crate::transport::socket) use sending::send;

/// Errors read from the queue at once; remaining ones make the socket ready again.
const ERRORS: usize = 64;

/// The socket as the runtime watches it: for reading only.
///
/// If it were watched for writing too, the kernel would call the runtime's queue for every
/// datagram that has left, which costs some 5 % of a small exchange.
#[derive(Debug)]
pub(super) struct Io {
    socket: AsyncFd<UdpSocket>,
    /// Calls to make without segmentation offload.
    without_runs: AtomicU32,
}

impl Io {
    #[allow(
        deprecated,
        reason = "what the successor asks for, a descriptor that stays the same, std's socket is"
    )]
    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        Ok(Self {
            socket: AsyncFd::with_interest(socket, Interest::READABLE)?,
            without_runs: AtomicU32::new(0),
        })
    }

    /// Waits until there are datagrams or errors; whether errors.
    pub(super) async fn ready(&self) -> io::Result<bool> {
        let mut guard = self
            .socket
            .ready(Interest::READABLE | Interest::ERROR)
            .await?;
        let error = guard.ready().is_error();
        if error {
            // A later datagram sets it again.
            guard.clear_ready_matching(tokio::io::Ready::ERROR);
        }
        Ok(error)
    }

    /// Waits until datagrams can be sent, which is rare enough to be watched for only then.
    #[allow(deprecated, reason = "as above")]
    pub(super) async fn writable(&self) -> io::Result<()> {
        let other = self.socket.get_ref().try_clone()?;
        // Registered only while the buffer is full: a UDP socket is writable nearly always, and
        // would wake the task.
        AsyncFd::with_interest(other, Interest::WRITABLE)?
            .writable()
            .await
            .map(drop)
    }

    /// The socket, for its options.
    pub(super) fn socket(&self) -> socket2::SockRef<'_> {
        self.socket.get_ref().into()
    }

    /// Reads, and clears the readiness if there was nothing to read.
    pub(super) fn try_read<T>(&self, read: impl FnOnce(&Self) -> io::Result<T>) -> io::Result<T> {
        self.socket.try_io(Interest::READABLE, |_| read(self))
    }
}

impl AsRawFd for Io {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Scratch space of the system calls, one per thread: it holds nothing between calls.
struct Scratch<S> {
    out: RefCell<MultiHeaders<S>>,
    out_with_source: RefCell<MultiHeaders<S>>,
    runs: RefCell<MultiHeaders<S>>,
    runs_with_source: RefCell<MultiHeaders<S>>,
    plain: RefCell<MultiHeaders<S>>,
    with_destination: RefCell<MultiHeaders<S>>,
}

impl<S: SockaddrLike + Copy> Scratch<S> {
    fn new() -> Self {
        let info = nix::cmsg_space!(libc::in6_pktinfo);
        let size = nix::cmsg_space!(u16);
        let both = nix::cmsg_space!(u16, libc::in6_pktinfo);
        let headers = |control| RefCell::new(MultiHeaders::preallocate(BATCH, control));
        Self {
            out: headers(None),
            out_with_source: headers(Some(info.clone())),
            runs: headers(Some(size)),
            runs_with_source: headers(Some(both)),
            plain: headers(None),
            with_destination: headers(Some(info)),
        }
    }
}

thread_local! {
    static V4: Scratch<SockaddrIn> = Scratch::new();
    static V6: Scratch<SockaddrIn6> = Scratch::new();
}

/// Lets sockets share a port (`SO_REUSEPORT`).
pub(super) fn share(socket: &socket2::Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

/// Enables the error queue and, if `any`, the destination address of each datagram.
pub(super) fn prepare(socket: &socket2::Socket, v6: bool, any: bool) -> io::Result<()> {
    // A socket for both families has the options of both.
    setsockopt(socket, sockopt::Ipv4RecvErr, &true)?;
    if v6 {
        setsockopt(socket, sockopt::Ipv6RecvErr, &true)?;
    }
    match (any, v6) {
        (false, _) => {}
        (true, true) => setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?,
        (true, false) => setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?,
    }
    Ok(())
}

sockopt_impl!(
    /// The kernel's counters of a socket's memory; the last counts datagrams dropped for want of
    /// it.
    MemoryInfo,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_MEMINFO,
    [u32; MEMORY_INFO]
);
/// Numbers in SO_MEMINFO; the last one counts drops (Linux 4.12).
const MEMORY_INFO: usize = 9;

/// Datagrams dropped by the kernel because the receive buffer was full.
pub(super) fn dropped(io: &Io) -> Option<u64> {
    let info = getsockopt(&io.socket, MemoryInfo).ok()?;
    info.last().copied().map(u64::from)
}

/// Receives a batch; returns its number of datagrams.
pub(super) fn receive(
    io: &Io,
    v6: bool,
    any: bool,
    buffers: &mut [u8],
    take: impl FnMut(SocketAddr, Destination, Received<'_>),
) -> io::Result<usize> {
    let fd = io.as_raw_fd();
    if v6 {
        V6.with(|scratch| {
            receive_batch(fd, any, buffers, scratch, take, |from: SockaddrIn6| {
                canonical(SocketAddrV6::from(from).into())
            })
        })
    } else {
        V4.with(|scratch| {
            receive_batch(fd, any, buffers, scratch, take, |from: SockaddrIn| {
                SocketAddr::V4(from.into())
            })
        })
    }
}

fn receive_batch<S: SockaddrLike + Copy>(
    fd: RawFd,
    any: bool,
    buffers: &mut [u8],
    scratch: &Scratch<S>,
    mut take: impl FnMut(SocketAddr, Destination, Received<'_>),
    address: impl Fn(S) -> SocketAddr,
) -> io::Result<usize> {
    let mut headers = if any {
        &scratch.with_destination
    } else {
        &scratch.plain
    }
    .borrow_mut();
    let mut chunks = buffers.chunks_exact_mut(DATAGRAM_BYTES);
    let mut slices: [[IoSliceMut<'_>; 1]; BATCH] =
        core::array::from_fn(|_| [IoSliceMut::new(chunks.next().unwrap_or_default())]);
    let flags = MsgFlags::MSG_DONTWAIT;
    let received = recvmmsg(fd, &mut headers, slices.iter_mut(), flags, None)?;
    let mut count = 0;
    for message in received {
        count += 1;
        let Some(from) = message.address else {
            continue;
        };
        let destination = if any {
            message
                .cmsgs()
                .ok()
                .and_then(|mut all| all.find_map(|info| destination(&info)))
        } else {
            None
        };
        take(
            address(from),
            destination.unwrap_or(Destination::Us(None)),
            Received {
                bytes: message.iovs().next().unwrap_or_default(),
                is_cut: message.flags.contains(MsgFlags::MSG_TRUNC),
            },
        );
    }
    Ok(count)
}

/// The destination of a datagram.
fn destination(info: &ControlMessageOwned) -> Option<Destination> {
    match info {
        ControlMessageOwned::Ipv6PacketInfo(info) => {
            let to = IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr));
            Some(if is_group(to) {
                Destination::Group(to.to_canonical())
            } else {
                Destination::Us(Some(to))
            })
        }
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            let address = |raw: libc::in_addr| Ipv4Addr::from(raw.s_addr.to_ne_bytes());
            let (to, own) = (address(info.ipi_addr), address(info.ipi_spec_dst));
            // The two also differ for broadcasts, which the address alone does not identify.
            Some(if to != own || is_group(to.into()) {
                Destination::Group(to.into())
            } else {
                Destination::Us(Some(to.into()))
            })
        }
        _ => None,
    }
}

/// Reads the error queue: ICMP errors about sent datagrams, with their destination.
pub(super) fn errors(io: &Io, unreachable: &mut Vec<Unreachable>) -> io::Result<()> {
    // The error with its reporter, and the source address of the datagram.
    let mut control = nix::cmsg_space!(
        libc::sock_extended_err,
        libc::sockaddr_in6,
        libc::in6_pktinfo
    );
    // Bounded: a flood of ICMP errors must not keep the driver here.
    for _ in 0..ERRORS {
        let mut data = [0; QUOTED];
        let mut slices = [IoSliceMut::new(&mut data)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = match recvmsg::<SockaddrStorage>(
            io.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            flags,
        ) {
            Err(Errno::EAGAIN) => return Ok(()),
            other => other?,
        };
        let (peer, length) = (message.address.and_then(socket_address), message.bytes);
        let Some(peer) = peer else {
            continue;
        };
        let told = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::Ipv4RecvErr(told, _)
            | ControlMessageOwned::Ipv6RecvErr(told, _) => Some(told),
            _ => None,
        });
        let Some(told) = told else { continue };
        let error = told.ee_errno.cast_signed();
        tracing::debug!(%peer, error = %Errno::from_raw(error), "reported by the network");
        if reports_unreachable(told.ee_origin, told.ee_type, told.ee_code) {
            let quoted = Some(Quoted {
                bytes: data,
                length: length.min(QUOTED),
            });
            unreachable.push(Unreachable {
                peer,
                error,
                quoted,
            });
        }
    }
    Ok(())
}

/// Returns whether an ICMP message reports that its datagram was not delivered: a datagram too
/// large, Time Exceeded and Source Quench are ignored (RFC 7252 4.2).
fn reports_unreachable(origin: u8, kind: u8, code: u8) -> bool {
    const V4_UNREACHABLE: u8 = 3;
    const V4_FRAGMENTATION_NEEDED: u8 = 4;
    const V6_UNREACHABLE: u8 = 1;
    match origin {
        // Packet Too Big ends nothing: messages keep to the MTU of RFC 7252 4.6. Time Exceeded
        // and Source Quench are ignored (4.2).
        libc::SO_EE_ORIGIN_ICMP => kind == V4_UNREACHABLE && code != V4_FRAGMENTATION_NEEDED,
        libc::SO_EE_ORIGIN_ICMP6 => kind == V6_UNREACHABLE,
        _ => false,
    }
}

fn socket_address(storage: SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(SocketAddr::V4((*v4).into()));
    }
    storage
        .as_sockaddr_in6()
        .map(|v6| canonical(SocketAddrV6::from(*v6).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unreachable_destinations_are_reported() {
        let (v4, v6) = (libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6);
        for code in [0, 1, 2, 3, 13] {
            assert!(reports_unreachable(v4, 3, code), "{code}");
        }
        for code in [0, 1, 3, 4] {
            assert!(reports_unreachable(v6, 1, code), "{code}");
        }
        // Fragmentation needed, Source Quench, Time Exceeded; Packet Too Big, Time Exceeded; our
        // own system.
        let others = [(v4, 3, 4), (v4, 4, 0), (v4, 11, 0), (v6, 2, 0), (v6, 3, 0)];
        for (origin, kind, code) in others {
            assert!(!reports_unreachable(origin, kind, code), "{kind} {code}");
        }
        assert!(!reports_unreachable(libc::SO_EE_ORIGIN_LOCAL, 3, 3));
    }
}
