//! The controllers, one file per family.
//!
//! To add one: a file here that implements [`Controller`] and [`Family`],
//! and one line in the table below. Command line, scenarios, documentation and the contract
//! suite then know it.

use core::fmt;

use crate::constants::{Constant, Constants, SetError};
use crate::controller::{Controller, Counting, Gauge, Timer, Window};
use crate::evidence::{
    Abandoned, Answered, Departure, Expired, LateAnswer, Lost, Sent, Signal, Stamp, Start,
};
use crate::parameters::TransmissionParameters;
use crate::random::Random;
use crate::registry::{Entry, Family};
use crate::time::Instant;

macro_rules! families {
    ($($module:ident: $Type:ident,)*) => {
        $(pub mod $module;)*

        /// Any controller of the registry, without a heap.
        #[derive(Debug)]
        #[allow(missing_docs)]
        pub enum AnyController {
            $($Type($module::$Type),)*
        }

        /// The constants of any family.
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs)]
        pub enum Settings {
            $($Type(<$module::$Type as Family>::Constants),)*
        }

        impl Settings {
            /// Sets a constant by name from text, as `--set cc.<name>=<value>` does.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), SetError> {
                match self { $(Self::$Type(constants) => constants.set(name, value),)* }
            }

            /// Names every constant with its value.
            pub fn describe(&self, visit: &mut dyn FnMut(Constant<'_>)) {
                match self { $(Self::$Type(constants) => constants.describe(visit),)* }
            }

            /// The family they are of, by the name of its module.
            pub fn family(&self) -> &'static str {
                match self { $(Self::$Type(_) => stringify!($module),)* }
            }

            /// A controller for one peer with these constants.
            pub fn build(&'static self) -> AnyController {
                match self {
                    $(Self::$Type(constants) => {
                        AnyController::$Type($module::$Type::new(constants))
                    })*
                }
            }
        }

        /// Every controller there is, family by family.
        pub fn entries() -> impl Iterator<Item = Entry> {
            core::iter::empty()$(.chain(
                <$module::$Type as Family>::PROFILES.iter().enumerate().map(|(index, profile)| Entry {
                    name: profile.name,
                    about: profile.about,
                    source: profile.source,
                    project_choice: profile.project_choice,
                    shrinks: <$module::$Type as Family>::SHRINKS,
                    suggested: profile.suggested,
                    path: concat!(stringify!($module), "::", stringify!($Type)),
                    state_bytes: size_of::<$module::$Type>(),
                    settings: |index| {
                        Settings::$Type(<$module::$Type as Family>::PROFILES[index].constants)
                    },
                    build: |index| AnyController::$Type($module::$Type::new(
                        &<$module::$Type as Family>::PROFILES[index].constants,
                    )),
                    index,
                })
            ))*
        }

        macro_rules! forward {
            ($any:expr, $controller:ident => $call:expr) => {
                match $any { $(AnyController::$Type($controller) => $call,)* }
            };
        }
    };
}

families! {
    default: DefaultCoap,
    observe_static: ObserveStatic,
    cocoa: Cocoa,
    cocoa_4state: Cocoa4State,
    pcocoa: Pcocoa,
    cocoa_plus_plus: CocoaPlusPlus,
    full_backoff: FullBackoff,
    fasor: Fasor,
    rfc6298: Rfc6298,
    linux_rto: LinuxRto,
    peak_hopper: PeakHopper,
    basic_rto: BasicRto,
}

mod retained;

impl Controller for AnyController {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        forward!(self, c => c.first_timeout(start, random))
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, random: &mut dyn Random) -> Timer {
        forward!(self, c => c.next_timeout(expired, random))
    }

    fn on_sent(&mut self, sent: &Sent<'_>, random: &mut dyn Random) -> Stamp {
        forward!(self, c => c.on_sent(sent, random))
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        forward!(self, c => c.on_answered(answered));
    }

    fn on_lost(&mut self, lost: &Lost) {
        forward!(self, c => c.on_lost(lost));
    }

    fn on_response(&mut self, response: &Answered<'_>) {
        forward!(self, c => c.on_response(response));
    }

    fn on_late_answer(&mut self, late: &LateAnswer) {
        forward!(self, c => c.on_late_answer(late));
    }

    fn on_abandoned(&mut self, abandoned: &Abandoned<'_>) {
        forward!(self, c => c.on_abandoned(abandoned));
    }

    fn on_signal(&mut self, now: Instant, signal: Signal) {
        forward!(self, c => c.on_signal(now, signal));
    }

    fn window(&self, now: Instant, parameters: &TransmissionParameters) -> Window {
        forward!(self, c => c.window(now, parameters))
    }

    fn departure(&self, departure: &Departure<'_>) -> Instant {
        forward!(self, c => c.departure(departure))
    }

    fn must_confirm(&self, departure: &Departure<'_>) -> bool {
        forward!(self, c => c.must_confirm(departure))
    }

    fn counting(&self) -> Counting {
        forward!(self, c => c.counting())
    }

    fn gauges(&self, now: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        forward!(self, c => c.gauges(now, visit));
    }
}

impl fmt::Display for Settings {
    /// `alpha = 1/8, beta = 1/4, ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut first, mut result) = (true, Ok(()));
        self.describe(&mut |c| {
            if result.is_ok() {
                result = write!(
                    f,
                    "{}{} = {}",
                    if first { "" } else { ", " },
                    c.name,
                    c.value
                );
            }
            first = false;
        });
        result
    }
}
