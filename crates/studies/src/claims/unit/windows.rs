//! Facts about TCP's senders alone.

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_sim::queue::EventQueue;
use carob_sim::random::Stream;
use carob_sim::tcp::congestion::{Ack, Bbr1, Congestion as _, RateSample, State, Window};
use carob_sim::tcp::counters::SenderEvent as Noted;
use carob_sim::tcp::{Output, Segment, Socket, TcpSettings};

const ONE_WAY: Duration = Duration::from_millis(50);
const ROUND_TRIP: Duration = Duration::from_millis(100);

enum SenderEvent {
    Arrive { at_sender: bool, segment: Segment },
    Wake { sender: bool },
}

/// New Reno sends 16 segments at once, of which three are lost.
fn with_holes() -> Option<Socket> {
    let mut settings = TcpSettings::THESIS;
    settings.initial_window = 16;
    let mut sender = Socket::new(&settings, Stream::new(1, "unit/sender")).ok()?;
    let mut receiver = Socket::new(&settings, Stream::new(1, "unit/receiver")).ok()?;
    sender.record(10_000);
    receiver.listen().ok()?;
    sender.connect(Instant::ZERO).ok()?;
    let segment = usize::try_from(settings.mss).ok()?;
    let mut queue = EventQueue::default();
    let (mut now, mut sent, mut written) = (Instant::ZERO, 0, false);
    let end = Instant::ZERO + Duration::from_secs(60);
    loop {
        if !written && sender.srtt().is_some() {
            written = true;
            sender.write(now, Bytes::from(vec![0; 40 * segment]));
        }
        for is_sender in [true, false] {
            let socket = if is_sender {
                &mut sender
            } else {
                &mut receiver
            };
            loop {
                match socket.poll() {
                    Output::Transmit(segment) => {
                        let data = is_sender && !segment.payload.is_empty();
                        sent += u32::from(data);
                        // The third, the sixth and the ninth.
                        let lost = data && matches!(sent, 3 | 6 | 9);
                        if !lost {
                            let at_sender = !is_sender;
                            queue.push(now + ONE_WAY, SenderEvent::Arrive { at_sender, segment });
                        }
                    }
                    Output::Event(_) => while socket.read().is_some() {},
                    Output::Wait(at) => {
                        if let Some(at) = at {
                            queue.push(at.max(now), SenderEvent::Wake { sender: is_sender });
                        }
                        break;
                    }
                }
            }
        }
        let Some((at, happening)) = queue.pop_until(end) else {
            return Some(sender);
        };
        now = at;
        match happening {
            SenderEvent::Arrive {
                at_sender: true,
                segment,
            } => sender.handle_segment(now, &segment),
            SenderEvent::Arrive { segment, .. } => receiver.handle_segment(now, &segment),
            SenderEvent::Wake { sender: true } => sender.handle_timeout(now),
            SenderEvent::Wake { .. } => receiver.handle_timeout(now),
        }
        if written && sender.is_flushed() {
            return Some(sender);
        }
    }
}

pub(super) fn recovery(which: &str) -> Option<f64> {
    let sender = with_holes()?;
    let again = sender.points().iter().filter(|p| p.what == Noted::Resent);
    let again: Vec<Instant> = again.map(|point| point.at).collect();
    let counters = sender.counters();
    match which {
        "all" => Some(again.len() as f64),
        "entered" => Some(counters.recoveries as f64),
        "most" => {
            // In any span that is a little shorter than a round trip.
            let span = Duration::from_millis(99);
            let within = |from: &Instant| {
                let later = again
                    .iter()
                    .filter(|at| **at >= *from && at.since(*from) <= span);
                later.count()
            };
            again.iter().map(within).max().map(|most| most as f64)
        }
        // From the third duplicate on, one round trip for each hole.
        "round-trips" => {
            Some(counters.in_recovery.as_micros() as f64 / ROUND_TRIP.as_micros() as f64)
        }
        _ => None,
    }
}

/// A path of 100 segments a second and 100 ms, as a flow of BBR sees it round by round, each a little
/// longer than the least so that a phase is one round: its pacing rate after each.
fn paced(seed: u64, rounds: u64) -> Vec<u64> {
    let window = Window {
        cwnd: 4,
        ssthresh: u32::MAX,
        count: 0,
    };
    let stream = Stream::new(seed, "unit/bbr");
    let settings = &TcpSettings::THESIS;
    let mut bbr = Bbr1::new(
        settings,
        Instant::ZERO,
        296,
        &window,
        Some(ROUND_TRIP),
        stream,
    );
    let mut window = window;
    let mut rates: Vec<u64> = Vec::new();
    for number in 0..rounds {
        // While it probes, more is in flight than the path holds; while it drains, no more.
        let cruising = rates.iter().rev().take(1).copied().next().unwrap_or(0);
        let probes = rates.len() > 8 && cruising > 100 * 296 * 11 / 10;
        let in_flight = if probes { 16 } else { 10 };
        bbr.on_ack(
            &mut window,
            &Ack {
                now: Instant::ZERO + Duration::from_millis(101 * (number + 1)),
                acked: 10,
                losses: 0,
                lost: 0,
                prior_in_flight: in_flight,
                in_flight,
                held_back: Duration::ZERO,
                delivered: (number + 1) * 10,
                state: State::Open,
                window_limited: true,
                rtt: Some(ROUND_TRIP),
                srtt: Some(ROUND_TRIP),
                rate: Some(RateSample {
                    delivered: 10,
                    interval: ROUND_TRIP,
                    prior_delivered: number * 10,
                    app_limited: false,
                    tx_in_flight: 10,
                    lost: 0,
                }),
            },
        );
        rates.push(bbr.pacing_rate().unwrap_or_default());
    }
    rates
}

pub(super) fn bbr_gain(phase: &str) -> Option<f64> {
    let gains = |seed: u64| -> Option<Vec<f64>> {
        let rates = paced(seed, 60);
        // Startup paces at more than twice the rate of the path.
        let mut cycling: Vec<u64> = rates.clone();
        cycling.sort_unstable();
        let cruising = *cycling.get(cycling.len() / 2)? as f64;
        let all = rates.iter().map(|rate| *rate as f64 / cruising);
        Some(all.skip_while(|gain| *gain > 2.0).collect())
    };
    if phase == "starts-low" {
        let first: Option<Vec<f64>> = (1..=64).map(|seed| gains(seed)?.first().copied()).collect();
        return Some(first?.iter().filter(|gain| **gain < 0.9).count() as f64);
    }
    let phase: usize = phase.parse().ok()?;
    let gains = gains(1)?;
    // From the second time on that it probes.
    let probes = gains
        .windows(2)
        .enumerate()
        .filter(|(_, two)| two[0] < 1.1 && two[1] > 1.1);
    let (before, _) = probes.into_iter().nth(1)?;
    gains.get(before + 1 + phase).copied()
}
