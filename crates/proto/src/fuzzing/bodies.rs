//! Block-wise bodies: split, and reassembled by a server and by a client.

use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;

use super::Input;
use crate::block::ReassemblyStep;
use crate::block::download::Download;
use crate::block::reassembly::{Delivery, Reassembler, ReassemblyLimits};
use crate::block::response_cache::join;
use crate::block::upload::Upload;
use crate::codec::{BlockSize, BlockValue, Code, MessageId, MessageView, Token, Type, Writer};
use crate::tables::quota::QuotaPolicy;
use crate::timers::Timers;

fn size(byte: u8) -> BlockSize {
    BlockSize::from_szx(byte % 7).expect("0 to 6 are sizes")
}

fn pattern(length: usize) -> Bytes {
    (0..length).map(|n| (n ^ n >> 8) as u8).collect()
}

/// The first byte chooses between a server's side, whose blocks come in any order, and a client's.
pub fn bodies(data: &[u8]) {
    let mut input = Input(data);
    if input.byte() & 1 == 0 {
        reassembler(input);
    } else {
        download(input);
    }
}

const LIMITS: ReassemblyLimits = ReassemblyLimits {
    bodies: 3,
    body_bytes: 6_000,
    all_bytes: 9_000,
    quota_policy: QuotaPolicy {
        of_source: 50,
        of_unvalidated: 75,
        prefix: 64,
    },
    blocks_ahead: 16,
    results: 4,
};

/// Blocks of uploads by three peers in any order. A complete body equals one peer's blocks.
fn reassembler(mut input: Input<'_>) {
    let (mut table, mut timers) = (Reassembler::new(1, LIMITS), Timers::<()>::default());
    let mut uploads: Vec<Upload> = Vec::new();
    for _ in 0..3 {
        let length = usize::from(input.number()) % 7_000;
        uploads.push(Upload::whole(size(input.byte()), pattern(length)));
    }
    let mut taken: [Vec<u8>; 3] = Default::default();
    while !input.is_empty() {
        let what = input.byte();
        let who = usize::from(what & 3) % 3;
        let peer = SocketAddr::from(([10, 0, 0, who as u8], 5_683));
        let mut message = [0; 16];
        let (kind, id) = (Type::Confirmable, MessageId(1));
        let writer = Writer::new(&mut message, kind, Code::PUT, id, &Token::EMPTY);
        let length = writer.expect("a header fits").finish();
        let request = MessageView::parse(&message[..length]).expect("it was written");
        let index = table
            .find(peer, &request)
            .or_else(|| table.begin(peer, &request, |_| timers.add(())));
        let Some(index) = index else { continue };
        // The next block of the upload, or any other.
        let (block, bytes) = match uploads[who].block() {
            Some(next) if what & 4 == 0 => next,
            _ => {
                let (number, szx) = (u32::from(input.number()), size(input.byte()));
                let more = what & 8 != 0;
                let length = if what & 16 == 0 {
                    szx.bytes()
                } else {
                    usize::from(input.byte())
                };
                (BlockValue { number, more, szx }, pattern(length).to_vec())
            }
        };
        let delivery = if what & 32 == 0 {
            Delivery::Atomic
        } else {
            Delivery::Streamed
        };
        let announced = (what & 64 != 0).then(|| u32::from(input.number()));
        let result = table.accept(index, block, &bytes, announced, delivery);
        let held = table.held();
        assert!(
            held.0 <= LIMITS.bodies && held.1 <= LIMITS.all_bytes,
            "{held:?}"
        );
        match result {
            ReassemblyStep::Continue | ReassemblyStep::Part(_) if what & 4 == 0 => {
                uploads[who].accept(block, size(input.byte()));
                taken[who].extend_from_slice(&bytes);
            }
            ReassemblyStep::Whole(body) => {
                assert!(body.len() <= LIMITS.body_bytes);
                table.remove(index);
                table.done_with(peer, body.len());
            }
            ReassemblyStep::TooLarge { limit } => assert_eq!(limit, LIMITS.body_bytes),
            ReassemblyStep::Full | ReassemblyStep::BadLength if what & 128 != 0 => {
                table.remove(index);
            }
            _ => {}
        }
    }
    for who in 0..3 {
        let peer = SocketAddr::from(([10, 0, 0, who], 5_683));
        while table.remove_of_peer(peer).is_some() {}
    }
    assert_eq!(table.held(), (0, 0), "nothing is left");
}

/// A body requested block by block, several at a time, with responses in any order and size. The
/// reassembled body equals the one sent.
fn download(mut input: Input<'_>) {
    let body = pattern(usize::from(input.number()) % 20_000);
    let limit = 16_000;
    let mut download = Download::new(size(input.byte()), limit);
    let mut asked: Vec<BlockValue> = alloc::vec![BlockValue {
        number: 0,
        more: false,
        szx: size(data_size(&input)),
    }];
    let mut pieces = Vec::new();
    let mut smallest = BlockSize::MAX;
    for _ in 0..512 {
        if download.is_complete() {
            break;
        }
        let what = input.byte();
        if asked.is_empty() || what & 1 != 0 {
            match download.next_request(asked.len()) {
                Some(Ok(block)) if asked.len() < 8 => {
                    asked.push(block);
                    continue;
                }
                Some(Err(_)) => return,
                _ if asked.is_empty() => return,
                _ => {}
            }
        }
        let place = usize::from(what >> 1) % asked.len();
        let wanted = asked.swap_remove(place);
        // A server may respond with smaller blocks than requested.
        smallest = smallest.min(wanted.szx);
        if what & 0x40 != 0 && wanted.number == 0 {
            smallest = smallest.min(size(input.byte()));
        }
        let szx = smallest;
        let start = wanted.offset().min(body.len());
        let end = (start + szx.bytes()).min(body.len());
        let number = (wanted.offset() / szx.bytes()) as u32;
        let more = end < body.len();
        let block = BlockValue { number, more, szx };
        let announced = (what & 0x80 != 0).then_some(body.len() as u32);
        let part = body.slice(start..end);
        if wanted.offset() > body.len() {
            return; // a server refuses that
        }
        let accepted = download.accept(block, None, announced, part, &mut pieces);
        if accepted.is_err() {
            assert!(body.len() > limit || wanted.offset() > 0, "{accepted:?}");
            return;
        }
        assert!(download.complete() <= body.len() as u64);
    }
    if download.is_complete() {
        assert_eq!(join(pieces), body);
    }
}

fn data_size(input: &Input<'_>) -> u8 {
    input.0.first().copied().unwrap_or(6)
}
