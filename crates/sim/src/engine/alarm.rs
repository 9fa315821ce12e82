//! Wake-up times of objects in the event queue.

use carob_cc::time::Instant;

/// The earliest wake-up of an object in the event queue.
///
/// A wake-up cannot be removed from the queue. An obsolete one is recognised by its time, which
/// differs from the one recorded here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alarm(Option<Instant>);

impl Alarm {
    /// Sets the next wake-up. Returns whether an event at that time must be scheduled.
    pub(crate) fn set(&mut self, at: Instant) -> bool {
        let is_missing = self.0.is_none_or(|earlier| earlier > at);
        if is_missing {
            self.0 = Some(at);
        }
        is_missing
    }

    /// Handles a wake-up event. Returns whether it is the one that was set last.
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
