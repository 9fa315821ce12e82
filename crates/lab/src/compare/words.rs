//! The answer in words.

use carob_cc::TransmissionParameters;

use super::configuration::BLOCKS;
use super::gate::OVERLOADED;
use super::judge::Measured;
use super::search::NEAR_UNSURE;
use super::{Answer, LEFT_OUT, Ranked, TrafficKind, Transfer};

/// Share of the recommendation's mean time below which an excluded configuration is named.
const FASTER: f64 = 0.95;

/// A time for sentences, in the unit that suits it.
pub fn seconds(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0} s"),
        10.0.. => format!("{value:.1} s"),
        1.0.. => format!("{value:.2} s"),
        0.01.. => format!("{:.0} ms", value * 1_000.0),
        0.001.. => format!("{:.2} ms", value * 1_000.0),
        _ => format!("{:.0} us", value * 1e6),
    }
}

/// A number for tables with three digits, of hundredths with two; seconds below a millisecond to the microsecond.
pub fn digits(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        0.01.. => format!("{value:.3}"),
        0.001.. => format!("{value:.5}"),
        0.000_000_5.. => format!("{value:.6}"),
        _ => "0".to_owned(),
    }
}

/// The subject of percentiles, such as `responses`.
pub(super) fn percentiles_of(answer: &Answer) -> &'static str {
    if answer.traffic.is_observe() {
        "subscribers' mean delays"
    } else if answer.traffic.is_blockwise() {
        "downloads"
    } else {
        "responses"
    }
}

pub(super) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value.abs() < 10.0 {
        format!("{value:.1} %")
    } else {
        format!("{value:.0} %")
    }
}

pub(super) fn words(answer: &Answer) -> Vec<String> {
    let alone = |one: &&Ranked| one.configuration.transfer == Transfer::Block;
    let tried = answer.ranked.iter().filter(alone);
    let recommendation = match misfit(tried.map(|one| one.measured.undelivered)) {
        Some(misfit) => format!("{misfit} {}", recommendation(answer)),
        None => recommendation(answer),
    };
    let mut words = vec![recommendation, evidence(answer)];
    words.extend(with_peer(answer));
    words.push(certainty(answer));
    if !answer.is_complete() {
        let preliminary = words[0].clone();
        words[0] = format!("Interrupted; so far: {preliminary}");
        words.insert(1, unchecked(answer));
    }
    words.extend(flips(answer));
    words
}

/// A warning where most fails with every configuration: the order of the rest has no use then.
fn misfit(undelivered: impl Iterator<Item = f64>) -> Option<String> {
    let least = undelivered.fold(1.0, f64::min);
    (least > OVERLOADED).then(|| {
        let failed = percent(least);
        format!("This traffic does not fit the link: at least {failed} fail with everything that was tried.")
    })
}

/// The configuration that is better with support at the peer.
fn with_peer(answer: &Answer) -> Option<String> {
    let one = &answer.ranked[answer.with_peer?];
    let end = if answer.traffic.is_observe() {
        "client"
    } else {
        "server"
    };
    let [mean, slow] = [one.measured.time_s, one.measured.tail_s].map(seconds);
    Some(format!(
        "Better with {} at the {end}: {}, {mean} on average, the slowest 5 % {slow}; its cost is {:.2} of default CoAP's.",
        one.configuration.transfer.needs()?,
        one.configuration,
        one.cost.value,
    ))
}

/// How sure an answer is that an interruption left incomplete.
fn unchecked(answer: &Answer) -> String {
    let (done, left) = (answer.neighbours.len(), &answer.unchecked);
    format!(
        "This may change: {} seeds were made, and {} of {} links nearby were not tried ({}).",
        answer.seeds,
        left.len(),
        done + left.len(),
        left.join(", ")
    )
}

fn subject(kind: TrafficKind) -> &'static str {
    match kind {
        TrafficKind::Firmware => "A download takes",
        TrafficKind::Command => "A command is answered in",
        TrafficKind::Telemetry | TrafficKind::Own => "A response comes in",
        TrafficKind::Observe => "A notification arrives in",
    }
}

fn recommendation(answer: &Answer) -> String {
    let best = answer.recommended();
    let is_blockwise = answer.traffic.is_blockwise();
    if answer.recommended == 0 {
        let mut others = answer.ranked.iter().skip(1);
        let closest = others.find(|one| one.configuration.transfer == Transfer::Block);
        let why = match closest {
            // The gain that is worth a change (GAIN_WORTH): only a limit excludes this one.
            Some(one) if one.cost.value < 0.9 && !one.excluded.is_empty() => ruled_out(one),
            _ => "no other is at least 10 % and 5 ms better beyond chance".to_owned(),
        };
        return format!("Stay with default CoAP: {why}.");
    }
    let plain = &answer.default_coap().configuration;
    let mut parts = Vec::new();
    // A packet too small for the stack's own block size requires a setting, too.
    let block = best.configuration.block;
    if is_blockwise && (block != plain.block || block != BLOCKS[0]) {
        parts.push(format!("blocks of {block} B"));
    }
    parts.extend(best.configuration.timers.words());
    let controller = best.configuration.controller;
    if parts.is_empty() {
        let more = if controller == "carob" { "" } else { "else " };
        return format!("Use {controller}. Nothing {more}to set.");
    }
    format!("Use {controller} with {}.", parts.join(", "))
}

