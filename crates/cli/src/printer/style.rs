//! Colours. Text for [`super::line`] and [`super::note`] may have them: where they are off
//! (no terminal, NO_COLOR) they are taken out.

use std::fmt;

use anstyle::{AnsiColor, Style};

const fn colour(colour: AnsiColor) -> Style {
    colour.on_default()
}

pub(super) const STRONG: Style = Style::new().bold();
pub(super) const FAINT: Style = Style::new().dimmed();
pub(super) const GOOD: Style = colour(AnsiColor::Green);
pub(super) const BAD: Style = colour(AnsiColor::Red);
/// Something we sent, and something we received.
pub(super) const OUT: Style = colour(AnsiColor::Cyan);
pub(super) const IN: Style = colour(AnsiColor::Magenta);
/// Parts of a body: names of members, strings, numbers, words.
pub(super) const KEY: Style = colour(AnsiColor::Blue).bold();
pub(super) const STRING: Style = colour(AnsiColor::Green);
pub(super) const NUMBER: Style = colour(AnsiColor::Cyan);
pub(super) const WORD: Style = colour(AnsiColor::Magenta);

/// The text in that style.
pub(super) fn paint(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}
