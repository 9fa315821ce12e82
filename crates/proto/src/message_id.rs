//! Message IDs to one peer, none used twice within EXCHANGE_LIFETIME.
//!
//! IDs are handed out in sequence from a random start (RFC 7252 4.4). The circle of 65,536 is cut
//! into 64 segments; a segment may be entered again only when EXCHANGE_LIFETIME has passed since
//! it was left. A peer that is sent fewer than 1,024 messages costs nothing but the counter; a
//! busier one, 512 bytes.
//!
//! The limit that follows: at most 65,536 - 1,024 messages per EXCHANGE_LIFETIME (247 s by
//! default), about 261 a second, to one peer from one local port. Beyond it
//! [`MessageIds::next`] names the time when the next ID is free, and messages wait in the
//! peer's queue meanwhile.
//!
//! A message to a group reaches every member, and none of them may see its ID a second time in a
//! separate message (RFC 7252 8.1). So an endpoint that sends to groups keeps the last segment for
//! these: [`GroupIds`].

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use carob_cc::time::{Duration, Instant};

use crate::codec::MessageId;

const SEGMENTS: usize = 64;
const SEGMENT: u16 = 1024;
/// The first ID for groups, where these have a separate segment.
const FOR_GROUPS: u16 = (SEGMENTS as u16 - 1) * SEGMENT;

/// The Message IDs of one peer.
#[derive(Debug)]
pub(crate) struct MessageIds {
    next: u16,
    /// `next` may be used: its segment was free on entry.
    entered: bool,
    /// The time at which each segment was last left; `None` before the first was.
    left: Option<Box<[Option<Instant>; SEGMENTS]>>,
}

impl MessageIds {
    /// IDs starting with `first`, which should be random.
    pub(crate) const fn starting_at(first: u16) -> Self {
        Self {
            next: first,
            entered: true,
            left: None,
        }
    }

    /// The time of the next free ID, where none is free.
    pub(crate) fn free_at(&self, now: Instant, lifetime: Duration) -> Option<Instant> {
        let left = self.left.as_ref().filter(|_| !self.entered)?;
        let free = left[usize::from(self.next / SEGMENT)]? + lifetime;
        (free > now).then_some(free)
    }

    /// The next free ID, or the time of the next one. With `groups`, IDs reserved for multicast are
    /// skipped.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        lifetime: Duration,
        groups: bool,
    ) -> Result<MessageId, Instant> {
        if groups && self.next >= FOR_GROUPS {
            // A random start stays one.
            (self.next, self.entered) = (self.next % FOR_GROUPS, false);
        }
        if let Some(free) = self.free_at(now, lifetime) {
            return Err(free);
        }
        self.entered = true;
        let segment = usize::from(self.next / SEGMENT);
        let id = MessageId(self.next);
        debug_assert!(!groups || id.0 < FOR_GROUPS, "{id:?} is one for groups");
        self.next = self.next.wrapping_add(1);
        if self.next.is_multiple_of(SEGMENT) {
            // One time for 1,024 IDs: each could be reused earlier, and none is reused too early.
            self.left.get_or_insert_with(|| Box::new([None; SEGMENTS]))[segment] = Some(now);
            self.entered = false;
        }
        Ok(id)
    }
}

/// The Message IDs of messages to groups, all groups together: a host may be a member of several.
///
/// At most 1,024 in an EXCHANGE_LIFETIME, some four a second.
#[derive(Debug)]
pub(crate) struct GroupIds {
    next: u16,
    /// The times at which the IDs in use were assigned, the oldest first.
    used: VecDeque<Instant>,
}

impl GroupIds {
    /// IDs beginning with any of the segment, which should be random.
    pub(crate) const fn starting_at(first: u16) -> Self {
        Self {
            next: first % SEGMENT,
            used: VecDeque::new(),
        }
    }

