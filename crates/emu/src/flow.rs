//! Sockets on a link, and the kernel's information about them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::libc;
use socket2::{Domain, Protocol, Socket, Type};

use crate::emulator::EmulatedLink;
use crate::engine::Side;
use crate::{Error, sys};

/// Listen backlog of one link.
const BACKLOG: i32 = 1_024;

impl EmulatedLink<'_> {
    /// A TCP listener of the server. Accepted connections use the congestion module `congestion`
    /// (`reno`, `bbr`, `cubic`; [`congestion_modules`](crate::kernel::congestion_modules)).
    ///
    /// With port 0 the kernel chooses one. The socket is blocking; for tokio set it non-blocking.
    pub fn listen(&self, port: u16, congestion: &str) -> Result<TcpListener, Error> {
        self.make(Side::Server, |address| {
            let socket = tcp_socket(congestion)?;
            socket.set_reuse_address(true)?;
            socket.bind(&SocketAddrV4::new(address, port).into())?;
            socket.listen(BACKLOG)?;
            Ok(socket.into())
        })
    }

    /// A TCP socket of the client, bound and not connected.
    ///
    /// To connect it, use [`Socket::connect`], or, non-blocking,
    /// `tokio::net::TcpSocket::from_std_stream(socket.into())`.
    pub fn client_tcp(&self, congestion: &str) -> Result<Socket, Error> {
        self.make(Side::Client, |address| {
            let socket = tcp_socket(congestion)?;
            socket.bind(&SocketAddrV4::new(address, 0).into())?;
            Ok(socket)
        })
    }

    /// Connects the client to a port of the server, with a time limit.
    pub fn connect(
        &self,
        port: u16,
        congestion: &str,
        limit: Duration,
    ) -> Result<TcpStream, Error> {
        let socket = self.client_tcp(congestion)?;
        let server = SocketAddr::from((self.address(Side::Server), port));
        socket
            .connect_timeout(&server.into(), limit)
            .map_err(|error| {
                let remedy = "is there a listener, and does the link lose everything?";
                Error::system(format!("connect to {server}"), error, remedy)
            })?;
        Ok(socket.into())
    }

    /// A UDP socket of one side.
    pub fn udp(&self, side: Side, port: u16) -> Result<UdpSocket, Error> {
        self.make(side, |address| UdpSocket::bind((address, port)))
    }

    fn make<T: Send>(
        &self,
        side: Side,
        make: impl FnOnce(Ipv4Addr) -> io::Result<T> + Send,
    ) -> Result<T, Error> {
        let address = self.address(side);
        self.namespace(side)
            .enter(|| make(address))?
            .map_err(|error| {
                let action = format!("make a socket at {address}");
                if error.raw_os_error() == Some(libc::ENOENT) {
                    return Error::system(
                        action,
                        error,
                        "the kernel lacks the congestion module; `modprobe tcp_bbr`",
                    );
                }
                Error::system(action, error, "raise the number of open files (ulimit -n)")
            })
    }
}

fn tcp_socket(congestion: &str) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(congestion.as_bytes())?;
    Ok(socket)
}

/// Resets a connection, without retransmissions or a FIN.
///
/// Between two uses of a link reset both ends of every connection, then
/// [`restart`](EmulatedLink::restart) it. During a use keep connections open until all flows are
/// complete: late acknowledgements and retransmissions affect other flows.
pub fn reset(connection: TcpStream) -> io::Result<()> {
    let socket = Socket::from(connection);
    socket.set_linger(Some(Duration::ZERO))
}

/// The kernel's information about a connection (`struct tcp_info` in `linux/tcp.h`).
///
/// Read it while the connection is open: of a closed one most is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// The retransmission timeout.
    pub rto: Duration,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// Its mean deviation.
    pub rtt_variation: Duration,
    /// The shortest round trip; of kernels since 4.6.
    pub rtt_min: Duration,
    /// The largest segment it sends, in bytes.
    pub send_mss: u32,
    /// The congestion window, in segments.
    pub window: u32,
    /// The slow start threshold, in segments.
    pub threshold: u32,
    /// Reordering threshold in segments: further displacement counts as loss.
    pub reordering: u32,
    /// Retransmitted segments.
    pub retransmitted: u32,
    /// Segments sent, those without data included; of kernels since 4.2.
    pub segments_out: u32,
    /// Segments received; of kernels since 4.2.
    pub segments_in: u32,
    /// Segments sent with data, retransmitted ones included; of kernels since 4.6.
    pub data_segments_out: u32,
    /// Timeouts; of kernels since 6.7, else `None`.
    pub timeouts: Option<u16>,
}

impl TcpInfo {
    /// Reads it from an open connection.
    pub fn read(connection: &impl AsFd) -> io::Result<Self> {
        let mut bytes = [0; 256];
        let length = sys::socket_option(connection, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
        Ok(Self::parse(&bytes[..length.min(bytes.len())]))
    }

    /// The structure grows only at its end; fields unknown to a kernel are 0.
    fn parse(bytes: &[u8]) -> Self {
        let number = |at: usize| {
            bytes
                .get(at..at + 4)
                .and_then(|four| four.try_into().ok())
                .map_or(0, u32::from_ne_bytes)
        };
        let micros = |at| Duration::from_micros(number(at).into());
        let timeouts = bytes.get(240..242).and_then(|two| two.try_into().ok());
        Self {
            rto: micros(8),
            send_mss: number(16),
            rtt: micros(68),
            rtt_variation: micros(72),
            threshold: number(76),
            window: number(80),
            reordering: number(88),
            retransmitted: number(100),
            segments_out: number(136),
            segments_in: number(140),
            rtt_min: micros(148),
            data_segments_out: number(156),
            timeouts: timeouts.map(u16::from_ne_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kernels_shorter_structure_is_read() {
        let mut bytes = [0; 248];
        bytes[100..104].copy_from_slice(&18_u32.to_ne_bytes());
        bytes[240..242].copy_from_slice(&3_u16.to_ne_bytes());
        let new = TcpInfo::parse(&bytes);
        assert_eq!((new.retransmitted, new.timeouts), (18, Some(3)));
        let old = TcpInfo::parse(&bytes[..104]);
        assert_eq!((old.retransmitted, old.timeouts), (18, None));
        assert_eq!(TcpInfo::parse(&[]), TcpInfo::default());
    }

    #[test]
    fn a_local_connections_structure_makes_sense() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = TcpInfo::read(&client).unwrap();
        assert!(info.rto >= Duration::from_millis(200), "{info:?}");
        assert!(
            info.rtt < Duration::from_secs(1) && info.send_mss > 500,
            "{info:?}"
        );
        assert!(info.segments_out >= 2 && info.window >= 1, "{info:?}");
        assert_eq!(info.retransmitted, 0);
    }
}
