//! Reads text in the link format, filters it, and writes again what was read.
#![no_main]

use carob_proto::link_format::{Filter, LinkWriter, Links};
use libfuzzer_sys::fuzz_target;

// The first byte says how much of the rest is a query.
fuzz_target!(|data: &[u8]| {
    let Some((&length, rest)) = data.split_first() else {
        return;
    };
    let (query, text) = rest.split_at(usize::from(length).min(rest.len()));
    let filter = Filter::new(query);
    let Ok(links) = Links::from_bytes(text) else {
        return;
    };
    let (mut copied, mut written, mut count) = (LinkWriter::new(), LinkWriter::new(), 0);
    for link in links {
        let link = match link {
            Ok(link) => link,
            Err(error) => {
                assert!(error.offset <= text.len());
                break;
            }
        };
        count += 1;
        filter.matches(&link);
        copied.copy(&link);
        let mut entry = written.link(link.target());
        for attribute in link.attributes() {
            entry = match attribute.value {
                Some(value) => entry.attribute(attribute.name, &value.to_str()),
                None => entry.flag(attribute.name),
            };
        }
    }
    let (copied, written) = (copied.finish(), written.finish());
    assert_eq!(Links::new(&written).count(), count);
    for (first, second) in Links::new(&copied).zip(Links::new(&written)) {
        let first = first.expect("it was read before");
        let second = second.expect("what is written can be read");
        for (a, b) in first.attributes().zip(second.attributes()) {
            assert_eq!(a.name, b.name);
            assert_eq!(
                a.value.map(|value| value.to_str()),
                b.value.map(|value| value.to_str())
            );
        }
        assert_eq!(first.attributes().count(), second.attributes().count());
    }
});
