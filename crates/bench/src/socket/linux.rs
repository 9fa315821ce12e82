//! Linux: batches in one system call, `epoll`, and a timer that is as exact as the system's.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg, sendmsg,
    setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::{BATCH, Outbox};

/// The receive buffer requested from the system, in bytes; it may grant less.
const RECEIVE_BUFFER: usize = 1 << 20;

/// The longest run of datagrams that is sent as one, in bytes: less than a datagram may have.
const RUN_BYTES: usize = 60_000;

/// The timer's key among the sockets'.
const TIMER: u64 = u64::MAX;

pub(super) fn prepare(socket: &UdpSocket) {
    // A smaller buffer does as well unless very much is outstanding on one port.
    let _ = setsockopt(socket, sockopt::RcvBuf, &RECEIVE_BUFFER);
}

/// Buffers for the system calls.
pub(super) struct Scratch {
    incoming: MultiHeaders<SockaddrStorage>,
    outgoing: MultiHeaders<()>,
    /// Runs of datagrams may leave as one.
    runs: bool,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self {
            incoming: MultiHeaders::preallocate(BATCH, None),
            outgoing: MultiHeaders::preallocate(BATCH, None),
            runs: true,
        }
    }

    /// Receives a batch; returns the number of datagrams.
    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        buffers: [&mut [u8]; BATCH],
        lengths: &mut [Option<usize>; BATCH],
    ) -> io::Result<usize> {
        let mut slices = buffers.map(|buffer| [IoSliceMut::new(buffer)]);
        let flags = MsgFlags::MSG_DONTWAIT;
        let received = recvmmsg(
            socket.as_raw_fd(),
            &mut self.incoming,
            slices.iter_mut(),
            flags,
            None,
        );
        let received = match received {
            Err(Errno::EAGAIN) => return Ok(0),
            other => other?,
        };
        let mut count = 0;
        for message in received {
            let long = message.flags.contains(MsgFlags::MSG_TRUNC);
            lengths[count] = (!long).then_some(message.bytes);
            count += 1;
        }
        Ok(count)
    }

    /// Sends the first datagrams of `outbox`; how many.
    pub(super) fn send(&mut self, socket: &UdpSocket, outbox: &Outbox) -> io::Result<usize> {
        let (run, size, count) = outbox.run(BATCH, RUN_BYTES);
        if count > 1 && self.runs {
            match send_run(socket, run, size) {
                // The network card, or the path, has no room for it in this form.
                Err(Errno::EIO | Errno::EINVAL | Errno::EMSGSIZE | Errno::EOPNOTSUPP) => {
                    self.runs = false;
                }
                other => return Ok(other.map(|()| count)?),
            }
        }
        let mut slices = [[IoSlice::new(&[])]; BATCH];
        let mut count = 0;
        for (slice, bytes) in slices.iter_mut().zip(outbox.rest()) {
            *slice = [IoSlice::new(bytes)];
            count += 1;
        }
        let sent = sendmmsg(
            socket.as_raw_fd(),
            &mut self.outgoing,
            &slices[..count],
            [None::<()>; BATCH],
            [],
            MsgFlags::MSG_DONTWAIT,
        );
        Ok(sent?.count())
    }
}

/// Sends datagrams of one size as one run, which the system cuts late (`UDP_SEGMENT`): most of
/// what a datagram costs is paid once.
fn send_run(socket: &UdpSocket, run: &[u8], size: u16) -> nix::Result<()> {
    let (slices, flags) = ([IoSlice::new(run)], MsgFlags::MSG_DONTWAIT);
    let control = [ControlMessage::UdpGsoSegments(&size)];
    sendmsg::<()>(socket.as_raw_fd(), &slices, &control, flags, None).map(drop)
}

/// Waits for many sockets, and for a time.
pub(crate) struct Poller {
    epoll: Epoll,
    timer: TimerFd,
    /// When the timer will fire, if it runs.
    armed: Option<Instant>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        Ok(Self {
            epoll,
            timer,
            armed: None,
        })
    }

    /// Watches a socket until it is [removed](Self::remove) and closed.
    pub(crate) fn add(&mut self, socket: &UdpSocket, key: usize) -> io::Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, key as u64);
        Ok(self.epoll.add(socket, event)?)
    }

    /// Forgets a socket that is about to be closed.
    #[allow(
        clippy::unused_self,
        reason = "the system does it, elsewhere it does not"
    )]
    pub(crate) fn remove(&mut self, _: usize) {}

    /// Waits until a socket can be read or `until` has come; adds the keys of those that can.
    /// It may return early.
    pub(crate) fn wait(
        &mut self,
        until: Option<Instant>,
        ready: &mut Vec<usize>,
    ) -> io::Result<()> {
        let mut patience = EpollTimeout::NONE;
        if let Some(until) = until {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                patience = EpollTimeout::ZERO;
            } else if self.armed.is_none_or(|armed| until < armed) {
                // Only ever moved forward: a wake-up too many costs less than a call each time.
                let once = Expiration::OneShot(TimeSpec::from_duration(left));
                self.timer.set(once, TimerSetTimeFlags::empty())?;
                self.armed = Some(until);
            }
        }
        let mut events = [EpollEvent::empty(); BATCH];
        let count = match self.epoll.wait(&mut events, patience) {
            Err(Errno::EINTR) => 0,
            other => other?,
        };
        for event in &events[..count] {
            if event.data() == TIMER {
                self.armed = None;
                match self.timer.wait() {
                    Ok(()) | Err(Errno::EAGAIN) => {}
                    Err(error) => return Err(error.into()),
                }
            } else {
                ready.push(event.data() as usize);
            }
        }
        Ok(())
    }
}
