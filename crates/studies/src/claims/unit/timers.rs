//! Facts about controllers: their timers on a given sequence of round trips and losses.

use carob_cc::controller::Gauge;
use carob_cc::random::Fixed;
use carob_cc::time::Duration;

use carob_lab::replay::{Dither, Event, Outcome, Run, Script, Step, Subject, replay};

const SECOND: f64 = 1e6;

fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / SECOND
}

fn subject(controller: &str, set: &[&str]) -> Option<Subject> {
    let set: Vec<String> = set.iter().map(|&typed| typed.to_owned()).collect();
    let mut all = Subject::all(&[controller.to_owned()], &set).ok()?;
    (all.len() == 1).then(|| all.remove(0))
}

/// Plays a script under a controller, with the low end of every dithered timer.
fn play(controller: &str, script: &str) -> Option<Run> {
    let script = Script::read("unit", script).ok()?;
    Some(subject(controller, &[])?.run(&script, Dither::Low))
}

fn last(run: &Run) -> Option<&Step> {
    run.steps.last()
}

fn first_timer(step: &Step) -> Option<f64> {
    step.timers.first().copied().map(seconds)
}

/// The timers of a message of default CoAP without an answer, the first of 3 s.
fn unanswered() -> Option<Vec<f64>> {
    let script = Script::read("unit", "fail").ok()?;
    let run =
        subject("default", &["ack_timeout=3 s", "ack_random_factor=1"])?.run(&script, Dither::Low);
    Some(last(&run)?.timers.iter().copied().map(seconds).collect())
}

pub(super) fn transmission_at(copy: &str) -> Option<f64> {
    let (copy, timers) = (copy.parse::<usize>().ok()?, unanswered()?);
    Some(
        timers
            .get(..copy)?
            .iter()
            .fold(0.0, |sum, timer| sum + timer),
    )
}

pub(super) fn longest_timer(_: &str) -> Option<f64> {
    unanswered()?.into_iter().reduce(f64::max)
}

/// The script with round trips of that length at which `found` is nearest to `wanted`; it must
/// rise with them.
fn by_bisection(
    wanted: f64,
    script: impl Fn(u64) -> String,
    found: impl Fn(&str) -> Option<f64>,
) -> Option<String> {
    let (mut low, mut high) = (1_001, 60_000_000);
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if found(&script(middle))? < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(script(high))
}

/// Round trips that become so long so slowly that no timer runs out before.
fn drift(rtt: u64) -> String {
    format!("rtt 1 ms to {rtt} us x 300\nrtt {rtt} us x 100")
}

/// The timers of a message without an answer, in seconds, for this length of the first.
fn timers_from(controller: &str, first: f64) -> Option<Vec<f64>> {
    if controller == "default" {
        let first = format!("ack_timeout={} us", (first * SECOND) as u64);
        let subject = subject(controller, &[&first, "ack_random_factor=1"])?;
        let script = Script::read("unit", "fail").ok()?;
        let run = subject.run(&script, Dither::Low);
        return Some(last(&run)?.timers.iter().copied().map(seconds).collect());
    }
    let script = |rtt: u64| format!("{}\nfail", drift(rtt));
    let timer = |script: &str| first_timer(last(&play(controller, script)?)?);
    let found = by_bisection(first, script, timer)?;
    let run = play(controller, &found)?;
    Some(last(&run)?.timers.iter().copied().map(seconds).collect())
}

pub(super) fn copy_at(argument: &str) -> Option<f64> {
    let (rest, copy) = argument.rsplit_once('-')?;
    let (controller, first) = rest.rsplit_once('-')?;
    let timers = timers_from(controller, first.parse().ok()?)?;
    let before = timers.get(..copy.parse().ok()?)?;
    Some(before.iter().fold(0.0, |sum, timer| sum + timer))
}

/// Each exchange's first timer and how long it took, in seconds, where round trips go up and down
/// in steps, or evenly: ARGUMENT is a controller and `stairs` or `saw`.
fn shaped(argument: &str) -> Option<Vec<(f64, f64)>> {
    let (controller, shape) = argument.rsplit_once('-')?;
    let round = match shape {
        "stairs" => {
            "rtt 500 ms x 40\nrtt 1 s x 40\nrtt 1500 ms x 40\nrtt 2 s x 40\nrtt 1500 ms x 40\nrtt 1 s x 40\n"
        }
        "saw" => "rtt 500 ms to 2 s x 40\n",
        _ => return None,
    };
    let run = play(controller, &round.repeat(4))?;
    let one = |step: &Step| Some((first_timer(step)?, seconds(step.took())));
    run.steps.iter().map(one).collect()
}

pub(super) fn rto_distance(argument: &str) -> Option<f64> {
    let all = shaped(argument)?;
    let distances = all.iter().map(|(timer, took)| (timer - took).abs() / took);
    Some(distances.sum::<f64>() / all.len() as f64)
}

