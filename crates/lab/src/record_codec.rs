//! Records of runs in `postcard`: every number takes the bytes it needs (LEB128).

use carob_sim::hash::fnv1a;
use carob_sim::spec::RunRecord;
use postcard::ser_flavors::Flavor;

/// A record without its recordings, packed.
#[derive(Clone, Debug)]
pub(crate) struct EncodedRecord(Box<[u8]>);

impl EncodedRecord {
    /// Packs a record.
    pub(crate) fn of(record: &RunRecord) -> Self {
        let bytes = postcard::serialize_with_flavor(record, Bytes(Vec::with_capacity(512)));
        Self(bytes.expect("every length is known").into())
    }

    /// Takes bytes that are a whole record.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        unpack(bytes).map(|_| Self(bytes.into()))
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The record.
    pub(crate) fn record(&self) -> RunRecord {
        unpack(&self.0).expect("packed by `of`, or unpacked by `from_bytes`")
    }
}

/// Bytes that are appended one by one: most numbers take one or two, for which a call of `memcpy`
/// takes longer.
struct Bytes(Vec<u8>);

impl Flavor for Bytes {
    type Output = Vec<u8>;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
    }
}

fn unpack(bytes: &[u8]) -> Option<RunRecord> {
    let (record, rest) = postcard::take_from_bytes(bytes).ok()?;
    rest.is_empty().then_some(record)
}

/// Hash of the program's version, in front of records that travel between processes.
pub(crate) fn version() -> u64 {
    fnv1a(env!("CARGO_PKG_VERSION").as_bytes())
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::testing::scenario;

    /// The first run of a built-in scenario, shortened.
    fn record(name: &str, set: &[&str]) -> RunRecord {
        let scenario = scenario(name, set);
        let spec = scenario.spec(&scenario.cells()[0], &scenario.algorithms()[0], 1);
        carob_sim::run(&spec).expect("it runs")
    }

    #[test]
    fn records_of_each_workload_round_trip() {
        let brief = ["duration=30 s"];
        for (name, set) in [
            ("thesis/short", &[][..]),
            ("nonobserve/gprs", &brief),
            ("rpl/pint-idle", &brief),
        ] {
            let record = record(name, set);
            assert_eq!(EncodedRecord::of(&record).record(), record, "{name}");
        }
    }

    #[test]
    fn truncated_and_longer_bytes_are_no_record() {
        let packed = EncodedRecord::of(&record("thesis/short", &[]));
        let bytes = packed.bytes();
        for end in 0..bytes.len() {
            assert_eq!(unpack(&bytes[..end]), None, "{end}");
        }
        assert_eq!(unpack(&[bytes, &[0]].concat()), None);
        assert_eq!(unpack(&[0xff; 40]), None);
    }
}
