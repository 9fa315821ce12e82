//! The few system calls for which no dependency has a safe wrapper.
//!
//! Everything unsafe of this crate is here: four calls, each with one pointer into memory that the
//! caller owns and whose length is known.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::libc;

/// Turns `file`, an open `/dev/net/tun`, into the packet queue of a TUN device of that name: raw IP
/// packets, without a header before them.
#[allow(unsafe_code, reason = "an ioctl that no wrapper knows")]
pub(crate) fn become_tun(file: impl AsFd, name: &str) -> io::Result<()> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
        },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which is ours and lives through the call.
    let result =
        unsafe { libc::ioctl(file.as_fd().as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    Errno::result(result).map(drop).map_err(Into::into)
}

/// The used bytes of a `union bpf_attr`. It ends before `log_true_size`, at offset 140, which the
/// kernel writes since Linux 6.4 if the attributes reach as far.
pub(crate) type BpfAttributes = [u64; 17];

/// A command of bpf(2) that creates a descriptor.
///
/// Memory that the attributes point at must live until the call returns; the kernel only reads it.
#[allow(unsafe_code, reason = "no wrapper has bpf(2)")]
pub(crate) fn bpf(command: u32, attributes: &BpfAttributes) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `size_of_val(attributes)` bytes, none of which it writes, and, through
    // pointers in them, instructions and a string that the caller holds. A bad pointer is EFAULT, no
    // access of ours.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            libc::c_long::from(command),
            attributes.as_ptr(),
            size_of_val(attributes),
        )
    };
    let descriptor = Errno::result(result)?;
    // SAFETY: the commands used give a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// Reads a socket option into `bytes`. Returns the number of bytes the kernel wrote.
#[allow(
    unsafe_code,
    reason = "the wrappers refuse options whose length depends on the kernel"
)]
pub(crate) fn socket_option(
    socket: impl AsFd,
    level: i32,
    option: i32,
    bytes: &mut [u8],
) -> io::Result<usize> {
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `bytes`, which is as long.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    Errno::result(result)?;
    Ok(length as usize)
}

/// Gives the calling thread real-time priority, first in first out.
#[allow(unsafe_code, reason = "no wrapper has sched_setscheduler(2)")]
pub(crate) fn schedule_first_in_first_out(priority: i32) -> io::Result<()> {
    // The library function of musl always fails, and its `sched_param` has more fields than the kernel's.
    let call = libc::SYS_sched_setscheduler;
    // SAFETY: the kernel reads one `sched_param`, an int; 0 is the calling thread.
    let result = unsafe { libc::syscall(call, 0, libc::SCHED_FIFO, &raw const priority) };
    Errno::result(result).map(drop).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlong_device_name_is_refused_before_the_system_call() {
        let file = std::fs::File::open("/dev/null").unwrap();
        for name in ["", "sixteen-letters-", "a\0b"] {
            let error = become_tun(&file, name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }

    #[test]
    fn a_bad_command_is_an_error() {
        assert!(bpf(u32::MAX, &[0; 17]).is_err());
    }
}
