//! A relay between one client and one server: it writes down every datagram, and loses those that
//! a case wants lost.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::{net::UdpSocket, select, task::JoinHandle};

use super::wire::{Frame, Message, Side, Wire};

const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Whether a datagram is to be lost.
type Loses = Box<dyn FnMut(Side, &Message) -> bool + Send>;

/// What has passed and what is to be lost; clones are the same.
#[derive(Clone)]
pub(crate) struct Record(Arc<Mutex<State>>);

struct State {
    since: Instant,
    wire: Wire,
    loses: Vec<Loses>,
    /// Datagrams that are no messages.
    malformed: usize,
}

impl Default for Record {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            since: Instant::now(),
            wire: Wire::default(),
            loses: Vec::new(),
            malformed: 0,
        })))
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Record")
    }
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wire(&self) -> Wire {
        let state = self.lock();
        assert_eq!(state.malformed, 0, "every datagram is a message");
        state.wire.clone()
    }

    /// Loses the next `count` datagrams that this is about.
    pub(crate) fn lose(
        &self,
        mut count: usize,
        mut which: impl FnMut(Side, &Message) -> bool + Send + 'static,
    ) {
        self.lock().loses.push(Box::new(move |side, message| {
            let loses = count > 0 && which(side, message);
            count -= usize::from(loses);
            loses
        }));
    }

    /// Loses everything from now on.
    pub(crate) fn cut(&self) {
        self.lose(usize::MAX, |_, _| true);
    }

    /// Writes a datagram down; whether it is passed on.
    fn pass(&self, from: Side, datagram: &[u8]) -> bool {
        let mut state = self.lock();
        let Some(message) = Message::read(datagram) else {
            state.malformed += 1;
            return true;
        };
        let lost = state.loses.iter_mut().any(|loses| loses(from, &message));
        let at = state.since.elapsed();
        state.wire.0.push(Frame {
            at,
            from,
            lost,
            message,
        });
        !lost
    }
}

/// A running relay; it stops when the value goes.
#[derive(Debug)]
pub(crate) struct Relay {
    port: u16,
    task: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn start(server: u16, record: Record) -> Self {
        let clients = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
        let upstream = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
        let port = clients.local_addr().expect("it is bound").port();
        let server = SocketAddr::from(([127, 0, 0, 1], server));
        let task = tokio::spawn(run(clients, upstream, server, record));
        Self { port, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Errors are passed over: a peer that is gone looks like loss, and the transcript shows it.
async fn run(clients: UdpSocket, upstream: UdpSocket, server: SocketAddr, record: Record) {
    let mut client = None;
    let (mut up, mut down) = (vec![0; DATAGRAM_BYTES_MAX], vec![0; DATAGRAM_BYTES_MAX]);
    loop {
        select! {
            received = clients.recv_from(&mut up) => {
                let Ok((length, from)) = received else { continue };
                client = Some(from);
                if record.pass(Side::Client, &up[..length]) {
                    let _ = upstream.send_to(&up[..length], server).await;
                }
            }
            received = upstream.recv_from(&mut down) => {
                let Ok((length, _)) = received else { continue };
                if let Some(client) = client
                    && record.pass(Side::Server, &down[..length])
                {
                    let _ = clients.send_to(&down[..length], client).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_lost_is_lost_as_often_as_said_and_written_down() {
        let (request, empty) = ([0x40, 1, 0, 7], [0x60, 0, 0, 7]);
        let record = Record::default();
        record.lose(2, |side, message| {
            side == Side::Client && message.code.is_request()
        });
        assert!(record.pass(Side::Client, &empty));
        assert!(record.pass(Side::Server, &request));
        let passed = [0; 3].map(|_| record.pass(Side::Client, &request));
        assert_eq!(passed, [false, false, true]);
        let lost: Vec<_> = record.wire().0.iter().map(|frame| frame.lost).collect();
        assert_eq!(lost, [false, false, true, true, false]);
        record.cut();
        assert!(!record.pass(Side::Server, &empty));
    }
}
