//! A peer's queue: messages that wait until its controller lets them go.
//!
//! The exchanges themselves are the links, so that a peer with nothing to send pays twelve bytes
//! and no queue ever allocates.

use slab::Slab;

use crate::message_layer::Exchange;

/// No exchange.
const NONE: u32 = u32::MAX;

/// The queued exchanges, in order, by index.
#[derive(Debug)]
pub(crate) struct Queue {
    first: u32,
    last: u32,
    length: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            first: NONE,
            last: NONE,
            length: 0,
        }
    }
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.length as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The exchange behind `before`, or the first one.
    pub(crate) fn next(&self, exchanges: &Slab<Exchange>, before: Option<u32>) -> Option<u32> {
        let next = match before {
            None => self.first,
            Some(before) => exchanges[before as usize].queued_next,
        };
        (next != NONE).then_some(next)
    }

    /// Puts an exchange at the end.
    pub(crate) fn push(&mut self, exchanges: &mut Slab<Exchange>, index: u32) {
        debug_assert!(
            exchanges[index as usize].is_queued(),
            "its state is another"
        );
        debug_assert!(self.last != index, "queued twice");
        exchanges[index as usize].queued_next = NONE;
        if self.length == 0 {
            self.first = index;
        } else {
            exchanges[self.last as usize].queued_next = index;
        }
        self.last = index;
        self.length += 1;
        self.check_invariants(exchanges);
    }

    /// Checks the ends of the queue against its length.
    #[inline]
    fn check_invariants(&self, exchanges: &Slab<Exchange>) {
        debug_assert!((self.length == 0) == (self.first == NONE));
        debug_assert!((self.length == 0) == (self.last == NONE));
        debug_assert!((self.length == 1) == (self.length > 0 && self.first == self.last));
        let last = exchanges.get(self.last as usize);
        debug_assert!(last.is_none_or(|last| last.queued_next == NONE));
    }

    /// Takes out the exchange behind `before`, or the first one.
    pub(crate) fn take(&mut self, exchanges: &mut Slab<Exchange>, before: Option<u32>) {
        let Some(taken) = self.next(exchanges, before) else {
            return;
        };
        let behind = core::mem::replace(&mut exchanges[taken as usize].queued_next, NONE);
        match before {
            None => self.first = behind,
            Some(before) => exchanges[before as usize].queued_next = behind,
        }
        if self.last == taken {
            self.last = before.unwrap_or(NONE);
        }
        debug_assert!(self.length > 0, "a queue without length has no entry");
        self.length -= 1;
        self.check_invariants(exchanges);
    }

    /// Takes out one exchange, wherever it is.
    pub(crate) fn remove(&mut self, exchanges: &mut Slab<Exchange>, index: u32) {
        // Linear, within `Limits::queue`: messages leave from the middle when they are cancelled or
        // fail.
        let mut before = None;
        while let Some(next) = self.next(exchanges, before) {
            if next == index {
                return self.take(exchanges, before);
            }
            before = Some(next);
        }
        debug_assert!(false, "exchange {index} is not queued here");
    }
}