/// The limit that excludes a configuration which costs less.
fn ruled_out(one: &Ranked) -> String {
    let (name, cost) = (&one.configuration, one.cost.value);
    let reason = one.excluded.first().map(ToString::to_string);
    let reason = reason.unwrap_or_default();
    format!("{name} costs less ({cost:.2}), but is excluded: {reason}")
}

/// Times and failures beside default CoAP.
fn evidence(answer: &Answer) -> String {
    let subject = subject(answer.traffic.kind);
    let (a, b) = (
        &answer.recommended().measured,
        &answer.default_coap().measured,
    );
    if answer.recommended == 0 {
        return format!("{} {}", alone(subject, a), default_settings());
    }
    let [mean, slow] = [a.time_s, a.tail_s].map(seconds);
    let [mean_before, slow_before] = [b.time_s, b.tail_s].map(seconds);
    let mut sentences = vec![format!(
        "{subject} {mean} on average instead of {mean_before} under default CoAP, the slowest 5 % \
         {slow} instead of {slow_before}."
    )];
    // Smaller differences do not show: shares have one decimal of a per cent.
    if (a.undelivered - b.undelivered).abs() >= 0.001 {
        let [failed, before] = [a.undelivered, b.undelivered].map(percent);
        sentences.push(format!("{failed} fail instead of {before}."));
    }
    sentences.push(place(answer).to_owned());
    let configuration = &answer.recommended().configuration;
    if configuration.controller == "default" && configuration.timers.lengthens() {
        sentences.push(
            "RFC 7252 4.8.1 permits a longer ACK_TIMEOUT without further mechanisms.".to_owned(),
        );
    }
    // Without a neighbour both are 0, and the sentence below is left out.
    let ratio = a.harm_s / b.harm_s.max(1e-9);
    if b.harm_s > 0.0 && (ratio - 1.0).abs() >= 0.05 {
        let [waits, before] = [a.harm_s, b.harm_s].map(seconds);
        sentences.push(format!(
            "A neighbour with default CoAP waits {waits} instead of {before}."
        ));
    }
    sentences.join(" ")
}

/// The end at which the recommendation is set.
fn place(answer: &Answer) -> &'static str {
    if answer.traffic.is_observe() {
        "Set it at the server, which sends the notifications."
    } else if answer.traffic.is_blockwise() {
        "Set it at the client, which requests the blocks; the server needs no change."
    } else {
        "Set it at the client, which sends the requests; the server needs no change."
    }
}

/// The parameters of default CoAP, for stacks in which others may be set.
fn default_settings() -> String {
    let own = TransmissionParameters::DEFAULT;
    format!(
        "Default CoAP has ACK_TIMEOUT {}, ACK_RANDOM_FACTOR {}, MAX_RETRANSMIT {} and NSTART {}.",
        own.ack_timeout, own.ack_random_factor, own.max_retransmit, own.nstart
    )
}

/// Times and failures of default CoAP.
fn alone(subject: &str, measured: &Measured) -> String {
    let failed = percent(measured.undelivered);
    // Times of the few others would be no description of the traffic.
    if measured.undelivered > 0.99 {
        return format!("{failed} fail.");
    }
    let [mean, slow] = [measured.time_s, measured.tail_s].map(seconds);
    format!("{subject} {mean} on average, the slowest 5 % {slow}; {failed} fail.")
}

