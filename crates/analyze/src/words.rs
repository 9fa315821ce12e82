//! The analysis in sentences: findings, and limits of what this capture can show.

use std::fmt::Write as _;

use crate::fit::{Certainty, Fitted};
use crate::input::link::unread;
use crate::place::Place;
use crate::summary::{Analysis, FlowReport};

/// A time in its largest unit, with three digits.
pub(crate) fn time(us: u64) -> String {
    let digits = |value: f64| match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    let us = us as f64;
    match us {
        600_000_000.0.. => format!("{} min", digits(us / 60e6)),
        1_000_000.0.. => format!("{} s", digits(us / 1e6)),
        1_000.0.. => format!("{} ms", digits(us / 1e3)),
        _ => format!("{us:.0} us"),
    }
}

/// A share in percent.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        value if value < 10.0 => format!("{value:.1} %"),
        value => format!("{value:.0} %"),
    }
}

/// `1 exchange`, `2 exchanges`.
fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

impl Analysis {
    /// Returns the findings, a sentence or two each, the most important first.
    pub fn findings(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.contents.messages == 0 {
            found.push(self.nothing());
            return found;
        }
        found.push(format!(
            "{} between {} and {} in {}, captured {}.",
            count(self.contents.messages, "message"),
            count(self.clients, "client"),
            count(self.servers, "server"),
            time(self.contents.span_us),
            self.place,
        ));
        if self.contents.repeated > 0 {
            found.push(format!(
                "{} repeated by the capture (several interfaces, a mirror port or a router): each packet \
                 counts once.",
                count(self.contents.repeated, "packet"),
            ));
        }
        let flows = [
            (&self.requests, "requests", "Requests"),
            (
                &self.responses,
                "notifications and separate responses",
                "Notifications and responses",
            ),
        ];
        for (flow, name, begin) in flows {
            if flow.exchanges > 0 {
                flow_findings(flow, name, begin, &mut found);
            }
        }
        self.loss_findings(&mut found);
        self.body_findings(&mut found);
        found
    }

    fn nothing(&self) -> String {
        let contents = &self.contents;
        let mut parts = Vec::new();
        for (number, noun) in [
            (contents.dtls.records, "DTLS record"),
            (contents.tcp_segments, "TCP segment"),
            (contents.fragments, "fragment"),
            (
                contents.unknown_links,
                "packet of a link type without a reader",
            ),
            (contents.cut_unread, "packet cut short by the capture"),
            (
                contents.encapsulations.values().sum(),
                "packet in encapsulations without a reader",
            ),
            (contents.malformed, "malformed datagram"),
            (contents.others, "other packet"),
        ] {
            if number > 0 {
                parts.push(count(number, noun));
            }
        }
        if parts.is_empty() {
            "No CoAP messages: the file holds no packets that could be read.".to_owned()
        } else {
            format!("No CoAP messages over UDP, but {}.", parts.join(", "))
        }
    }

    fn loss_findings(&self, found: &mut Vec<String>) {
        let transmissions = count(self.losses.transmissions, "CON transmission");
        match self.losses.round_trip {
            Some(0.0) => {
                found.push(format!("No loss: each of {transmissions} had a reply."));
                return;
            }
            Some(share) => found.push(format!(
                "{} of {transmissions} had no reply: the loss of round trips.",
                percent(share),
            )),
            None => {}
        }
        for (loss, way) in [
            (self.losses.to_server, "towards servers"),
            (self.losses.to_client, "towards clients"),
        ] {
            if let Some(loss) = loss {
                let share = percent(loss.share);
                found.push(format!("Loss {way}: {share} ({}).", loss.basis));
            }
        }
        if let Some(burst) = self.losses.burst.filter(|burst| *burst > 1.0) {
            found.push(format!(
                "Losses come in runs of {burst:.1} packets in the mean."
            ));
        }
    }

