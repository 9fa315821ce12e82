//! Properties of endpoints over connections: robustness, and independence of stream segmentation (RFC 8323 3.2). Also
//! runs the corpus of scripts (`vectors/corpus`).

use std::fs;
use std::path::Path;

use crate::stream::{CSM, Lone, config, frame};
use carob_proto::Response;
use carob_proto::codec::Code;
use carob_proto::endpoint::Config;
use proptest::collection::vec;
use proptest::prelude::*;

/// Codes of every class.
fn code() -> impl Strategy<Value = Code> {
    prop_oneof![
        3 => (0_u8..=7).prop_map(Code),
        2 => prop_oneof![Just(0x41), Just(0x45), Just(0x5f), Just(0x84), Just(0xa0)].prop_map(Code),
        // Release and Abort end the connection, so they are rarer.
        2 => prop_oneof![Just(0xe1), Just(0xe2), Just(0xe3), Just(0xe6)].prop_map(Code),
        1 => any::<u8>().prop_map(Code),
    ]
}

fn options() -> impl Strategy<Value = Vec<(u16, Vec<u8>)>> {
    let number = prop_oneof![
        6 => prop_oneof![Just(2_u16), Just(4), Just(6), Just(8), Just(11), Just(23), Just(27), Just(60)],
        1 => any::<u16>(),
    ];
    let value = prop_oneof![4 => vec(any::<u8>(), 0..=3), 1 => vec(any::<u8>(), 0..=300)];
    vec((number, value), 0..=3).prop_map(|mut options| {
        options.sort_by_key(|(number, _)| *number);
        options
    })
}

prop_compose! {
    /// A well-formed message that may not be valid.
    fn message()(
        code in code(),
        token in vec(any::<u8>(), 0..=8),
        options in options(),
        payload in prop_oneof![vec(any::<u8>(), 0..=40), vec(any::<u8>(), 1_000..=3_000)],
    ) -> Vec<u8> {
        let options: Vec<_> = options.iter().map(|(number, value)| (*number, &value[..])).collect();
        if code == Code::EMPTY {
            return frame(code, &[], &[], &[]);
        }
        frame(code, &token, &options, &payload)
    }
}

fn small() -> Config {
    let mut config = config(|reliable| reliable.max_message_size = 4_096);
    config.limits.incoming = 8;
    config.limits.uploads = 2;
    config
}

/// Events and messages for a stream in these pieces, with all requests answered.
fn heard(stream: &[u8], cuts: &[usize]) -> (String, Vec<Vec<u8>>) {
    let mut lone = Lone::new(small());
    lone.hear(CSM);
    let mut rest = stream;
    for cut in cuts {
        let (piece, after) = rest.split_at((*cut).min(rest.len()));
        lone.hear(piece);
        rest = after;
    }
    lone.hear(rest);
    let events = format!("{:?}", lone.events);
    for id in lone.requests() {
        lone.respond(id, &Response::new(Code::CONTENT));
    }
    let usage = lone.end.usage();
    assert_eq!(usage.incoming, 0);
    let state = format!("{events} {usage:?} {}", lone.closed);
    (state, lone.told())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn segmentation_of_a_stream_is_irrelevant(
        messages in vec(message(), 1..=12),
        cuts in vec(prop_oneof![1_usize..=4, 1_usize..=2_000], 0..=60),
    ) {
        let stream = messages.concat();
        let whole = heard(&stream, &[]);
        prop_assert_eq!(&heard(&stream, &cuts), &whole);
        prop_assert_eq!(&heard(&stream, &vec![1; stream.len()]), &whole);
    }

    #[test]
    fn segmentation_of_garbage_is_irrelevant(
        bytes in vec(any::<u8>(), 0..=300),
        cuts in vec(1_usize..=40, 0..=20),
    ) {
        prop_assert_eq!(heard(&bytes, &cuts), heard(&bytes, &[]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_script_keeps_the_limits_and_leaves_no_state(script in vec(any::<u8>(), 0..=600)) {
        crate::stream_script::run(&script);
    }
}

#[test]
fn corpus_keeps_the_limits_and_leaves_no_state() {
    let mut count = 0;
    for script in crate::stream_corpus::scripts() {
        crate::stream_script::run(script);
        count += 1;
    }
    assert!(count >= 500, "only {count} scripts");
}

/// Replaces the corpus by the fuzzer's corpus in the directory `STREAMS`.
#[test]
#[ignore = "writes vectors/corpus/streams.bin"]
fn write_the_corpus() {
    let from = std::env::var_os("STREAMS").expect("STREAMS names a directory");
    let mut scripts: Vec<Vec<u8>> = fs::read_dir(from)
        .expect("it can be read")
        .map(|entry| fs::read(entry.expect("an entry").path()).expect("a file"))
        .filter(|script| script.len() <= 1_024)
        .collect();
    scripts.sort();
    let mut file = Vec::new();
    for script in scripts {
        let length = u16::try_from(script.len()).expect("scripts are short");
        file.extend(length.to_le_bytes());
        file.extend(script);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/corpus/streams.bin");
    fs::write(path, file).expect("corpus is writable");
}

/// Writes seed scripts with messages of every kind to the directory `STREAMS`.
#[test]
#[ignore = "writes seeds for the fuzzer"]
fn write_seeds() {
    let to = std::env::var_os("STREAMS").expect("STREAMS names a directory");
    let first = |what: u8| vec![what, 0];
    let steps: [Vec<u8>; 8] = [
        [first(0x43), vec![0x44, 2, 0x00, 0xe1]].concat(),
        vec![0x42, 1, 0x01],
        vec![0x42, 2, 0x01, 0x60],
        vec![0x42, 4, 0x03, 0xd1, 0x0e, 0x0f],
        vec![0x4a, 2, 0x45, 0x60],
        vec![0x4e, 8, 1, 2, 3, 4, 5, 6, 7, 8],
        vec![0x42, 1, 0xe2],
        vec![0x42, 1, 0xe4],
    ];
    for settings in 0..16_u8 {
        for (n, step) in steps.iter().enumerate() {
            let hello = [0x44, 0, 0x42, 1, 0xe1];
            let script = [&[settings][..], &hello, step, &[0x47, 3, 0, 0, 0], step].concat();
            let name = format!("seed-{settings}-{n}");
            fs::write(Path::new(&to).join(name), script).expect("it can be written");
        }
    }
}
