use super::*;
use crate::evidence::ExchangeState;
use crate::random::Fixed;

const MS: Duration = Duration::from_millis(1);

pub(super) fn carob() -> Carob {
    Carob::new(&Carob::PROFILES[0].constants)
}

pub(super) fn at(ms: u64) -> Instant {
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
fn initial_timeout_is_that_of_rfc_7252_until_the_first_rtt_sample() {
    let mut carob = carob();
    let (timer, transmission) = send(&mut carob, 0, 0);
    assert_eq!(timer.timeout, MS.times(2_000));
    let expired = Expired::new(at(2_000), &PARAMETERS, timer.state, 0, timer.timeout);
    let next = carob.next_timeout(&expired, &mut Fixed::low());
    assert_eq!(next.timeout, MS.times(4_000));
    answer(&mut carob, 400, transmission, 60);
    // First sample: SRTT 400 ms + max(4 x RTTVAR of 100 ms, 100 ms). `Fixed::low` adds no dithering.
    let (timer, _) = send(&mut carob, 500, 0);
    assert_eq!(timer.timeout, MS.times(800));
    let expired = Expired::new(at(1_300), &PARAMETERS, timer.state, 0, timer.timeout);
    let next = carob.next_timeout(&expired, &mut Fixed::low());
    assert_eq!(
        next.timeout,
        MS.times(2_000),
        "the second one is at least ACK_TIMEOUT"
    );
}

#[test]
fn backed_off_rto_is_kept_until_an_unambiguous_rtt_sample() {
    let mut carob = carob();
    let (_, first) = send(&mut carob, 0, 0);
    answer(&mut carob, 400, first, 60);
    let copies = [first, first];
    let state = ExchangeState::default();
    carob.on_answered(&Answered::new(
        at(2_000),
        &PARAMETERS,
        state,
        &copies,
        MS.times(1_600),
    ));
    let (timer, next) = send(&mut carob, 2_000, 0);
    assert_eq!(timer.timeout, MS.times(1_600), "twice the RTO");
    answer(&mut carob, 2_400, next, 60);
    let (timer, _) = send(&mut carob, 3_000, 0);
    assert!(timer.timeout < MS.times(800));
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
    assert_eq!(
        carob.window(at(0), &PARAMETERS).exchanges,
        6,
        "the initial one"
    );
    assert_eq!(carob.copy_tagging(), CopyTagging::RepeatedCopies);
}

#[test]
fn initial_timeout_of_an_idle_sender_is_at_most_that_of_rfc_7252() {
    let mut carob = carob();
    let (_, first) = send(&mut carob, 0, 0);
    answer(&mut carob, 9_000, first, 60);
    let (timer, _) = send(&mut carob, 10_000, 0);
    assert_eq!(
        timer.timeout,
        MS.times(18_000),
        "9 s and four deviations of 2.25 s"
    );
    carob.backoff.keep(3);
    carob.backoff.slow();
    let (timer, _) = send(&mut carob, 12_000, 0);
    assert!(timer.timeout >= MS.times(60_000), "{:?}", timer.timeout);
    // Idle for more than 2 x ACK_TIMEOUT: the initial timeout of RFC 7252, 2 to 3 s.
    let (timer, _) = send(&mut carob, 17_000, 0);
    assert_eq!(timer.timeout, MS.times(2_000));
    assert_eq!(
        carob.backoff.exponent(),
        3,
        "idle for less than the RTO of 18 s"
    );
    send(&mut carob, 17_000 + 37_000, 0);
    assert_eq!(carob.backoff.exponent(), 1, "two steps for 2 x 18 s");
}

#[test]
fn losses_alone_do_not_raise_the_initial_timeout_above_rfc_7252() {
    let mut carob = carob();
    let (_, first) = send(&mut carob, 0, 0);
    answer(&mut carob, 100, first, 60);
    let (state, timeout) = (ExchangeState::default(), MS.times(32_000));
    let reason = Reason::TimedOut;
    carob.on_abandoned(&Abandoned::new(
        at(100),
        &PARAMETERS,
        state,
        reason,
        4,
        timeout,
    ));
    let (timer, sent) = send(&mut carob, 100, 0);
    assert_eq!(timer.timeout, MS.times(2_000), "drawn from 2 s to 3 s");
    let copies = [100, 2_100, 6_100].map(|copy| crate::evidence::Transmission {
        at: at(copy),
        ..sent
    });
    // One usual round trip (100 ms) after the third transmission: no evidence of a slow path.
    let answered = |now| Answered::new(at(now), &PARAMETERS, state, &copies, timeout);
    carob.on_answered(&answered(6_200));
    assert!(!carob.backoff.is_slow() && carob.backoff.exponent() == 6);
    // 5 s after it: the response may belong to the original transmission (RTT of 11 s).
    carob.on_answered(&answered(11_100));
    assert!(carob.backoff.is_slow());
}

#[test]
fn timeouts_double_the_rto_and_gap_repairs_do_not() {
    let mut carob = carob();
    transfer(&mut carob, 100, |_| false);
    let (timer, _) = send(&mut carob, 60_000, 5);
    let mut previous = timer.timeout;
    for retransmissions in 0..4 {
        let expired = Expired::new(
            at(61_000),
            &PARAMETERS,
            timer.state,
            retransmissions,
            previous,
        );
        let repair = carob.next_timeout(&expired.with_reason(LossReason::Gap), &mut Fixed::low());
        assert_eq!(repair.timeout, previous, "a gap is no timeout");
        let next = carob.next_timeout(&expired.with_reason(LossReason::Timer), &mut Fixed::low());
        assert!(
            next.timeout >= previous.times(2),
            "{next:?} after {previous:?}"
        );
        previous = next.timeout;
    }
}

#[test]
fn a_timeout_backs_off_the_timers_of_all_exchanges_until_a_response() {
    let mut carob = carob();
    transfer(&mut carob, 100, |_| false);
    let (timer, sent) = send(&mut carob, 60_000, 5);
    let before = carob.gap_detection().expect("a window").timeout;
    assert_eq!(before, timer.timeout);
    carob.on_lost(&Lost::new(at(62_000), sent, 30, false));
    carob.on_lost(&Lost::new(at(62_001), sent, 30, false));
    assert_eq!(
        carob.gap_detection().expect("a window").timeout,
        before.times(2),
        "once a round trip"
    );
    let (_, sent) = send(&mut carob, 62_100, 5);
    answer(&mut carob, 63_100, sent, 300);
    assert!(carob.gap_detection().expect("a window").timeout < before.times(2));
}

#[test]
fn late_response_to_an_abandoned_exchange_is_a_lower_bound_of_the_rtt() {
    let mut carob = carob();
    transfer(&mut carob, 100, |_| false);
    send(&mut carob, 60_000, 5);
    let before = carob.path.srtt().expect("a sample");
    let late = LateAnswer::new(at(90_000), 5, 1, MS.times(500)).with_abandoned(true);
    carob.on_late_answer(&late);
    assert_eq!(
        carob.path.srtt(),
        Some(before),
        "a bound below the mean is no evidence"
    );
    let late = LateAnswer::new(at(90_000), 5, 1, MS.times(20_000)).with_abandoned(true);
    carob.on_late_answer(&late);
    assert!(carob.path.srtt() > Some(before * 2));
}

/// Transfers `messages` over a bottleneck of 10 messages per second (300 bytes each) with an RTT of 1 s
/// without queue and an unlimited buffer. Returns the maximum RTT in ms.
pub(super) fn transfer(carob: &mut Carob, messages: usize, lost: impl Fn(usize) -> bool) -> u64 {
    transfer_from(carob, 0, messages, lost)
}

/// [`transfer`] that starts at `began` ms.
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
                // Retransmissions are never lost here.
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
fn window_reaches_the_bandwidth_delay_product_without_filling_the_buffer() {
    let mut carob = carob();
    let worst = transfer(&mut carob, 400, |_| false);
    let capacity = carob.transfer.capacity();
    assert!((2_900..=3_100).contains(&capacity), "{capacity} bytes/s");
    let window = carob.window(at(0), &PARAMETERS).exchanges;
    assert!(
        (10..=16).contains(&window),
        "{window} messages of 10 in the path"
    );
    assert!(
        worst < 2_000,
        "a round trip of {worst} ms, 1 s without a queue"
    );
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
fn timeouts_without_responses_reduce_the_window_to_one_message_and_double_the_rto() {
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
    // The first response reopens the window, which grows to the path's capacity again.
    answer(&mut carob, 64_000, sent, 300);
    assert!(carob.window(at(0), &PARAMETERS).exchanges >= 2);
    transfer_from(&mut carob, 70_000, 200, |_| false);
    let window = carob.window(at(0), &PARAMETERS).exchanges;
    assert!(window >= 10, "{window} messages");
}

#[test]
fn two_messages_are_retransmitted_from_the_third_back_off_step() {
    let mut carob = carob();
    transfer(&mut carob, 100, |_| false);
    let (_, sent) = send(&mut carob, 60_000, 3);
    let mut steps = std::vec::Vec::new();
    for millis in [62_000, 62_010, 66_000, 66_010, 74_000, 74_010, 74_020] {
        carob.on_lost(&Lost::new(at(millis), sent, 30, true));
        steps.push((carob.transfer.backoff(), carob.transfer.backoff_of_sent()));
    }
    assert_eq!(
        steps,
        [(1, 1), (1, 1), (2, 2), (2, 2), (3, 2), (3, 3), (3, 3)]
    );
    // An unambiguous response ends the back-off.
    answer(&mut carob, 74_500, sent, 300);
    assert_eq!(carob.transfer.backoff_of_sent(), 0);
}

#[test]
fn random_loss_on_a_long_path_does_not_reduce_the_window() {
    // At an RTT of 1.5 s the initial window is two messages, too few to measure the capacity.
    let mut carob = carob();
    let (_, sent) = send(&mut carob, 0, 0);
    answer(&mut carob, 1_500, sent, 300);
    let windows = rounds(&mut carob, 2_000, 1_500, &[1; 12]);
    assert!(windows[11] >= 32, "{windows:?} sixteenths of a message");
}

#[test]
fn slow_down_signal_halves_the_window() {
    let mut carob = carob();
    transfer(&mut carob, 100, |_| false);
    let before = carob.transfer.window_bytes();
    carob.on_signal(at(0), Signal::SlowDown(MS));
    assert_eq!(carob.transfer.window_bytes(), before / 2);
}

/// Sends 80 notifications, one per `interval` ms; returns the number of confirmable ones.
fn notify(carob: &mut Carob, interval: u64) -> u32 {
    let mut confirmable = 0;
    for k in 0..80 {
        let now = at(interval * k);
        let candidate = SendCandidate::new(now, &PARAMETERS, 60)
            .with_kind(Kind::Notification)
            .with_confirmable(false);
        assert!(carob.earliest_departure_time(&candidate) <= now, "{k}");
        let confirm = carob.must_confirm(&candidate);
        confirmable += u32::from(confirm);
        let sent = Sent::new(now, &PARAMETERS, 60)
            .with_kind(Kind::Notification)
            .with_confirmable(confirm);
        carob.on_sent(&sent, &mut Fixed::low());
        let next = carob.earliest_departure_time(&candidate);
        assert!(
            confirm || next <= at(interval * k + 3_000),
            "RFC 7641 4.5.1"
        );
    }
    confirmable
}

#[test]
fn every_eighth_notification_at_the_pacing_rate_is_confirmable() {
    // Without an RTT sample the rate is one NON per 3 s (RFC 7641 4.5.1); intervals up to a quarter
    // longer count as that rate.
    assert_eq!(notify(&mut carob(), 3_000), 10);
    assert_eq!(notify(&mut carob(), 3_750), 10);
    assert_eq!(notify(&mut carob(), 3_751), 0);
    // With a sample: one NON per round trip.
    let mut known = carob();
    let (_, sent) = send(&mut known, 0, 0);
    answer(&mut known, 400, sent, 300);
    for k in 0..59 {
        assert_eq!(confirms(&mut known, 400 * k), k % 8 == 7, "{k}");
    }
    assert_eq!(known.next_departure, at(400 * 59), "400 ms after a NON");
    assert_eq!(notify(&mut carob(), 10_000), 0);
}

/// Sends a notification at `now` ms; returns whether it is confirmable.
fn confirms(carob: &mut Carob, now: u64) -> bool {
    let candidate = SendCandidate::new(at(now), &PARAMETERS, 60)
        .with_kind(Kind::Notification)
        .with_confirmable(false);
    let confirm = carob.must_confirm(&candidate);
    let sent = Sent::new(at(now), &PARAMETERS, 60)
        .with_kind(Kind::Notification)
        .with_confirmable(confirm);
    carob.on_sent(&sent, &mut Fixed::low());
    confirm
}

#[test]
fn without_a_queue_four_notifications_leave_a_round_trip() {
    let mut carob = carob();
    let mut paced = |sent: u64, round_trip: u64| {
        let (_, transmission) = send(&mut carob, sent, 0);
        answer(&mut carob, sent + round_trip, transmission, 60);
        (carob.pace, carob.notification_interval())
    };
    assert_eq!(
        paced(0, 800),
        (1, MS.times(800)),
        "the first sample may be of a queue"
    );
    assert_eq!(paced(10_000, 800), (2, MS.times(400)));
    assert_eq!(paced(20_000, 800), (4, MS.times(200)));
    assert_eq!(paced(30_000, 800), (4, MS.times(200)), "four at most");
    // SRTT is 825 ms: a quarter more than the least is no queue yet.
    assert_eq!(paced(40_000, 1_000), (4, micros(825_000 / 4)));
    assert_eq!(paced(50_000, 1_001), (1, micros(847_000)), "a queue");
    let lost = send(&mut carob, 60_000, 0).1;
    carob.pace = 4;
    carob.on_lost(&Lost::new(at(63_000), lost, 60, false));
    assert_eq!(carob.pace, 1, "after a timeout");
}

#[test]
fn a_long_interval_of_notifications_is_confirmed_after_24_s() {
    let mut carob = carob();
    let (_, transmission) = send(&mut carob, 0, 0);
    answer(&mut carob, 9_000, transmission, 60);
    // One each 9 s: the path may have recovered long before the eighth.
    assert!(!confirms(&mut carob, 9_000));
    assert!(!confirms(&mut carob, 18_000));
    assert!(confirms(&mut carob, 27_000));
    // Those that nothing delays are not confirmed.
    assert!(!confirms(&mut carob, 60_000));
}

#[test]
fn gap_detection_needs_a_window_of_several_exchanges() {
    let mut carob = carob();
    let (_, sent) = send(&mut carob, 0, 0);
    answer(&mut carob, 400, sent, 300);
    assert_eq!(carob.gap_detection(), None, "a single exchange");
    for running in 0..6 {
        send(&mut carob, 400, running);
    }
    // SRTT 400 ms + 3 x RTTVAR of 100 ms, more than 9/8 of the RTT.
    let gap = carob.gap_detection().expect("a window");
    assert_eq!(gap.time_threshold, MS.times(700));
    assert_eq!(gap.answered_departure, at(0));
    transfer(&mut carob, 4_000, |_| false);
    let latest = carob.path.srtt().unwrap();
    let threshold = carob.gap_detection().expect("a window").time_threshold;
    let threshold = threshold.as_micros_u32();
    assert!(
        (latest / 8 * 9..latest / 4 * 5).contains(&threshold),
        "{threshold} of {latest}"
    );
}

/// Sends one window per round trip of `round_trip` ms, queueing delay included, and loses `lost` messages
/// of each. Returns the window after each round trip in sixteenths of a message.
pub(super) fn rounds(
    carob: &mut Carob,
    began: u64,
    round_trip: u64,
    lost: &[u32],
) -> std::vec::Vec<u32> {
    let mut now = began;
    let mut windows = std::vec::Vec::new();
    for lost in lost {
        let window = carob.window(at(now), &PARAMETERS).exchanges;
        let sent: std::vec::Vec<_> = (0..window)
            .map(|running| send(carob, now, running).1)
            .collect();
        for (number, sent) in (0..).zip(sent) {
            if number < *lost {
                let lost = Lost::new(at(now + 100), sent, 30, false);
                carob.on_lost(&lost.with_reason(LossReason::Gap));
            }
            answer(carob, now + round_trip, sent, 300);
        }
        now += round_trip + 1;
        windows.push(carob.transfer.window_bytes() * 16 / 300);
    }
    windows
}

#[test]
fn losses_behind_a_deep_queue_reduce_the_window_below_one_message() {
    let mut carob = carob();
    transfer(&mut carob, 100, |_| false);
    // RTT 1 s plus a queue of 1.9 s, and a loss in each round trip: others fill the buffer.
    let windows = rounds(&mut carob, 60_000, 2_900, &[1; 14]);
    assert!(windows[13] < 16, "{windows:?} sixteenths of a message");
    assert_eq!(carob.window(at(0), &PARAMETERS).exchanges, 1);
    let candidate = SendCandidate::new(at(0), &PARAMETERS, 30);
    assert!(carob.earliest_departure_time(&candidate) > at(0), "paced");
    // Without losses it grows to one message again within 24 round trips.
    let windows = rounds(&mut carob, 101_000, 2_900, &[0; 24]);
    assert!(windows.is_sorted() && windows[23] >= 16, "{windows:?}");
}

#[test]
fn one_loss_in_a_small_window_does_not_reduce_it() {
    let mut carob = carob();
    transfer(&mut carob, 100, |_| false);
    rounds(&mut carob, 60_000, 2_400, &[0; 16]);
    let before = carob.transfer.window_bytes();
    rounds(&mut carob, 120_000, 2_400, &[1]);
    assert!(
        carob.transfer.window_bytes() >= before,
        "one of two messages"
    );
}

#[test]
fn losses_behind_a_long_queue_limit_the_window_to_one_message_for_64_round_trips() {
    let mut carob = carob();
    transfer(&mut carob, 100, |_| false);
    let windows = rounds(&mut carob, 60_000, 2_000, &[0; 8]);
    assert_eq!(
        windows[7], 32,
        "two messages behind a queue of another sender"
    );
    rounds(&mut carob, 77_000, 2_000, &[1, 1, 0, 0]);
    let windows = rounds(&mut carob, 86_000, 2_000, &[0; 8]);
    assert!(windows.iter().all(|w| (15..=17).contains(w)), "{windows:?}");
    assert_eq!(carob.transfer.caution(), 64 - 10);
}

/// Sends windows with these round trips in turn; of each `one_in` messages the last is lost.
fn contend(carob: &mut Carob, began: u64, round_trips: &[u64], one_in: u32) {
    let (mut now, mut sent) = (began, 0);
    for round_trip in round_trips {
        let window = u32::from(carob.window(at(now), &PARAMETERS).exchanges);
        let lost = (sent + window) / one_in - sent / one_in;
        rounds(carob, now, *round_trip, &[lost]);
        now += round_trip + 1;
        sent += window;
    }
}

#[test]
fn heavy_losses_with_varying_round_trips_leave_one_message_with_the_timers_of_rfc_7252() {
    // Round trips from 20 ms to 500 ms, as over some hops of a radio.
    let begun = || {
        let mut carob = carob();
        rounds(&mut carob, 0, 20, &[0; 3]);
        rounds(&mut carob, 100, 500, &[0]);
        carob
    };
    let mut carob = begun();
    contend(&mut carob, 1_000, &[90, 160, 60, 210].repeat(8), 3);
    assert_eq!(carob.window(at(8_000), &PARAMETERS).exchanges, 1);
    let (timer, _) = send(&mut carob, 5_200, 0);
    assert_eq!(
        timer.timeout,
        MS.times(2_000),
        "ACK_TIMEOUT instead of the RTO of a window"
    );
    contend(&mut carob, 5_300, &[20; 40], 3);
    assert_eq!(
        carob.window(at(10_000), &PARAMETERS).exchanges,
        1,
        "as long as the transfer lasts"
    );
    let (timer, sent) = send(&mut carob, 60_000, 0);
    answer(&mut carob, 60_020, sent, 300);
    assert!(
        carob.window(at(60_020), &PARAMETERS).exchanges > 1,
        "after a pause"
    );
    assert_eq!(timer.timeout, MS.times(2_000));
    // A seventh lost takes four periods, a twelfth shows nothing.
    for (one_in, is_one) in [(7, true), (12, false)] {
        let mut carob = begun();
        contend(&mut carob, 1_000, &[90, 160, 60, 210].repeat(16), one_in);
        assert_eq!(
            carob.window(at(20_000), &PARAMETERS).exchanges == 1,
            is_one,
            "one in {one_in}"
        );
    }
    // The same losses with steady round trips, and the same round trips without losses.
    let mut carob = begun();
    contend(&mut carob, 1_000, &[21, 22].repeat(64), 3);
    assert!(carob.window(at(8_000), &PARAMETERS).exchanges > 1);
    let mut carob = begun();
    for (round_trip, k) in [90, 160, 60, 210].repeat(8).into_iter().zip(0..) {
        rounds(&mut carob, 1_000 + 300 * k, round_trip, &[0]);
    }
    assert!(carob.window(at(20_000), &PARAMETERS).exchanges > 1);
}

#[test]
fn response_to_an_earlier_transmission_reveals_a_spurious_loss() {
    let mut carob = carob();
    transfer(&mut carob, 100, |_| false);
    let (_, sent) = send(&mut carob, 60_000, 1);
    carob.on_lost(&Lost::new(at(61_000), sent, 30, false));
    let lost = carob.transfer.losses();
    let again = crate::evidence::Transmission {
        at: at(61_000),
        ..sent
    };
    let copies = [sent, again];
    let state = ExchangeState::default();
    let answered = Answered::new(at(61_200), &PARAMETERS, state, &copies, MS.times(1_000))
        .with_matched(Matched::Exact(0))
        .with_answer(Answer::Piggybacked, 300);
    carob.on_answered(&answered);
    assert!(carob.transfer.losses() < lost);
}

#[test]
fn initial_window_is_smaller_where_timeouts_of_rfc_7252_may_be_spurious() {
    for (round_trip, messages) in [(999, 6), (1_000, 2), (2_999, 2), (3_000, 6)] {
        let mut carob = carob();
        let (_, sent) = send(&mut carob, 0, 0);
        answer(&mut carob, round_trip, sent, 300);
        let window = carob.window(at(round_trip), &PARAMETERS).exchanges;
        assert_eq!(window, messages, "after {round_trip} ms");
    }
}
