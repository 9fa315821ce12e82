//! What is not tried in a column, and why.

use super::matrix::Column::{self, AiocoapClient, AiocoapServer};

struct Row {
    columns: &'static [Column],
    cases: &'static [&'static str],
    reason: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        columns: &[AiocoapServer],
        cases: &["TD_COAP_OBS_05"],
        reason: "aiocoap repeats a notification with the state that it had at first",
    },
    Row {
        columns: &[AiocoapServer],
        cases: &["TD_COAP_OBS_13", "TD_COAP_OBS_14"],
        reason: "aiocoap's server sends a notification in one datagram, whatever its length",
    },
    Row {
        columns: &[AiocoapServer],
        cases: &["TD_COAP_LINK_03"],
        reason: "aiocoap takes a link without a type for one that matches `rt=*`",
    },
    Row {
        columns: &[AiocoapClient],
        cases: &["TD_COAP_CORE_12", "TD_COAP_OBS_12"],
        reason: "aiocoap chooses tokens itself, so that an application can neither ask with an \
            empty one nor end an observation by a GET",
    },
    Row {
        columns: &[AiocoapClient],
        cases: &["TD_COAP_CORE_31"],
        reason: "aiocoap's client has no ping",
    },
    Row {
        columns: &[AiocoapClient],
        cases: &["TD_COAP_OBS_04"],
        reason: "aiocoap's client does not register again when its representation is stale",
    },
];

/// Why a case is not run in a column; `None` when it is.
pub(crate) fn not_offered(case: &str, column: Column) -> Option<&'static str> {
    ROWS.iter()
        .find(|row| row.columns.contains(&column) && row.cases.contains(&case))
        .map(|row| row.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugtest::cases;

    #[test]
    fn every_exception_is_about_a_case_there_is() {
        for id in ROWS.iter().flat_map(|row| row.cases) {
            cases::with_id(id);
        }
    }

    #[test]
    fn what_our_own_client_and_server_do_has_no_exceptions() {
        assert!(ROWS.iter().all(|row| !row.columns.contains(&Column::Ours)));
    }
}
