//! The number of connections that the process's file descriptors allow.
//!
//! Each connection takes one. Were all taken, the server could open no file, and no connection of
//! another host would be accepted. So connections get what RLIMIT_NOFILE leaves after a reserve.

/// Descriptors that connections never take: a quarter, and at least this many.
const RESERVE: usize = 64;

/// The soft limit on open files; `None` if the system has or reports none.
fn limit() -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::resource::{Resource, getrlimit};
        let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
        usize::try_from(soft).ok()
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// Descriptors for the connections and handshakes of one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) connections: usize,
    pub(crate) handshakes: usize,
    /// Closed connections that still have something to write; of the reserve.
    pub(crate) closing: usize,
}

/// The share of each of `endpoints` endpoints that have connections. `begin_handshakes`: others begin TLS or
/// WebSocket handshakes there. Nothing where the system sets no limit.
pub(crate) fn share(endpoints: usize, begin_handshakes: bool) -> Option<Share> {
    limit().map(|limit| share_of(limit, endpoints, begin_handshakes))
}

fn share_of(limit: usize, endpoints: usize, begin_handshakes: bool) -> Share {
    let free = limit.saturating_sub((limit / 4).max(RESERVE));
    let share = (free / endpoints.max(1)).max(2);
    let handshakes = if begin_handshakes { share / 4 } else { 0 }.max(1);
    let connections = if begin_handshakes {
        share - handshakes
    } else {
        share
    };
    Share {
        connections,
        handshakes,
        closing: (limit / 16 / endpoints.max(1)).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_a_reserve_of_descriptors() {
        let plain = |limit, endpoints| share_of(limit, endpoints, false).connections;
        assert_eq!(plain(1_024, 1), 768);
        assert_eq!(plain(1_024, 2), 384);
        assert_eq!(plain(128, 1), 64);
        assert_eq!(plain(20_000, 1), 15_000);
        assert_eq!(plain(64, 1), 2, "a server that hardly works");
        let Share {
            connections,
            handshakes,
            closing,
        } = share_of(1_024, 1, true);
        assert_eq!((connections, handshakes, closing), (576, 192, 64));
        for limit in [0, 1, 64, 65, 1_000, usize::MAX] {
            for endpoints in 0..5 {
                let share = share_of(limit, endpoints, true);
                assert!(share.connections >= 1 && share.handshakes >= 1 && share.closing >= 1);
            }
        }
    }
}
