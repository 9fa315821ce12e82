//! A program that consists of calls to one congestion controller, to measure its code size.
//!
//! Every value comes from volatile memory, so that the compiler cannot omit any code of the controller. Functions that no
//! engine calls (gauges) are not called. The file in `FLASH_SUBJECT` has two lines: `use ... as Subject;` and
//! `const NAME: &str = ...;`. `Nothing` is the program without a controller, whose size is to be subtracted.
#![no_std]
#![no_main]

use core::hint::black_box;
use core::mem::MaybeUninit;
use core::ptr::{addr_of_mut, read_volatile, write_volatile};

use carob_cc::TransmissionParameters;
use carob_cc::controller::{Controller, Timer};
use carob_cc::evidence::{
    Abandoned, Answer, Answered, ExchangeState, Expired, Kind, LateAnswer, Lost, PacketState, Reason,
    SendCandidate, Sent, Signal, Start, Transmission,
};
use carob_cc::random::Random;
use carob_cc::registry::{Family, Profile, Suggested};
use carob_cc::time::{Duration, Instant};

include!(env!("FLASH_SUBJECT"));

carob_cc::constants! {
    /// None.
    pub struct NoConstants {}
}

/// As little as a controller can be.
#[derive(Debug)]
pub struct Nothing;

impl Family for Nothing {
    type Constants = NoConstants;
    const PROFILES: &'static [Profile<NoConstants>] = &[Profile {
        name: "nothing",
        about: "",
        source: "",
        project_choice: None,
        constants: NoConstants {},
        suggested: Suggested::NONE,
    }];

    fn new(_: &'static NoConstants) -> Self {
        Self
    }
}

impl Controller for Nothing {
    fn first_timeout(&mut self, start: &Start<'_>, _: &mut dyn Random) -> Timer {
        start.parameters.ack_timeout.into()
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        expired.timeout.into()
    }
}

/// The profile of that name.
const fn find<C>(profiles: &'static [Profile<C>]) -> usize {
    let mut index = 0;
    loop {
        let (name, wanted) = (profiles[index].name.as_bytes(), NAME.as_bytes());
        if name.len() == wanted.len() {
            let mut at = 0;
            while at < name.len() && name[at] == wanted[at] {
                at += 1;
            }
            if at == name.len() {
                return index;
            }
        }
        index += 1;
    }
}

const PROFILES: &[Profile<<Subject as Family>::Constants>] = Subject::PROFILES;
/// Copied: a reference to one profile would link all profiles of its family.
static CONSTANTS: <Subject as Family>::Constants = PROFILES[find(PROFILES)].constants;
const SUGGESTED: Suggested = PROFILES[find(PROFILES)].suggested;

/// The controller's state: the whole cost per destination.
static mut STATE: MaybeUninit<Subject> = MaybeUninit::uninit();

/// Address of inputs and outputs.
const PORT: *mut u64 = 0x4000_0000 as *mut u64;

fn value() -> u64 {
    // SAFETY: never executed; the address is in the peripheral region of the target.
    unsafe { read_volatile(PORT) }
}

fn show(value: u64) {
    // SAFETY: as above.
    unsafe { write_volatile(PORT, value) }
}

struct Chance;

impl Random for Chance {
    fn next_u32(&mut self) -> u32 {
        value() as u32
    }
}

fn instant() -> Instant {
    Instant::from_micros(value())
}

fn duration() -> Duration {
    Duration::from_micros(value())
}

/// The entry point for the linker.
#[unsafe(no_mangle)]
pub extern "C" fn _start() -> ! {
    let parameters = TransmissionParameters::DEFAULT;
    let parameters = SUGGESTED.apply(parameters);
    // SAFETY: there is no other thread and no other reference.
    let controller = unsafe { (*addr_of_mut!(STATE)).write(Subject::new(&CONSTANTS)) };
    // Opaque to the optimizer, so that the calls below are not evaluated at compile time.
    let controller = black_box(controller);
    loop {
        let now = instant();
        let kind = if value() == 1 { Kind::Request } else { Kind::Notification };
        let transmission = Transmission {
            at: instant(),
            state: PacketState(value()),
        };
        let transmissions = [transmission; 2];
        let transmissions = if value() == 1 { &transmissions[..1] } else { &transmissions[..] };
        let state = ExchangeState(value());
        let answered = Answered::new(now, &parameters, state, transmissions, duration())
            .with_answer(Answer::Piggybacked, value() as u32)
            .with_also(value() as u32, value() as u32);
        match value() {
            0 => {
                let start = Start::new(now, &parameters)
                    .with_running(value() as u16)
                    .with_kind(kind);
                let timer = controller.first_timeout(&start, &mut Chance);
                show(timer.timeout.as_micros());
                show(timer.state.0);
            }
            1 => {
                let expired = Expired::new(now, &parameters, state, value() as u8, duration())
                    .with_silent(value() == 1);
                let timer = controller.next_timeout(&expired, &mut Chance);
                show(timer.timeout.as_micros());
            }
            2 => {
                let sent = Sent::new(now, &parameters, value() as u32)
                    .with_retransmissions(value() as u8)
                    .with_kind(kind)
                    .with_confirmable(value() == 1);
                show(controller.on_sent(&sent, &mut Chance).0);
            }
            3 => controller.on_answered(&answered),
            4 => controller.on_response(&answered),
            5 => {
                let retransmissions = value() as u8;
                let abandoned = Abandoned::new(
                    now,
                    &parameters,
                    state,
                    Reason::TimedOut,
                    retransmissions,
                    duration(),
                );
                controller.on_abandoned(&abandoned);
            }
            6 => {
                let window = controller.window(now, &parameters);
                show(u64::from(window.exchanges));
                show(u64::from(window.bytes));
            }
            7 => {
                let lost = Lost::new(now, transmission, value() as u32, value() == 1);
                controller.on_lost(&lost);
            }
            8 => {
                let late = LateAnswer::new(now, value() as u8, value() as u8, duration())
                    .with_abandoned(value() == 1);
                controller.on_late_answer(&late);
            }
            9 => controller.on_signal(now, Signal::SlowDown(duration())),
            10 => controller.on_signal(now, Signal::Unreachable),
            11 => {
                if let Some(gaps) = controller.gap_detection() {
                    show(gaps.time_threshold.as_micros());
                    show(gaps.answered_departure.as_micros());
                    show(gaps.timeout.as_micros());
                }
            }
            _ => {
                let candidate = SendCandidate::new(now, &parameters, value() as u32)
                    .with_kind(kind)
                    .with_confirmable(value() == 1);
                show(controller.earliest_departure_time(&candidate).as_micros());
                show(u64::from(controller.must_confirm(&candidate)));
            }
        }
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
