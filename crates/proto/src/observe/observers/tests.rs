use super::*;
use crate::codec::Token;
use alloc::vec::Vec;

fn observers() -> Observers {
    Observers::new(1, (100, 100), 1_000, 32)
}

fn register(observers: &mut Observers, peer: u32, subject: u64, head: &mut u32) -> u32 {
    let token = TokenKey::short(Token::new(&(*head).to_be_bytes()).unwrap());
    let registration = Registration {
        peer,
        token,
        long_token: &[],
        size: BlockSize::MAX,
        key: b"key",
    };
    observers
        .register(Instant::ZERO, Subject(subject), registration, head)
        .unwrap()
}

fn of_subject(observers: &Observers, subject: u64) -> Vec<u32> {
    let at = observers.find_subject(Subject(subject));
    let first = at.and_then(|at| observers.first(at));
    let next = |&i: &u32| {
        observers
            .get(observers[i].of_subject.next)
            .map(|_| observers[i].of_subject.next)
    };
    core::iter::successors(first, next).collect()
}

#[test]
fn observer_takes_72_bytes_besides_its_peer() {
    let links = 8;
    let entry = size_of::<Observer>() + links;
    assert!(entry <= 72, "{entry} bytes");
}

#[test]
fn observer_lists_stay_linked_after_removals() {
    for leaving in 0..4 {
        let mut observers = observers();
        let mut heads = [NONE; 2];
        let mut all: Vec<_> = (0..4)
            .map(|n| register(&mut observers, n % 2, 7, &mut heads[n as usize % 2]))
            .collect();
        let gone = all.remove(leaving);
        let peer = observers[gone].peer as usize;
        let (_, forgotten) = observers.remove(gone, &mut heads[peer]);
        assert_eq!(forgotten, None);
        all.reverse(); // the newest comes first
        assert_eq!(of_subject(&observers, 7), all);
        let of_peers = heads.map(|head| observers.of_peer(head).count());
        assert_eq!(of_peers.iter().sum::<usize>(), 3);
        assert_eq!(of_peers[peer], 1);
        assert_eq!(observers.count(Subject(7)), 3);
    }
}

#[test]
fn a_subject_is_forgotten_with_its_last_observer() {
    let mut observers = observers();
    let mut head = NONE;
    let first = register(&mut observers, 0, 7, &mut head);
    let second = register(&mut observers, 0, 8, &mut head);
    assert_eq!(observers.remove(first, &mut head).1, Some(Subject(7)));
    assert_eq!(observers.find_subject(Subject(7)), None);
    assert_eq!(observers.remove(second, &mut head).1, Some(Subject(8)));
    assert_eq!((observers.len(), head), (0, NONE));
    assert_eq!(observers.least_interested(), None);
}

#[test]
fn every_observer_is_notified_once_despite_removals() {
    let state = || State {
        response: Response::new(crate::codec::Code::CONTENT),
        confirmable: false,
    };
    let mut observers = observers();
    let mut head = NONE;
    let all: Vec<_> = (0..4)
        .map(|_| register(&mut observers, 0, 7, &mut head))
        .collect();
    let other = register(&mut observers, 0, 8, &mut head);
    observers.change(Subject(7), state());
    observers.change(Subject(8), state());
    assert_eq!(observers.next_to_notify(), Some(all[3]));
    observers.remove(all[2], &mut head); // the next
    observers.remove(all[3], &mut head); // the one before
    assert_eq!(observers.next_to_notify(), Some(all[1]));
    // A newer state restarts the iteration.
    observers.change(Subject(7), state());
    assert_eq!(observers.next_to_notify(), Some(all[1]));
    assert_eq!(observers.next_to_notify(), Some(all[0]));
    assert_eq!(observers.next_to_notify(), Some(other));
    assert_eq!(observers.next_to_notify(), None);
    // The last observer leaves during the fan-out of its subject.
    observers.change(Subject(8), state());
    observers.remove(other, &mut head);
    assert_eq!(observers.next_to_notify(), None);
}

#[test]
fn observers_of_one_subject_share_their_key() {
    let mut observers = observers();
    let mut head = NONE;
    let first = register(&mut observers, 0, 7, &mut head);
    let second = register(&mut observers, 0, 7, &mut head);
    assert!(Arc::ptr_eq(&observers[first].key, &observers[second].key));
}
