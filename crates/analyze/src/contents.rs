//! Reading of a file: every packet or line is analysed, or counted with the reason why it is not.

use std::io::{self, BufRead, Read};

use crate::Options;
use crate::dtls::{Decryptor, is_dtls, is_dtls_1_3};
use crate::input::link::unread;
use crate::input::log::{self, LogReader};
use crate::input::packet::{Datagram, Other, PacketReader, tunnel_of};
use crate::input::sixlowpan::is_of_context;
use crate::input::{CaptureReader, Damage, Format, Frame, Step};
use crate::limits::{DAMAGES_MAX, LINE_BYTES_MAX};
use crate::message::Message;
use crate::sightings::{Held, Sightings};
use crate::summary::Contents;
use crate::tracker::{Totals, Tracker};

/// Ports of CoAP and of CoAP over DTLS (RFC 7252 section 6).
const COAP_PORT: u16 = 5_683;
const COAPS_PORT: u16 = 5_684;

/// Counts of a reading.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) contents: Contents,
    dtls: Decryptor,
    sightings: Sightings,
}

impl Reading {
    pub(crate) fn finish(self, totals: &Totals) -> Contents {
        let mut contents = self.contents;
        contents.dtls = self.dtls.counts;
        contents.unknown_link_name = contents.unknown_link.map(|kind| unread(kind).0);
        contents.messages = totals.messages;
        contents.span_us = totals.span_us;
        contents.disordered = totals.disordered;
        contents.stray_replies = totals.stray_replies;
        contents.beyond_limit = totals.beyond_limit;
        contents
    }

    fn damaged(&mut self, damage: Damage) {
        self.contents.damage_count += 1;
        if self.contents.damages.len() < DAMAGES_MAX {
            self.contents.damages.push(damage);
        }
    }

    pub(crate) fn capture(
        &mut self,
        format: Format,
        file: impl Read,
        options: &Options,
        tracker: &mut Tracker,
    ) -> io::Result<()> {
        let mut reader = CaptureReader::new(format, file);
        let mut packets = PacketReader::default();
        loop {
            match reader.next()? {
                Step::Frame(frame) => {
                    self.frame(&frame, &mut packets, options, tracker);
                    self.deliver(false, tracker);
                }
                Step::Damaged(damage) => self.damaged(damage),
                Step::End => break,
            }
        }
        self.deliver(true, tracker);
        self.sightings = Sightings::default();
        packets.fragments.finish();
        self.contents.fragments += packets.fragments.incomplete;
        self.contents.bytes += reader.offset();
        Ok(())
    }

    fn frame(
        &mut self,
        frame: &Frame<'_>,
        packets: &mut PacketReader,
        options: &Options,
        tracker: &mut Tracker,
    ) {
        self.contents.packets += 1;
        match packets.datagram(frame) {
            Ok(found) => self.datagram(frame, &found, options, tracker),
            Err(other) => self.other(frame, other),
        }
    }

    /// Counts a packet without a datagram.
    fn other(&mut self, frame: &Frame<'_>, other: Other) {
        let contents = &mut self.contents;
        match other {
            Other::Tcp => contents.tcp_segments += 1,
            Other::Fragment => {}
            Other::CutShort => {
                contents.cut_unread += 1;
                self.cut(frame);
            }
            Other::Malformed => {
                contents.broken += 1;
                self.damaged(Damage {
                    offset: frame.offset,
                    number: frame.number,
                    problem: "headers are cut short, or their lengths contradict each other"
                        .to_owned(),
                    is_end: false,
                });
            }
            Other::LinkType(kind) => {
                contents.unknown_links += 1;
                contents.unknown_link.get_or_insert(kind);
            }
            Other::Tunnel(name) => *contents.encapsulations.entry(name).or_default() += 1,
            Other::NotIp | Other::NotUdp => contents.others += 1,
        }
    }

    /// Counts a packet that the capture cut short.
    fn cut(&mut self, frame: &Frame<'_>) {
        let contents = &mut self.contents;
        contents.cut_short += 1;
        contents.cut_captured = contents.cut_captured.max(frame.bytes.len() as u32);
        contents.cut_needed = contents.cut_needed.max(frame.original_bytes);
    }

    fn datagram(
        &mut self,
        frame: &Frame<'_>,
        found: &Datagram<'_>,
        options: &Options,
        tracker: &mut Tracker,
    ) {
        if !is_wanted(found, options) {
            self.contents.others += 1;
            return;
        }
        let Some(at) = frame.at else {
            self.without_time(found, options);
            return;
        };
        if self.sightings.is_back(at) {
            self.deliver(true, tracker);
        }
        let Some(place) = self.sightings.see(at, found) else {
            return;
        };
        if is_dtls(found.payload) {
            if found.is_cut() {
                self.cut(frame);
            }
            let peers = [found.from, found.to];
            let opened = self.dtls.open(peers, found.payload, &options.secrets);
            for payload in opened {
                let message = Datagram {
                    payload: &payload,
                    payload_bytes: payload.len() as u32,
                    is_exported: true,
                    ..*found
                };
                self.message(frame, place, &message, options);
            }
            return;
        }
        let is_secured = [found.from.port(), found.to.port()].contains(&COAPS_PORT);
        if is_secured && !found.is_exported && is_dtls_1_3(found.payload) {
            self.dtls.unsupported();
            return;
        }
        self.message(frame, place, found, options);
    }

