//! Whether a server can take more: a resource for load balancers and people.
//!
//! It is answered by the endpoint itself, so that it is answered when every handler is busy. What it
//! tells helps whoever wants to fill a server as well as whoever wants to keep it from that, so
//! there is none unless it was asked for; and it tells no version, address or peer.

use std::fmt::Write as _;

use carob_cc::time::Instant;
use carob_proto::codec::{Code, ContentFormat};
use carob_proto::endpoint::Endpoint;
use carob_proto::message::Response;

/// How full a server's tables are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Health {
    /// Seconds since its endpoint was opened.
    uptime: u64,
    /// Per cent of limits, by their names.
    load: [(&'static str, usize); 5],
}

/// What is said of a server, in this order; the first is what it is like if nothing is the matter.
const STATES: [&str; 2] = ["ok", "overloaded"];

impl Health {
    /// How an endpoint fares whose handlers are so many, of so many.
    pub(crate) fn of(endpoint: &Endpoint, now: Instant, (active, limit): (usize, usize)) -> Self {
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
        }
    }

    fn state(&self) -> &'static str {
        let full = self.load.iter().any(|&(_, load)| load >= 100);
        STATES[usize::from(full)]
    }

    /// The answer in this format: 2.05, or 5.03 with the same body for who only looks at the code.
    /// Nobody keeps it.
    pub(crate) fn answer(&self, format: ContentFormat) -> Response {
        let body = match format {
            ContentFormat::JSON => self.json().into_bytes(),
            ContentFormat::CBOR => self.cbor(),
            _ => self.text().into_bytes(),
        };
        let mut response = Response::content(format, body);
        if self.state() != STATES[0] {
            response.code = Code::SERVICE_UNAVAILABLE;
        }
        response.with_max_age(std::time::Duration::ZERO)
    }

    fn text(&self) -> String {
        let mut text = format!("{}\nuptime {} s\n", self.state(), self.uptime);
        for (name, load) in self.load {
            // A string takes whatever is written.
            let _ = writeln!(text, "{name} {load} %");
        }
        text
    }

    fn json(&self) -> String {
        let load = (self.load.iter()).map(|(name, load)| format!("\"{name}\":{load}"));
        let load: Vec<String> = load.collect();
        let (state, uptime, load) = (self.state(), self.uptime, load.join(","));
        format!("{{\"state\":\"{state}\",\"uptime_s\":{uptime},\"load_percent\":{{{load}}}}}")
    }

    fn cbor(&self) -> Vec<u8> {
        let mut encoder = minicbor::Encoder::new(Vec::new());
        let mut write = || {
            encoder.map(3)?.str("state")?.str(self.state())?;
            encoder.str("uptime_s")?.u64(self.uptime)?;
            encoder.str("load_percent")?.map(self.load.len() as u64)?;
            for (name, load) in self.load {
                encoder.str(name)?.u64(load as u64)?;
            }
            Ok::<_, minicbor::encode::Error<core::convert::Infallible>>(())
        };
        let written = write();
        debug_assert!(written.is_ok(), "a vector takes whatever is written");
        encoder.into_writer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_makes_the_answer_an_error_that_says_which() {
        let mut health = Health {
            uptime: 61,
            load: [
                ("handlers", 50),
                ("incoming", 0),
                ("observers", 99),
                ("all_upload_bytes", 0),
                ("connections", 0),
            ],
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
        let cbor = health.cbor();
        let mut decoder = minicbor::Decoder::new(&cbor);
        assert_eq!(decoder.map().expect("a map"), Some(3));
        assert_eq!(decoder.str().expect("a key"), "state");
        assert_eq!(decoder.str().expect("a state"), "overloaded");
    }
}
