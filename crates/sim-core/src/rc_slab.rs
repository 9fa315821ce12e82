//! Reference-counted slab, for packets in queues and their bodies.

/// A reference-counted slab. Freed slots keep their allocation for reuse.
#[derive(Debug)]
pub struct RcSlab<T> {
    items: Vec<(T, u32)>,
    free: Vec<u32>,
}

impl<T: Default> Default for RcSlab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Default> RcSlab<T> {
    /// Creates an empty slab.
    pub const fn new() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Returns a slot with one reference; its content remains from its last use.
    pub fn take(&mut self) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.items.push((T::default(), 0));
            self.items.len() as u32 - 1
        });
        self.items[index as usize].1 = 1;
        index
    }

    /// Adds a reference.
    pub fn hold(&mut self, index: u32) {
        self.items[index as usize].1 += 1;
    }

    /// Drops a reference. Returns whether it was the last.
    pub fn release(&mut self, index: u32) -> bool {
        let holders = &mut self.items[index as usize].1;
        *holders -= 1;
        let is_free = *holders == 0;
        if is_free {
            self.free.push(index);
        }
        is_free
    }

    /// The number of slots in use.
    pub fn held(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for RcSlab<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        &self.items[index as usize].0
    }
}

impl<T> std::ops::IndexMut<u32> for RcSlab<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.items[index as usize].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_slots_are_reused() {
        let mut slab = RcSlab::<Vec<u8>>::new();
        let first = slab.take();
        slab[first].push(1);
        slab.hold(first);
        let second = slab.take();
        assert_ne!(first, second);
        assert!(!slab.release(first));
        assert!(slab.release(first));
        assert_eq!(slab.held(), 1);
        assert_eq!(slab.take(), first);
        assert_eq!(slab[first], [1], "what it had allocated is still there");
    }
}
