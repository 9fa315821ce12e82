use super::*;
use crate::evidence::ExchangeState;
use crate::random::Fixed;

const MS: Duration = Duration::from_millis(1);

fn carob() -> Carob {
    Carob::new(&Carob::PROFILES[0].constants)
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + MS.times(ms)
}

const PARAMETERS: TransmissionParameters = TransmissionParameters::DEFAULT;

/// Sends a request at `sent`, the first of `running` + 1; returns its timer and transmission.
fn send(carob: &mut Carob, sent: u64, running: u16) -> (Timer, crate::evidence::Transmission) {
    let start = Start::new(at(sent), &PARAMETERS).with_running(running);
    let timer = carob.first_timeout(&start, &mut Fixed::low());
    let message = Sent::new(at(sent), &PARAMETERS, 30);
    let state = carob.on_sent(&message, &mut Fixed::low());
    let transmission = crate::evidence::Transmission {
        at: at(sent),
        state,
    };
    (timer, transmission)
}

fn answer(carob: &mut Carob, now: u64, transmission: crate::evidence::Transmission, bytes: u32) {
    let all = [transmission];
    let state = ExchangeState::default();
    let answered = Answered::new(at(now), &PARAMETERS, state, &all, MS.times(2_000))
        .with_answer(Answer::Piggybacked, bytes);
    carob.on_answered(&answered);
}

#[test]
fn timers_are_rfc_7252_until_the_first_sample() {
    let mut carob = carob();
    let (timer, transmission) = send(&mut carob, 0, 0);
    assert_eq!(timer.timeout, MS.times(2_000));
    let expired = Expired::new(at(2_000), &PARAMETERS, timer.state, 0, timer.timeout);
    let next = carob.next_timeout(&expired, &mut Fixed::low());
    assert_eq!(next.timeout, MS.times(4_000), "twice the one before");
    answer(&mut carob, 400, transmission, 60);
    // 400 ms + max(4 x 100 ms, 100 ms), undithered.
    let (timer, _) = send(&mut carob, 500, 0);
    assert_eq!(timer.timeout, MS.times(800));
    let expired = Expired::new(at(1_300), &PARAMETERS, timer.state, 0, timer.timeout);
    let next = carob.next_timeout(&expired, &mut Fixed::low());
    assert_eq!(next.timeout, MS.times(1_600));
}

#[test]
fn a_pausing_peer_has_ack_timeout_to_answer_the_last_copy() {
    for running in [0, 5] {
        let mut carob = carob();
        let (_, first) = send(&mut carob, 0, 0);
        answer(&mut carob, 10, first, 60);
        let (timer, _) = send(&mut carob, 20, running);
        assert!(timer.timeout < MS.times(100), "short: {:?}", timer.timeout);
        let mut timers = [timer.timeout; 5];
        for sent in 0..4 {
            let expired = Expired::new(at(1_000), &PARAMETERS, timer.state, sent, timers[usize::from(sent)]);
            timers[usize::from(sent) + 1] = carob.next_timeout(&expired, &mut Fixed::low()).timeout;
        }
        assert!(timers[3] < MS.times(2_000), "{timers:?}");
        assert!(timers[4] >= MS.times(2_000), "{timers:?}");
    }
}

#[test]
fn ambiguous_reply_keeps_backoff_until_unambiguous_one() {
    let mut carob = carob();
    let (_, first) = send(&mut carob, 0, 0);
    answer(&mut carob, 400, first, 60);
    let copies = [first, first];
    let state = ExchangeState::default();
    carob.on_answered(&Answered::new(
        at(5_000),
        &PARAMETERS,
        state,
        &copies,
        MS.times(1_600),
    ));
    let (timer, next) = send(&mut carob, 5_000, 0);
    assert_eq!(timer.timeout, MS.times(1_600), "twice the RTO");
    answer(&mut carob, 5_400, next, 60);
    let (timer, _) = send(&mut carob, 6_000, 0);
    assert!(timer.timeout < MS.times(800));
}

