//! Signalling messages of a connection (RFC 8323 5).

use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::evidence::Answer;
use carob_cc::time::Duration;

use crate::carrier::{Carrier, Outcome};
use crate::codec::token_room;
use crate::codec::{BASE_TOKEN_LENGTH, Code, MessageView, Signal};
use crate::codec::{BadSignallingOption, MAX_MESSAGE_SIZE, SIGNAL_BYTES};
use crate::context::Context;
use crate::event::AbortText;
use crate::message_layer::Purpose;
use crate::stream_layer::connection::HeldPing;
use crate::stream_layer::{Disconnect, LEAST_MESSAGE_SIZE, PINGS_HELD, Phase};

impl Carrier {
    pub(crate) fn send_signal(
        &mut self,
        cx: &mut Context,
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
        let room = self.capacity(cx, to).message.min(buffer.len());
        let written = signal.write(&mut buffer[..room], token);
        // Signals are short, and their texts truncated. A peer with a lower limit and a long token
        // gets no reply.
        debug_assert!(written.is_ok() || token.len() > BASE_TOKEN_LENGTH);
        if let Ok(length) = written {
            self.transmit(cx, to, &buffer[..length]);
        }
    }

    pub(crate) fn handle_signal(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        message: &MessageView<'_>,
    ) {
        let signal = match Signal::read(message) {
            Ok(signal) => signal,
            Err(BadSignallingOption(number)) => {
                // RFC 8323 5.2, 5.6.
                let csm = message.code() == Code::CSM;
                let text = alloc::format!("option {} of {:?}", number.0, message.code());
                let bad = csm.then_some(number.0);
                return self.abort(cx, from, Disconnect::BadMessage, bad, &text);
            }
        };
        let first = !matches!(signal, Signal::Csm { .. } | Signal::Abort { .. });
        if first && !self.require_csm(cx, from) {
            return;
        }
        let token = message.token().as_slice();
        match signal {
            Signal::Csm {
                max_message_size,
                block_wise,
                extended_token_length,
            } => {
                let sizes = (max_message_size, extended_token_length);
                self.on_csm_signal(cx, from, sizes, block_wise);
            }
            Signal::Ping { custody } => self.on_ping(cx, from, custody, token),
            Signal::Pong { .. } => self.on_pong(cx, from, message),
            Signal::Release { hold_off, .. } => {
                if let Some(connection) = self.connections.get_mut(from) {
                    connection.release.by_peer = true;
                    connection.release.hold_off =
                        hold_off.map(|seconds| cx.now + Duration::from_secs(u64::from(seconds)));
                }
            }
            Signal::Abort { .. } => {
                if let Some(index) = self.connections.find(from) {
                    let text = AbortText::new(message.payload());
                    self.close(cx, index, Disconnect::AbortedByPeer(text));
                }
            }
            // An unassigned signal (RFC 8323 5).
            Signal::Unknown(_) => {}
        }
    }

    /// Takes the capabilities of a peer (RFC 8323 5.3).
    fn on_csm_signal(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        (max_message_size, extended_token_length): (Option<u32>, Option<u32>),
        block_wise: bool,
    ) {
        let Some(connection) = self.connections.get_mut(from) else {
            return;
        };
        let capabilities = &mut connection.capabilities;
        let before = (capabilities.max_message_size, capabilities.block_wise);
        // It replaces the earlier value, and may be below the base (RFC 8323 3.3, 5.3.1); but below
        // the minimum nothing can be sent.
        if let Some(size) = max_message_size {
            if size < LEAST_MESSAGE_SIZE {
                let (option, text) = (MAX_MESSAGE_SIZE.0, "Max-Message-Size: too small");
                let why = Disconnect::BadMessage;
                return self.abort(cx, from, why, Some(option), text);
            }
            capabilities.max_message_size = size;
        }
        // A capability that was announced stays (RFC 8323 5.3).
        capabilities.block_wise |= block_wise;
        if let Some(length) = extended_token_length {
            capabilities.token_length = length;
        }
        let after = (capabilities.max_message_size, capabilities.block_wise);
        // An unchanged CSM has no effect, however often it is repeated.
        if !capabilities.known || after != before {
            self.on_csm(from);
        }
    }

    /// Answers a ping; one with Custody once the requests before it are answered (RFC 8323 5.4.1).
    fn on_ping(&mut self, cx: &mut Context, from: SocketAddr, custody: bool, token: &[u8]) {
        let Some(connection) = self.connections.get_mut(from) else {
            return;
        };
        let serving = &mut connection.serving;
        // Pings are held in memory for as long as handlers run, hence the limit.
        if custody && serving.requests > 0 && serving.pings.len() < PINGS_HELD {
            serving.pings.push(HeldPing {
                token: token.into(),
                serial: cx.next_serial(),
                before: serving.requests,
            });
            debug_assert!(serving.pings.len() <= PINGS_HELD);
            return;
        }
        let custody = custody && serving.requests == 0;
        self.send_signal(cx, from, &Signal::Pong { custody }, token);
    }

    fn on_pong(&mut self, cx: &mut Context, from: SocketAddr, message: &MessageView<'_>) {
        let Some(peer) = self.peers.find(from) else {
            return;
        };
        let key = cx.token_key(message.token());
        // A Pong to a Ping of the liveness check has no exchange: its bytes were all that it
        // was for.
        let found = self.index.find_token(&self.exchanges, peer, &key);
        if let Some(index) = found
            && let Purpose::Ping { operation } = self.exchanges[index as usize].purpose
        {
            self.report_reply(cx, index, Answer::Empty, 4, true);
            self.end(cx, index, false);
            self.report(Outcome::Pong { operation });
        }
    }

    /// Enforces that the first message must be a CSM. Returns false if another message did, and the connection
    /// was aborted.
    pub(crate) fn require_csm(&mut self, cx: &mut Context, from: SocketAddr) -> bool {
        let required = cx.reliable().csm_required;
        let Some(connection) = self.connections.get_mut(from) else {
            return false;
        };
        if connection.capabilities.known {
            return true;
        }
        if required {
            let text = "the first message must be a CSM";
            self.abort(cx, from, Disconnect::NoCsm, None, text);
            return false;
        }
        self.on_csm(from);
        true
    }

    /// Handles the capacity of a peer: known, changed, or no longer awaited.
    pub(crate) fn on_csm(&mut self, from: SocketAddr) {
        let Some(connection) = self.connections.get_mut(from) else {
            return;
        };
        connection.capabilities.known = true;
        let waiting = core::mem::take(&mut connection.waiting);
        self.report(Outcome::CapacityKnown {
            peer: from,
            waiting,
        });
    }

    /// Returns whether requests may be sent to this peer now; requests a connection if there is
    /// none. `None` if the table is full.
    pub(crate) fn may_send(
        &mut self,
        cx: &mut Context,
        to: SocketAddr,
        request: bool,
    ) -> Option<bool> {
        if !self.want_connection(cx, to) {
            return None;
        }
        let connection = self.connections.get_mut(to)?;
        let open = connection.phase == Phase::Open && !connection.backlog.congested;
        Some(open && !(request && connection.is_released()))
    }
}
