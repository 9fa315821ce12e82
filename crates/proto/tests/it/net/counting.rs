//! A controller that enables the tagging of transmissions and records the matches it receives.

use std::sync::{Arc, Mutex};

use carob_cc::TransmissionParameters;
use carob_cc::controller::{Controller, CopyTagging, Timer, Window};
use carob_cc::evidence::{Answer, Answered, Expired, Matched, Start};
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::Config;

/// A reply as the controller received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedReply {
    pub at: Instant,
    /// True for the first reply, false for the separate response after an empty ACK.
    pub first: bool,
    pub answer: Answer,
    pub matched: Matched,
    pub copies: usize,
}

/// Calls to the controllers of one client, in order.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<MatchedReply>>>);

impl Log {
    pub fn heard(&self) -> Vec<MatchedReply> {
        self.0.lock().unwrap().clone()
    }

    pub fn matches(&self) -> Vec<Matched> {
        self.heard().iter().map(|heard| heard.matched).collect()
    }

    pub fn last(&self) -> Matched {
        *self.matches().last().unwrap()
    }
}

pub fn between(earliest: u8, latest: u8) -> Matched {
    Matched::Ambiguous { earliest, latest }
}

#[derive(Debug)]
struct Counter {
    counting: CopyTagging,
    timeout: Duration,
    window: u16,
    log: Log,
}

impl Counter {
    fn note(&self, first: bool, answered: &Answered<'_>) {
        self.log.0.lock().unwrap().push(MatchedReply {
            at: answered.now,
            first,
            answer: answered.answer,
            matched: answered.matched,
            copies: answered.transmissions.len(),
        });
    }
}

impl Controller for Counter {
    fn first_timeout(&mut self, _: &Start<'_>, _: &mut dyn Random) -> Timer {
        self.timeout.into()
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        expired.timeout.times(2).into()
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        self.note(true, answered);
    }

    fn on_response(&mut self, response: &Answered<'_>) {
        self.note(false, response);
    }

    fn window(&self, _: Instant, _: &TransmissionParameters) -> Window {
        Window {
            exchanges: self.window,
            bytes: u32::MAX,
        }
    }

    fn copy_tagging(&self) -> CopyTagging {
        self.counting
    }
}

/// A client with this initial timeout, doubled by each retransmission, and this tagging of transmissions.
pub fn counting(counting: CopyTagging, timeout: Duration, window: u16) -> (Config, Log) {
    let log = Log::default();
    let mut config = Config::default();
    let shared = log.clone();
    config.controller = CongestionControl::Custom(Arc::new(move |_| {
        Box::new(Counter {
            counting,
            timeout,
            window,
            log: shared.clone(),
        })
    }));
    (config, log)
}
