//! TUN devices: the kernel's outgoing packets are read from a descriptor, incoming ones written to
//! it.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::libc;
use nix::net::if_::if_nametoindex;

use crate::Error;
use crate::namespace::{DeviceSettings, Netlink};
use crate::sys;

/// The device that creates TUN devices.
pub(crate) const CLONE_DEVICE: &str = "/dev/net/tun";

/// Queue of a device until the engine reads it; the kernel drops further packets, which is detected
/// at the end of a run.
///
/// A flow sends at most its window at once, 402 packets in the thesis's longest transfer.
pub const DEVICE_QUEUE_PACKETS: u32 = 5_000;

/// One end of a link: the kernel's network device and its descriptor.
///
/// The device vanishes with the descriptor.
#[derive(Debug)]
pub(crate) struct Tun {
    file: File,
}

/// The addresses and settings of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) own: Ipv4Addr,
    pub(crate) peer: Ipv4Addr,
    pub(crate) mtu_bytes: u32,
    /// In segments.
    pub(crate) initial_window: u32,
}

impl Tun {
    /// Creates a device in the namespace of the calling thread, with its address and the route to
    /// its peer.
    pub(crate) fn create(netlink: &mut Netlink, name: &str, ends: &Ends) -> Result<Self, Error> {
        let make = || -> io::Result<File> {
            let file = open_clone_device()?;
            sys::become_tun(&file, name)?;
            Ok(file)
        };
        let file = make().map_err(|error| {
            let remedy = "load the module tun, and run it as root or with CAP_NET_ADMIN";
            Error::system(format!("make the device {name}"), error, remedy)
        })?;
        let mut configure = || -> io::Result<()> {
            let index = if_nametoindex(name)?;
            netlink.set_device(
                index,
                &DeviceSettings {
                    mtu_bytes: ends.mtu_bytes,
                    queue_packets: DEVICE_QUEUE_PACKETS,
                    // The stack splits larger segments before they reach this device, but the
                    // sender would send pairs (`docs/emulation.md#emulator-limits`).
                    gso_max_segments: 1,
                },
            )?;
            netlink.add_address(index, ends.own)?;
            netlink.add_route(index, ends.peer, ends.own, ends.initial_window)
        };
        configure().map_err(|error| {
            let remedy = "run it as root or with CAP_NET_ADMIN";
            Error::system(format!("configure the device {name}"), error, remedy)
        })?;
        Ok(Self { file })
    }

    /// Reads the next packet the kernel has sent; `None` if there is none.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match nix::unistd::read(&self.file, buffer) {
            Ok(length) => Ok(Some(length)),
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes a packet to the kernel as if it had come over the wire.
    pub(crate) fn write(&self, packet: &[u8]) -> io::Result<()> {
        nix::unistd::write(&self.file, packet)?;
        Ok(())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Opens [`CLONE_DEVICE`], which may be missing or forbidden.
pub(crate) fn open_clone_device() -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(CLONE_DEVICE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;

    #[test]
    fn tun_device_reads_and_writes_packets() {
        let Some(()) = crate::testing::rights() else {
            return;
        };
        let namespace = Namespace::create("test").unwrap();
        let ends = Ends {
            own: Ipv4Addr::new(10, 1, 0, 1),
            peer: Ipv4Addr::new(10, 2, 0, 1),
            mtu_bytes: 296,
            initial_window: 4,
        };
        let (tun, socket) = namespace
            .enter(|| {
                crate::kernel::quiet_ipv6();
                let mut netlink = Netlink::open().unwrap();
                let tun = Tun::create(&mut netlink, "test0", &ends).unwrap();
                let socket = std::net::UdpSocket::bind((ends.own, 7)).unwrap();
                (tun, socket)
            })
            .unwrap();
        let mut buffer = [0; 1_500];
        assert!(tun.read(&mut buffer).unwrap().is_none());
        socket.send_to(b"hello", (ends.peer, 9)).unwrap();
        let length = tun.read(&mut buffer).unwrap().expect("a packet");
        assert_eq!(length, 20 + 8 + 5);
        assert_eq!(&buffer[12..20], &[10, 1, 0, 1, 10, 2, 0, 1]);

        // The same packet back: addresses and ports are swapped, which leaves both checksums.
        let mut back = buffer[..length].to_vec();
        back[12..16].copy_from_slice(&buffer[16..20]);
        back[16..20].copy_from_slice(&buffer[12..16]);
        back[20..22].copy_from_slice(&buffer[22..24]);
        back[22..24].copy_from_slice(&buffer[20..22]);
        tun.write(&back).unwrap();
        socket
            .set_read_timeout(Some(std::time::Duration::from_secs(2)))
            .unwrap();
        let (length, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"hello");
        assert_eq!(from, (ends.peer, 9).into());
    }
}