pub(super) fn rto_too_short(argument: &str) -> Option<f64> {
    let all = shaped(argument)?;
    let short = all.iter().filter(|(timer, took)| timer < took);
    Some(short.count() as f64 / all.len() as f64)
}

pub(super) fn weak_updates(controller: &str) -> Option<f64> {
    // An RTO also ages while transmissions are lost: it has to differ from the RTO of a
    // controller without weak samples.
    let [with, without] = [&[][..], &["cc.weak_limit=0"]].map(|set| subject(controller, set));
    let (with, without) = (with?, without?);
    let changes = |lost: u32| -> Option<bool> {
        let text = format!("rtt 500 ms x 40\nlost {lost}, rtt 500 ms");
        let script = Script::read("unit", &text).ok()?;
        let rto = |subject: &Subject| last(&subject.run(&script, Dither::Low))?.rto;
        Some(rto(&with) != rto(&without))
    };
    let all: Option<Vec<bool>> = (1..=4).map(changes).collect();
    Some(all?.into_iter().filter(|changed| *changed).count() as f64)
}

pub(super) fn weak_round_trip(controller: &str) -> Option<f64> {
    let run = play(controller, "rtt 500 ms x 40\nlost 1, rtt 500 ms")?;
    let [.., before, after] = &run.steps[..] else {
        return None;
    };
    let (old, new) = (seconds(before.rto?), seconds(after.rto?));
    // The first sample R makes the estimate R + R/2, and the RTO a quarter of it and the old rest.
    let round_trip = (new - 0.75 * old) / 0.25 / 1.5;
    Some(round_trip / seconds(after.took()))
}

pub(super) fn backed_off(first: &str) -> Option<f64> {
    let wanted = first.parse().ok()?;
    let exchange = |script: &str| play("cocoa-03", script);
    let script = |rtt: u64| format!("{}\nlost 1, rtt {rtt} us", drift(rtt));
    let timer = |script: &str| first_timer(last(&exchange(script)?)?);
    let found = by_bisection(wanted, script, timer)?;
    last(&exchange(&found)?)?
        .timers
        .get(1)
        .copied()
        .map(seconds)
}

pub(super) fn aged(controller: &str) -> Option<f64> {
    let rto = |script: &str| Some(seconds(last(&play(controller, script)?)?.rto?));
    let found = by_bisection(4.5, drift, rto)?;
    let after = play(controller, &format!("{found}\nidle 18001 ms\nrtt 1 s"))?;
    first_timer(last(&after)?)
}

pub(super) fn carried_backoff(controller: &str) -> Option<f64> {
    let run = play(
        controller,
        "rtt 800 ms x 40\nlost 2, rtt 800 ms\nrtt 800 ms",
    )?;
    let [.., before, _, after] = &run.steps[..] else {
        return None;
    };
    Some(first_timer(after)? / first_timer(before)?)
}

/// The RTO before a peak, right after it, and after each sample from then on.
fn peak(controller: &str) -> Option<(f64, Vec<f64>)> {
    let run = play(
        controller,
        "rtt 1 s x 10\nrtt 5 s, known\nrtt 1 s, known x 200",
    )?;
    let rtos: Option<Vec<f64>> = run.steps.iter().map(|s| s.rto.map(seconds)).collect();
    let rtos = rtos?;
    Some((*rtos.get(9)?, rtos.get(10..)?.to_vec()))
}

pub(super) fn peak_rise(controller: &str) -> Option<f64> {
    let (before, after) = peak(controller)?;
    Some(after.first()? / before)
}

pub(super) fn peak_samples(controller: &str) -> Option<f64> {
    let (before, after) = peak(controller)?;
    let near = after.iter().position(|rto| *rto <= 1.5 * before);
    Some(near.unwrap_or(after.len()) as f64)
}

/// FASOR after samples, in an exchange whose transmissions are all lost.
fn fasor(samples: &str) -> Option<(f64, f64, Step)> {
    let subject = subject("fasor", &[])?;
    let mut controller = subject.controller.build();
    let mut script = String::from("rtt 800 ms x 40\n");
    for letter in samples.chars() {
        script += match letter {
            'a' => "lost 1, rtt 800 ms\n",
            'u' => "rtt 800 ms\n",
            _ => return None,
        };
    }
    let events = |text: &str| -> Option<Vec<Event>> {
        let script = Script::read("unit", text).ok()?;
        Some(
            script
                .events
                .iter()
                .map(|scripted| scripted.event)
                .collect(),
        )
    };
    let mut random = Fixed::low();
    let parameters = &subject.parameters;
    let before = replay(events(&script)?, &mut *controller, parameters, &mut random);
    let now = before.last()?.ended;
    let (mut mode, mut slow) = (None, None);
    controller.gauges(now, &mut |name, gauge| match (name, gauge) {
        ("mode", Gauge::State(state)) => {
            mode = match state {
                "fast" => Some(0.0),
                "fast-slow-fast" => Some(1.0),
                "slow-fast" => Some(2.0),
                _ => None,
            };
        }
        ("slow_rto", Gauge::Time(rto)) => slow = Some(seconds(rto)),
        _ => {}
    });
    let step = replay(events("fail")?, &mut *controller, parameters, &mut random);
    let slow = slow.unwrap_or(f64::NAN);
    Some((mode?, slow, step.into_iter().next()?))
}

