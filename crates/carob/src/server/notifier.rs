//! Notification of a resource's observers (RFC 7641).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Request;
use super::responder::{Completion, Completions};

/// Pending choices of observers. Above the limit, all observers are notified.
const CHOICES: usize = 64;

/// Source of notifications for the observers of one or more resources (RFC 7641). Clones are the
/// same notifier.
///
/// ```
/// use carob::server::{Notifier, Request, Server, get};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::sync::Arc;
///
/// let changes = Notifier::new();
/// let count = Arc::new(AtomicU32::new(0));
/// let shown = Arc::clone(&count);
/// let resource = get(move |_: Request| {
///     let now = shown.load(Ordering::Relaxed);
///     async move { now.to_string() }
/// });
/// let server = Server::builder().resource("/count", resource.observable(&changes));
/// // ... and whenever it counts:
/// count.fetch_add(1, Ordering::Relaxed);
/// changes.changed();
/// ```
///
/// After a change, the GET or FETCH handler runs once for each distinct observed request, whatever
/// the number of its observers, and all of them get its response. The handler's response must
/// therefore not depend on the client. If changes outpace the handler or the network, intermediate
/// states are skipped; observers receive the latest one (RFC 7641 section 1.3).
///
/// An error response ends the observations of its request (RFC 7641 section 4.2): to end the observations of a
/// deleted resource, return 4.04 and call [`changed`](Self::changed).
#[derive(Clone, Default)]
pub struct Notifier(Arc<Shared>);

struct Shared {
    id: u64,
    confirmable: bool,
    /// The attached servers, each with its pending changes.
    attached: Mutex<Vec<Attached>>,
}

struct Attached {
    completions: Completions,
    changes: Option<Changes>,
}

/// The observers to notify.
#[derive(Clone)]
pub(crate) enum Changes {
    All,
    Some(Vec<Choice>),
}

/// Decides whether the observers that made a request are notified.
pub(crate) type Choice = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

impl Default for Shared {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            // Relaxed: the numbers must differ, nothing else is ordered by them.
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            confirmable: false,
            attached: Mutex::default(),
        }
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notifier({})", self.0.id)
    }
}

impl Changes {
    /// The union of two changes.
    fn and(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Some(mut choices), Self::Some(more))
                if choices.len() + more.len() <= CHOICES =>
            {
                choices.extend_from_slice(more);
                Self::Some(choices)
            }
            _ => Self::All,
        }
    }

    /// Returns whether the observers that made this request are notified.
    pub(crate) fn concern(&self, request: &Request) -> bool {
        match self {
            Self::All => true,
            Self::Some(choices) => choices.iter().any(|choice| choice(request)),
        }
    }
}

impl Notifier {
    /// Creates a notifier for NON notifications: cheap, and a lost one is superseded by the next.
    ///
    /// To detect observers that have gone, every 33rd notification to an observer, and one a day,
    /// is a CON (RFC 7641 sections 4.5 and 7). A controller may request more.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a notifier for CON notifications, which are retransmitted until they are
    /// acknowledged. An observer that does not acknowledge is removed.
    pub fn confirmable() -> Self {
        Self(Arc::new(Shared {
            confirmable: true,
            ..Shared::default()
        }))
    }

    /// Notifies all observers. Returns at once; calls in quick succession are merged.
    pub fn changed(&self) {
        self.note(&Changes::All);
    }

    /// Notifies the observers whose request satisfies `concerns`, for example of one entity
    /// below a path with a parameter. Returns at once. Beyond 64 pending conditions, all observers
    /// are notified.
    pub fn changed_for(&self, concerns: impl Fn(&Request) -> bool + Send + Sync + 'static) {
        self.note(&Changes::Some(vec![Arc::new(concerns)]));
    }

    fn note(&self, new: &Changes) {
        let mut all = self.lock();
        for (place, attached) in all.iter_mut().enumerate() {
            let Attached {
                completions,
                changes,
            } = attached;
            if changes.is_none() {
                // One completion at a time; a stopped server needs none.
                let _ = completions.send(Completion::Changed(self.clone(), place));
            }
            *changes = Some(match changes.take() {
                None => new.clone(),
                Some(before) => before.and(new),
            });
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Attached>> {
        self.0
            .attached
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Attaches a server, which receives later changes.
    pub(crate) fn attach(&self, completions: &Completions) {
        let mut all = self.lock();
        if all
            .iter()
            .any(|known| known.completions.same_channel(completions))
        {
            return;
        }
        let attached = Attached {
            completions: completions.clone(),
            changes: None,
        };
        // The place of a stopped server is reused, so that the list is bounded by running servers.
        match all.iter_mut().find(|known| known.completions.is_closed()) {
            Some(stopped) => *stopped = attached,
            None => all.push(attached),
        }
    }

    /// Returns and clears the pending changes of the server at `place`.
    pub(crate) fn take(&self, place: usize) -> Option<Changes> {
        // Emptied before the handlers run: a change in the meantime is noted again, and not
        // lost.
        self.lock().get_mut(place)?.changes.take()
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    pub(crate) fn is_confirmable(&self) -> bool {
        self.0.confirmable
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn changes_add_up_to_one_note_until_they_are_looked_at() {
        let (completions, mut queue) = mpsc::unbounded_channel();
        let notifier = Notifier::new();
        notifier.changed(); // no server is attached yet
        notifier.attach(&completions);
        notifier.attach(&completions);
        for _ in 0..1_000 {
            notifier.changed_for(|_| false);
        }
        assert_eq!(queue.len(), 1);
        assert!(matches!(queue.try_recv(), Ok(Completion::Changed(_, 0))));
        assert!(
            matches!(notifier.take(0), Some(Changes::All)),
            "too many choices are all"
        );
        assert!(notifier.take(0).is_none());
        notifier.changed_for(|_| true);
        assert!(matches!(notifier.take(0), Some(Changes::Some(choices)) if choices.len() == 1));
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn stopped_server_frees_its_slot_in_the_notifier() {
        let notifier = Notifier::new();
        let (lasting, mut queue) = mpsc::unbounded_channel();
        notifier.attach(&lasting);
        for _ in 0..100 {
            let (completions, mut queue) = mpsc::unbounded_channel();
            notifier.attach(&completions);
            assert!(notifier.take(1).is_none(), "nothing of the one before it");
            notifier.changed();
            assert!(matches!(queue.try_recv(), Ok(Completion::Changed(_, 1))));
        }
        assert_eq!(notifier.lock().len(), 2);
        assert!(matches!(queue.try_recv(), Ok(Completion::Changed(_, 0))));
    }

    #[test]
    fn change_of_all_paths_covers_pending_changes() {
        let (completions, _queue) = mpsc::unbounded_channel();
        let notifier = Notifier::new();
        notifier.attach(&completions);
        notifier.changed();
        notifier.changed_for(|_| false);
        assert!(matches!(notifier.take(0), Some(Changes::All)));
    }
}
