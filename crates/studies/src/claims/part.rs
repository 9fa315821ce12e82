//! Parts of a study: claims about the same scenarios, with their rules and the verdicts kept.

/// A part of a study.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The study's short name.
    pub study: &'static str,
    /// The part's name, which its files share.
    pub name: &'static str,
    /// Subject of the claims, in a few words.
    pub about: &'static str,
    /// The scenarios its rules speak of.
    pub scenarios: &'static [&'static str],
    /// Claims about scenarios that begin like this are its own.
    pub begins: &'static [&'static str],
    /// Default number of seeds per cell and algorithm.
    pub seeds: u64,
    /// The text of its rules.
    pub(super) rules: &'static str,
    /// The verdicts kept with the program; empty if there are none yet.
    pub(super) kept: &'static str,
}

macro_rules! rules {
    ($study:literal, $name:literal) => {
        include_str!(concat!("../../papers/", $study, "/rules/", $name, ".toml"))
    };
}

macro_rules! kept {
    ($study:literal, $name:literal) => {
        include_str!(concat!(
            "../../results/claims/",
            $study,
            "-",
            $name,
            ".json"
        ))
    };
}

/// A part that needs no run: claims about the protocols themselves.
macro_rules! unit {
    ($study:literal) => {
        Part {
            study: $study,
            name: "unit",
            about: "Protocols without a network",
            scenarios: &[],
            begins: &[concat!($study, "/unit-")],
            seeds: 1,
            rules: rules!($study, "unit"),
            kept: kept!($study, "unit"),
        }
    };
}

/// A part about scenarios. Its claims are those about scenarios of these names, unless `begins` says
/// otherwise.
macro_rules! part {
    ($study:literal, $name:literal, $about:literal, $seeds:literal,
     scenarios: [$($scenario:literal),+ $(,)?], begins: [$($begins:literal),+ $(,)?]) => {
        Part {
            study: $study,
            name: $name,
            about: $about,
            scenarios: &[$($scenario),+],
            begins: &[$($begins),+],
            seeds: $seeds,
            rules: rules!($study, $name),
            kept: kept!($study, $name),
        }
    };
}

/// Every part, study by study.
pub const PARTS: &[Part] = &[
    part!("retrycount", "clients", "Clients of a slow server", 20,
        scenarios: ["retrycount/clients", "retrycount/rto-scatter"],
        begins: ["retrycount/clients-", "retrycount/rto-scatter-"]),
    unit!("retrycount"),
    part!("thesis", "long", "Long transfers and single exchanges", 200,
        scenarios: ["thesis/long", "thesis/exchange-tcp", "thesis/exchange-udp"],
        begins: ["thesis/long-", "thesis/exchange-"]),
    part!("thesis", "short", "Many clients with small exchanges", 20,
        scenarios: ["thesis/short"],
        begins: ["thesis/short-"]),
    part!("thesis", "related", "Claims quoted from other studies", 20,
        scenarios: [
            "thesis/nstart-sweep",
            "thesis/related-cocoa-fast",
            "thesis/related-cocoa-s",
            "thesis/related-cocoa-strong",
            "thesis/related-load",
            "thesis/related-rto-algorithms",
        ],
        begins: ["thesis/related-", "thesis/nstart-sweep"]),
    part!("thesis", "wireless", "Claims quoted about wireless networks", 40,
        scenarios: ["cocoaplus/event"],
        begins: ["cocoaplus/event-"]),
    unit!("thesis"),
    part!("nonobserve", "gprs-umts", "Notification fan-out over GPRS and UMTS", 20,
        scenarios: ["nonobserve/gprs", "nonobserve/umts", "nonobserve/umts-hour"],
        begins: ["nonobserve/gprs", "nonobserve/umts"]),
    part!("nonobserve", "iotlab60", "Sixty wireless nodes that notify a sink", 20,
        scenarios: ["nonobserve/iotlab60", "nonobserve/gprs", "nonobserve/umts"],
        begins: ["nonobserve/iotlab60", "nonobserve/*"]),
    unit!("nonobserve"),
    part!("cocoaplus", "constant", "Constant traffic in wireless networks", 20,
        scenarios: [
            "cocoaplus/constant",
            "cocoaplus/aging-threshold",
            "cocoaplus/backoff-factors",
        ],
        begins: ["cocoaplus/constant-", "cocoaplus/aging-threshold-"]),
    part!("cocoaplus", "event", "Event reported by all nodes at once", 40,
        scenarios: ["cocoaplus/event"],
        begins: ["cocoaplus/event-"]),
    part!("cocoaplus", "mixed", "Notifications beside constant traffic, and all workloads together", 20,
        scenarios: ["cocoaplus/mixed", "cocoaplus/event", "cocoaplus/constant"],
        begins: ["cocoaplus/mixed-", "cocoaplus/*"]),
    unit!("cocoaplus"),
    part!("rpl", "pint", "RPL's routes under load", 20,
        scenarios: ["rpl/pint-rpl", "rpl/wilab-rpl", "rpl/pint-variants"],
        begins: ["rpl/pint-rpl", "rpl/{pint,wilab}-rpl"]),
    part!("rpl", "static", "Load on static routes", 20,
        scenarios: ["rpl/pint-static", "rpl/pint-rpl", "rpl/pint-variants"],
        begins: ["rpl/pint-static"]),
    part!("rpl", "idle", "Testbeds without traffic", 20,
        scenarios: ["rpl/pint-idle", "rpl/wilab-idle"],
        begins: ["rpl/pint-idle"]),
    part!("rpl", "related", "Claims quoted from other studies", 20,
        scenarios: [
            "rpl/related-bursty",
            "rpl/related-variants",
            "thesis/related-rto-algorithms",
        ],
        begins: ["rpl/related-"]),
    unit!("rpl"),
];

impl Part {
    /// The parts of a study.
    pub fn of(study: &str) -> impl Iterator<Item = &'static Self> {
        PARTS.iter().filter(move |part| part.study == study)
    }

    /// The file that its verdicts are kept in.
    pub fn kept_file(&self) -> String {
        format!("{}-{}.json", self.study, self.name)
    }
}