/// The interval of the cost, and links nearby.
fn certainty(answer: &Answer) -> String {
    let best = answer.recommended();
    let mut sentences = Vec::new();
    if answer.recommended > 0 {
        sentences.push(format!(
            "Its cost is {:.2} of default CoAP's (95 % interval {:.2} to {:.2}, {} paired seeds).",
            best.cost.value, best.cost.low, best.cost.high, answer.seeds
        ));
        sentences.extend(unsettled(answer));
        if !answer.neighbours.is_empty() {
            sentences.push(format!(
                "It is not worse than default CoAP on any of {} links nearby ({}).",
                answer.neighbours.len(),
                answer.neighbours.join(", ")
            ));
        }
        let cheaper = answer.ranked.iter().skip(1);
        let cheaper = cheaper.filter(|one| one.configuration.transfer == Transfer::Block);
        let mut cheaper = cheaper.filter(|one| one.cost.value < best.cost.value);
        let (excluded, fit): (Vec<&Ranked>, Vec<&Ranked>) =
            cheaper.by_ref().partition(|one| !one.excluded.is_empty());
        if let Some(one) = fit.first() {
            let why = if one.cost.value * NEAR_UNSURE < best.cost.value {
                "but saves at most 5 ms and is less simple"
            } else {
                "about as much, but is less simple"
            };
            let (name, cost) = (&one.configuration, one.cost.value);
            sentences.push(format!("{name} costs {cost:.2}, {why}."));
        }
        if let Some(one) = excluded.first() {
            sentences.push(format!("{}.", ruled_out(one)));
        } else if let Some(faster) = faster_but_excluded(answer) {
            sentences.push(faster);
        }
    } else {
        sentences.push(format!(
            "All were compared by {} paired seeds.",
            answer.seeds
        ));
        sentences.extend(unsettled(answer));
    }
    sentences.push(
        "Not tried, by RFC 7252 4.8.1: ACK_TIMEOUT below 2 s without timers that follow the round trip."
            .to_owned(),
    );
    sentences.push(format!(
        "{} of {} controllers are left out: they deliver less than default CoAP in the stress suite, repeat a \
         study or a program, or need more of the peer.",
        LEFT_OUT.len(),
        LEFT_OUT.len() + answer.controllers.len()
    ));
    sentences.join(" ")
}

fn unsettled(answer: &Answer) -> Option<String> {
    let text = "With other seeds the recommendation may be another one.";
    (!answer.is_settled).then(|| text.to_owned())
}

/// The fastest configuration of the table that a limit excludes, where it is faster by a twentieth than the
/// recommendation.
fn faster_but_excluded(answer: &Answer) -> Option<String> {
    let most = answer.recommended().measured.time_s * FASTER;
    let of_table = answer.ranked.iter().skip(1);
    let faster = of_table
        .filter(|one| one.configuration.transfer == Transfer::Block && one.measured.time_s < most)
        .filter(|one| !one.excluded.is_empty())
        .min_by(|a, b| a.measured.time_s.total_cmp(&b.measured.time_s))?;
    Some(format!(
        "{} is faster ({} on average), but is excluded: {}.",
        faster.configuration,
        seconds(faster.measured.time_s),
        faster.excluded.first()?
    ))
}

/// Links nearby where another configuration is better.
fn flips(answer: &Answer) -> Option<String> {
    if answer.flips.is_empty() {
        let stays = "It stays the choice on every link nearby that was tried.";
        let was_tried = answer.recommended > 0 && !answer.neighbours.is_empty();
        return was_tried.then(|| stays.to_owned());
    }
    // Where few configurations are better at many places, each is named once.
    let mut by_configuration: Vec<(String, Vec<&str>, [f64; 2])> = Vec::new();
    for flip in &answer.flips {
        let name = flip.configuration.to_string();
        let known = by_configuration.iter_mut().find(|(of, ..)| *of == name);
        if let Some((_, at, [low, high])) = known {
            at.push(&flip.at);
            (*low, *high) = (low.min(flip.cost), high.max(flip.cost));
        } else {
            by_configuration.push((name, vec![&flip.at], [flip.cost; 2]));
        }
    }
    let list = by_configuration.iter().map(|(name, at, [low, high])| {
        let [low, high] = [low, high].map(|cost| format!("{cost:.2}"));
        let costs = if low == high {
            low
        } else {
            format!("{low} to {high}")
        };
        format!("{name} at {} ({costs} of its cost)", at.join(", "))
    });
    let list: Vec<String> = list.collect();
    Some(format!("Better elsewhere: {}.", list.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_that_never_arrives_has_no_times() {
        let measured = |undelivered| Measured {
            undelivered,
            time_s: 2.0,
            tail_s: 3.0,
            ..Measured::default()
        };
        let some = alone("A response comes in", &measured(0.5));
        assert_eq!(
            some,
            "A response comes in 2.00 s on average, the slowest 5 % 3.00 s; 50 % fail."
        );
        let none = alone("A response comes in", &measured(1.0));
        assert_eq!(none, "100 % fail.");
        let worst = misfit([0.95, 0.86].into_iter());
        let text = "This traffic does not fit the link: at least 86 % fail with everything that was tried.";
        assert_eq!(worst.as_deref(), Some(text));
        assert_eq!(misfit([0.95, 0.4].into_iter()), None);
    }

    #[test]
    fn short_times_keep_three_digits() {
        assert_eq!(
            (seconds(0.000_42), digits(0.000_42)),
            ("420 us".to_owned(), "0.000420".to_owned())
        );
        assert_eq!(
            (seconds(0.012), digits(0.012)),
            ("12 ms".to_owned(), "0.012".to_owned())
        );
        assert_eq!(
            (seconds(0.001_52), digits(0.001_52)),
            ("1.52 ms".to_owned(), "0.00152".to_owned())
        );
        assert_eq!(digits(0.0), "0");
    }
}