pub(super) fn fasor_mode(samples: &str) -> Option<f64> {
    Some(fasor(samples)?.0)
}

pub(super) fn fasor_timer(argument: &str) -> Option<f64> {
    let [mode, copy, estimate] = argument.split('-').collect::<Vec<_>>()[..] else {
        return None;
    };
    let samples = match mode {
        "fast" => "u",
        "fsf" => "a",
        "sf" => "aa",
        _ => return None,
    };
    let (_, slow, step) = fasor(samples)?;
    let timer = step
        .timers
        .get(copy.parse::<usize>().ok()?.checked_sub(1)?)?;
    // The first timer that is not the slow one is random.
    let drawn = seconds(*step.timers.get(usize::from(mode == "sf"))?);
    let over = match estimate {
        "fast" => drawn,
        "slow" => slow,
        "larger" => slow.max(2.0 * drawn),
        _ => return None,
    };
    Some(seconds(*timer) / over)
}

/// Notifications that a server has to send at once, after it has learnt the round trip.
fn notified(controller: &str, rtt: &str) -> Option<Vec<Step>> {
    let text = format!("rtt {rtt} x 40\nnotify, rtt {rtt} x 1600");
    let script = Script::read("unit", &text).ok()?;
    let run = subject(controller, &[])?.run(&script, Dither::Seed(1));
    Some(run.steps.get(40..)?.to_vec())
}

pub(super) fn non_gap(argument: &str) -> Option<f64> {
    let (controller, which) = argument.rsplit_once('-')?;
    let steps = notified(controller, "1 s")?;
    // After one that left as CON its acknowledgement is waited for, too.
    let apart = steps
        .windows(2)
        .filter(|two| two[0].outcome == Outcome::Unconfirmed);
    let gaps: Option<Vec<f64>> = apart
        .map(|two| Some(seconds(two[1].began.since(two[0].began)) / seconds(two[0].rto?)))
        .collect();
    let gaps = gaps?;
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    match which {
        "least" => gaps.into_iter().reduce(f64::min),
        "most" => gaps.into_iter().reduce(f64::max),
        "mean" => Some(mean),
        _ => None,
    }
}

pub(super) fn non_gap_seconds(argument: &str) -> Option<f64> {
    let (controller, rtt) = argument.rsplit_once('-')?;
    let rtt = match rtt {
        "0.1" => "100 ms",
        "5" => "5 s",
        _ => return None,
    };
    let steps = notified(controller, rtt)?;
    let (first, last) = (steps.first()?, steps.last()?);
    Some(seconds(last.began.since(first.began)) / (steps.len() - 1) as f64)
}

pub(super) fn con_share(controller: &str) -> Option<f64> {
    let steps = notified(controller, "1 s")?;
    let confirmed = steps.iter().filter(|s| s.outcome != Outcome::Unconfirmed);
    Some(confirmed.count() as f64 / steps.len() as f64)
}

pub(super) fn count_truth(lost: &str) -> Option<f64> {
    let lost: u8 = lost.parse().ok()?;
    let rto = |script: &str| Some(seconds(last(&play("rtt-count", script)?)?.rto?));
    let with = rto(&format!(
        "rtt 500 ms to 1 s x 10\nlost {lost}, rtt 700 ms x 5"
    ))?;
    Some(with / rto("rtt 500 ms to 1 s x 10\nrtt 700 ms x 5")?)
}

pub(super) fn count_updates(_: &str) -> Option<f64> {
    let script = "rtt 500 ms x 10\nrtt 600 ms\nlost 1, rtt 700 ms\nlost 2, rtt 800 ms\n\
                  lost 3, rtt 900 ms\nlost 4, rtt 1 s";
    let run = play("rtt-count", script)?;
    let changed = run.steps[9..]
        .windows(2)
        .filter(|pair| pair[0].rto != pair[1].rto);
    Some(changed.count() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_finds_the_requested_timer() {
        let found = backed_off("0.9").expect("there is one");
        assert!((found / 0.9 - 3.0).abs() < 0.001, "{found}");
        let found = backed_off("4").expect("there is one");
        assert!((found / 4.0 - 1.5).abs() < 0.001, "{found}");
    }

    #[test]
    fn a_peak_is_forgotten_and_a_controller_without_an_rto_has_none() {
        let samples = peak_samples("cocoa-03").expect("it keeps one");
        assert!(samples > 0.0 && samples < 200.0, "{samples}");
        assert_eq!(peak_samples("nobody"), None);
    }

    #[test]
    fn notifications_are_held_apart() {
        let [least, most] = ["cocoa-002-least", "cocoa-002-most"].map(non_gap);
        assert!(least < most && least > Some(0.5), "{least:?} {most:?}");
    }
}
