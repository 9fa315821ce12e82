//! Ranges of bytes of a connection.

/// Ranges of bytes, ordered and disjoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    /// Returns true if one of them has all bytes from `from` up to before `to`.
    pub fn has(&self, from: u32, to: u32) -> bool {
        let at = self.0.partition_point(|range| range.1 < to);
        self.0.get(at).is_some_and(|range| range.0 <= from)
    }

    /// Adds the bytes from `from` up to before `to`.
    pub fn add(&mut self, from: u32, to: u32) {
        // Adjacent ranges are merged.
        let first = self.0.partition_point(|range| range.1 < from);
        let end = self.0.partition_point(|range| range.0 <= to);
        let merged = self.0[first..end].iter();
        let (from, to) = merged.fold((from, to), |all, range| {
            (all.0.min(range.0), all.1.max(range.1))
        });
        self.0.splice(first..end, [(from, to)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one_and_holes_stay() {
        let mut ranges = Ranges::default();
        for (from, to) in [(1, 8), (8, 20), (30, 40), (50, 60)] {
            ranges.add(from, to);
        }
        assert_eq!(ranges.0, [(1, 20), (30, 40), (50, 60)]);
        assert!(ranges.has(1, 20) && ranges.has(5, 7) && ranges.has(31, 40));
        assert!(!ranges.has(15, 25) && !ranges.has(20, 30) && !ranges.has(60, 61));
        ranges.add(20, 45);
        assert_eq!(ranges.0, [(1, 45), (50, 60)]);
        ranges.add(45, 50);
        assert_eq!(ranges.0, [(1, 60)]);
        ranges.add(5, 6);
        assert_eq!(ranges.0, [(1, 60)]);
    }
}
