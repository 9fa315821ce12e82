//! A request body by Q-Block1 (RFC 9177) between its sender and its receiver, with a network that loses,
//! duplicates and reorders blocks and reports.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};

use super::Input;
use crate::block::QBlockConfig;
use crate::block::ReassemblyStep;
use crate::block::any_order::BLOCK_OVERHEAD;
use crate::block::q_body::{QBlock, QBlockStep};
use crate::block::q_upload::{BlockSender, BlockTransmission, Report};
use crate::block::reassembly::{Reassembler, ReassemblyLimits};
use crate::codec::{BlockSize, Code, MessageId, MessageView, Token, TokenKey, Type, Writer};
use crate::tables::quota::QuotaPolicy;
use crate::timers::Timers;

const LIMITS: ReassemblyLimits = ReassemblyLimits {
    bodies: 1,
    body_bytes: 6_000,
    all_bytes: 6_000 + 41 * BLOCK_OVERHEAD,
    quota_policy: QuotaPolicy {
        of_source: 100,
        of_unvalidated: 100,
        prefix: 64,
    },
    blocks_ahead: 40,
    results: 1,
};

/// A transfer under test.
struct Transfer {
    sender: BlockSender,
    config: QBlockConfig,
    now: Instant,
    /// Blocks on their way, with the exchanges that sent them.
    blocks: Vec<(u32, u32)>,
    reports: Vec<Report>,
    exchanges: u32,
}

impl Transfer {
    fn send(&mut self) {
        let Some(number) = self.sender.next() else {
            return;
        };
        self.exchanges += 1;
        self.sender.sent(number, self.exchanges);
        if self.blocks.len() < 64 {
            self.blocks.push((number, self.exchanges));
        }
        let outstanding = self.sender.outstanding().len();
        assert!(outstanding <= self.sender.blocks() as usize);
        assert!(self.sender.in_window() <= outstanding);
    }

    /// Ends the exchange of the lowest or the highest outstanding block by its timer.
    fn expire(&mut self, lowest: bool, silent: bool) {
        let mut outstanding = self.sender.outstanding().keys().copied();
        let number = if lowest {
            outstanding.next()
        } else {
            outstanding.next_back()
        };
        if let Some(number) = number {
            self.sender.ended(number, None);
            let silence = silent.then_some(Duration::from_secs(2));
            self.sender.expired(number, silence);
        }
    }

    /// Applies a report: the blocks that it covers end.
    fn apply(&mut self, report: &Report) {
        let outstanding: Vec<u32> = self.sender.outstanding().keys().copied().collect();
        for number in outstanding {
            if number < report.end || report.missing.contains(&number) {
                let sent = BlockTransmission {
                    token: TokenKey::default(),
                    block: number,
                    at: self.now,
                };
                self.sender.ended(number, Some(sent));
            }
        }
        self.sender.reported(report);
    }

    fn report(&mut self, end: u32, missing: BTreeSet<u32>) {
        assert!(missing.iter().all(|number| *number < self.sender.blocks()));
        if self.reports.len() < 16 {
            self.reports.push(Report { end, missing });
        }
    }
}

