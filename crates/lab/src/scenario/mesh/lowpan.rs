//! 6LoWPAN of nodes: the values of a version of Contiki, overridden by single keys.

use carob_cc::time::Duration;
use carob_sim::mesh::spec::LowpanSpec;

use super::{SWITCH, VERSIONS};
use crate::scenario::cell::Cell;
use crate::scenario::error::ScenarioError;

keys! {
    /// Keys of 6LoWPAN.
    pub(in crate::scenario) KEYS;

    LowpanSpec {
        _: "lowpan.version", Word(VERSIONS), "contiki27",
            "Whose 6LoWPAN. The keys of `lowpan` below are by default as it has them.";
        mac_bytes_max: "lowpan.frame", Bytes(30, 125), -,
            "The most bytes of a frame in front of its FCS: 102, from Contiki 3.0 on 125.";
        rpl_option: "lowpan.rpl_option", Word(SWITCH), "on",
            "Whether packets carry RPL's hop-by-hop option, which keeps UDP's header from being compressed.";
        reassembly_timeout: "lowpan.reassembly_timeout", Time, -,
            "When an unfinished datagram is forgotten: after 0.5 s (Z1 and Sky), from Contiki 3.0 on 8 s.";
        reassembly_blocks: "lowpan.reassembly_blocks", Word(SWITCH), -,
            "Whether a whole packet that comes while another is put together is dropped: on, from Contiki 3.0 on off.";
        datagram_max: "lowpan.datagram", Bytes(60, 1_280), -,
            "The largest IPv6 datagram: 140 B (Z1), from Contiki 3.0 on 1280 B.";
    }
}

pub(super) fn of(cell: &Cell) -> Result<LowpanSpec, ScenarioError> {
    cell.fields_over(match cell.text("lowpan.version")? {
        "contiki27" => LowpanSpec::default(),
        // 3.0 and later: larger frames, and reassembly for MAXAGE (8 s) by the second.
        _ => LowpanSpec {
            mac_bytes_max: 125,
            reassembly_timeout: Duration::from_secs(8),
            reassembly_blocks: false,
            datagram_max: 1_280,
            ..LowpanSpec::default()
        },
    })
}