#[test]
fn losses_with_a_queue_carry_over_and_random_ones_do_not() {
    let constants = &Carob::PROFILES[0].constants;
    let mut backoff = Backoff::default();
    backoff.settle(3, false, constants);
    assert_eq!(backoff.exponent(), 0, "three losses by chance");
    backoff.settle(3, true, constants);
    assert_eq!(backoff.exponent(), 2, "one by chance, two by the queue");
    backoff.settle(0, true, constants);
    assert_eq!(backoff.exponent(), 1, "one step down while the queue stands");
    backoff.settle(0, false, constants);
    assert_eq!(backoff.exponent(), 0);
    for _ in 0..9 {
        backoff.settle(9, true, constants);
    }
    assert_eq!(backoff.exponent(), constants.carry_max);
}

#[test]
fn single_exchanges_open_no_window_and_are_not_paced() {
    let mut carob = carob();
    for k in 0..100 {
        let (_, sent) = send(&mut carob, 1_000 * k, 0);
        answer(&mut carob, 1_000 * k + 300, sent, 60);
        let candidate = SendCandidate::new(at(1_000 * k + 300), &PARAMETERS, 60);
        assert_eq!(carob.earliest_departure_time(&candidate), candidate.now);
    }
    assert_eq!(carob.window(at(0), &PARAMETERS).exchanges, 6, "the initial one");
    assert_eq!(carob.copy_tagging(), CopyTagging::RepeatedCopies);
}

/// A transfer over a bottleneck of 10 messages of 300 bytes a second, 1 s of base round trip and an
/// endless buffer, for so many messages. Returns the greatest round trip in ms.
fn transfer(carob: &mut Carob, messages: usize, lost: impl Fn(usize) -> bool) -> u64 {
    transfer_from(carob, 0, messages, lost)
}

/// The same, beginning at this time in ms.
fn transfer_from(
    carob: &mut Carob,
    began: u64,
    messages: usize,
    lost: impl Fn(usize) -> bool,
) -> u64 {
    let (mut now, mut free, mut number, mut worst) = (began, began, 0_usize, 0_u64);
    let mut flying: std::vec::Vec<(u64, u64, bool, crate::evidence::Transmission)> =
        std::vec::Vec::new();
    while number < messages {
        let candidate = SendCandidate::new(at(now), &PARAMETERS, 30);
        let departs = carob.earliest_departure_time(&candidate);
        let window = usize::from(carob.window(at(now), &PARAMETERS).exchanges);
        if flying.len() < window && departs <= at(now) {
            let (timer, sent) = send(carob, now, u16::try_from(flying.len()).unwrap());
            free = free.max(now + 500) + 100;
            let expires = now + timer.timeout.as_millis();
            let is_lost = lost(number);
            let ends = if is_lost { expires } else { free + 400 };
            flying.push((ends, now, is_lost, sent));
            number += 1;
            continue;
        }
        let next = flying.iter().map(|one| one.0).min();
        let wake = departs.as_micros().div_ceil(1_000);
        now = match next {
            Some(next) if flying.len() >= window || next <= wake => next,
            _ => wake,
        };
        while let Some(place) = flying.iter().position(|one| one.0 <= now) {
            let (ends, began, is_lost, sent) = flying.remove(place);
            if is_lost {
                carob.on_lost(&Lost::new(at(ends), sent, 30, false));
                // The retransmission arrives.
                free = free.max(ends + 500) + 100;
                flying.push((free + 400, ends, false, sent));
                continue;
            }
            worst = worst.max(ends - began);
            let again = crate::evidence::Transmission {
                at: at(began),
                ..sent
            };
            answer(carob, ends, again, 300);
        }
    }
    worst
}

extern crate std;

