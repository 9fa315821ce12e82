//! Telling observers that something has changed (RFC 7641).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::Request;
use crate::driver::Note;

/// Choices of observers kept until the server has looked at them. At the limit, all observers are
/// told.
const CHOICES: usize = 64;

/// Says that a resource has changed. Clones are one and the same.
///
/// A resource becomes observable by being given one:
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
/// At each change the resource's GET (or FETCH) handler is called once for every distinct request
/// that observes it, however many observers made that request, and what it answers is told to them.
/// So a handler must not answer by who asks. Changes that come faster than handlers and the network
/// can tell are skipped: observers learn the newest state (RFC 7641 1.3).
///
/// An answer that is no success ends the observations (RFC 7641 4.2): answer 4.04 once a thing is
/// gone, and say `changed()`.
#[derive(Clone, Default)]
pub struct Notifier(Arc<Shared>);

struct Shared {
    id: u64,
    confirmable: bool,
    /// The servers that have resources with it, and what has changed since each last looked.
    attached: Mutex<Vec<Attached>>,
}

struct Attached {
    notes: mpsc::UnboundedSender<Note>,
    changes: Option<Changes>,
}

/// Which observers are to be told.
#[derive(Clone)]
pub(crate) enum Changes {
    All,
    Some(Vec<Choice>),
}

/// Whether whoever made a request is to be told.
pub(crate) type Choice = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

impl Default for Shared {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
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
    /// The two together.
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

    /// Whether the observers that made this request are to be told.
    pub(crate) fn concern(&self, request: &Request) -> bool {
        match self {
            Self::All => true,
            Self::Some(choices) => choices.iter().any(|choice| choice(request)),
        }
    }
}

impl Notifier {
    /// One that tells in NON messages: cheap, and a lost one is made up for by the next. After 32 of
    /// them in a row, and once a day, an observer is told in a CON message, to see whether it is
    /// still there (RFC 7641 4.5, 7); a controller may ask for more of them.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that tells in CON messages, which are repeated until they are acknowledged; an observer
    /// that does not is taken off the list.
    pub fn confirmable() -> Self {
        Self(Arc::new(Shared {
            confirmable: true,
            ..Shared::default()
        }))
    }

    /// Everything has changed: all observers are told.
    pub fn changed(&self) {
        self.note(&Changes::All);
    }

    /// Something has changed that concerns some requests only, such as those for one of many
    /// things below a path with a parameter.
    pub fn changed_for(&self, concerns: impl Fn(&Request) -> bool + Send + Sync + 'static) {
        self.note(&Changes::Some(vec![Arc::new(concerns)]));
    }

    fn note(&self, new: &Changes) {
        let mut all = self.lock();
        for (place, attached) in all.iter_mut().enumerate() {
            let Attached { notes, changes } = attached;
            if changes.is_none() {
                // One note at a time; a server that has stopped needs none.
                let _ = notes.send(Note::Changed(self.clone(), place));
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

    /// Lets a server know of changes from now on.
    pub(crate) fn attach(&self, notes: &mpsc::UnboundedSender<Note>) {
        let mut all = self.lock();
        if all.iter().any(|known| known.notes.same_channel(notes)) {
            return;
        }
        let attached = Attached {
            notes: notes.clone(),
            changes: None,
        };
        // A server that has stopped leaves its place, so that there are no more than run at once.
        match all.iter_mut().find(|known| known.notes.is_closed()) {
            Some(stopped) => *stopped = attached,
            None => all.push(attached),
        }
    }

    /// What has changed since the server at `place` looked last.
    pub(crate) fn take(&self, place: usize) -> Option<Changes> {
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
    use super::*;

    #[test]
    fn changes_add_up_to_one_note_until_they_are_looked_at() {
        let (notes, mut queue) = mpsc::unbounded_channel();
        let notifier = Notifier::new();
        notifier.changed(); // nobody is there yet
        notifier.attach(&notes);
        notifier.attach(&notes);
        for _ in 0..1_000 {
            notifier.changed_for(|_| false);
        }
        assert_eq!(queue.len(), 1);
        assert!(matches!(queue.try_recv(), Ok(Note::Changed(_, 0))));
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
    fn a_server_that_has_stopped_leaves_its_place_to_the_next() {
        let notifier = Notifier::new();
        let (lasting, mut queue) = mpsc::unbounded_channel();
        notifier.attach(&lasting);
        for _ in 0..100 {
            let (notes, mut queue) = mpsc::unbounded_channel();
            notifier.attach(&notes);
            assert!(notifier.take(1).is_none(), "nothing of the one before it");
            notifier.changed();
            assert!(matches!(queue.try_recv(), Ok(Note::Changed(_, 1))));
        }
        assert_eq!(notifier.lock().len(), 2);
        assert!(matches!(queue.try_recv(), Ok(Note::Changed(_, 0))));
    }

    #[test]
    fn one_change_of_everything_is_a_change_of_everything() {
        let (notes, _queue) = mpsc::unbounded_channel();
        let notifier = Notifier::new();
        notifier.attach(&notes);
        notifier.changed();
        notifier.changed_for(|_| false);
        assert!(matches!(notifier.take(0), Some(Changes::All)));
    }
}
