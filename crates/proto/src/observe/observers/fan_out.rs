//! Fan-out of a new state to the observers of its subject (RFC 7641 4.5).

use super::{ObserverIndex, Observers};
use crate::observe::Subject;
use crate::observe::state::State;

/// The progress of a fan-out to a subject's observers.
#[derive(Clone, Copy, Debug)]
pub(super) struct FanOut {
    pub(super) subject: u32,
    pub(super) next: u32,
}

impl Observers {
    /// Sets a new state of a subject. [`next_to_notify`](Self::next_to_notify) returns its observers.
    pub(crate) fn change(&mut self, subject: Subject, state: State) {
        let Some(at) = self.find_subject(subject) else {
            return;
        };
        let observed = &mut self.observed[at as usize];
        observed.version = observed.version.wrapping_add(1);
        observed.current.set(state);
        let next = observed.first;
        debug_assert!(next != super::NONE, "an observed subject has an observer");
        // Observers already sent a superseded state are notified again.
        match self.fan_out.iter_mut().find(|t| t.subject == at) {
            Some(fan_out) => fan_out.next = next,
            None => self.fan_out.push_back(FanOut { subject: at, next }),
        }
    }

    /// Returns whether some observers of a subject have not been notified of its change yet.
    pub(crate) fn is_fan_out_in_progress(&self, subject: Subject) -> bool {
        let at = self.find_subject(subject);
        at.is_some_and(|at| self.fan_out.iter().any(|fan_out| fan_out.subject == at))
    }

    /// The next observer to notify of a new state, subject by subject.
    #[inline]
    pub(crate) fn next_to_notify(&mut self) -> Option<ObserverIndex> {
        loop {
            let fan_out = self.fan_out.front_mut()?;
            match self.slots.get(fan_out.next as usize) {
                Some(observer) => {
                    let index = fan_out.next;
                    debug_assert!(observer.subject == fan_out.subject, "another list");
                    fan_out.next = observer.of_subject.next;
                    return Some(index);
                }
                None => self.fan_out.pop_front(),
            };
        }
    }
}