#[test]
fn a_transfer_fills_the_path_and_not_its_buffer() {
    let mut carob = carob();
    let worst = transfer(&mut carob, 400, |_| false);
    let capacity = carob.transfer.capacity();
    assert!((2_900..=3_100).contains(&capacity), "{capacity} bytes/s");
    let window = carob.window(at(0), &PARAMETERS).exchanges;
    assert!((10..=16).contains(&window), "{window} messages of 10 in the path");
    assert!(worst < 2_000, "a round trip of {worst} ms, 1 s without a queue");
    assert_eq!(carob.copy_tagging(), CopyTagging::Token);
}

#[test]
fn random_loss_does_not_lower_the_window() {
    let mut carob = carob();
    transfer(&mut carob, 400, |number| number % 7 == 3);
    let window = carob.window(at(0), &PARAMETERS).exchanges;
    assert!(window >= 10, "{window} messages");
}

#[test]
fn silence_lowers_the_window_to_a_message_and_doubles_the_timer() {
    let mut carob = carob();
    transfer(&mut carob, 100, |_| false);
    let (timer, sent) = send(&mut carob, 60_000, 3);
    for second in [61, 63] {
        carob.on_lost(&Lost::new(at(second * 1_000), sent, 30, true));
    }
    assert_eq!(carob.window(at(0), &PARAMETERS).exchanges, 1);
    let expired = Expired::new(at(63_000), &PARAMETERS, timer.state, 1, timer.timeout);
    let next = carob.next_timeout(&expired, &mut Fixed::low());
    assert_eq!(next.timeout, timer.timeout.times(2));
    // The first answer opens it again, and the transfer finds its window.
    answer(&mut carob, 64_000, sent, 300);
    assert!(carob.window(at(0), &PARAMETERS).exchanges >= 2);
    transfer_from(&mut carob, 70_000, 200, |_| false);
    let window = carob.window(at(0), &PARAMETERS).exchanges;
    assert!(window >= 10, "{window} messages");
}

#[test]
fn a_request_to_slow_down_halves_the_window() {
    let mut carob = carob();
    transfer(&mut carob, 100, |_| false);
    let before = carob.transfer.window_bytes();
    carob.on_signal(at(0), Signal::SlowDown(MS));
    assert_eq!(carob.transfer.window_bytes(), before / 2);
}

#[test]
fn every_eighth_notification_is_con_and_others_are_paced() {
    let mut carob = carob();
    let mut confirmed = 0;
    for k in 0..80 {
        let now = at(3_000 * k);
        let candidate = SendCandidate::new(now, &PARAMETERS, 60)
            .with_kind(Kind::Notification)
            .with_confirmable(false);
        let confirm = carob.must_confirm(&candidate);
        confirmed += u32::from(confirm);
        let sent = Sent::new(now, &PARAMETERS, 60)
            .with_kind(Kind::Notification)
            .with_confirmable(confirm);
        carob.on_sent(&sent, &mut Fixed::low());
        if !confirm {
            let next = carob.earliest_departure_time(&candidate);
            assert_eq!(next, now + MS.times(3_000), "RFC 7641 4.5.1");
        }
    }
    assert_eq!(confirmed, 10);
}

#[test]
fn later_answers_show_losses_in_a_window_only() {
    let mut carob = carob();
    let (_, sent) = send(&mut carob, 0, 0);
    answer(&mut carob, 400, sent, 300);
    assert_eq!(carob.gap_detection(), None, "a single exchange");
    for running in 0..6 {
        send(&mut carob, 400, running);
    }
    // 400 ms + 3 deviations of 100 ms; 9/8 of a round trip would be less.
    let gap = carob.gap_detection().expect("a window");
    assert_eq!(gap.time_threshold, MS.times(700));
    assert_eq!(gap.answered_departure, at(0));
    transfer(&mut carob, 4_000, |_| false);
    let latest = carob.path.srtt().unwrap();
    let threshold = carob.gap_detection().expect("a window").time_threshold;
    let threshold = threshold.as_micros_u32();
    assert!((latest / 8 * 9..latest / 4 * 5).contains(&threshold), "{threshold} of {latest}");
}

