//! The transmission profiles.

use carob::{TransmissionParameters, TransmissionProfile};
use carob_lab::text::TextTable;
use serde::Serialize;

use super::{prose, table};

/// A profile as the machine interface has it.
#[derive(Debug, Serialize)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) controller: &'static str,
    /// The largest block, in bytes.
    pub(crate) block_size: u16,
    pub(crate) parameters: ProfileParameters,
    pub(crate) reasons: Vec<ProfileReason>,
}

/// Its transmission parameters, and what follows from them (RFC 7252 4.8).
#[derive(Debug, Serialize)]
pub(crate) struct ProfileParameters {
    pub(crate) ack_timeout: String,
    pub(crate) ack_random_factor: String,
    pub(crate) max_retransmit: u8,
    pub(crate) rto_max: Option<String>,
    pub(crate) nstart: u16,
    pub(crate) probing_rate: u32,
    pub(crate) default_leisure: String,
    pub(crate) max_latency: String,
    pub(crate) max_transmit_span: String,
    pub(crate) max_transmit_wait: String,
    pub(crate) exchange_lifetime: String,
    pub(crate) non_lifetime: String,
}

/// The reason of a value.
#[derive(Debug, Serialize)]
pub(crate) struct ProfileReason {
    pub(crate) of: &'static str,
    pub(crate) why: &'static str,
    pub(crate) source: Option<&'static str>,
    /// True for a value without source, which is this project's choice.
    pub(crate) project_choice: bool,
}

impl From<TransmissionParameters> for ProfileParameters {
    fn from(p: TransmissionParameters) -> Self {
        Self {
            ack_timeout: p.ack_timeout.to_string(),
            ack_random_factor: p.ack_random_factor.to_string(),
            max_retransmit: p.max_retransmit,
            rto_max: p.rto_max.map(|cap| cap.to_string()),
            nstart: p.nstart,
            probing_rate: p.probing_rate,
            default_leisure: p.default_leisure.to_string(),
            max_latency: p.max_latency.to_string(),
            max_transmit_span: p.max_transmit_span().to_string(),
            max_transmit_wait: p.max_transmit_wait().to_string(),
            exchange_lifetime: p.exchange_lifetime().to_string(),
            non_lifetime: p.non_lifetime().to_string(),
        }
    }
}

impl From<TransmissionProfile> for Profile {
    fn from(profile: TransmissionProfile) -> Self {
        let reason = |reason: &carob_cc::profile::Reason| ProfileReason {
            of: reason.of,
            why: reason.why,
            source: reason.source,
            project_choice: reason.source.is_none(),
        };
        Self {
            name: profile.name(),
            about: profile.about(),
            controller: profile.controller().name,
            block_size: profile.block_bytes(),
            parameters: profile.parameters().into(),
            reasons: profile.reasons().map(reason).collect(),
        }
    }
}

/// A parameter's name and its value as text.
type Row = (&'static str, fn(&ProfileParameters) -> String);

/// The parameters in the order of RFC 7252 4.8, and then what follows from them.
pub(crate) const PROFILE_ROWS: &[Row] = &[
    ("ACK_TIMEOUT", |p| p.ack_timeout.clone()),
    ("ACK_RANDOM_FACTOR", |p| p.ack_random_factor.clone()),
    ("MAX_RETRANSMIT", |p| p.max_retransmit.to_string()),
    ("cap on timers", |p| {
        p.rto_max.clone().unwrap_or_else(|| "none".to_owned())
    }),
    ("NSTART", |p| p.nstart.to_string()),
    ("DEFAULT_LEISURE", |p| p.default_leisure.clone()),
    ("PROBING_RATE", |p| format!("{} B/s", p.probing_rate)),
    ("MAX_LATENCY", |p| p.max_latency.clone()),
    ("MAX_TRANSMIT_SPAN", |p| p.max_transmit_span.clone()),
    ("MAX_TRANSMIT_WAIT", |p| p.max_transmit_wait.clone()),
    ("EXCHANGE_LIFETIME", |p| p.exchange_lifetime.clone()),
    ("NON_LIFETIME", |p| p.non_lifetime.clone()),
];

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
    let parameters = PROFILE_ROWS
        .iter()
        .map(|(name, value)| (*name, value(&profile.parameters)));
    for (name, value) in own.into_iter().chain(parameters) {
        prose(&format!("  {name:17}  {value}"));
    }
    prose("why:");
    for ProfileReason {
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
