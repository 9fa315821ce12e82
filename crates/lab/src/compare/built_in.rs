//! Links with a name, each a link file with its source.

/// A built-in link with the source of its numbers.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInLink {
    /// Its name on the command line.
    pub name: &'static str,
    /// Source of its numbers.
    pub source: &'static str,
    /// True if its delays, losses and rates come from measurements of such a link.
    pub is_validated: bool,
    /// Its link file.
    pub text: &'static str,
}

const fn measured(name: &'static str, source: &'static str, text: &'static str) -> BuiltInLink {
    BuiltInLink {
        name,
        source,
        is_validated: true,
        text,
    }
}

const fn assumed(name: &'static str, source: &'static str, text: &'static str) -> BuiltInLink {
    BuiltInLink {
        name,
        source,
        is_validated: false,
        text,
    }
}

/// The built-in links.
pub const BUILT_IN: [BuiltInLink; 14] = [
    measured(
        "nb-iot",
        "measured in Oslo in good coverage, 2018 to 2019; the first packet after idle sets up a connection",
        include_str!("../../links/nb-iot.toml"),
    ),
    measured(
        "nb-iot-connected",
        "the same without idle times, as in a download; the downlink rate is not validated",
        include_str!("../../links/nb-iot-connected.toml"),
    ),
    measured(
        "nb-iot-deep",
        "measured in Oslo in deep coverage (level 2), 2018 to 2019; the downlink rate is not validated",
        include_str!("../../links/nb-iot-deep.toml"),
    ),
    measured(
        "3g",
        "UMTS measured while driving, published 2013 (Winstein et al.); round trips of 91 speed tests",
        include_str!("../../links/3g.toml"),
    ),
    measured(
        "starlink",
        "measured at a partly obstructed dish in the US, 2024; the rates are not validated",
        include_str!("../../links/starlink.toml"),
    ),
    measured(
        "tsch",
        "measured in a testbed of TU Munich with Wi-Fi interference, 2016, to the root; the way back and the rate are not validated",
        include_str!("../../links/tsch.toml"),
    ),
    measured(
        "lorawan",
        "loss measured in Lyon, 2024, rates of DR5 and a duty cycle of 1 %; round trips are not validated",
        include_str!("../../links/lorawan.toml"),
    ),
    measured(
        "thread",
        "IEEE 802.15.4 over the links of an office, 34 nodes, 2016 to 2018",
        include_str!("../../links/thread.toml"),
    ),
    measured(
        "thread-marina",
        "IEEE 802.15.4 over the links of a marina, 23 nodes, 2016 to 2018",
        include_str!("../../links/thread-marina.toml"),
    ),
    measured(
        "thread-pint",
        "IEEE 802.15.4 over the links of the testbed PINT, 22 nodes (Vallati et al. 2018)",
        include_str!("../../links/thread-pint.toml"),
    ),
    assumed(
        "lte-m",
        "rates of 3GPP TS 36.306 (category M1, half duplex); delay, loss and buffer are non-standard",
        include_str!("../../links/lte-m.toml"),
    ),
    assumed(
        "gprs",
        "Betzler et al. 2016, Table 1; the buffer is non-standard",
        include_str!("../../links/gprs.toml"),
    ),
    assumed(
        "umts",
        "Betzler et al. 2016, Table 1, a sixth of the rate measured for 3g; the buffer is non-standard",
        include_str!("../../links/umts.toml"),
    ),
    assumed(
        "lan",
        "this project's choice: Wi-Fi or Ethernet with a few losses",
        include_str!("../../links/lan.toml"),
    ),
];