#[test]
fn senders_that_fill_the_buffer_take_turns_with_one_message() {
    let constants = &Carob::PROFILES[0].constants;
    let mut carob = carob();
    transfer(&mut carob, 100, |_| false);
    // From now on each round trip has 1.5 s of queue, and half of the messages are lost.
    let (mut now, mut rounds) = (60_000, 0);
    while carob.window(at(now), &PARAMETERS).exchanges > 1 {
        for running in 0..carob.window(at(now), &PARAMETERS).exchanges {
            let (_, sent) = send(&mut carob, now, running);
            carob.on_lost(&Lost::new(at(now + 2_000), sent, 30, false));
            answer(&mut carob, now + 2_500, sent, 300);
        }
        now += 2_500;
        rounds += 1;
        assert!(rounds < 20, "{:?}", carob.transfer);
    }
    // The queue is still there: two again after 16 answers, of which one has come.
    for k in 1..constants.single_answers {
        assert_eq!(carob.window(at(now), &PARAMETERS).exchanges, 1, "after {k} answers");
        let (_, sent) = send(&mut carob, now, 0);
        assert!(!carob.transfer.is_windowed(), "timers of single exchanges");
        answer(&mut carob, now + 2_500, sent, 300);
        now += 2_500;
    }
    assert_eq!(carob.window(at(now), &PARAMETERS).exchanges, 2);
}

#[test]
fn first_window_is_small_where_timers_of_rfc_7252_may_expire() {
    for (round_trip, messages) in [(999, 6), (1_000, 2), (2_999, 2), (3_000, 6)] {
        let mut carob = carob();
        let (_, sent) = send(&mut carob, 0, 0);
        answer(&mut carob, round_trip, sent, 300);
        let window = carob.window(at(round_trip), &PARAMETERS).exchanges;
        assert_eq!(window, messages, "after {round_trip} ms");
    }
}

#[test]
fn retransmissions_not_needed_make_timers_patient_for_a_while() {
    let constants = &Carob::PROFILES[0].constants;
    let mut path = Path::default();
    path.sample(constants, at(0), 400_000);
    let rto = |path: &Path| path.exchange_rto(constants).unwrap().as_millis();
    assert_eq!(rto(&path), 800);
    // The second transmission is answered, a third was sent.
    path.settle(2, 1, constants);
    assert_eq!(rto(&path), 1_200, "the margin of 400 ms doubled");
    path.settle(1, 1, constants);
    assert_eq!(rto(&path), 1_200, "a retransmission that was needed");
    assert_eq!(path.rto(constants), Some(MS.times(800)), "in a window");
    for _ in 0..32 {
        path.settle(0, 0, constants);
    }
    assert_eq!(rto(&path), 800);
}

#[test]
fn short_timers_need_steady_round_trips() {
    let constants = &Carob::PROFILES[0].constants;
    let rto = |samples: &[u32]| {
        let mut path = Path::default();
        for sample in samples {
            path.sample(constants, at(0), *sample * 1_000);
        }
        path.exchange_rto(constants).unwrap().as_millis()
    };
    assert_eq!(rto(&[100]), 200, "steady so far");
    // SRTT 105 ms, RTTVAR 28.75 ms; 8 x 40 ms above SRTT.
    assert_eq!(rto(&[100, 140]), 425);
    // SRTT 150 ms, RTTVAR 118.75 ms: 8 x 400 ms are more than 1 s.
    assert_eq!(rto(&[100, 500]), 1_000);
}

#[test]
fn short_timers_back_off_faster_up_to_a_second() {
    let constants = &Carob::PROFILES[0].constants;
    let next = |ms| timers::backed_off(MS.times(ms), constants).as_millis();
    assert_eq!([50, 250, 400, 500, 900].map(next), [200, 1_000, 1_000, 1_000, 1_800]);
}
