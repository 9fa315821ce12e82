//! Initial retransmission timeout of TCP, set by a BPF program.
//!
//! There is no sysctl for it. A program of the kind `BPF_PROG_TYPE_SOCK_OPS` is called for it when
//! a SYN or SYN-ACK is sent (`BPF_SOCK_OPS_TIMEOUT_INIT`), so one is attached to the current
//! cgroup. It applies only to sockets of the run's namespaces, identified by their cookies; all
//! other sockets of the cgroup are left to other programs. The attachment is a link, which ends
//! with its descriptor. So no cgroup is created, and nothing is left behind however the process
//! ends.

use std::fs::{self, File};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::namespace::Namespace;
use crate::sys::{self, BpfAttributes};
use crate::{Error, kernel};

/// The attached program; dropping it detaches it.
#[derive(Debug)]
pub(crate) struct InitialTimeout {
    _link: OwnedFd,
}

impl InitialTimeout {
    /// Sets the initial timeout of all connections of `namespaces`, in whole ticks.
    pub(crate) fn set(timeout: Duration, namespaces: &[&Namespace]) -> Result<Self, Error> {
        let remedy = "run it as root or with CAP_BPF and CAP_NET_ADMIN, with cgroup v2 mounted";
        let failed = |what: &str, error: io::Error| Error::system(what, error, remedy);
        let cookies = namespaces
            .iter()
            .map(|namespace| {
                namespace
                    .enter(cookie)?
                    .map_err(|error| failed("read a namespace's cookie", error))
            })
            .collect::<Result<Vec<u64>, Error>>()?;
        let ticks = timeout.as_nanos() / kernel::tick().as_nanos().max(1);
        let ticks = i32::try_from(ticks).unwrap_or(i32::MAX);
        let program = load(&program(ticks, &cookies))
            .map_err(|error| failed("load a program into the kernel", error))?;
        let path =
            own_cgroup().map_err(|error| failed("find the own cgroup (version 2)", error))?;
        let cgroup = File::open(&path)
            .map_err(|error| failed(&format!("open {}", path.display()), error))?;
        let link = attach(&program, &cgroup)
            .map_err(|error| failed(&format!("attach to {}", path.display()), error))?;
        Ok(Self { _link: link })
    }
}

