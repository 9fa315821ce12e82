//! NewReno: RFC 5681's window growth. The sender implements recovery.

use carob_cc::time::Instant;

use super::{Ack, Congestion, Window};
use crate::tcp::settings::TcpSettings;

/// The window of RFC 5681: slow start, then a segment a round trip; half after a loss.
#[derive(Clone, Copy, Debug)]
pub struct NewReno {
    slow_start_most: u32,
    validate: bool,
}

impl NewReno {
    /// With the growth limits of `settings`.
    pub fn new(settings: &TcpSettings) -> Self {
        Self {
            slow_start_most: match settings.slow_start_most {
                0 => u32::MAX,
                most => most,
            },
            validate: settings.validate_window,
        }
    }
}

impl Congestion for NewReno {
    fn ssthresh(&mut self, _now: Instant, _window: &Window, half_of: u32) -> u32 {
        (half_of / 2).max(2) // RFC 5681 3.1 equation 4
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        if self.validate && !ack.window_limited {
            return;
        }
        let mut acked = ack.acked;
        if window.in_slow_start() {
            let most = acked.min(self.slow_start_most);
            let left = window.slow_start(most);
            if left == 0 {
                return;
            }
            acked = left;
        }
        window.avoid(window.cwnd, acked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carob_cc::time::Duration;

    use crate::tcp::congestion::{SSTHRESH_NONE, State};

    fn ack(acked: u32) -> Ack {
        Ack {
            now: Instant::ZERO,
            acked,
            losses: 0,
            lost: 0,
            prior_in_flight: 0,
            in_flight: 0,

            held_back: Duration::ZERO,
            delivered: 0,
            state: State::Open,
            window_limited: true,
            rtt: None,
            srtt: None,
            rate: None,
        }
    }

    fn window(cwnd: u32, ssthresh: u32) -> Window {
        Window {
            cwnd,
            ssthresh,
            count: 0,
        }
    }

    #[test]
    fn rfc_5681_3_1_slow_start_adds_at_most_one_segment_an_ack() {
        let mut reno = NewReno::new(&TcpSettings::RFC);
        let mut w = window(4, SSTHRESH_NONE);
        reno.on_ack(&mut w, &ack(2));
        assert_eq!(w.cwnd, 5);
    }

    #[test]
    fn linux_slow_start_grows_by_acknowledged_data_up_to_ssthresh() {
        let mut reno = NewReno::new(&TcpSettings::THESIS);
        let mut w = window(4, 7);
        reno.on_ack(&mut w, &ack(2));
        assert_eq!(w.cwnd, 6);
        reno.on_ack(&mut w, &ack(2));
        assert_eq!((w.cwnd, w.count), (7, 1));
    }

    #[test]
    fn rfc_5681_3_1_avoidance_adds_one_segment_a_window() {
        let mut reno = NewReno::new(&TcpSettings::THESIS);
        let mut w = window(10, 5);
        for _ in 0..9 {
            reno.on_ack(&mut w, &ack(1));
        }
        assert_eq!(w.cwnd, 10);
        reno.on_ack(&mut w, &ack(1));
        assert_eq!(w.cwnd, 11);
    }

    #[test]
    fn rfc_5681_3_1_loss_halves_the_window_to_at_least_two() {
        let mut reno = NewReno::new(&TcpSettings::RFC);
        assert_eq!(reno.ssthresh(Instant::ZERO, &window(11, 5), 11), 5);
        assert_eq!(reno.ssthresh(Instant::ZERO, &window(1, 5), 1), 2);
    }

    #[test]
    fn rfc_7661_unused_window_does_not_grow() {
        let mut reno = NewReno::new(&TcpSettings::THESIS);
        let mut w = window(10, SSTHRESH_NONE);
        let idle = Ack {
            window_limited: false,
            ..ack(1)
        };
        reno.on_ack(&mut w, &idle);
        assert_eq!(w.cwnd, 10);
    }
}
