//! A controller with a window of several messages.

use std::sync::Arc;

use carob_cc::TransmissionParameters;
use carob_cc::controller::{Controller, Timer, Window};
use carob_cc::evidence::{Expired, Start};
use carob_cc::random::Random;
use carob_cc::time::Instant;
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::Config;

/// A window of `0` exchanges and `1` bytes with the timers of default CoAP.
#[derive(Debug)]
struct Wide(u16, u32);

impl Controller for Wide {
    fn first_timeout(&mut self, start: &Start<'_>, _: &mut dyn Random) -> Timer {
        start.parameters.ack_timeout.into()
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        expired.timeout.times(2).into()
    }

    fn window(&self, _: Instant, _: &TransmissionParameters) -> Window {
        Window {
            exchanges: self.0,
            bytes: self.1,
        }
    }
}

/// A client configuration with this window.
pub fn wide(exchanges: u16, bytes: u32) -> Config {
    let mut config = Config::default();
    config.controller =
        CongestionControl::Custom(Arc::new(move |_| Box::new(Wide(exchanges, bytes))));
    config
}