/// The cookie of the calling thread's namespace, unique until the next boot.
fn cookie() -> io::Result<u64> {
    const SO_NETNS_COOKIE: i32 = 71;
    let socket = UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    let mut bytes = [0; 8];
    sys::socket_option(&socket, nix::libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// One instruction as the kernel reads it: operation, registers, offset, constant
/// (`struct bpf_insn`).
fn instruction(operation: u8, to: u8, from: u8, offset: i16, constant: i32) -> u64 {
    let [low, high] = offset.to_ne_bytes();
    let [a, b, c, d] = constant.to_ne_bytes();
    let registers = if cfg!(target_endian = "little") {
        (from << 4) | to
    } else {
        (to << 4) | from
    };
    u64::from_ne_bytes([operation, registers, low, high, a, b, c, d])
}

/// The program: if the kernel asks for the initial timeout of a socket of these namespaces, it
/// replies `ticks`.
///
/// The context is a `struct bpf_sock_ops`: the operation at offset 0, the reply at offset 4.
fn program(ticks: i32, cookies: &[u64]) -> Vec<u64> {
    const LOAD: u8 = 0x61;
    const STORE: u8 = 0x63;
    const COPY: u8 = 0xbf;
    const SET: u8 = 0xb7;
    const LOAD_WIDE: u8 = 0x18;
    const JUMP: u8 = 0x05;
    const JUMP_UNLESS_CONSTANT: u8 = 0x55;
    const JUMP_IF: u8 = 0x1d;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    const TIMEOUT_INIT: i32 = 1;
    const GET_NETNS_COOKIE: i32 = 122;

    // Each comparison is three instructions; behind the last one is a jump to the end.
    let compared = 3 * cookies.len() as i16;
    let mut code = vec![
        instruction(COPY, 6, 1, 0, 0),
        instruction(LOAD, 2, 6, 0, 0),
        instruction(JUMP_UNLESS_CONSTANT, 2, 0, 2 + compared + 3, TIMEOUT_INIT),
        instruction(COPY, 1, 6, 0, 0),
        instruction(CALL, 0, 0, 0, GET_NETNS_COOKIE),
    ];
    for (index, cookie) in cookies.iter().enumerate() {
        code.push(instruction(LOAD_WIDE, 2, 0, 0, *cookie as i32));
        code.push(instruction(0, 0, 0, 0, (*cookie >> 32) as i32));
        let rest = 3 * (cookies.len() - index - 1) as i16;
        code.push(instruction(JUMP_IF, 0, 2, rest + 1, 0));
    }
    code.extend([
        instruction(JUMP, 0, 0, 2, 0),
        instruction(SET, 3, 0, 0, ticks),
        instruction(STORE, 6, 3, 4, 0),
        instruction(SET, 0, 0, 0, 1),
        instruction(EXIT, 0, 0, 0, 0),
    ]);
    code
}

/// Two halves of 32 bits in the order of the kernel's structure.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn load(program: &[u64]) -> io::Result<OwnedFd> {
    const BPF_PROG_LOAD: u32 = 5;
    const SOCK_OPS: u32 = 13;
    let license = c"Dual MIT/GPL";
    let mut attributes: BpfAttributes = [0; 17];
    attributes[0] = pair(SOCK_OPS, program.len() as u32);
    attributes[1] = program.as_ptr() as u64;
    attributes[2] = license.as_ptr() as u64;
    sys::bpf(BPF_PROG_LOAD, &attributes)
}

fn attach(program: &OwnedFd, cgroup: &File) -> io::Result<OwnedFd> {
    const BPF_LINK_CREATE: u32 = 28;
    const CGROUP_SOCK_OPS: u32 = 3;
    let mut attributes: BpfAttributes = [0; 17];
    attributes[0] = pair(program.as_raw_fd() as u32, cgroup.as_raw_fd() as u32);
    attributes[1] = pair(CGROUP_SOCK_OPS, 0);
    sys::bpf(BPF_LINK_CREATE, &attributes)
}

/// The current cgroup's path in the file system.
fn own_cgroup() -> io::Result<PathBuf> {
    let absent = |what: &str| io::Error::new(io::ErrorKind::NotFound, what.to_owned());
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let (root, mount) = mounts
        .lines()
        .find_map(cgroup_mount)
        .ok_or_else(|| absent("cgroup v2 is not mounted"))?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let own = groups
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .ok_or_else(|| absent("this program is in no cgroup of version 2"))?;
    // A container may see a part of the tree only.
    let own = Path::new(own);
    let below = own.strip_prefix(root).unwrap_or(own);
    Ok(Path::new(mount).join(below.strip_prefix("/").unwrap_or(below)))
}

/// The mounted part of the cgroup v2 tree and its mount point, from a line of mountinfo.
fn cgroup_mount(line: &str) -> Option<(&str, &str)> {
    let (before, after) = line.split_once(" - ")?;
    let mut fields = before.split(' ');
    let (root, mount) = (fields.nth(3)?, fields.next()?);
    (after.split(' ').next()? == "cgroup2").then_some((root, mount))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jump_lands_in_the_program() {
        for count in 0..4 {
            let code = program(500, &vec![7; count]);
            let mut at = 0;
            while at < code.len() {
                let bytes = code[at].to_ne_bytes();
                let offset = i16::from_ne_bytes([bytes[2], bytes[3]]);
                if matches!(bytes[0], 0x05 | 0x55 | 0x1d) {
                    let target = at as i16 + 1 + offset;
                    // Only the two instructions that set the reply, or the end.
                    let end = code.len() as i16 - 2;
                    assert!(
                        target == end || target == end - 2,
                        "{count}: {at} to {target}"
                    );
                }
                at += if bytes[0] == 0x18 { 2 } else { 1 };
            }
        }
    }

    #[test]
    fn the_mount_is_found_among_others() {
        let hybrid = "30 25 0:26 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        assert_eq!(cgroup_mount(hybrid), Some(("/", "/sys/fs/cgroup/unified")));
        let first = "31 25 0:27 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu";
        assert_eq!(cgroup_mount(first), None);
        assert_eq!(cgroup_mount("nonsense"), None);
    }
}
