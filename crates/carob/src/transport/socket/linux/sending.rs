//! Sends datagrams in batches of one system call. Datagrams of one size to one peer form a run,
//! which the system segments late (`UDP_SEGMENT`, Linux 4.18), so that most of the cost of a
//! datagram is paid once per run. After the system rejects a run, datagrams are sent singly for a
//! while.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;

use nix::libc;
use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, SockaddrIn, SockaddrIn6, SockaddrLike, sendmmsg,
};

use super::{BATCH, Datagram, Io, Outbox, Scratch, V4, V6};

/// Longest run in bytes: a little less than the longest datagram.
const RUN_BYTES: usize = 65_000;
/// Calls without runs after the system has rejected one.
const CALLS_WITHOUT_RUNS: u32 = 1_000;

/// Sends the first datagrams of `outbox`, as many as go in one call; how many went.
pub(in crate::transport::socket) fn send(io: &Io, v6: bool, outbox: &Outbox) -> io::Result<usize> {
    let waiting = io.without_runs.load(Ordering::Relaxed);
    if waiting > 0 {
        io.without_runs.store(waiting - 1, Ordering::Relaxed);
        return send_as(io, v6, outbox, false);
    }
    match send_as(io, v6, outbox, true) {
        // The network card, the path or the system cannot segment the run. Other errors, such as
        // an unreachable peer, recur without runs.
        Err(error) if outbox.rest().len() > 1 && is_segmentation_error(&error) => {
            let sent = send_as(io, v6, outbox, false);
            if sent.is_ok() {
                tracing::debug!(%error, "segmentation offload paused");
                // For a while only, since the route may change to a card that can.
                io.without_runs.store(CALLS_WITHOUT_RUNS, Ordering::Relaxed);
            }
            sent
        }
        other => other,
    }
}

fn is_segmentation_error(error: &io::Error) -> bool {
    let about = [
        libc::EIO,
        libc::EINVAL,
        libc::EMSGSIZE,
        libc::EOPNOTSUPP,
        libc::ENOPROTOOPT,
    ];
    error
        .raw_os_error()
        .is_some_and(|error| about.contains(&error))
}

fn send_as(io: &Io, v6: bool, outbox: &Outbox, runs: bool) -> io::Result<usize> {
    let fd = io.as_raw_fd();
    if v6 {
        V6.with(|scratch| {
            send_batch(fd, outbox, runs, scratch, |to| {
                SockaddrIn6::from(match to {
                    SocketAddr::V6(to) => to,
                    SocketAddr::V4(to) => {
                        SocketAddrV6::new(to.ip().to_ipv6_mapped(), to.port(), 0, 0)
                    }
                })
            })
        })
    } else {
        V4.with(|scratch| {
            send_batch(fd, outbox, runs, scratch, |to| {
                SockaddrIn::from(match to {
                    SocketAddr::V4(to) => to,
                    // `Socket::reaches` keeps requests away from this address; should one pass,
                    // port 0 makes the system reject it.
                    SocketAddr::V6(_) => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
                })
            })
        })
    }
}

