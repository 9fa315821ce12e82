//! What both ends of a connection tell each other about it (RFC 8323 5).

use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::evidence::Answer;
use carob_cc::time::{Duration, Instant};

use super::table::HeldPing;
use super::{Disconnect, Endpoint, LEAST_MESSAGE_SIZE, PINGS_HELD, Phase};
use crate::codec::signal::{BadSignallingOption, MAX_MESSAGE_SIZE, SIGNAL_BYTES};
use crate::codec::token::token_room;
use crate::codec::{BASE_TOKEN_LENGTH, Code, MessageView, Signal};
use crate::endpoint::exchange::Purpose;

impl Endpoint {
    pub(in crate::endpoint) fn send_signal(
        &mut self,
        now: Instant,
        to: SocketAddr,
        signal: &Signal<'_>,
        token: &[u8],
    ) {
        let (mut buffer, mut longer) = ([0; SIGNAL_BYTES], Vec::new());
        let mut buffer = &mut buffer[..];
        if token.len() > BASE_TOKEN_LENGTH {
            longer.resize(SIGNAL_BYTES + token_room(token.len()), 0);
            buffer = &mut longer;
        }
        let room = self.capacity(to).message.min(buffer.len());
        let written = signal.write(&mut buffer[..room], token);
        // Our signals are short, and texts are cut; who takes no more than that, and wants a long
        // token back, gets no answer.
        debug_assert!(written.is_ok() || token.len() > BASE_TOKEN_LENGTH);
        if let Ok(length) = written {
            self.transmit(now, to, &buffer[..length]);
        }
    }

    pub(super) fn handle_signal(
        &mut self,
        now: Instant,
        from: SocketAddr,
        message: &MessageView<'_>,
    ) {
        let token = message.token();
        let signal = match Signal::read(message) {
            Ok(signal) => signal,
            Err(BadSignallingOption(number)) => {
                // RFC 8323 5.2, 5.6.
                let csm = message.code() == Code::CSM;
                let text = alloc::format!("option {} of {:?}", number.0, message.code());
                let bad = csm.then_some(number.0);
                return self.abort(now, from, Disconnect::BadMessage, bad, &text);
            }
        };
        let first = !matches!(signal, Signal::Csm { .. } | Signal::Abort { .. });
        if first && !self.introduce(now, from) {
            return;
        }
        let Some(connection) = self.connections.get_mut(from) else {
            return;
        };
        match signal {
            Signal::Csm {
                max_message_size,
                block_wise,
                extended_token_length,
            } => {
                let before = (connection.takes, connection.block_wise);
                // It replaces what was said before, and may be below the base (RFC 8323 3.3,
                // 5.3.1); but where nothing fits, nothing can be said.
                if let Some(size) = max_message_size {
                    if size < LEAST_MESSAGE_SIZE {
                        let (option, text) = (MAX_MESSAGE_SIZE.0, "Max-Message-Size: too small");
                        let why = Disconnect::BadMessage;
                        return self.abort(now, from, why, Some(option), text);
                    }
                    connection.takes = size;
                }
                connection.block_wise |= block_wise;
                if let Some(length) = extended_token_length {
                    connection.token_length = length;
                }
                let now_is = (connection.takes, connection.block_wise);
                // One that changes nothing leads to nothing, however often it comes.
                if !connection.introduced || now_is != before {
                    self.introduced(now, from);
                }
            }
            Signal::Ping { custody } => {
                if custody && connection.answering > 0 && connection.pings.len() < PINGS_HELD {
                    let before = connection.answering;
                    let serial = self.next_serial();
                    let ping = HeldPing {
                        token: token.as_slice().into(),
                        serial,
                        before,
                    };
                    if let Some(connection) = self.connections.get_mut(from) {
                        connection.pings.push(ping);
                    }
                    return;
                }
                let custody = custody && connection.answering == 0;
                self.send_signal(now, from, &Signal::Pong { custody }, token.as_slice());
            }
            Signal::Pong { .. } => {
                let Some(peer) = self.peers.find(from) else {
                    return;
                };
                let key = self.token_key(token);
                let found = self.index.find_token(&self.exchanges, peer, &key);
                if let Some(index) = found
                    && let Purpose::Ping { operation } = self.exchanges[index as usize].purpose
                {
                    self.tell_answered(now, index, Answer::Empty, 4, true);
                    self.end(now, index, false);
                    self.finish_ping(operation);
                }
            }
            Signal::Release { hold_off, .. } => {
                connection.released = true;
                connection.rest_until =
                    hold_off.map(|seconds| now + Duration::from_secs(u64::from(seconds)));
            }
            Signal::Abort { .. } => {
                if let Some(index) = self.connections.find(from) {
                    self.close(now, index, Disconnect::AbortedByPeer);
                }
            }
            // For a future that we do not know (RFC 8323 5).
            Signal::Unknown(_) => {}
        }
    }

    /// A peer says something that is no CSM; false if it had to say that first, and has lost its
    /// connection.
    pub(super) fn introduce(&mut self, now: Instant, from: SocketAddr) -> bool {
        let required = self.reliable().csm_required;
        let Some(connection) = self.connections.get_mut(from) else {
            return false;
        };
        if connection.introduced {
            return true;
        }
        if required {
            let text = "a CSM comes first";
            self.abort(now, from, Disconnect::NoCsm, None, text);
            return false;
        }
        self.introduced(now, from);
        true
    }

    /// What a peer takes is known, or changes, or will not be told.
    pub(super) fn introduced(&mut self, now: Instant, from: SocketAddr) {
        let Some(connection) = self.connections.get_mut(from) else {
            return;
        };
        connection.introduced = true;
        let waiting = core::mem::take(&mut connection.waiting);
        for id in waiting {
            if self.operation_lives(id) {
                self.measure(now, id.index);
            }
        }
        if let Some(peer) = self.peers.find(from) {
            self.pump(now, peer);
        }
    }

    /// Whether requests may go to this peer now; asks for a connection if there is none. Nothing if
    /// there is no room for one.
    pub(super) fn may_send(&mut self, now: Instant, to: SocketAddr, request: bool) -> Option<bool> {
        if !self.want_connection(now, to) {
            return None;
        }
        let connection = self.connections.get_mut(to)?;
        let open = connection.phase == Phase::Open && !connection.congested;
        Some(open && !(request && connection.is_released()))
    }
}