/// A body sent in blocks, received, reported and completed. The complete body equals the one sent, and
/// nothing is left.
pub fn q_block(data: &[u8]) {
    let mut input = Input(data);
    let size = BlockSize::from_szx(input.byte() % 5).expect("0 to 4 are sizes");
    let length = usize::from(input.number()) % 6_500;
    let body: Bytes = (0..length).map(|n| (n ^ n >> 8) as u8).collect();
    let config = QBlockConfig {
        max_payloads: input.byte() % 12,
        ..QBlockConfig::default()
    };
    let sender = BlockSender::new(size, body.clone()).expect("the numbers have 20 bits");
    let mut transfer = Transfer {
        sender,
        config,
        now: Instant::ZERO,
        blocks: Vec::new(),
        reports: Vec::new(),
        exchanges: 0,
    };
    let (mut table, mut timers) = (Reassembler::new(1, LIMITS), Timers::<()>::default());
    let peer = SocketAddr::from(([10, 0, 0, 1], 5_683));
    let mut message = [0; 16];
    let request = request(&mut message);
    while !input.is_empty() {
        let what = input.byte();
        transfer.now += Duration::from_millis(u64::from(what) * 8);
        match what & 7 {
            0 | 1 => transfer.send(),
            2 => {
                if let Some((number, exchange)) = transfer.blocks.first().copied() {
                    transfer.sender.presume(number, exchange);
                }
            }
            3 => transfer.expire(what & 8 == 0, what & 16 == 0),
            4 if !transfer.reports.is_empty() => {
                let place = usize::from(what >> 3) % transfer.reports.len();
                let report = transfer.reports[place].clone();
                if what & 128 != 0 {
                    transfer.reports.remove(place);
                }
                transfer.apply(&report);
            }
            5 => time_out(&mut transfer, &mut table, &request),
            _ if !transfer.blocks.is_empty() => {
                let place = usize::from(what >> 3) % transfer.blocks.len();
                let (number, _) = transfer.blocks[place];
                if what & 128 == 0 {
                    transfer.blocks.swap_remove(place);
                }
                if receive(
                    &mut transfer,
                    (&mut table, &mut timers),
                    &request,
                    number,
                    &body,
                ) {
                    return;
                }
            }
            _ => {}
        }
        assert!(table.held().0 <= LIMITS.bodies && table.held().1 <= LIMITS.all_bytes);
    }
    while table.remove_of_peer(peer).is_some() {}
    assert_eq!(table.held(), (0, 0), "nothing is left");
}

/// The head of the requests.
fn request(message: &mut [u8; 16]) -> MessageView<'_> {
    let (kind, id) = (Type::NonConfirmable, MessageId(1));
    let writer = Writer::new(message, kind, Code::PUT, id, &Token::EMPTY);
    let length = writer.expect("a header fits").finish();
    MessageView::parse(&message[..length]).expect("it was written")
}

/// Ends the receiver's wait for blocks: it requests missing blocks, or discards the body.
fn time_out(transfer: &mut Transfer, table: &mut Reassembler, request: &MessageView<'_>) {
    let peer = SocketAddr::from(([10, 0, 0, 1], 5_683));
    let Some(index) = table.find(peer, request) else {
        return;
    };
    match table.expire_q_block1(index, transfer.now, &transfer.config) {
        Some(missing) if !missing.is_empty() => {
            let end = missing.last().map_or(0, |last| last + 1);
            transfer.report(end, missing.into_iter().collect());
        }
        _ => drop(table.remove(index)),
    }
}

/// Receives a block; returns whether the transfer is over.
fn receive(
    transfer: &mut Transfer,
    (table, timers): (&mut Reassembler, &mut Timers<()>),
    request: &MessageView<'_>,
    number: u32,
    body: &Bytes,
) -> bool {
    let peer = SocketAddr::from(([10, 0, 0, 1], 5_683));
    let (block, payload) = transfer.sender.block(number);
    let size = body.len() as u32;
    let arrived = QBlock {
        now: transfer.now,
        block,
        payload: &payload,
        token: &[1],
        confirmable: false,
        budget: None,
    };
    let index = table
        .find(peer, request)
        .or_else(|| table.begin_q_block1(peer, request, (&arrived, size), |_| timers.add(())));
    let Some(index) = index else {
        return true;
    };
    match table.accept_q_block1(index, &arrived, size, &transfer.config) {
        QBlockStep::Silent => {}
        QBlockStep::Continue(block) => transfer.report(block.number + 1, BTreeSet::new()),
        QBlockStep::Missing(missing) => {
            assert!(missing.windows(2).all(|pair| pair[0] < pair[1]));
            let end = missing.last().map_or(0, |last| last + 1);
            transfer.report(end, missing.into_iter().collect());
        }
        QBlockStep::Other(ReassemblyStep::Whole(whole)) => {
            assert_eq!(whole, *body, "the body is the one sent");
            table.remove(index);
            table.done_with(peer, whole.len());
            assert_eq!(table.held(), (0, 0), "nothing is left");
            return true;
        }
        QBlockStep::Other(ReassemblyStep::Full) => assert!(body.len() > LIMITS.body_bytes),
        QBlockStep::Other(refused) => panic!("{refused:?} of a block of the body"),
    }
    false
}
