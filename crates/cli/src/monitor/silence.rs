//! A line on the terminal while a peer is silent: how often a message was retransmitted, and when the
//! next timeout is.

use std::fmt::Write;
use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use carob_proto::trace::{Trace, TraceEvent};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Redraws of the time left.
const TICK: Duration = Duration::from_millis(200);

/// The line of one endpoint.
pub(super) struct SilentPeer {
    bar: ProgressBar,
    /// A response arrived, so that its body may be on the terminal.
    answered: bool,
}

impl SilentPeer {
    /// The line, if stderr is a terminal.
    pub(super) fn new() -> Option<Self> {
        io::stderr().is_terminal().then(|| Self {
            bar: ProgressBar::hidden(),
            answered: false,
        })
    }

    /// Shows a retransmission, and removes the line when the exchange ends.
    pub(super) fn hear(&mut self, trace: &Trace, max_retransmit: Option<u8>) {
        match trace.event {
            TraceEvent::Sent {
                retransmissions,
                timeout: Some(timeout),
                ..
            } if retransmissions > 0 => {
                self.clear();
                if !self.answered || !io::stdout().is_terminal() {
                    let text = format!("no response from {}", trace.peer);
                    self.show(text, retransmissions, max_retransmit, timeout.into());
                }
            }
            TraceEvent::Answered { .. } => {
                self.answered = true;
                self.clear();
            }
            TraceEvent::Abandoned { .. } => self.clear(),
            _ => {}
        }
    }

    fn show(&mut self, peer: String, sent: u8, most: Option<u8>, timeout: Duration) {
        let ends = Instant::now() + timeout;
        let left = move |_: &ProgressState, text: &mut dyn Write| {
            let left = ends.saturating_duration_since(Instant::now());
            // An error of a terminal's line has no consequence.
            let _ = text.write_str(&words(sent, most, left));
        };
        let Ok(style) = ProgressStyle::with_template("{msg}: {left}") else {
            return;
        };
        let target = ProgressDrawTarget::stderr_with_hz(10);
        self.bar = ProgressBar::with_draw_target(None, target)
            .with_style(style.with_key("left", left))
            .with_message(peer);
        self.bar.tick();
        self.bar.enable_steady_tick(TICK);
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Begins with another request.
    pub(super) fn reset(&mut self) {
        self.clear();
        self.answered = false;
    }
}

/// `retransmission 2 of 4, next in 8 s`.
fn words(sent: u8, most: Option<u8>, left: Duration) -> String {
    let of = most.map_or_else(String::new, |most| format!(" of {most}"));
    let next = if most.is_some_and(|most| sent >= most) {
        "gives up"
    } else {
        "next"
    };
    let seconds = left.as_millis().div_ceil(1_000);
    format!("retransmission {sent}{of}, {next} in {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_retransmission_is_followed_by_the_end() {
        let left = Duration::from_millis(7_001);
        assert_eq!(
            words(2, Some(4), left),
            "retransmission 2 of 4, next in 8 s"
        );
        assert_eq!(
            words(4, Some(4), Duration::from_secs(30)),
            "retransmission 4 of 4, gives up in 30 s"
        );
        assert_eq!(
            words(1, None, Duration::ZERO),
            "retransmission 1, next in 0 s"
        );
    }
}
