use std::io::{self, Read};

use carob_analyze::synthetic::FileLayout;
use carob_analyze::{AnalyzeError, Options, analyze, limits};
use proptest::prelude::*;

use crate::traffic::{Path, Traffic};

fn files() -> Vec<Vec<u8>> {
    let traffic = Traffic::requests(&Path::DEFAULT, 40, &[[10, 20]], 1);
    let layouts = [
        FileLayout::Pcap,
        FileLayout::PcapNanosecondsBigEndian,
        FileLayout::Pcapng,
        FileLayout::PcapngBinaryBigEndian,
    ];
    layouts
        .map(|layout| traffic.client_file(layout, true))
        .to_vec()
}

#[test]
fn truncated_file_gives_partial_results_and_offset() {
    for file in files() {
        let whole = analyze(&file[..], &Options::default()).expect("a capture");
        assert_eq!(whole.contents.damage_count, 0);
        let cut = &file[..file.len() - 7];
        let found = analyze(cut, &Options::default()).expect("a capture");
        let [damage] = &found.contents.damages[..] else {
            panic!("{:?}", found.contents.damages);
        };
        assert!(
            damage.is_end && damage.offset < cut.len() as u64,
            "{damage}"
        );
        assert_eq!(damage.number, whole.contents.packets);
        assert_eq!(found.contents.packets + 1, whole.contents.packets);
        let said = found.unknowns().join(" ");
        assert!(said.contains(&format!("byte {}", damage.offset)), "{said}");
    }
}

#[test]
fn every_length_of_a_file_is_read_without_a_panic() {
    for file in files() {
        for length in (0..600).chain([file.len() / 2]) {
            let _ = analyze(&file[..length.min(file.len())], &Options::default());
        }
    }
}

#[test]
fn an_impossible_length_ends_the_reading() {
    let mut file = files().swap_remove(0);
    // The captured length of the first packet.
    file[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    let found = analyze(&file[..], &Options::default()).expect("a capture");
    assert_eq!(found.contents.messages, 0);
    let said = found.contents.damages[0].to_string();
    assert!(
        said.starts_with("byte 24, packet 1: a packet of 4294967295 bytes"),
        "{said}"
    );
}

#[test]
fn files_of_another_format_are_refused_with_their_beginning() {
    let error = |bytes: &[u8]| analyze(bytes, &Options::default()).expect_err("no capture");
    assert!(matches!(error(b""), AnalyzeError::Empty));
    let text = error(b"\x7fELF\x02\x01\x01\x00rest").to_string();
    assert!(
        text.starts_with("not a capture: it begins with 7f 45 4c 46"),
        "{text}"
    );
}

/// Repeats a capture's packets without end, with increasing timestamps.
struct Huge {
    file: Vec<u8>,
    at: usize,
    left: u64,
    turn: u32,
}

impl Read for Huge {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.file.len() {
            self.at = 24;
            self.turn += 1;
            // Packet records of pcap start with 16 bytes, seconds first.
            let mut at = 24;
            while at < self.file.len() {
                let word = |at: usize, file: &[u8]| {
                    u32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]])
                };
                let length = word(at + 8, &self.file) as usize;
                let seconds = word(at, &self.file) + 60;
                self.file[at..at + 4].copy_from_slice(&seconds.to_le_bytes());
                // A new client port in each turn creates new peers.
                let port = (1_024 + self.turn % 60_000) as u16;
                let is_request = self.file[at + 16 + 12] == 10 && self.file[at + 16 + 13] == 0;
                let place = at + 16 + if is_request { 20 } else { 22 };
                self.file[place..place + 2].copy_from_slice(&port.to_be_bytes());
                at += 16 + length;
            }
        }
        let count = buffer.len().min(self.file.len() - self.at);
        let count = count.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        buffer[..count].copy_from_slice(&self.file[self.at..self.at + count]);
        self.at += count;
        self.left -= count as u64;
        Ok(count)
    }
}

#[test]
fn peers_beyond_the_limit_are_counted() {
    let traffic = Traffic::requests(&Path::DEFAULT, 3, &[[10, 20]], 1);
    let file = traffic.client_file(FileLayout::Pcap, false);
    let left = 6_000 * file.len() as u64;
    let huge = Huge {
        file,
        at: 0,
        left,
        turn: 0,
    };
    let found = analyze(huge, &Options::default()).expect("a capture");
    assert_eq!(found.peer_count, limits::CONVERSATIONS_MAX as u64);
    assert!(
        found.contents.beyond_limit > 1_000,
        "{}",
        found.contents.beyond_limit
    );
    let kept = found.contents.messages - found.contents.beyond_limit;
    assert!(found.requests.exchanges * 2 <= kept + 10);
    assert!(
        found
            .unknowns()
            .iter()
            .any(|text| text.contains("beyond the limit"))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn changed_bytes_never_panic(
        which in 0..4_usize,
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..12),
    ) {
        let mut file = files().swap_remove(which);
        for (at, value) in changes {
            let at = usize::from(at) % file.len();
            file[at] = value;
        }
        if let Ok(found) = analyze(&file[..], &Options::default()) {
            prop_assert!(found.contents.bytes <= file.len() as u64);
            let _ = (found.findings(), found.unknowns());
        }
    }
}
