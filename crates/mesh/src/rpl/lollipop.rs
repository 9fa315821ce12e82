//! Lollipop sequence counters, which distinguish a restart from a wrap (RFC 6550, 7.2).

/// A counter: 128 to 255 after a start, then 0 to 127 cyclically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lollipop(pub u8);

/// Counters further apart than this cannot be compared.
const WINDOW: i32 = 16;
/// The last value of the circular part.
const CIRCULAR_MAX: u8 = 127;

impl Lollipop {
    /// The initial value.
    pub const START: Self = Self(240);

    /// The next value.
    #[must_use]
    pub fn next(self) -> Self {
        if self.0 > CIRCULAR_MAX {
            Self(self.0.wrapping_add(1))
        } else {
            Self((self.0 + 1) & CIRCULAR_MAX)
        }
    }

    /// Returns whether this is later than `other`, by Contiki's interpretation of the RFC.
    pub fn is_after(self, other: Self) -> bool {
        let (a, b) = (i32::from(self.0), i32::from(other.0));
        if self.0 > CIRCULAR_MAX && other.0 <= CIRCULAR_MAX {
            return 256 + b - a > WINDOW;
        }
        (a > b && a - b < WINDOW) || (a < b && b - a > i32::from(CIRCULAR_MAX) + 1 - WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_straight_part_leads_into_the_circle() {
        let mut counter = Lollipop::START;
        for _ in 0..16 {
            let next = counter.next();
            assert!(
                next.is_after(counter) && !counter.is_after(next),
                "{next:?}"
            );
            counter = next;
        }
        assert_eq!(counter, Lollipop(0));
        assert_eq!(Lollipop(127).next(), Lollipop(0));
        assert!(Lollipop(0).is_after(Lollipop(127)));
        assert!(!Lollipop(127).is_after(Lollipop(0)));
    }

    #[test]
    fn counter_is_not_after_itself() {
        assert!((0..=255).all(|value| !Lollipop(value).is_after(Lollipop(value))));
    }
}
