//! Default CoAP with a rate limit for NON notifications.
//!
//! RFC 7641 4.5.1 for a server without an estimate of the round-trip time: after a NON notification
//! the next one to the same client waits, of whichever resource. Meanwhile the one sent counts as
//! outstanding, so with NSTART 1 CON notifications and responses wait for it, too. CON messages
//! need no interval: acknowledgements pace them. Timers are as in default CoAP.
//! `docs/algorithms.md#observe-static`.

use super::default::DefaultCoap;
use crate::controller::{Controller, Gauge, Timer, Window};
use crate::evidence::{Expired, Kind, PacketState, SendCandidate, Sent, Start};
use crate::parameters::TransmissionParameters;
use crate::random::Random;
use crate::registry::{Family, Profile, Suggested};
use crate::time::{Duration, Instant};

constants! {
    /// Constants of the rate limit.
    pub struct ObserveStaticConstants {
        /// time from one NON notification to the next for the same client
        non_interval: Duration,
    }
}

/// The rule's state for one peer.
#[derive(Debug)]
pub struct ObserveStatic {
    constants: &'static ObserveStaticConstants,
    /// The end of the time for which the last NON notification counts as outstanding.
    until: Instant,
}

impl ObserveStatic {
    fn counts(&self, now: Instant) -> bool {
        now < self.until
    }
}

impl Family for ObserveStatic {
    type Constants = ObserveStaticConstants;
    const PROFILES: &'static [Profile<ObserveStaticConstants>] = &[Profile {
        name: "observe-static",
        about: "default CoAP, and NON notifications to a client at least 3 s apart",
        source: "RFC 7641 4.5.1; docs/algorithms.md#observe-static",
        project_choice: None,
        constants: ObserveStaticConstants {
            non_interval: Duration::from_secs(3),
        },
        suggested: Suggested::NONE,
    }];

    fn new(constants: &'static ObserveStaticConstants) -> Self {
        Self {
            constants,
            until: Instant::ZERO,
        }
    }
}

impl Controller for ObserveStatic {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        DefaultCoap.first_timeout(start, random)
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, random: &mut dyn Random) -> Timer {
        DefaultCoap.next_timeout(expired, random)
    }

    fn on_sent(&mut self, sent: &Sent<'_>, _: &mut dyn Random) -> PacketState {
        if sent.kind == Kind::Notification && !sent.confirmable {
            self.until = sent.now + self.constants.non_interval;
        }
        PacketState::default()
    }

    fn window(&self, now: Instant, parameters: &TransmissionParameters) -> Window {
        let mut window = Window::nstart(parameters);
        // With NSTART 1 the window stays; `earliest_departure_time` delays the message.
        if self.counts(now) && window.exchanges > 1 {
            window.exchanges -= 1;
        }
        window
    }

    fn earliest_departure_time(&self, candidate: &SendCandidate<'_>) -> Instant {
        // RFC 7641 4.5.1 limits outstanding notifications and responses together to NSTART. Requests of
        // this endpoint are not part of that rule.
        let waits = match candidate.kind {
            Kind::Notification if !candidate.confirmable => true,
            Kind::Notification | Kind::Response => candidate.parameters.nstart <= 1,
            Kind::Request => false,
        };
        if waits {
            self.until.max(candidate.now)
        } else {
            candidate.now
        }
    }

    fn gauges(&self, now: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        visit("non_wait", Gauge::Time(self.until.since(now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Fixed;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// A controller that has sent a NON notification at `seconds`.
    fn told(seconds: u64) -> ObserveStatic {
        let mut controller = ObserveStatic::new(&ObserveStatic::PROFILES[0].constants);
        let sent = Sent::new(at(seconds), &TransmissionParameters::DEFAULT, 40)
            .with_kind(Kind::Notification)
            .with_confirmable(false);
        controller.on_sent(&sent, &mut Fixed::low());
        controller
    }

    fn leaves(
        controller: &ObserveStatic,
        now: u64,
        kind: Kind,
        confirmable: bool,
        nstart: u16,
    ) -> Instant {
        let parameters = TransmissionParameters {
            nstart,
            ..TransmissionParameters::DEFAULT
        };
        let candidate = SendCandidate::new(at(now), &parameters, 40)
            .with_kind(kind)
            .with_confirmable(confirmable);
        controller.earliest_departure_time(&candidate)
    }

    #[test]
    fn a_non_notification_waits_for_the_one_before_it() {
        let controller = told(10);
        for (now, expected) in [(10, 13), (12, 13), (13, 13), (20, 20)] {
            let leaves = leaves(&controller, now, Kind::Notification, false, 1);
            assert_eq!(leaves, at(expected));
        }
        let fresh = ObserveStatic::new(&ObserveStatic::PROFILES[0].constants);
        assert_eq!(leaves(&fresh, 0, Kind::Notification, false, 1), at(0));
    }

    #[test]
    fn non_notification_occupies_nstart_while_counted() {
        let controller = told(10);
        for kind in [Kind::Notification, Kind::Response] {
            assert_eq!(leaves(&controller, 11, kind, true, 1), at(13));
            assert_eq!(leaves(&controller, 11, kind, true, 2), at(11));
        }
        let parameters = TransmissionParameters {
            nstart: 2,
            ..TransmissionParameters::DEFAULT
        };
        assert_eq!(controller.window(at(11), &parameters).exchanges, 1);
        assert_eq!(controller.window(at(13), &parameters).exchanges, 2);
    }

    #[test]
    fn requests_and_con_notifications_are_not_paced() {
        assert_eq!(leaves(&told(10), 11, Kind::Request, false, 1), at(11));
        let mut controller = told(10);
        let sent =
            Sent::new(at(13), &TransmissionParameters::DEFAULT, 40).with_kind(Kind::Notification);
        controller.on_sent(&sent, &mut Fixed::low());
        let next = leaves(&controller, 13, Kind::Notification, true, 1);
        assert_eq!(next, at(13));
    }
}
