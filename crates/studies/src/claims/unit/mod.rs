//! Facts about the protocol code itself, which need no network: `unit(NAME, ARGUMENT)` in rules.
//!
//! Each is found out by driving the code that runs everywhere else: controllers on a given sequence
//! of round trips and losses (`timers`), what messages look like (`framing`), one hop of a wireless network (`hop`), two endpoints that
//! exchange messages (`endpoints`), TCP's sender alone (`windows`).

mod endpoints;
mod framing;
mod hop;
mod timers;
mod windows;

/// A fact.
#[derive(Clone, Copy, Debug)]
pub struct Fact {
    /// Its name in rules.
    pub name: &'static str,
    /// Description, one sentence.
    pub about: &'static str,
    /// Finds it out; nothing if it is not about this argument.
    find: fn(&str) -> Option<f64>,
}

const fn fact(name: &'static str, about: &'static str, find: fn(&str) -> Option<f64>) -> Fact {
    Fact { name, about, find }
}

/// Every fact.
pub const FACTS: &[Fact] = &[
    fact(
        "transmission-at",
        "When default CoAP sends copy ARGUMENT of a message nobody answers, in seconds after the first, if that one's timer is 3 s; copy 5 stands for giving up.",
        timers::transmission_at,
    ),
    fact(
        "longest-timer",
        "Its longest timer then, in seconds.",
        timers::longest_timer,
    ),
    fact(
        "backed-off",
        "CoCoA's second timer in seconds, where the first is ARGUMENT.",
        timers::backed_off,
    ),
    fact(
        "copy-at",
        "When a controller sends a copy of a message that nobody answers, in seconds after the first: ARGUMENT is the controller, its first timer and the copy, such as `cocoa-plus-0.25-4`; copy 5 stands for giving up.",
        timers::copy_at,
    ),
    fact(
        "rto-distance",
        "How far first timers are from the time that their exchange takes, over that time, in the mean of 960 exchanges whose round trips go up and down in steps between 0.5 and 2 s, or of 160 in which they rise evenly and fall at once: ARGUMENT is a controller and `stairs` or `saw`.",
        timers::rto_distance,
    ),
    fact(
        "rto-too-short",
        "Share of those timers that are shorter than the exchange takes.",
        timers::rto_too_short,
    ),
    fact(
        "hop-delivery",
        "Share of the frames that cross one hop of a wireless network in 10,000 tries, with nobody else on the air: ARGUMENT is the share that arrives of each transmission in per cent and the transmissions a frame may have, such as `75-4`; or `drawn-4`, that share being drawn from the distribution of lossy links.",
        hop::delivery,
    ),
    fact(
        "weak-updates",
        "Of exchanges with 1 to 4 retransmissions, each after others without, how many change the RTO of the CoCoA named ARGUMENT by their sample.",
        timers::weak_updates,
    ),
    fact(
        "weak-round-trip",
        "The round trip that the first weak sample gives CoCoA (K_weak 1, weight 1/4), by what it makes of the RTO, over the time since the first copy.",
        timers::weak_round_trip,
    ),
    fact(
        "aged",
        "CoCoA's next timer in seconds, where its RTO was 4.5 s and nothing was heard for 18 s (ARGUMENT: cocoa-03 or another).",
        timers::aged,
    ),
    fact(
        "carried-backoff",
        "The first timer after an exchange with two timeouts over the one before it, under the controller ARGUMENT.",
        timers::carried_backoff,
    ),
    fact(
        "peak-rise",
        "The RTO after one round trip five times as long as the ten before it, over the RTO before, under the controller ARGUMENT.",
        timers::peak_rise,
    ),
    fact(
        "peak-samples",
        "Samples after it until the RTO is within a half of what it was, under the controller ARGUMENT.",
        timers::peak_samples,
    ),
    fact(
        "fasor-mode",
        "FASOR's mode after samples as in ARGUMENT, letter by letter, a for an ambiguous one and u for another: 0 Fast, 1 Fast-Slow-Fast, 2 Slow-Fast.",
        timers::fasor_mode,
    ),
    fact(
        "fasor-timer",
        "FASOR's timer of a copy over that drawn from its fast RTO (`fast`), over its slow RTO (`slow`), or over the larger of that and twice the fast one (`larger`): ARGUMENT is mode, copy (1-5) and one of these, such as `fsf-2-larger`.",
        timers::fasor_timer,
    ),
    fact(
        "non-gap",
        "How long NON notifications are held apart over the RTO, of 1,600 that a server has to send at once: ARGUMENT is a controller and one of least, most and mean, such as `cocoa-002-least`.",
        timers::non_gap,
    ),
    fact(
        "non-gap-seconds",
        "The same in seconds, where round trips take 100 ms or 5 s: ARGUMENT is a controller and one of them, such as `observe-static-5`.",
        timers::non_gap_seconds,
    ),
    fact(
        "con-share",
        "Of those, the share that leaves as CON under the controller ARGUMENT.",
        timers::con_share,
    ),
    fact(
        "count-truth",
        "The RTO of rtt-count after exchanges of which ARGUMENT copies were lost, over what it is after the same round trips without losses.",
        timers::count_truth,
    ),
    fact(
        "count-updates",
        "Of exchanges with 0 to 4 retransmissions, how many changed the RTO of rtt-count.",
        timers::count_updates,
    ),
    fact(
        "tcp-length-bytes",
        "Bytes of extended length of a message over TCP with ARGUMENT bytes of options and payload; -1 if it does not decode to that.",
        framing::length_bytes,
    ),
    fact(
        "tcp-header-bytes",
        "Bytes of its header without a token.",
        framing::header_bytes,
    ),
    fact(
        "block-bytes",
        "The least or most bytes of a block (ARGUMENT: least or most), or how many sizes there are (sizes).",
        framing::block_bytes,
    ),
    fact(
        "csm",
        "1 if so, else 0: ARGUMENT is client-first or server-first (an end's first message is its CSM), no-wait (a client's request leaves before it has heard of the server), missing or invalid (an end aborts that heard none or a bad one).",
        endpoints::csm,
    ),
    fact(
        "any-order",
        "Of three requests over one connection that are answered last first, how many get their own answer.",
        endpoints::any_order,
    ),
    fact(
        "negotiated-block",
        "Bytes of a block (ARGUMENT: first, middle or last) where the server wants 64 at most and the client 1024, of a body of 1,000.",
        endpoints::negotiated_block,
    ),
    fact(
        "count-option",
        "1 if so, else 0: ARGUMENT is first (a request's first copy carries the count), copies (all others do, each its own), echoed (answers carry that of the copy they answer), critical (a peer must understand it), ignored (a server that does not know it answers all the same).",
        endpoints::count_option,
    ),
    fact(
        "recovery-copies",
        "New Reno with three holes in a window of 16: the most retransmissions in a round trip (ARGUMENT: most), all of them (all), fast recoveries (entered), or how many round trips it was in them (round-trips).",
        windows::recovery,
    ),
    fact(
        "bbr-gain",
        "BBR's pacing gain in phase ARGUMENT of ProbeBW, counted from the one that probes; `starts-low` is how many of 64 flows begin with 3/4.",
        windows::bbr_gain,
    ),
];

/// A fact by name; nothing if there is none of that name, or it is not about this argument.
pub fn value(name: &str, argument: &str) -> Option<f64> {
    let fact = FACTS.iter().find(|fact| fact.name == name)?;
    (fact.find)(argument)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_names_are_unique_without_extra_arguments() {
        for (place, fact) in FACTS.iter().enumerate() {
            assert!(FACTS[..place].iter().all(|other| other.name != fact.name));
            assert!(fact.about.ends_with('.'), "{}", fact.name);
        }
        assert_eq!(value("transmission-at", "noon"), None);
        assert_eq!(value("no-such-fact", ""), None);
    }
}
