//! The health resource, for load balancers and operators.
//!
//! The endpoint responds itself, even while every handler is busy. Utilisation helps an attacker as
//! well as an operator, so the resource exists only if it is configured, and its representation has
//! no version, address or peer.

use std::fmt::Write as _;

use carob_cc::time::Instant;
use carob_proto::codec::{Code, ContentFormat};
use carob_proto::endpoint::Endpoint;
use carob_proto::message::Response;

/// Utilisation of a server's tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Health {
    /// Seconds since its endpoint was opened.
    uptime: u64,
    /// Per cent of limits, by their names.
    load: [(&'static str, usize); 5],
    /// The same of sessions, where the transport has any. At their limit the oldest is closed and nothing refused,
    /// so that they do not count as overload.
    sessions: Option<usize>,
}

/// States of a server; the first is the normal one.
const STATES: [&str; 2] = ["ok", "overloaded"];

impl Health {
    /// Returns the health of an endpoint, with its running handlers and its sessions, each with the limit.
    pub(crate) fn of(
        endpoint: &Endpoint,
        now: Instant,
        (active, limit): (usize, usize),
        sessions: Option<(usize, usize)>,
    ) -> Self {
        let (usage, limits) = (endpoint.usage(), endpoint.config().limits);
        let share = |held: usize, limit: usize| held.saturating_mul(100) / limit.max(1);
        Self {
            uptime: now.as_micros() / 1_000_000,
            load: [
                ("handlers", share(active, limit)),
                ("incoming", share(usage.incoming, limits.incoming)),
                ("observers", share(usage.observers, limits.observers)),
                (
                    "all_upload_bytes",
                    share(usage.uploads.1, limits.all_upload_bytes),
                ),
                ("connections", share(usage.connections, limits.connections)),
            ],
            sessions: sessions.map(|(open, limit)| share(open, limit)),
        }
    }

    fn loads(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let sessions = self.sessions.map(|load| ("sessions", load));
        self.load.into_iter().chain(sessions)
    }

    fn state(&self) -> &'static str {
        let full = self.load.iter().any(|&(_, load)| load >= 100);
        STATES[usize::from(full)]
    }

    /// The response in this format: 2.05, or 5.03 with the same body if the server is overloaded.
    /// It must not be cached.
    pub(crate) fn answer(&self, format: ContentFormat) -> Response {
        let body = match format {
            ContentFormat::JSON => self.json().into_bytes(),
            ContentFormat::CBOR => self.cbor(),
            _ => self.text().into_bytes(),
        };
        let mut response = Response::content(format, body);
        // 5.03, so that a load balancer need not read the body.
        if self.state() != STATES[0] {
            response.code = Code::SERVICE_UNAVAILABLE;
        }
        // A cached answer would hide the overload that it is asked for.
        response.with_max_age(std::time::Duration::ZERO)
    }

    fn text(&self) -> String {
        let mut text = format!("{}\nuptime {} s\n", self.state(), self.uptime);
        for (name, load) in self.loads() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} {load} %");
        }
        text
    }

    fn json(&self) -> String {
        let load = self
            .loads()
            .map(|(name, load)| format!("\"{name}\":{load}"));
        let load: Vec<String> = load.collect();
        let (state, uptime, load) = (self.state(), self.uptime, load.join(","));
        format!("{{\"state\":\"{state}\",\"uptime_s\":{uptime},\"load_percent\":{{{load}}}}}")
    }

    /// A map of three entries (RFC 8949): `state`, `uptime_s`, and the map `load_percent`.
    fn cbor(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        let text = |bytes: &mut Vec<u8>, text: &str| {
            cbor_head(bytes, TEXT, text.len() as u64);
            bytes.extend_from_slice(text.as_bytes());
        };
        cbor_head(&mut bytes, MAP, 3);
        text(&mut bytes, "state");
        text(&mut bytes, self.state());
        text(&mut bytes, "uptime_s");
        cbor_head(&mut bytes, UNSIGNED, self.uptime);
        text(&mut bytes, "load_percent");
        cbor_head(&mut bytes, MAP, self.loads().count() as u64);
        for (name, load) in self.loads() {
            text(&mut bytes, name);
            cbor_head(&mut bytes, UNSIGNED, load as u64);
        }
        bytes
    }
}

/// Major types (RFC 8949 3.1).
const UNSIGNED: u8 = 0;
const TEXT: u8 = 3;
const MAP: u8 = 5;

/// Writes the head of a CBOR item in its shortest form (RFC 8949 3, 4.2.1).
fn cbor_head(bytes: &mut Vec<u8>, major: u8, value: u64) {
    let major = major << 5;
    match value {
        0..=23 => bytes.push(major | value as u8),
        24..=0xff => bytes.extend_from_slice(&[major | 0x18, value as u8]),
        0x100..=0xffff => {
            bytes.push(major | 0x19);
            bytes.extend_from_slice(&(value as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            bytes.push(major | 0x1a);
            bytes.extend_from_slice(&(value as u32).to_be_bytes());
        }
        _ => {
            bytes.push(major | 0x1b);
            bytes.extend_from_slice(&value.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_table_gives_5_03_with_its_name() {
        let mut health = Health {
            uptime: 61,
            load: [
                ("handlers", 50),
                ("incoming", 0),
                ("observers", 99),
                ("all_upload_bytes", 0),
                ("connections", 0),
            ],
            sessions: None,
        };
        assert_eq!(health.answer(ContentFormat::JSON).code, Code::CONTENT);
        health.load[0].1 = 100;
        let answer = health.answer(ContentFormat::JSON);
        assert_eq!(answer.code, Code::SERVICE_UNAVAILABLE);
        let json = core::str::from_utf8(answer.bytes()).expect("text");
        assert_eq!(
            json,
            "{\"state\":\"overloaded\",\"uptime_s\":61,\"load_percent\":{\"handlers\":100,\
             \"incoming\":0,\"observers\":99,\"all_upload_bytes\":0,\"connections\":0}}"
        );
        let text = health.text();
        assert!(
            text.starts_with("overloaded\nuptime 61 s\nhandlers 100 %\n"),
            "{text}"
        );
        health.sessions = Some(100);
        let cbor = health.cbor();
        let mut decoder = minicbor::Decoder::new(&cbor);
        assert_eq!(decoder.map().expect("a map"), Some(3));
        assert_eq!(decoder.str().expect("a key"), "state");
        assert_eq!(decoder.str().expect("a state"), "overloaded");
        health.load[0].1 = 50;
        let text = health.text();
        assert!(text.starts_with("ok\n"), "sessions are replaced: {text}");
        assert!(text.ends_with("\nsessions 100 %\n"), "{text}");
        assert!(health.json().ends_with("\"sessions\":100}}"));
    }

    #[test]
    fn cbor_heads_are_the_shortest() {
        for value in [
            0,
            23,
            24,
            255,
            256,
            65_535,
            65_536,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            let mut own = Vec::new();
            cbor_head(&mut own, UNSIGNED, value);
            let mut expected = [0; 9];
            let mut encoder = minicbor::Encoder::new(expected.as_mut_slice());
            encoder.u64(value).expect("it fits");
            assert_eq!(own, expected[..own.len()]);
            assert_eq!(minicbor::Decoder::new(&own).u64().expect("a number"), value);
        }
    }
}
