//! Reassembly of fragments in a node's single buffer.

use carob_cc::time::{Duration, Instant};

use super::super::Node;
use super::super::spec::LowpanSpec;
use super::DATAGRAM_MOST;

/// Fragments begin at multiples of this, in bytes.
const UNIT: u16 = 8;
/// Words of a bit for each unit of the largest datagram.
const WORDS: usize = (DATAGRAM_MOST / UNIT).div_ceil(64) as usize;

/// A fragment of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The datagram tag, unique per sender of frames.
    pub tag: u16,
    /// Size of the datagram before compression, in bytes.
    pub datagram: u16,
    /// Offset in the datagram, a multiple of eight bytes.
    pub offset: u16,
    /// Size of the fragment in bytes.
    pub bytes: u16,
}

/// The reason for dropping a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Another datagram occupies the buffer.
    Busy,
    /// The first fragment of its datagram is missing.
    NoFirst,
    /// Its datagram is larger than nodes accept, or its offset is invalid.
    Odd,
}

/// A node's reassembly buffer with Contiki's rules: a first fragment from another sender evicts an
/// incomplete datagram, and nothing else does. Timeouts are evaluated as frames arrive.
#[derive(Clone, Debug)]
pub struct Reassembly {
    timeout: Duration,
    blocks: bool,
    datagram_max: u16,
    current: Option<Partial>,
    lost: u64,
}

#[derive(Clone, Copy, Debug)]
struct Partial {
    from: Node,
    tag: u16,
    datagram: u16,
    left: u16,
    expires: Instant,
    /// The units received.
    units: [u64; WORDS],
}

impl Reassembly {
    /// Creates an empty buffer.
    pub fn new(spec: &LowpanSpec) -> Self {
        Self {
            timeout: spec.reassembly_timeout,
            blocks: spec.reassembly_blocks,
            datagram_max: spec.datagram_max.min(DATAGRAM_MOST),
            current: None,
            lost: 0,
        }
    }

    /// Adds a fragment. Returns whether its datagram is complete.
    pub fn accept(
        &mut self,
        now: Instant,
        from: Node,
        fragment: Fragment,
    ) -> Result<bool, Dropped> {
        self.expire(now);
        // The offset counts units of 8 bytes, so all fragments but the last are multiples of it (RFC 4944 5.3).
        let end = u32::from(fragment.offset) + u32::from(fragment.bytes);
        let is_odd = fragment.datagram > self.datagram_max
            || end > u32::from(fragment.datagram)
            || fragment.bytes == 0
            || !fragment.offset.is_multiple_of(UNIT)
            || (!fragment.bytes.is_multiple_of(UNIT) && end != u32::from(fragment.datagram));
        let is_first = fragment.offset == 0;
        if is_odd {
            self.lost += u64::from(is_first);
            return Err(Dropped::Odd);
        }
        if is_first && self.current.is_some_and(|partial| partial.from != from) {
            self.current = None;
            self.lost += 1;
        }
        let partial = match &mut self.current {
            Some(partial) => {
                let is_its = partial.tag == fragment.tag && partial.datagram == fragment.datagram;
                if partial.from != from || !is_its {
                    self.lost += u64::from(is_first);
                    return Err(Dropped::Busy);
                }
                partial
            }
            None if !is_first => return Err(Dropped::NoFirst),
            empty => empty.insert(Partial {
                from,
                tag: fragment.tag,
                datagram: fragment.datagram,
                left: fragment.datagram,
                expires: now + self.timeout,
                units: [0; WORDS],
            }),
        };
        partial.add(fragment.offset, fragment.bytes);
        let is_whole = partial.left == 0;
        if is_whole {
            self.current = None;
        }
        Ok(is_whole)
    }

    /// Accepts an unfragmented packet, unless a reassembly in progress blocks it.
    pub fn accept_whole(&mut self, now: Instant) -> Result<(), Dropped> {
        self.expire(now);
        if self.blocks && self.current.is_some() {
            self.lost += 1;
            return Err(Dropped::Busy);
        }
        Ok(())
    }

    /// Datagrams lost so far: incomplete ones, those rejected with their first fragment, and
    /// rejected unfragmented ones. A datagram without further fragments counts at the first frame
    /// after its timeout.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn expire(&mut self, now: Instant) {
        if self.current.is_some_and(|partial| partial.expires <= now) {
            self.current = None;
            self.lost += 1;
        }
    }
}

