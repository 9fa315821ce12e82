//! Things that several have hold of: packets in queues, bodies of packets.

/// Things by number, each kept until nobody holds it any more; then its place, with what it had
/// allocated, is used again.
#[derive(Debug)]
pub(crate) struct Store<T> {
    items: Vec<(T, u32)>,
    free: Vec<u32>,
}

impl<T: Default> Store<T> {
    pub(crate) const fn new() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }

    /// A place with one holder; in it is what was there before.
    pub(crate) fn take(&mut self) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.items.push((T::default(), 0));
            self.items.len() as u32 - 1
        });
        self.items[index as usize].1 = 1;
        index
    }

    /// One more holds it.
    pub(crate) fn hold(&mut self, index: u32) {
        self.items[index as usize].1 += 1;
    }

    /// One holds it no more; whether nobody does.
    pub(crate) fn release(&mut self, index: u32) -> bool {
        let holders = &mut self.items[index as usize].1;
        *holders -= 1;
        let is_free = *holders == 0;
        if is_free {
            self.free.push(index);
        }
        is_free
    }

    /// How many are held.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Store<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        &self.items[index as usize].0
    }
}

impl<T> std::ops::IndexMut<u32> for Store<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.items[index as usize].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_when_nobody_holds_them() {
        let mut store = Store::<Vec<u8>>::new();
        let first = store.take();
        store[first].push(1);
        store.hold(first);
        let second = store.take();
        assert_ne!(first, second);
        assert!(!store.release(first));
        assert!(store.release(first));
        assert_eq!(store.held(), 1);
        assert_eq!(store.take(), first);
        assert_eq!(store[first], [1], "what it had allocated is still there");
    }
}