    fn body_findings(&self, found: &mut Vec<String>) {
        let transfers = &self.transfers;
        if transfers.complete + transfers.incomplete > 0 {
            let rate = if transfers.complete > 0 {
                format!("; goodput {} B/s in the median", transfers.median_goodput)
            } else {
                String::new()
            };
            found.push(format!(
                "Block-wise transfers: {} complete, {} incomplete{rate}.",
                transfers.complete, transfers.incomplete
            ));
        }
        let seen = &self.observations;
        if seen.observations > 0 {
            let mut text = format!(
                "{} with {}, {} of them in CON messages",
                count(seen.observations, "observation"),
                count(seen.notifications, "notification"),
                seen.confirmable,
            );
            if seen.interval.count > 0 {
                let _ = write!(
                    text,
                    "; an interval of {} in the median",
                    time(seen.interval.p50_us)
                );
            }
            found.push(text + ".");
        }
    }

    /// Returns what this capture cannot show, each with what would.
    pub fn unknowns(&self) -> Vec<String> {
        let mut unknown = Vec::new();
        let contents = &self.contents;
        if contents.messages > 0 {
            self.place_unknowns(&mut unknown);
        }
        self.rate_unknowns(&mut unknown);
        if self.requests.undecided + self.responses.undecided > 0 {
            unknown.push(format!(
                "Of {} it is not known whether they were spurious.",
                count(
                    self.requests.undecided + self.responses.undecided,
                    "retransmission"
                )
            ));
        }
        for (number, text) in [
            (
                contents.dtls.without_key,
                "DTLS records were not decrypted: no key of their sessions is known. Give the pre-shared \
                 keys or a key log, capture with --pcap of carob, which writes messages decrypted, or \
                 export decrypted PDUs with Wireshark",
            ),
            (
                contents.dtls.without_handshake,
                "DTLS records were not decrypted: the handshake of their sessions is not in the capture",
            ),
            (
                contents.dtls.unsupported,
                "DTLS records were not decrypted: their cipher suite or version has no reader",
            ),
            (
                contents.dtls.failed,
                "DTLS records were not decrypted: the keys do not fit, or the records are cut short or \
                 damaged",
            ),
            (
                contents.dtls.beyond_limit,
                "DTLS records are of sessions beyond the limit",
            ),
            (
                contents.tcp_segments,
                "TCP segments were not analysed: CoAP over UDP is",
            ),
            (
                contents.fragments,
                "fragments belong to packets of which others were not captured",
            ),
            (contents.malformed, "datagrams at CoAP's ports are not CoAP"),
            (
                contents.without_time,
                "packets have no time (Simple Packet Blocks)",
            ),
            (
                contents.beyond_limit,
                "messages are of peers beyond the limit",
            ),
            (
                contents.stray_replies,
                "replies belong to messages that were not captured",
            ),
            (
                contents.disordered,
                "messages have an earlier time than one before them",
            ),
        ] {
            if number > 0 {
                unknown.push(format!("{number} {text}."));
            }
        }
        self.packet_unknowns(&mut unknown);
        let listed = &contents.damages;
        unknown.extend(listed.iter().map(|damage| format!("Damage at {damage}.")));
        let more = contents.damage_count - listed.len() as u64;
        if more > 0 {
            unknown.push(format!("{} more.", count(more, "damaged place")));
        }
        unknown
    }

    /// Packets that could not be read, or not whole.
    fn packet_unknowns(&self, unknown: &mut Vec<String>) {
        let contents = &self.contents;
        if let Some(kind) = contents.unknown_link {
            let (name, conversion) = unread(kind);
            unknown.push(format!(
                "{} not read for their link type, {kind} ({name}) first: {conversion}.",
                count(contents.unknown_links, "packet"),
            ));
        }
        if contents.cut_short > 0 {
            unknown.push(format!(
                "Contents of {} that the capture cut short, at {} B or less: options and payloads beyond that, \
                 and {} without a whole CoAP header. Capture whole packets: tcpdump -s 0, here at least -s {}.",
                count(contents.cut_short, "packet"),
                contents.cut_captured,
                contents.cut_unread,
                contents.cut_needed,
            ));
        }
        if contents.unknown_prefixes > 0 {
            unknown.push(format!(
                "Prefixes of 6LoWPAN contexts in {}: the capture does not have them, and \
                 2001:db8:6282:CONTEXT::/64 stands for each.",
                count(contents.unknown_prefixes, "message"),
            ));
        }
        let names: Vec<String> = (contents.encapsulations.iter())
            .map(|(name, number)| format!("{number} {name}"))
            .collect();
        if !names.is_empty() {
            unknown.push(format!(
                "Packets in encapsulations without a reader: {}. Capture where they are not encapsulated.",
                names.join(", ")
            ));
        }
    }

