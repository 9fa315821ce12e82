//! A scripted server: maps each request datagram to any number of responses, correct or faulty.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A datagram and its peer.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) from: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

impl Message {
    pub(crate) fn id(&self) -> u16 {
        u16::from_be_bytes([self.bytes[2], self.bytes[3]])
    }

    fn token(&self) -> &[u8] {
        let length = usize::from(self.bytes[0] & 0xf);
        &self.bytes[4..4 + length]
    }

    fn reply(&self, bytes: Vec<u8>) -> Self {
        let from = self.from;
        Self { from, bytes }
    }

    /// A correct response: 2.05, piggybacked on a CON, NON to a NON.
    pub(crate) fn answer(&self) -> Self {
        self.answer_with(0x45, &[])
    }

    /// The same with another code, and options and payload as encoded.
    pub(crate) fn answer_with(&self, code: u8, rest: &[u8]) -> Self {
        let kind = if self.bytes[0] & 0x30 == 0 {
            0x60
        } else {
            0x50
        };
        let token = self.token();
        let head = [kind | token.len() as u8, code, self.bytes[2], self.bytes[3]];
        self.reply([&head, token, rest].concat())
    }

    /// A Reset for this message.
    pub(crate) fn reset(&self) -> Self {
        self.reply(vec![0x70, 0, self.bytes[2], self.bytes[3]])
    }

    pub(crate) fn with_token(mut self, token: &[u8]) -> Self {
        let rest = self.bytes.split_off(4 + self.token().len());
        self.bytes.truncate(4);
        self.bytes[0] = self.bytes[0] & 0xf0 | token.len() as u8;
        self.bytes.extend_from_slice(token);
        self.bytes.extend_from_slice(&rest);
        self
    }

    pub(crate) fn with_id(mut self, id: u16) -> Self {
        self.bytes[2..4].copy_from_slice(&id.to_be_bytes());
        self
    }

    /// Adds an ETag (option 4) and a payload.
    pub(crate) fn with_etag_and_payload(mut self, etag: &[u8], payload: &[u8]) -> Self {
        self.bytes.push(0x40 | etag.len() as u8);
        self.bytes.extend_from_slice(etag);
        self.bytes.push(0xff);
        self.bytes.extend_from_slice(payload);
        self
    }
}

/// A running responder, stopped on drop.
pub(crate) struct Responder {
    pub(crate) address: SocketAddr,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    /// Replies to each datagram with those that `answer` returns.
    pub(crate) fn start(mut answer: impl FnMut(&Message) -> Vec<Message> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let address = socket.local_addr().unwrap();
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 2_048];
            while !ended.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                    continue;
                };
                let bytes = buffer[..length].to_vec();
                for message in answer(&Message { from, bytes }) {
                    // The client may have exited.
                    let _ = socket.send_to(&message.bytes, message.from);
                }
            }
        });
        Self {
            address,
            end,
            thread: Some(thread),
        }
    }

    /// A host that never replies.
    pub(crate) fn silent() -> Self {
        Self::start(|_| vec![])
    }

    pub(crate) fn uri(&self) -> String {
        format!("coap://{}/", self.address)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
