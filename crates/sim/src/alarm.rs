//! When something next wants to be woken by an event.

use carob_cc::time::Instant;

/// The earliest wake-up of something in the event queue.
///
/// A wake-up cannot be taken out of the queue. One that was set before an earlier one, or that the
/// thing has had since, is known by its time not being the one noted here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alarm(Option<Instant>);

impl Alarm {
    /// It wants to be woken at a time; whether an event of then is missing.
    pub(crate) fn set(&mut self, at: Instant) -> bool {
        let is_missing = self.0.is_none_or(|earlier| earlier > at);
        if is_missing {
            self.0 = Some(at);
        }
        is_missing
    }

    /// An event to wake it has come; whether it is the one that was set last.
    pub(crate) fn rings(&mut self, now: Instant) -> bool {
        let is_it = self.0 == Some(now);
        if is_it {
            self.0 = None;
        }
        is_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_earliest_rings() {
        let [one, two] = [1, 2].map(Instant::from_micros);
        let mut alarm = Alarm::default();
        assert!(alarm.set(two));
        assert!(!alarm.set(two), "an event of then is there");
        assert!(alarm.set(one));
        assert!(!alarm.set(two), "it rings earlier");
        assert!(alarm.rings(one));
        assert!(!alarm.rings(two));
        assert!(!alarm.rings(one), "it rings once");
    }
}