    /// Counts a datagram without a time: no exchange can be made of it.
    fn without_time(&mut self, found: &Datagram<'_>, options: &Options) {
        let is_port = is_coap_port(found, options);
        let is_other = !is_port && !options.ports.is_empty();
        let count = if is_other {
            &mut self.contents.others
        } else {
            &mut self.contents.without_time
        };
        *count += 1;
    }

    /// Holds the message of a datagram that is not encrypted, or of a decrypted one.
    fn message(
        &mut self,
        frame: &Frame<'_>,
        place: (u64, u64),
        found: &Datagram<'_>,
        options: &Options,
    ) {
        let is_port = is_coap_port(found, options);
        if !is_port && !options.ports.is_empty() {
            self.contents.others += 1;
            return;
        }
        let end = found.end();
        let message = Message::read(found, place.0, end.unwrap_or_default());
        let tunnel = tunnel_of(found).filter(|_| message.is_none() && !is_port);
        if let Some(name) = tunnel {
            *self.contents.encapsulations.entry(name).or_default() += 1;
            return;
        }
        if found.is_cut() && (is_port || message.is_some()) {
            self.contents.cut_unread += u64::from(message.is_none());
            self.cut(frame);
            if message.is_none() {
                return;
            }
        }
        let held = Held {
            from: found.from,
            to: found.to,
            end,
            is_port,
            is_exported: found.is_exported,
            message,
        };
        self.sightings.hold(place, held);
    }

    /// Hands on packets that cannot be seen again; all of them at the end of a file.
    fn deliver(&mut self, all: bool, tracker: &mut Tracker) {
        while let Some(seen) = self.sightings.next(all) {
            self.contents.repeated += seen.repeated;
            for held in &seen.held {
                self.hand_on(held, tracker);
            }
        }
    }

    /// Hands on a message, or counts a datagram without one.
    fn hand_on(&mut self, held: &Held, tracker: &mut Tracker) {
        let contents = &mut self.contents;
        let Some(message) = &held.message else {
            if held.is_port {
                contents.malformed += 1;
            } else {
                contents.others += 1;
            }
            tracker.foreign(held.from, held.to, held.end);
            return;
        };
        // On another port a conversation begins with a request of a known method.
        let is_request = message.is_request() && message.begins();
        if !held.is_port && !is_request && !tracker.known(held.from, held.to, held.end) {
            contents.others += 1;
            return;
        }
        contents.decrypted += u64::from(held.is_exported);
        let has_context = [held.from, held.to]
            .iter()
            .any(|address| is_of_context(address.ip()));
        contents.unknown_prefixes += u64::from(has_context);
        tracker.see(&Message {
            direction: message.direction.filter(|_| held.end.is_some()),
            ..*message
        });
    }

    pub(crate) fn log(
        &mut self,
        mut file: impl BufRead,
        options: &Options,
        tracker: &mut Tracker,
    ) -> io::Result<()> {
        let mut reader = LogReader::default();
        let mut line = Vec::new();
        let mut offset = 0_u64;
        loop {
            line.clear();
            let read = (&mut file)
                .take(LINE_BYTES_MAX as u64)
                .read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            let start = offset;
            offset += read as u64;
            self.contents.packets += 1;
            let is_whole = line.last() == Some(&b'\n') || read < LINE_BYTES_MAX;
            if !is_whole {
                offset += log::skip_line(&mut file)?;
            }
            let number = self.contents.packets;
            let damage = |problem: String| Damage {
                offset: start,
                number,
                problem,
                is_end: false,
            };
            if !is_whole {
                let problem = format!("a line of more than {LINE_BYTES_MAX} bytes");
                self.damaged(damage(problem));
                continue;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let wanted = |text: &str| options.peer.as_ref().is_none_or(|peer| text.contains(peer));
            if let Err(problem) = reader.line(&line, wanted, |message| tracker.see(message)) {
                self.damaged(damage(problem));
            }
        }
        self.contents.bytes += offset;
        Ok(())
    }
}

fn is_wanted(found: &Datagram<'_>, options: &Options) -> bool {
    let Some(text) = &options.peer else {
        return true;
    };
    [found.from, found.to]
        .iter()
        .any(|address| address.to_string().contains(text))
}

fn is_coap_port(found: &Datagram<'_>, options: &Options) -> bool {
    let ports = [found.from.port(), found.to.port()];
    if options.ports.is_empty() {
        found.is_exported || ports.contains(&COAP_PORT)
    } else {
        ports.iter().any(|port| options.ports.contains(port))
            || found.is_exported && options.ports.contains(&COAPS_PORT)
    }
}
