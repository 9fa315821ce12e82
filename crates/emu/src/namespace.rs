//! Network namespaces without names, and netlink messages that configure them.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::panic::resume_unwind;
use std::{io, thread};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::{
    AddressFamily as Family, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv,
    sendto, socket,
};

use crate::Error;

/// The remedy for missing privileges.
const REMEDY: &str = "run it as root or with CAP_SYS_ADMIN and CAP_NET_ADMIN";

/// A network namespace whose only device is a disabled loopback.
#[derive(Debug)]
pub struct Namespace {
    handle: File,
    name: &'static str,
}

impl Namespace {
    /// Creates a namespace; `name` is for messages only.
    pub fn create(name: &'static str) -> Result<Self, Error> {
        let make = || -> io::Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        };
        // The thread that leaves the program's namespace ends at once.
        let handle = thread::scope(|scope| scope.spawn(make).join())
            .unwrap_or_else(|panic| resume_unwind(panic))
            .map_err(|error| Error::system("make a network namespace", error, REMEDY))?;
        Ok(Self { handle, name })
    }

    /// Runs `work` in the namespace, on a new thread.
    ///
    /// A socket belongs to the namespace in which it is created, and may be used anywhere. A
    /// runtime created inside (tokio's on the current thread) opens all its sockets there.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, Error> {
        let inside = || {
            setns(&self.handle, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        };
        thread::scope(|scope| scope.spawn(inside).join())
            .unwrap_or_else(|panic| resume_unwind(panic))
            .map_err(|error: nix::Error| {
                Error::system(
                    format!("enter the {}'s namespace", self.name),
                    error,
                    REMEDY,
                )
            })
    }

    /// Its name in messages.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// A socket to the kernel's routing family, of the namespace it was created in.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// Settings of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceSettings {
    /// The largest packet in bytes.
    pub(crate) mtu_bytes: u32,
    /// Queue of packets in the kernel until the engine reads them.
    pub(crate) queue_packets: u32,
    /// Maximum segments that the kernel passes down at once.
    pub(crate) gso_max_segments: u32,
}

impl Netlink {
    /// Opens a socket in the namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        let socket = socket(
            Family::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Sets a device up and running.
    pub(crate) fn set_device(&mut self, index: u32, settings: &DeviceSettings) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        message.attributes = vec![
            LinkAttribute::Mtu(settings.mtu_bytes),
            LinkAttribute::TxQueueLen(settings.queue_packets),
            LinkAttribute::GsoMaxSegs(settings.gso_max_segments),
        ];
        self.ask(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Gives a device an address without a network around it.
    pub(crate) fn add_address(&mut self, index: u32, address: Ipv4Addr) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = 32;
        message.header.index = index;
        message.attributes = vec![
            AddressAttribute::Local(address.into()),
            AddressAttribute::Address(address.into()),
        ];
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.ask(RouteNetlinkMessage::NewAddress(message), flags)
    }

    /// Adds a route to `peer` through a device, from `source`, with an initial congestion window in
    /// segments.
    pub(crate) fn add_route(
        &mut self,
        index: u32,
        peer: Ipv4Addr,
        source: Ipv4Addr,
        initial_window: u32,
    ) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: AddressFamily::Inet,
            destination_prefix_length: 32,
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Static,
            scope: RouteScope::Link,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        message.attributes = vec![
            RouteAttribute::Destination(peer.into()),
            RouteAttribute::PrefSource(source.into()),
            RouteAttribute::Oif(index),
            RouteAttribute::Metrics(vec![RouteMetric::InitCwnd(initial_window)]),
        ];
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.ask(RouteNetlinkMessage::NewRoute(message), flags)
    }

    /// Sends one request and waits for the kernel's reply.
    fn ask(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        let kernel = NetlinkAddr::new(0, 0);
        sendto(self.socket.as_raw_fd(), &bytes, &kernel, MsgFlags::empty())?;

        let mut answer = [0; 4_096];
        let length = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer[..length])
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_none() => Ok(()),
            NetlinkPayload::Error(error) => Err(error.to_io()),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the kernel answered something else",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_only_a_loopback_and_ends_with_its_handle() {
        let Some(()) = crate::testing::rights() else {
            return;
        };
        let namespace = Namespace::create("test").unwrap();
        let devices = namespace
            .enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))
            .unwrap()
            .unwrap();
        let names: Vec<_> = devices
            .lines()
            .skip(2)
            .filter_map(|line| Some(line.split_once(':')?.0.trim()))
            .collect();
        assert_eq!(names, ["lo"]);
    }

    #[test]
    fn work_inside_does_not_move_the_caller() {
        let Some(()) = crate::testing::rights() else {
            return;
        };
        let which = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let before = which();
        let namespace = Namespace::create("test").unwrap();
        let inside = namespace.enter(which).unwrap();
        assert_ne!(inside, before);
        assert_eq!(which(), before);
    }

    #[test]
    fn the_kernels_refusal_is_an_error() {
        // Device 1 << 30 exists nowhere; without privileges the error is another.
        let mut netlink = Netlink::open().unwrap();
        let address = Ipv4Addr::new(10, 0, 0, 1);
        let error = netlink.add_address(1 << 30, address).unwrap_err();
        let codes = [nix::libc::ENODEV, nix::libc::EPERM];
        assert!(codes.contains(&error.raw_os_error().unwrap()), "{error}");
    }
}