    /// The next free ID, or the time of the next one.
    pub(crate) fn next(&mut self, now: Instant, lifetime: Duration) -> Result<MessageId, Instant> {
        while self.used.front().is_some_and(|at| *at + lifetime <= now) {
            self.used.pop_front();
        }
        if self.used.len() >= usize::from(SEGMENT)
            && let Some(oldest) = self.used.front()
        {
            return Err(*oldest + lifetime);
        }
        self.used.push_back(now);
        debug_assert!(self.used.len() <= usize::from(SEGMENT) && self.next < SEGMENT);
        let id = MessageId(FOR_GROUPS + self.next);
        self.next = (self.next + 1) % SEGMENT;
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(247);

    #[test]
    fn ids_count_up_and_wrap() {
        let mut ids = MessageIds::starting_at(65_535);
        assert_eq!(
            ids.next(Instant::ZERO, LIFETIME, false),
            Ok(MessageId(65_535))
        );
        assert_eq!(ids.next(Instant::ZERO, LIFETIME, false), Ok(MessageId(0)));
    }

    #[test]
    fn a_start_among_the_ids_for_groups_stays_random() {
        for offset in [0, 1, 700, SEGMENT - 1] {
            let mut ids = MessageIds::starting_at(FOR_GROUPS + offset);
            let first = ids.next(Instant::ZERO, LIFETIME, true);
            assert_eq!(first, Ok(MessageId(offset)));
        }
    }

    #[test]
    fn burst_of_message_ids_stops_before_a_repetition() {
        let mut ids = MessageIds::starting_at(5_000);
        let mut sent = 0_u32;
        let free = loop {
            match ids.next(Instant::ZERO, LIFETIME, false) {
                Ok(_) => sent += 1,
                Err(free) => break free,
            }
        };
        assert!(sent <= 65_536 && sent > 65_536 - 1_024, "{sent}");
        assert_eq!(free, Instant::ZERO + LIFETIME);
        assert_eq!(ids.free_at(Instant::ZERO, LIFETIME), Some(free));
        assert_eq!(ids.free_at(free, LIFETIME), None);
        assert!(ids.next(free, LIFETIME, false).is_ok());
    }

    #[test]
    fn no_id_returns_within_its_lifetime_at_any_rate() {
        for rate in [200_u64, 261, 270, 1_000, 20_000] {
            let mut ids = MessageIds::starting_at(60_000);
            let mut last = alloc::vec![None; 65_536];
            let (mut now, gap) = (Instant::ZERO, Duration::from_micros(1_000_000 / rate));
            let mut refused = 0;
            for _ in 0..300_000 {
                match ids.next(now, LIFETIME, false) {
                    Ok(MessageId(id)) => {
                        if let Some(before) = last[usize::from(id)].replace(now) {
                            assert!(now.since(before) >= LIFETIME, "{id} at {rate}/s");
                        }
                        now += gap;
                    }
                    Err(free) => {
                        refused += 1;
                        now = free;
                    }
                }
            }
            assert_eq!(
                refused > 0,
                rate > 261,
                "{rate}/s was refused {refused} times"
            );
        }
    }

    #[test]
    fn groups_and_peers_never_share_an_id_within_its_lifetime() {
        let mut groups = GroupIds::starting_at(65_500);
        let mut last = alloc::vec![None; 65_536];
        let mut now = Instant::ZERO;
        for _ in 0..5_000 {
            match groups.next(now, LIFETIME) {
                Ok(MessageId(id)) => {
                    assert!(id >= FOR_GROUPS);
                    if let Some(before) = last[usize::from(id)].replace(now) {
                        assert!(now.since(before) >= LIFETIME, "{id}");
                    }
                    now += Duration::from_millis(100);
                }
                Err(free) => now = free,
            }
        }
        for first in [0, 64_511, 64_512, 65_535] {
            let mut ids = MessageIds::starting_at(first);
            let mut last = alloc::vec![None; 65_536];
            let mut now = Instant::ZERO;
            for _ in 0..200_000 {
                match ids.next(now, LIFETIME, true) {
                    Ok(MessageId(id)) => {
                        assert!(id < FOR_GROUPS, "{id} from {first}");
                        if let Some(before) = last[usize::from(id)].replace(now) {
                            assert!(now.since(before) >= LIFETIME, "{id} from {first}");
                        }
                        now += Duration::from_millis(1);
                    }
                    Err(free) => now = free,
                }
            }
        }
    }
}
