//! Parts of a study: claims about the same scenarios, with their rules and the verdicts kept.

/// A part of a study.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The study's short name.
    pub study: &'static str,
    /// The part's name, which is that of its files.
    pub name: &'static str,
    /// What its claims are about, in a few words.
    pub about: &'static str,
    /// The scenarios its rules speak of.
    pub scenarios: &'static [&'static str],
    /// Claims about scenarios that begin like this are its own.
    pub begins: &'static [&'static str],
    /// Seeds per cell and algorithm unless told otherwise.
    pub seeds: u64,
    /// The text of its rules.
    pub(super) rules: &'static str,
    /// The verdicts kept with the program; empty if there are none yet.
    pub(super) kept: &'static str,
}

macro_rules! rules {
    ($study:literal, $name:literal) => {
        include_str!(concat!(
            "../../../../papers/",
            $study,
            "/rules/",
            $name,
            ".toml"
        ))
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

/// Every part, study by study.
pub const PARTS: &[Part] = &[
    Part {
        study: "retrycount",
        name: "clients",
        about: "clients of a slow server",
        scenarios: &["retrycount/clients", "retrycount/rto-scatter"],
        begins: &["retrycount/clients-", "retrycount/rto-scatter-"],
        seeds: 20,
        rules: rules!("retrycount", "clients"),
        kept: kept!("retrycount", "clients"),
    },
    Part {
        study: "thesis",
        name: "long",
        about: "long transfers and single exchanges",
        scenarios: &["thesis/long", "thesis/exchange-tcp", "thesis/exchange-udp"],
        begins: &["thesis/long-", "thesis/exchange-"],
        seeds: 200,
        rules: rules!("thesis", "long"),
        kept: kept!("thesis", "long"),
    },
    Part {
        study: "thesis",
        name: "short",
        about: "many clients with small exchanges",
        scenarios: &["thesis/short"],
        begins: &["thesis/short-"],
        seeds: 20,
        rules: rules!("thesis", "short"),
        kept: kept!("thesis", "short"),
    },
    Part {
        study: "thesis",
        name: "related",
        about: "what it quotes from other studies",
        scenarios: &[
            "thesis/nstart-sweep",
            "thesis/related-cocoa-fast",
            "thesis/related-cocoa-s",
            "thesis/related-cocoa-strong",
            "thesis/related-load",
            "thesis/related-rto-algorithms",
        ],
        begins: &["thesis/related-", "thesis/nstart-sweep"],
        seeds: 20,
        rules: rules!("thesis", "related"),
        kept: kept!("thesis", "related"),
    },
    Part {
        study: "thesis",
        name: "unit",
        about: "protocols themselves, without a network",
        scenarios: &[],
        begins: &["thesis/unit-"],
        seeds: 1,
        rules: rules!("thesis", "unit"),
        kept: kept!("thesis", "unit"),
    },
    Part {
        study: "nonobserve",
        name: "gprs-umts",
        about: "a server behind GPRS and UMTS that tells crowds of observers",
        scenarios: &["nonobserve/gprs", "nonobserve/umts", "nonobserve/umts-hour"],
        begins: &["nonobserve/gprs", "nonobserve/umts"],
        seeds: 20,
        rules: rules!("nonobserve", "gprs-umts"),
        kept: kept!("nonobserve", "gprs-umts"),
    },
    Part {
        study: "nonobserve",
        name: "unit",
        about: "protocols themselves, without a network",
        scenarios: &[],
        begins: &["nonobserve/unit-"],
        seeds: 1,
        rules: rules!("nonobserve", "unit"),
        kept: kept!("nonobserve", "unit"),
    },
    Part {
        study: "retrycount",
        name: "unit",
        about: "protocols themselves, without a network",
        scenarios: &[],
        begins: &["retrycount/unit-"],
        seeds: 1,
        rules: rules!("retrycount", "unit"),
        kept: kept!("retrycount", "unit"),
    },
    Part {
        study: "cocoaplus",
        name: "unit",
        about: "protocols themselves, without a network",
        scenarios: &[],
        begins: &["cocoaplus/unit-backoff"],
        seeds: 1,
        rules: rules!("cocoaplus", "unit"),
        kept: kept!("cocoaplus", "unit"),
    },
    Part {
        study: "rpl",
        name: "unit",
        about: "protocols themselves, without a network",
        scenarios: &[],
        begins: &["rpl/unit-"],
        seeds: 1,
        rules: rules!("rpl", "unit"),
        kept: kept!("rpl", "unit"),
    },
];

impl Part {
    /// The parts of a study.
    pub fn of(study: &str) -> impl Iterator<Item = &'static Self> {
        PARTS.iter().filter(move |part| part.study == study)
    }

    /// Where its rules are, from the root of the repository.
    pub fn rules_file(&self) -> String {
        format!("papers/{}/rules/{}.toml", self.study, self.name)
    }

    /// The file that its verdicts are kept in.
    pub fn kept_file(&self) -> String {
        format!("{}-{}.json", self.study, self.name)
    }
}
