//! Block-wise transfers and observations.

use std::collections::BTreeMap;

use carob_codec::BlockValue;
use serde::Serialize;

use crate::limits::{OBSERVATIONS_MAX, TRANSFERS_LISTED, TRANSFERS_MAX};
use crate::sketch::Sketch;

/// Key of a transfer: conversation, side of the client, resource, and true for an upload.
type TransferKey = (u32, u8, u64, bool);
/// Key of an observation: conversation, side of the observer, token.
type ObservationKey = (u32, u8, u64);

/// A block-wise transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Transfer {
    /// Number of the conversation in [`Analysis::peers`](crate::Analysis::peers) before its sorting.
    #[serde(skip)]
    pub(crate) conversation: u32,
    /// True for a request body (Block1), false for a response body (Block2).
    pub is_upload: bool,
    /// Time of the first request, in microseconds.
    pub began_us: u64,
    /// Time from the first request to the last response, in microseconds.
    pub took_us: u64,
    /// Bytes of the body.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u32,
    /// Block size in bytes.
    pub block_bytes: u16,
    /// Retransmissions of its requests.
    pub retransmissions: u32,
    /// True if all blocks were captured.
    pub is_complete: bool,
}

impl Transfer {
    /// Bytes of the body a second; 0 for a transfer without duration.
    pub fn goodput(&self) -> u64 {
        (self.bytes.saturating_mul(1_000_000))
            .checked_div(self.took_us)
            .unwrap_or(0)
    }
}

#[derive(Debug)]
struct Open {
    transfer: Transfer,
    last_block: Option<u32>,
}

/// One block that arrived with its exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) value: BlockValue,
    pub(super) is_upload: bool,
    pub(super) bytes: u32,
    pub(super) requested_at: u64,
    pub(super) answered_at: u64,
    pub(super) retransmissions: u32,
}

/// An observation of a resource.
#[derive(Clone, Debug, Default)]
struct Observation {
    notifications: u64,
    last_us: Option<u64>,
}

/// Notifications of all observations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notifications {
    pub(crate) observations: u64,
    pub(crate) count: u64,
    pub(crate) confirmable: u64,
    pub(crate) intervals: Sketch,
}

/// Transfers and observations of a capture.
#[derive(Debug, Default)]
pub(super) struct TransferTable {
    open: BTreeMap<TransferKey, Open>,
    pub(super) listed: Vec<Transfer>,
    pub(super) goodput: Sketch,
    pub(super) complete: u64,
    pub(super) incomplete: u64,
    observations: BTreeMap<ObservationKey, Observation>,
    pub(super) notifications: Notifications,
}

impl TransferTable {
    pub(super) fn add_block(&mut self, conversation: u32, side: u8, resource: u64, block: Block) {
        let key = (conversation, side, resource, block.is_upload);
        let number = block.value.number;
        let size = block.value.szx.bytes() as u16;
        let is_new = !self.open.contains_key(&key)
            || number == 0
                && self
                    .open
                    .get(&key)
                    .is_some_and(|open| open.transfer.blocks > 0);
        if is_new {
            // A last block without the others is a body of one block.
            if let Some(before) = self.open.remove(&key) {
                self.conclude(before.transfer);
            }
            if number == 0 && !block.value.more {
                return;
            }
            self.make_room();
            let transfer = Transfer {
                conversation,
                is_upload: block.is_upload,
                began_us: block.requested_at,
                took_us: 0,
                bytes: 0,
                blocks: 0,
                block_bytes: size,
                retransmissions: 0,
                is_complete: false,
            };
            let last_block = None;
            self.open.insert(
                key,
                Open {
                    transfer,
                    last_block,
                },
            );
        }
        let Some(open) = self.open.get_mut(&key) else {
            return;
        };
        let transfer = &mut open.transfer;
        transfer.began_us = transfer.began_us.min(block.requested_at);
        transfer.took_us = block.answered_at.saturating_sub(transfer.began_us);
        transfer.bytes += u64::from(block.bytes);
        transfer.blocks += 1;
        transfer.block_bytes = size;
        transfer.retransmissions += block.retransmissions;
        if !block.value.more {
            open.last_block = Some(number);
        }
        let whole = open.last_block.map(|last| last + 1);
        if whole.is_some_and(|whole| open.transfer.blocks >= whole) {
            open.transfer.is_complete = true;
            let transfer = open.transfer;
            self.open.remove(&key);
            self.conclude(transfer);
        }
    }

    fn make_room(&mut self) {
        if self.open.len() < TRANSFERS_MAX {
            return;
        }
        let oldest = self
            .open
            .iter()
            .min_by_key(|(_, open)| open.transfer.began_us);
        if let Some(key) = oldest.map(|(key, _)| *key)
            && let Some(open) = self.open.remove(&key)
        {
            self.conclude(open.transfer);
        }
    }

    fn conclude(&mut self, transfer: Transfer) {
        if transfer.is_complete {
            self.complete += 1;
            self.goodput.add(transfer.goodput());
        } else {
            self.incomplete += 1;
        }
        if self.listed.len() < TRANSFERS_LISTED {
            self.listed.push(transfer);
        }
    }

    /// Concludes all transfers at the end of the capture.
    pub(super) fn finish(&mut self) {
        for (_, open) in std::mem::take(&mut self.open) {
            self.conclude(open.transfer);
        }
    }

    /// A request with Observe 0.
    pub(super) fn register(&mut self, conversation: u32, side: u8, token: u64) {
        if self.observations.len() < OBSERVATIONS_MAX {
            let key = (conversation, side, token);
            self.observations.entry(key).or_default();
        }
    }

    /// A response with Observe to the observer at this side; returns true for a notification.
    pub(super) fn notify(
        &mut self,
        conversation: u32,
        side: u8,
        token: u64,
        at: u64,
        is_confirmable: bool,
    ) -> bool {
        let Some(observation) = self.observations.get_mut(&(conversation, side, token)) else {
            return false;
        };
        let all = &mut self.notifications;
        // The response to the registration is the first state.
        let Some(before) = observation.last_us.replace(at) else {
            all.observations += 1;
            return false;
        };
        observation.notifications += 1;
        all.count += 1;
        all.confirmable += u64::from(is_confirmable);
        all.intervals.add(at.saturating_sub(before));
        true
    }
}
