//! Signs of a radio that many share.

use super::path::Trips;

/// Losses of a period, of 255, that are a sign: a tenth is one, a fifth two.
const SIGNS: [u8; 2] = [26, 51];
/// Signs in periods in a row that show such a radio. A period with a fifth follows each fall of a wired path's rate.
const SHOWN: u8 = 4;

/// Signs of a contended radio in the latest loss periods, at most [`SHOWN`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contention(u8);

impl Contention {
    pub(super) fn is_shown(self) -> bool {
        self.0 == SHOWN
    }

    /// Judges the share of losses in a period, of 255. `own_queue` is the time in microseconds that the window takes through
    /// the capacity: a queue of the sender's own varies round trips, too, so what it explains completes no four signs.
    pub(super) fn judge(&mut self, share: u8, trips: Trips, steady: u8, own_queue: u32) {
        let [tenth, fifth] = SIGNS.map(|least| u8::from(share > least));
        self.0 = if tenth > 0 && trips.vary(steady) {
            let most = SHOWN - u8::from(!trips.are_beyond(own_queue));
            (self.0 + tenth + fifth).min(most)
        } else {
            0
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{Contention, Trips};

    /// Round trips of 20 to 200 ms, and of 60 ms on average.
    const VARYING: Trips = Trips::new(20_000, 60_000, 200_000);

    #[test]
    fn periods_in_a_row_with_losses_and_varying_round_trips_show_a_contended_radio() {
        let steady = Trips::new(20_000, 24_000, 60_000);
        for (shares, trips, own_queue, is_shown) in [
            (&[60, 60][..], VARYING, 0, true),
            (&[60, 30, 30], VARYING, 0, true),
            (&[30; 4], VARYING, 0, true),
            (&[30; 3], VARYING, 0, false),
            (&[60, 20, 60], VARYING, 0, false),
            (&[60; 9], steady, 0, false),
            (&[60; 9], VARYING, 40_000, false),
            (&[60; 9], VARYING, 39_999, true),
        ] {
            let mut contention = Contention::default();
            for share in shares {
                contention.judge(*share, trips, 4, own_queue);
            }
            let case = (shares, trips, own_queue);
            assert_eq!(contention.is_shown(), is_shown, "{case:?}");
        }
    }
}
