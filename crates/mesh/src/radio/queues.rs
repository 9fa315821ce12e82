//! Transmission queues by neighbour.
//!
//! Frames and queues are in slabs shared by all nodes and linked by index. They grow to the peak
//! demand within the limits of [`MacSpec`](crate::spec::MacSpec); nothing is allocated after
//! that.

use crate::Node;

use super::csma::Attempts;

/// No frame, no queue.
pub(super) const NONE: u32 = u32::MAX;

/// A queued frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<P> {
    /// The destination.
    pub(super) to: Node,
    /// PSDU in bytes, FCS included.
    pub(super) bytes: u16,
    /// Sequence number, the same in all transmissions.
    pub(super) number: u8,
    /// The payload from the layer above.
    pub(super) payload: P,
    next: u32,
}

/// The state of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Pausing until its event.
    Pausing,
    /// Due, but the radio works for another queue.
    Due,
    /// Its first frame is in transmission.
    Sending,
}

/// Frames for one neighbour, or for all of them where a policy has one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// The destination.
    pub(super) to: Node,
    /// The number of frames.
    pub(super) frames: u16,
    /// The attempts for the first frame.
    pub(super) attempts: Attempts,
    pub(super) state: State,
    /// The node's next queue that is due.
    pub(super) next_waiting: u32,
    first: u32,
    last: u32,
    /// The node's next queue; in the free list, the next free one.
    next: u32,
}

/// The queues of all nodes.
#[derive(Clone, Debug)]
pub(super) struct Queues<P> {
    frames: Vec<Frame<P>>,
    free_frame: u32,
    slab: Vec<Queue>,
    free_queue: u32,
    /// The first queue of each node.
    firsts: Vec<u32>,
}

impl<P: Copy> Queues<P> {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            frames: Vec::new(),
            free_frame: NONE,
            slab: Vec::new(),
            free_queue: NONE,
            firsts: vec![NONE; nodes],
        }
    }

    /// Finds a node's queue for a neighbour. Also returns the number of queues before it, or of all
    /// queues if there is none.
    pub(super) fn find(&self, node: Node, to: Node) -> (Option<u32>, u16) {
        let mut before = 0;
        let mut place = self.firsts[usize::from(node)];
        while place != NONE {
            let queue = &self.slab[place as usize];
            if queue.to == to {
                return (Some(place), before);
            }
            before += 1;
            place = queue.next;
        }
        (None, before)
    }

    /// Adds an empty queue.
    pub(super) fn open(&mut self, node: Node, to: Node) -> u32 {
        let first = &mut self.firsts[usize::from(node)];
        let queue = Queue {
            to,
            frames: 0,
            attempts: Attempts::default(),
            state: State::Pausing,
            next_waiting: NONE,
            first: NONE,
            last: NONE,
            next: *first,
        };
        if self.free_queue == NONE {
            *first = self.slab.len() as u32;
            self.slab.push(queue);
        } else {
            *first = self.free_queue;
            let free = &mut self.slab[self.free_queue as usize];
            self.free_queue = free.next;
            *free = queue;
        }
        *first
    }

    /// Removes an empty queue.
    pub(super) fn close(&mut self, node: Node, queue: u32) {
        let next = self.slab[queue as usize].next;
        let first = &mut self.firsts[usize::from(node)];
        if *first == queue {
            *first = next;
        } else {
            let mut before = *first;
            while self.slab[before as usize].next != queue {
                before = self.slab[before as usize].next;
            }
            self.slab[before as usize].next = next;
        }
        self.slab[queue as usize].next = self.free_queue;
        self.free_queue = queue;
    }

    pub(super) fn get(&self, queue: u32) -> &Queue {
        &self.slab[queue as usize]
    }

    pub(super) fn get_mut(&mut self, queue: u32) -> &mut Queue {
        &mut self.slab[queue as usize]
    }

    /// Appends a frame to a queue.
    pub(super) fn push(&mut self, queue: u32, to: Node, bytes: u16, number: u8, payload: P) {
        let frame = Frame {
            to,
            bytes,
            number,
            payload,
            next: NONE,
        };
        let place = if self.free_frame == NONE {
            self.frames.push(frame);
            self.frames.len() as u32 - 1
        } else {
            let place = self.free_frame;
            let free = &mut self.frames[place as usize];
            self.free_frame = free.next;
            *free = frame;
            place
        };
        let queue = &mut self.slab[queue as usize];
        if queue.first == NONE {
            queue.first = place;
        } else {
            self.frames[queue.last as usize].next = place;
        }
        queue.last = place;
        queue.frames += 1;
    }

    /// The first frame of a non-empty queue.
    pub(super) fn first(&self, queue: u32) -> &Frame<P> {
        &self.frames[self.slab[queue as usize].first as usize]
    }

    /// Removes the first frame of a non-empty queue.
    pub(super) fn pop(&mut self, queue: u32) -> Frame<P> {
        let queue = &mut self.slab[queue as usize];
        let place = queue.first;
        let frame = self.frames[place as usize];
        queue.first = frame.next;
        queue.frames -= 1;
        queue.attempts = Attempts::default();
        self.frames[place as usize].next = self.free_frame;
        self.free_frame = place;
        frame
    }

    /// Frames and queues in use, counted one by one.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> (usize, usize) {
        let mut free = (0, 0);
        let mut place = self.free_frame;
        while place != NONE {
            free.0 += 1;
            place = self.frames[place as usize].next;
        }
        place = self.free_queue;
        while place != NONE {
            free.1 += 1;
            place = self.slab[place as usize].next;
        }
        (self.frames.len() - free.0, self.slab.len() - free.1)
    }
}