fn send_batch<S: SockaddrLike + Copy>(
    fd: RawFd,
    outbox: &Outbox,
    runs: bool,
    scratch: &Scratch<S>,
    address: impl Fn(SocketAddr) -> S,
) -> io::Result<usize> {
    let rest = outbox.rest();
    // One call has one source and one segment size: the batch ends where either changes.
    let source = rest.first().and_then(|datagram| datagram.source);
    let mut slices: [[IoSlice<'_>; 1]; BATCH] = [[IoSlice::new(&[])]; BATCH];
    let mut addresses: [Option<S>; BATCH] = [None; BATCH];
    let mut ends = [0; BATCH];
    let (mut calls, mut done, mut longest, mut cut) = (0, 0, 0, None);
    while let Some(first) = rest.get(done)
        && calls < BATCH
        && first.source == source
    {
        let count = if runs { run_length(&rest[done..]) } else { 1 };
        let size = first.range.len();
        // An unsegmented datagram must not exceed the segment size.
        match cut {
            None if count > 1 && longest > size => break,
            None if count > 1 => cut = Some(size),
            Some(cut) if size > cut || (count > 1 && size != cut) => break,
            _ => {}
        }
        longest = longest.max(size);
        slices[calls] = [IoSlice::new(outbox.bytes(&rest[done..done + count]))];
        addresses[calls] = Some(address(first.to));
        done += count;
        ends[calls] = done;
        calls += 1;
    }
    let (slices, addresses) = (&slices[..calls], &addresses[..calls]);
    let flags = MsgFlags::MSG_DONTWAIT;
    let (v6, v4) = packet_info(source);
    let from = v6
        .as_ref()
        .map(ControlMessage::Ipv6PacketInfo)
        .or(v4.as_ref().map(ControlMessage::Ipv4PacketInfo));
    let size = cut.map(|size| size as u16);
    let size = size.as_ref().map(ControlMessage::UdpGsoSegments);
    let send = |headers: &RefCell<MultiHeaders<S>>, control: &[ControlMessage<'_>]| {
        let mut headers = headers.borrow_mut();
        sendmmsg(fd, &mut headers, slices, addresses, control, flags).map(Iterator::count)
    };
    let sent = match (size, from) {
        (None, None) => send(&scratch.out, &[]),
        (None, Some(from)) => send(&scratch.out_with_source, &[from]),
        (Some(size), None) => send(&scratch.runs, &[size]),
        (Some(size), Some(from)) => send(&scratch.runs_with_source, &[size, from]),
    }?;
    Ok(sent.checked_sub(1).map_or(0, |last| ends[last]))
}

/// The control message that sets the source address.
fn packet_info(source: Option<IpAddr>) -> (Option<libc::in6_pktinfo>, Option<libc::in_pktinfo>) {
    let v6 = |source: Ipv6Addr| libc::in6_pktinfo {
        ipi6_addr: libc::in6_addr {
            s6_addr: source.octets(),
        },
        ipi6_ifindex: 0,
    };
    let v4 = |source: Ipv4Addr| libc::in_pktinfo {
        ipi_ifindex: 0,
        ipi_spec_dst: libc::in_addr {
            s_addr: u32::from_ne_bytes(source.octets()),
        },
        ipi_addr: libc::in_addr { s_addr: 0 },
    };
    match source {
        Some(IpAddr::V6(source)) => (Some(v6(source)), None),
        Some(IpAddr::V4(source)) => (None, Some(v4(source))),
        None => (None, None),
    }
}

/// Number of datagrams in the run that starts at the first: equal sizes to one peer, the last may
/// be shorter.
fn run_length(rest: &[Datagram]) -> usize {
    let Some(first) = rest.first() else {
        return 0;
    };
    let size = first.range.len();
    // A segment size of 0 would disable segmentation.
    let most = RUN_BYTES.checked_div(size).unwrap_or(1).clamp(1, BATCH);
    let mut count = 1;
    while let Some(next) = rest.get(count)
        && count < most
        && next.to == first.to
        && next.source == first.source
        && (1..=size).contains(&next.range.len())
    {
        count += 1;
        // Only the last segment of a run may be shorter.
        if next.range.len() < size {
            break;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Duration;

    use nix::sys::socket::setsockopt;
    use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};

    sockopt_impl!(
        /// Datagrams are sent without checksums.
        NoCheck,
        Both,
        libc::SOL_SOCKET,
        libc::SO_NO_CHECK,
        bool
    );

    /// An outbox with datagrams of these lengths, each to one of the peers; they are numbered.
    fn outbox(datagrams: &[(usize, usize)], peers: &[SocketAddr]) -> Outbox {
        let mut outbox = Outbox::default();
        for (n, &(to, length)) in datagrams.iter().enumerate() {
            outbox.push(peers[to], None, &vec![n as u8; length]);
        }
        outbox
    }

    #[test]
    fn a_run_is_of_one_size_and_to_one_peer() {
        let peers = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let length = |datagrams: &[(usize, usize)]| run_length(outbox(datagrams, &peers).rest());
        assert_eq!(length(&[]), 0);
        assert_eq!(length(&[(0, 9)]), 1);
        assert_eq!(length(&[(0, 9), (0, 9), (0, 9)]), 3);
        assert_eq!(length(&[(0, 9), (1, 9), (0, 9)]), 1);
        assert_eq!(length(&[(0, 9), (0, 10)]), 1, "longer");
        assert_eq!(
            length(&[(0, 9), (0, 8), (0, 8)]),
            2,
            "a shorter one is the last"
        );
        assert_eq!(length(&[(0, 9), (0, 0)]), 1, "the system would not cut it");
        assert_eq!(length(&[(0, 0), (0, 0)]), 1);
        assert_eq!(length(&[(0, 4); 100]), BATCH);
        assert_eq!(length(&[(0, 1_232); 64]), RUN_BYTES / 1_232);
        let mut mixed = outbox(&[(0, 9), (0, 9)], &peers);
        mixed.datagrams[1].source = Some([127, 0, 0, 1].into());
        assert_eq!(run_length(mixed.rest()), 1, "from another address");
    }

    /// The datagrams that each of two sockets receives, as number and length.
    fn sent(io: &Io, v6: bool, datagrams: &[(usize, usize)]) -> [Vec<(u8, usize)>; 2] {
        let local = if v6 { "[::1]:0" } else { "127.0.0.1:0" };
        let receivers = [0, 1].map(|_| UdpSocket::bind(local).unwrap());
        let peers = [0, 1].map(|n| receivers[n].local_addr().unwrap());
        let mut outbox = outbox(datagrams, &peers);
        let mut calls = 0;
        while !outbox.is_empty() {
            let count = send(io, v6, &outbox).unwrap();
            assert!(count > 0, "every call sends something");
            outbox.advance(count);
            calls += 1;
        }
        assert!(calls <= datagrams.len());
        let mut received = [Vec::new(), Vec::new()];
        for (socket, list) in receivers.iter().zip(&mut received) {
            socket
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            let to = peers
                .iter()
                .position(|p| *p == socket.local_addr().unwrap());
            let count = datagrams.iter().filter(|d| Some(d.0) == to).count();
            let mut buffer = [0; 2_048];
            for _ in 0..count {
                let length = socket.recv(&mut buffer).unwrap();
                assert!(buffer[..length].iter().all(|b| *b == buffer[0]));
                list.push((buffer[0], length));
            }
        }
        received
    }

    fn expected(datagrams: &[(usize, usize)]) -> [Vec<(u8, usize)>; 2] {
        let mut expected = [Vec::new(), Vec::new()];
        for (n, &(to, length)) in datagrams.iter().enumerate() {
            expected[to].push((n as u8, length));
        }
        expected
    }

    #[tokio::test]
    async fn gso_batch_arrives_as_datagrams() {
        let cases: [&[(usize, usize)]; 7] = [
            &[(0, 40); 8],
            &[(0, 40), (0, 40), (1, 40), (1, 40), (0, 40), (1, 40)],
            // One that is longer than the size at which others are cut, before and after those.
            &[
                (0, 90),
                (1, 40),
                (1, 40),
                (0, 90),
                (0, 30),
                (0, 30),
                (1, 20),
            ],
            // Runs of two sizes, and of a shorter last one.
            &[
                (0, 40),
                (0, 40),
                (1, 80),
                (1, 80),
                (1, 10),
                (0, 40),
                (0, 41),
            ],
            &[(0, 1_232); 60],
            &[(0, 5); 100],
            &[(0, 7), (1, 7), (0, 8), (1, 8), (0, 9), (1, 9)],
        ];
        for v6 in [false, true] {
            let local = if v6 { "[::1]:0" } else { "127.0.0.1:0" };
            for datagrams in cases {
                let socket = UdpSocket::bind(local).unwrap();
                socket.set_nonblocking(true).unwrap();
                let io = Io::new(socket).unwrap();
                assert_eq!(sent(&io, v6, datagrams), expected(datagrams));
                let waits = io.without_runs.load(Ordering::Relaxed);
                assert_eq!(waits, 0, "the system takes runs");
            }
        }
    }

    #[tokio::test]
    async fn without_gso_datagrams_are_sent_singly() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        // Linux cuts no run of a socket that sends no checksums.
        setsockopt(&socket, NoCheck, &true).unwrap();
        let io = Io::new(socket).unwrap();
        let datagrams = [(0, 40); 8];
        for calls in 0..3 {
            assert_eq!(sent(&io, false, &datagrams), expected(&datagrams));
            let waits = io.without_runs.load(Ordering::Relaxed);
            assert_eq!(waits, CALLS_WITHOUT_RUNS - calls, "one call took them all");
        }
    }

    #[tokio::test]
    async fn unreachable_peer_does_not_disable_gso() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let io = Io::new(socket).unwrap();
        // Anybody can send from port 0.
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let outbox = outbox(&[(0, 40), (0, 40)], &[nowhere]);
        let error = send(&io, false, &outbox).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        assert_eq!(io.without_runs.load(Ordering::Relaxed), 0);
    }
}
