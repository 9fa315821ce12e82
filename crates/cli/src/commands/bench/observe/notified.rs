//! Notifications: when they came, and which did not.

use hdrhistogram::Histogram;

use super::super::counters::histogram;

/// Values of the Observe option have 24 bits (RFC 7641 2).
const SEQUENCE_MASK: u32 = 0xff_ffff;

/// The last notification of one observer.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct LastNotification {
    last: Option<(u64, u32)>,
}

/// The distance of two notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Interval {
    pub(in super::super) nanos: u64,
    /// By how much the Observe option grew; none if it did not, or was left away.
    pub(in super::super) step: Option<u32>,
}

impl LastNotification {
    /// Records a notification with this Observe value.
    pub(in super::super) fn on_notification(
        &mut self,
        nanos: u64,
        sequence: Option<u32>,
    ) -> Interval {
        let sequence = sequence.unwrap_or_default() & SEQUENCE_MASK;
        let interval = match self.last {
            None => Interval {
                nanos: 0,
                step: None,
            },
            Some((before, last)) => {
                let step = sequence.wrapping_sub(last) & SEQUENCE_MASK;
                Interval {
                    nanos: nanos.saturating_sub(before),
                    // Half the circle or more is no growth (RFC 7641 3.4).
                    step: (1..=SEQUENCE_MASK / 2).contains(&step).then_some(step),
                }
            }
        };
        self.last = Some((nanos, sequence));
        interval
    }
}

/// Notifications of all observers within the measured time.
#[derive(Clone, Debug)]
pub(in super::super) struct Notified {
    /// Observers that the server has put on its list, and those it has not.
    pub(in super::super) observers: u64,
    pub(in super::super) refused: u64,
    pub(in super::super) notifications: u64,
    /// Notifications that a round waited for in vain.
    pub(in super::super) missed: u64,
    /// Notifications beyond the one that a round waits for.
    pub(in super::super) extra: u64,
    /// Observations that the server ended.
    pub(in super::super) ended: u64,
    /// Times that Max-Age passed without a notification.
    pub(in super::super) stale: u64,
    /// Nanoseconds from the trigger to a notification; without a trigger, between two.
    pub(in super::super) times: Histogram<u64>,
    /// Steps of the Observe option: all, those by one, and numbers that were passed over.
    steps: u64,
    by_one: u64,
    passed_over: u64,
}

impl Default for Notified {
    fn default() -> Self {
        Self {
            observers: 0,
            refused: 0,
            notifications: 0,
            missed: 0,
            extra: 0,
            ended: 0,
            stale: 0,
            times: histogram(),
            steps: 0,
            by_one: 0,
            passed_over: 0,
        }
    }
}

impl Notified {
    pub(in super::super) fn count(&mut self, after: u64, interval: Interval) {
        self.notifications += 1;
        self.times.saturating_record(after);
        if let Some(step) = interval.step {
            self.steps += 1;
            self.by_one += u64::from(step == 1);
            self.passed_over += u64::from(step - 1);
        }
    }

    /// Notifications lost, by the numbers that are missing.
    ///
    /// Known only for a server that counts by ones; RFC 7641 4.4 lets it count otherwise, by time
    /// for instance. `None` unless most steps are by one.
    pub(in super::super) fn lost(&self) -> Option<u64> {
        (self.steps > 0 && self.by_one * 2 > self.steps).then_some(self.passed_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(sequences: &[u32]) -> Notified {
        let (mut last_notification, mut notified) =
            (LastNotification::default(), Notified::default());
        for (n, sequence) in sequences.iter().enumerate() {
            let interval = last_notification.on_notification(n as u64 * 1_000, Some(*sequence));
            if n > 0 {
                notified.count(interval.nanos, interval);
            }
        }
        notified
    }

    #[test]
    fn skipped_numbers_count_as_lost_across_the_wrap() {
        assert_eq!(after(&[1, 2, 3, 4]).lost(), Some(0));
        assert_eq!(after(&[1, 2, 3, 6, 7, 8]).lost(), Some(2));
        assert_eq!(after(&[0xff_fffe, 0xff_ffff, 1, 2, 3]).lost(), Some(1));
    }

    #[test]
    fn steps_other_than_one_give_no_loss_figure() {
        assert_eq!(after(&[100, 250, 380, 530]).lost(), None);
        assert_eq!(after(&[7]).lost(), None);
    }

    #[test]
    fn the_time_between_two_notifications_is_kept() {
        let notified = after(&[1, 2, 3]);
        assert_eq!(notified.times.len(), 2);
        assert!(notified.times.equivalent(notified.times.max(), 1_000));
    }
}