impl Partial {
    /// Adds units, each counted once.
    fn add(&mut self, offset: u16, bytes: u16) {
        let end = offset + bytes;
        for unit in offset / UNIT..end.div_ceil(UNIT) {
            let (word, bit) = (usize::from(unit / 64), 1 << (unit % 64));
            if self.units[word] & bit == 0 {
                self.units[word] |= bit;
                let size = (self.datagram - unit * UNIT).min(UNIT);
                self.left -= size;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_SECOND: Duration = Duration::from_millis(500);

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    fn part(tag: u16, offset: u16, bytes: u16) -> Fragment {
        Fragment {
            tag,
            datagram: 110,
            offset,
            bytes,
        }
    }

    fn reassembly() -> Reassembly {
        Reassembly::new(&LowpanSpec::default())
    }

    #[test]
    fn parts_make_a_whole_in_any_order_after_the_first_and_twice() {
        let mut buffer = reassembly();
        assert_eq!(buffer.accept(at(0), 1, part(7, 0, 40)), Ok(false));
        assert_eq!(buffer.accept(at(1), 1, part(7, 80, 30)), Ok(false));
        assert_eq!(buffer.accept(at(2), 1, part(7, 80, 30)), Ok(false));
        assert_eq!(buffer.accept(at(3), 1, part(7, 40, 40)), Ok(true));
        // It is gone: a late copy begins nothing.
        assert_eq!(
            buffer.accept(at(4), 1, part(7, 80, 30)),
            Err(Dropped::NoFirst)
        );
        assert_eq!(buffer.lost(), 0);
    }

    #[test]
    fn incomplete_datagram_times_out() {
        let mut buffer = reassembly();
        assert_eq!(buffer.accept(at(0), 1, part(7, 0, 40)), Ok(false));
        assert_eq!(buffer.accept(at(499), 1, part(7, 40, 40)), Ok(false));
        assert_eq!(
            buffer.accept(at(0) + HALF_SECOND, 1, part(7, 80, 30)),
            Err(Dropped::NoFirst)
        );
        assert_eq!(buffer.lost(), 1);
    }

    #[test]
    fn first_fragment_of_another_sender_replaces_the_datagram() {
        let mut buffer = reassembly();
        assert_eq!(buffer.accept(at(0), 1, part(7, 0, 80)), Ok(false));
        assert_eq!(buffer.accept(at(1), 2, part(7, 0, 80)), Ok(false));
        assert_eq!(buffer.accept(at(2), 1, part(7, 80, 30)), Err(Dropped::Busy));
        assert_eq!(buffer.accept(at(3), 2, part(7, 80, 30)), Ok(true));
        assert_eq!(buffer.lost(), 1);
    }

    #[test]
    fn another_datagram_of_the_same_sender_waits_in_vain() {
        let mut buffer = reassembly();
        assert_eq!(buffer.accept(at(0), 1, part(7, 0, 80)), Ok(false));
        assert_eq!(buffer.accept(at(1), 1, part(8, 0, 80)), Err(Dropped::Busy));
        assert_eq!(buffer.lost(), 1);
        // Until the time-out.
        assert_eq!(buffer.accept(at(500), 1, part(8, 0, 80)), Ok(false));
        assert_eq!(buffer.lost(), 2);
    }

    #[test]
    fn whole_packets_are_dropped_meanwhile_in_2_7() {
        let mut old = reassembly();
        assert_eq!(old.accept_whole(at(0)), Ok(()));
        assert_eq!(old.accept(at(0), 1, part(7, 0, 80)), Ok(false));
        assert_eq!(old.accept_whole(at(1)), Err(Dropped::Busy));
        assert_eq!(old.accept_whole(at(500)), Ok(()));
        let mut new = Reassembly::new(&LowpanSpec {
            reassembly_blocks: false,
            ..LowpanSpec::default()
        });
        assert_eq!(new.accept(at(0), 1, part(7, 0, 80)), Ok(false));
        assert_eq!(new.accept_whole(at(1)), Ok(()));
        assert_eq!(new.accept(at(2), 1, part(7, 80, 30)), Ok(true));
    }

    #[test]
    fn odd_fragments_are_dropped() {
        let mut buffer = reassembly();
        for (datagram, offset, bytes) in [
            (141, 0, 80),
            (110, 80, 31),
            (110, 4, 8),
            (110, 0, 12),
            (110, 0, 0),
            (u16::MAX, 65_528, u16::MAX),
        ] {
            let fragment = Fragment {
                tag: 1,
                datagram,
                offset,
                bytes,
            };
            let found = buffer.accept(at(0), 1, fragment);
            assert_eq!(found, Err(Dropped::Odd), "{fragment:?}");
        }
        // Of the largest there is, every unit has its bit.
        let mut large = Reassembly::new(&LowpanSpec {
            datagram_max: u16::MAX,
            ..LowpanSpec::default()
        });
        let whole = Fragment {
            tag: 1,
            datagram: DATAGRAM_MOST,
            offset: 0,
            bytes: DATAGRAM_MOST,
        };
        assert_eq!(large.accept(at(0), 1, whole), Ok(true));
    }
}