    /// Rates that the capture does not show.
    fn rate_unknowns(&self, unknown: &mut Vec<String>) {
        let Some(link) = &self.link else {
            return;
        };
        let is_unknown = |fitted: &Fitted| fitted.certainty == Certainty::Unknown;
        let both = [
            (is_unknown(&link.down_bps), "towards the devices"),
            (is_unknown(&link.up_bps), "from the devices"),
        ];
        let ways: Vec<&str> = both.iter().filter(|one| one.0).map(|one| one.1).collect();
        if !ways.is_empty() {
            unknown.push(format!(
                "Rate {}: neither sizes that vary nor a queue show transmission times. Capture requests and \
                 responses of different sizes.",
                ways.join(" and ")
            ));
        }
    }

    fn place_unknowns(&self, unknown: &mut Vec<String>) {
        let both_ends = self
            .losses
            .to_server
            .is_some_and(|loss| loss.basis == crate::loss::LossBasis::BothEnds);
        let text = match self.place {
            Place::Client if both_ends => return,
            Place::Client => {
                "Losses by direction: a capture at the client alone shows lost round trips. Give a \
                 capture at the server too."
            }
            Place::Server => {
                "Round trips and lost requests of clients: a capture at the server shows only what \
                 arrives. Capture at a client."
            }
            Place::Between => {
                "Round trips from end to end: the capture is between the peers. Capture at a client."
            }
            Place::Unknown => {
                "Round trips and spurious retransmissions: it is not clear where this was captured. \
                 Capture with directions (pcapng, or `tcpdump -i any`)."
            }
            Place::Both => return,
        };
        unknown.push(text.to_owned());
    }
}

fn flow_findings(flow: &FlowReport, name: &str, begin: &str, found: &mut Vec<String>) {
    let mut text = format!(
        "{} of {name}: {} answered, {} not",
        count(flow.exchanges, "exchange"),
        flow.answered,
        flow.unanswered,
    );
    if flow.resets > 0 {
        let _ = write!(text, ", {} rejected", flow.resets);
    }
    if flow.open > 0 {
        let _ = write!(text, ", {} cut short by the end of the capture", flow.open);
    }
    found.push(text + ".");
    if let Some(times) = flow.round_trip {
        found.push(format!(
            "{begin}: round trip {} in the median, {} at the 95th percentile, {} to {}.",
            time(times.p50_us),
            time(times.p95_us),
            time(times.min_us),
            time(times.max_us),
        ));
    }
    if flow.retransmissions > 0 {
        let spurious = match flow.spurious {
            Some(0) => "none of them spurious".to_owned(),
            Some(spurious) => format!("{spurious} of them spurious"),
            None => "how many were spurious is not known".to_owned(),
        };
        let doubt = match flow.spurious_uncertain {
            0 => String::new(),
            doubt => format!(" ({doubt} in doubt)"),
        };
        found.push(format!(
            "{begin}: {}, {spurious}{doubt}.",
            count(flow.retransmissions, "retransmission")
        ));
    }
    if let Some(times) = flow.server_time {
        found.push(format!(
            "{begin}: the peer took {} in the median to respond, {} at the 95th percentile.",
            time(times.p50_us),
            time(times.p95_us),
        ));
    }
    if let Some(times) = flow.unconfirmed {
        found.push(format!(
            "{begin} in NON messages: a response after {} in the median, server time included.",
            time(times.p50_us),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let texts = [7, 1_500, 65_400, 2_345_000, 93_000_000].map(time);
        assert_eq!(texts, ["7 us", "1.50 ms", "65.4 ms", "2.35 s", "93.0 s"]);
        assert_eq!([0.0, 0.012, 0.25].map(percent), ["0 %", "1.2 %", "25 %"]);
    }
}
