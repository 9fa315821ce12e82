//! Reading of a file: every packet or line is analysed, or counted with the reason why it is not.

use std::io::{self, BufRead, Read};

use crate::Options;
use crate::dtls::{Decryptor, is_dtls, is_dtls_1_3};
use crate::input::log::{self, LogReader};
use crate::input::packet::{Datagram, Other, datagram};
use crate::input::{CaptureReader, Damage, Format, Frame, Step};
use crate::limits::{DAMAGES_MAX, LINE_BYTES_MAX};
use crate::message::Message;
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
}

impl Reading {
    pub(crate) fn finish(self, totals: &Totals) -> Contents {
        let mut contents = self.contents;
        contents.dtls = self.dtls.counts;
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
        loop {
            match reader.next()? {
                Step::Frame(frame) => self.frame(&frame, options, tracker),
                Step::Damaged(damage) => self.damaged(damage),
                Step::End => break,
            }
        }
        self.contents.bytes += reader.offset();
        Ok(())
    }

    fn frame(&mut self, frame: &Frame<'_>, options: &Options, tracker: &mut Tracker) {
        let contents = &mut self.contents;
        contents.packets += 1;
        let found = match datagram(frame) {
            Ok(found) => found,
            Err(other) => {
                match other {
                    Other::Tcp => contents.tcp_segments += 1,
                    Other::Fragment => contents.fragments += 1,
                    Other::Malformed => {
                        contents.broken += 1;
                        self.damaged(Damage {
                            offset: frame.offset,
                            number: frame.number,
                            problem:
                                "headers are cut short, or their lengths contradict each other"
                                    .to_owned(),
                            is_end: false,
                        });
                    }
                    Other::LinkType(kind) => {
                        contents.unknown_links += 1;
                        contents.unknown_link.get_or_insert(kind);
                    }
                    Other::NotIp | Other::NotUdp => contents.others += 1,
                }
                return;
            }
        };
        self.datagram(frame, &found, options, tracker);
    }

    fn datagram(
        &mut self,
        frame: &Frame<'_>,
        found: &Datagram<'_>,
        options: &Options,
        tracker: &mut Tracker,
    ) {
        let contents = &mut self.contents;
        if !is_wanted(found, options) {
            contents.others += 1;
            return;
        }
        if is_dtls(found.payload) {
            let peers = [found.from, found.to];
            let opened = self.dtls.open(peers, found.payload, &options.secrets);
            for payload in opened {
                let message = Datagram {
                    payload: &payload,
                    payload_bytes: payload.len() as u32,
                    is_exported: true,
                    ..*found
                };
                self.message(frame, &message, options, tracker);
            }
            return;
        }
        let is_secured = [found.from.port(), found.to.port()].contains(&COAPS_PORT);
        if is_secured && !found.is_exported && is_dtls_1_3(found.payload) {
            self.dtls.unsupported();
            return;
        }
        self.message(frame, found, options, tracker);
    }

    /// Handles a datagram that is not encrypted, or a decrypted one.
    fn message(
        &mut self,
        frame: &Frame<'_>,
        found: &Datagram<'_>,
        options: &Options,
        tracker: &mut Tracker,
    ) {
        let contents = &mut self.contents;
        let is_port = is_coap_port(found, options);
        if !is_port && !options.ports.is_empty() {
            contents.others += 1;
            return;
        }
        let Some(at) = frame.at else {
            contents.without_time += 1;
            return;
        };
        let Some(message) = Message::read(found, at, frame.interface) else {
            if is_port {
                contents.malformed += 1;
            } else {
                contents.others += 1;
            }
            tracker.foreign(
                found.from,
                found.to,
                found.direction.map(|_| frame.interface),
            );
            return;
        };
        // On another port a conversation begins with a request of a known method.
        let is_request = message.is_request() && message.begins();
        let point = message.direction.map(|_| frame.interface);
        if !is_port && !is_request && !tracker.known(message.from, message.to, point) {
            contents.others += 1;
            return;
        }
        contents.decrypted += u64::from(found.is_exported);
        tracker.see(&message);
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
