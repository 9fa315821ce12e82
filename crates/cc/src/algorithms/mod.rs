//! The controllers, one file per family.
//!
//! To add one: a file here that implements [`Controller`] and [`Family`], and one line in the table
//! below. Command line, scenarios, documentation and the contract suite read that table.

use core::fmt;

use crate::constants::{Constant, Constants, SetError};
use crate::controller::{Controller, CopyTagging, GapDetection, Gauge, Timer, Window};
use crate::evidence::{
    Abandoned, Answered, Expired, LateAnswer, Lost, PacketState, SendCandidate, Sent, Signal, Start,
};
use crate::parameters::TransmissionParameters;
use crate::random::Random;
use crate::registry::{Entry, Family};
use crate::time::Instant;

macro_rules! families {
    (small { $($module:ident: $Type:ident,)* } large { $($large:ident: $Large:ident,)* }) => {
        $(pub mod $module;)*
        $(pub mod $large;)*

        /// Any controller of the registry whose state is at most 96 bytes for a peer.
        #[derive(Debug)]
        #[allow(missing_docs)]
        pub enum SmallController {
            $($Type($module::$Type),)*
        }

        /// Any controller of the registry, without a heap.
        #[derive(Debug)]
        #[allow(missing_docs)]
        pub enum AnyController {
            Small(SmallController),
            $($Large($large::$Large),)*
        }

        macro_rules! forward_any {
            ($any:expr, $controller:ident => $call:expr) => {
                match $any {
                    AnyController::Small($controller) => $call,
                    $(AnyController::$Large($controller) => $call,)*
                }
            };
        }

        families!(@both
            $($module: $Type => (|c| AnyController::Small(SmallController::$Type(c))),)*
            $($large: $Large => (AnyController::$Large),)*
        );

        macro_rules! forward_small {
            ($any:expr, $controller:ident => $call:expr) => {
                match $any { $(SmallController::$Type($controller) => $call,)* }
            };
        }
    };
    (@both $($module:ident: $Type:ident => $any:tt,)*) => {

        /// The constants of any family.
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs)]
        pub enum Settings {
            $($Type(<$module::$Type as Family>::Constants),)*
        }

        impl Settings {
            /// Sets a constant by name from text, as `--set cc.<name>=<value>` does.
            ///
            /// # Errors
            ///
            /// [`SetError`]: no such constant, or a bad value.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), SetError> {
                match self { $(Self::$Type(constants) => constants.set(name, value),)* }
            }

            /// Visits every constant with its value.
            pub fn describe(&self, visit: &mut dyn FnMut(Constant<'_>)) {
                match self { $(Self::$Type(constants) => constants.describe(visit),)* }
            }

            /// The family, by the name of its module.
            pub fn family(&self) -> &'static str {
                match self { $(Self::$Type(_) => stringify!($module),)* }
            }

            /// Builds a controller for one peer with these constants.
            pub fn build(&'static self) -> AnyController {
                match self {
                    $(Self::$Type(constants) => $any($module::$Type::new(constants)),)*
                }
            }
        }

        /// Every controller, family by family.
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
                    build: |index| $any($module::$Type::new(
                        &<$module::$Type as Family>::PROFILES[index].constants,
                    )),
                    index,
                })
            ))*
        }
    };
}

families! {
    small {
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
    large {
        carob: Carob,
    }
}

mod retained;

/// Implements `Controller` for an enum of controllers.
macro_rules! forwarding {
    ($Any:ident, $forward:ident) => {
        impl Controller for $Any {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        $forward!(self, c => c.first_timeout(start, random))
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, random: &mut dyn Random) -> Timer {
        $forward!(self, c => c.next_timeout(expired, random))
    }

    fn on_sent(&mut self, sent: &Sent<'_>, random: &mut dyn Random) -> PacketState {
        $forward!(self, c => c.on_sent(sent, random))
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        $forward!(self, c => c.on_answered(answered));
    }

    fn on_lost(&mut self, lost: &Lost) {
        $forward!(self, c => c.on_lost(lost));
    }

    fn on_response(&mut self, response: &Answered<'_>) {
        $forward!(self, c => c.on_response(response));
    }

    fn on_late_answer(&mut self, late: &LateAnswer) {
        $forward!(self, c => c.on_late_answer(late));
    }

    fn on_abandoned(&mut self, abandoned: &Abandoned<'_>) {
        $forward!(self, c => c.on_abandoned(abandoned));
    }

    fn on_signal(&mut self, now: Instant, signal: Signal) {
        $forward!(self, c => c.on_signal(now, signal));
    }

    fn window(&self, now: Instant, parameters: &TransmissionParameters) -> Window {
        $forward!(self, c => c.window(now, parameters))
    }

    fn earliest_departure_time(&self, candidate: &SendCandidate<'_>) -> Instant {
        $forward!(self, c => c.earliest_departure_time(candidate))
    }

    fn gap_detection(&self) -> Option<GapDetection> {
        $forward!(self, c => c.gap_detection())
    }

    fn must_confirm(&self, candidate: &SendCandidate<'_>) -> bool {
        $forward!(self, c => c.must_confirm(candidate))
    }

    fn copy_tagging(&self) -> CopyTagging {
        $forward!(self, c => c.copy_tagging())
    }

    fn gauges(&self, now: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        $forward!(self, c => c.gauges(now, visit));
    }
        }
    };
}

forwarding!(SmallController, forward_small);
forwarding!(AnyController, forward_any);

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
