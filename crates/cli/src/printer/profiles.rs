//! The transmission profiles.

use carob_lab::text::TextTable;

use super::{prose, table};
use crate::commands::profiles::{Profile, ROWS, Reason};

/// A profile does not know the traffic and the number of devices, a comparison does.
const COMPARE: &str =
    "`carob lab compare` recommends for one link, traffic and number of devices, and may differ";

/// All profiles, a line each.
pub(crate) fn profiles(all: &[Profile]) {
    let header = [
        "profile",
        "ACK_TIMEOUT",
        "MAX_RETRANSMIT",
        "controller",
        "block",
        "for",
    ];
    let mut list = TextTable::new(header);
    list.optional(&["block", "MAX_RETRANSMIT", "ACK_TIMEOUT"]);
    for profile in all {
        list.add(vec![
            profile.name.to_owned(),
            profile.parameters.ack_timeout.clone(),
            profile.parameters.max_retransmit.to_string(),
            profile.controller.to_owned(),
            format!("{} B", profile.block_size),
            profile.about.to_owned(),
        ]);
    }
    list.add_note("`carob profiles NAME` lists every value with its reason and source");
    list.add_note(COMPARE);
    table(&list);
}

/// One profile, with every value and its reason.
pub(crate) fn profile(profile: &Profile) {
    prose(&format!("{}: {}", profile.name, profile.about));
    let block = format!("{} B", profile.block_size);
    let own = [
        ("controller", profile.controller.to_owned()),
        ("block size", block),
    ];
    let parameters = ROWS
        .iter()
        .map(|(name, value)| (*name, value(&profile.parameters)));
    for (name, value) in own.into_iter().chain(parameters) {
        prose(&format!("  {name:17}  {value}"));
    }
    prose("why:");
    for Reason {
        of, why, source, ..
    } in &profile.reasons
    {
        prose(&format!("  {of}: {why}"));
        match source {
            Some(source) => prose(&format!("    source: {source}")),
            None => prose("    this project's choice"),
        }
    }
    prose(COMPARE);
}
