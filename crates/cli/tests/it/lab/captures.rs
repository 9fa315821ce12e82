//! Captures of simulated runs.

use crate::process::Scratch;

/// Packets of a pcapng file: time in microseconds, and bytes from the IP header.
fn packets(file: &std::path::Path) -> Vec<(u64, Vec<u8>)> {
    let bytes = std::fs::read(file).expect("a capture");
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(
        (word(0), word(8)),
        (0x0a0d_0d0a, 0x1a2b_3c4d),
        "a section in big endian"
    );
    let (mut all, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if word(at) == 6 {
            let nanoseconds = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
            let length = word(at + 20) as usize;
            all.push((
                nanoseconds / 1_000,
                bytes[at + 28..at + 28 + length].to_vec(),
            ));
        }
        at += word(at + 4) as usize;
    }
    all
}

#[test]
fn capture_of_run_has_whole_packets_at_virtual_times() {
    let folder = Scratch::new();
    for (algorithm, protocol, first) in [("tcp-newreno", 6, 48), ("default", 17, 38)] {
        let run = format!("lab run thesis/long-1c-low-14100 --algorithm {algorithm} --seed 1");
        let rows = folder.lines(&format!("{run} --pcap run.pcapng --json"));
        let all = packets(&folder.path("run.pcapng"));
        assert!(all.len() > 600, "{algorithm}: {}", all.len());
        assert!(all.is_sorted_by(|a, b| a.0 <= b.0));
        assert!(
            all.iter()
                .all(|(_, p)| p[0] == 0x45 && p[9] == protocol && p.len() <= 296)
        );
        // A SYN with options, or a GET.
        assert_eq!(all[0].1.len(), first, "{algorithm}");
        // The run starts with the client's first packet and ends with the last.
        let span = (all[all.len() - 1].0 - all[0].0) as f64 / 1e6;
        let fct = rows[0]["metrics"]["fct_s"]["p50"]
            .as_f64()
            .expect("a number");
        assert!(
            span <= fct + 1.0 && span > fct - 2.0,
            "{algorithm}: {span} {fct}"
        );
    }
}
