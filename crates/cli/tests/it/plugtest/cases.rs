//! The list of cases: identifiers of the test descriptions, subjects and checks.
//!
//! The descriptions of CoAP#4 have no TD_COAP_CORE_24 to 30 and no TD_COAP_OBS_03. Earlier events used these numbers
//! for proxies and for today's TD_COAP_OBS_12.

mod basic;
mod block;
mod link;
mod observe;

use std::pin::Pin;

use super::bench::Start;

/// Passes the list of all cases to a macro: test name, identifier, function, and two columns of the table. All cases
/// also check that the application's result equals the message on the wire.
macro_rules! for_each_plugtest {
    ($then:ident $($before:tt)*) => {
        $then! {
            $($before)*
            td_coap_core_01 = "TD_COAP_CORE_01" => basic::get, "GET, CON", "one Message ID and token, 2.05, format, body";
            td_coap_core_02 = "TD_COAP_CORE_02" => basic::delete, "DELETE, CON", "2.02; a format if there is a body";
            td_coap_core_03 = "TD_COAP_CORE_03" => basic::put, "PUT, CON", "format sent, 2.04 or 2.01; the server has the body";
            td_coap_core_04 = "TD_COAP_CORE_04" => basic::post, "POST, CON", "format sent, 2.01 or 2.04; the server has the body";
            td_coap_core_05 = "TD_COAP_CORE_05" => basic::get_non, "GET, NON", "NON both ways, one token, no ACK";
            td_coap_core_06 = "TD_COAP_CORE_06" => basic::delete_non, "DELETE, NON", "the same with 2.02";
            td_coap_core_07 = "TD_COAP_CORE_07" => basic::put_non, "PUT, NON", "the same; the server has the body";
            td_coap_core_08 = "TD_COAP_CORE_08" => basic::post_non, "POST, NON", "the same; the server has the body";
            td_coap_core_09 = "TD_COAP_CORE_09" => basic::separate, "separate response", "empty ACK, CON with a Message ID of its own and the token, ACK to it";
            td_coap_core_10 = "TD_COAP_CORE_10" => basic::token, "token", "1 to 8 bytes, echoed";
            td_coap_core_11 = "TD_COAP_CORE_11" => basic::token_separate, "token, separate response", "1 to 8 bytes, echoed in the CON";
            td_coap_core_12 = "TD_COAP_CORE_12" => basic::empty_token, "empty token", "no token either way";
            td_coap_core_13 = "TD_COAP_CORE_13" => basic::segments, "path of three segments", "three Uri-Path options";
            td_coap_core_14 = "TD_COAP_CORE_14" => basic::query, "query of three arguments", "three Uri-Query options, understood";
            td_coap_core_15 = "TD_COAP_CORE_15" => basic::lossy, "loss, piggybacked response", "request or response lost: the same request again, the same response";
            td_coap_core_16 = "TD_COAP_CORE_16" => basic::lossy_separate, "loss, separate response", "request, ACK, response, or ACKs to it lost: repeated, answered once; a response ends the repeating";
            td_coap_core_17 = "TD_COAP_CORE_17" => basic::separate_non, "separate response, NON", "no ACK, NON response";
            td_coap_core_18 = "TD_COAP_CORE_18" => basic::location_path, "Location-Path", "2.01, three options, no slashes in them; the body is there";
            td_coap_core_19 = "TD_COAP_CORE_19" => basic::location_query, "Location-Query", "2.01, two options";
            td_coap_core_20 = "TD_COAP_CORE_20" => basic::accept, "Accept", "text, then XML, each as asked for; another Message ID";
            td_coap_core_21 = "TD_COAP_CORE_21" => basic::etag, "ETag", "2.03 without a body while it holds; 2.05 with another tag after a change";
            td_coap_core_22 = "TD_COAP_CORE_22" => basic::if_match, "If-Match", "2.04 with the current tag; 4.12 with an old one, and nothing changed";
            td_coap_core_23 = "TD_COAP_CORE_23" => basic::if_none_match, "If-None-Match", "2.01, then 4.12, and nothing changed";
            td_coap_core_31 = "TD_COAP_CORE_31" => basic::ping, "ping", "four bytes CON, four bytes RST with its Message ID";
            td_coap_block_01 = "TD_COAP_BLOCK_01" => block::get_early, "GET, early negotiation", "Block2 from the first request on; numbers, sizes and flags of all blocks";
            td_coap_block_02 = "TD_COAP_BLOCK_02" => block::get_late, "GET, late negotiation", "no Block2 at first; also with a client that wants smaller blocks";
            td_coap_block_03 = "TD_COAP_BLOCK_03" => block::put, "PUT in blocks", "Block1 both ways, 2.31 until the last; also with a client that begins with larger blocks";
            td_coap_block_04 = "TD_COAP_BLOCK_04" => block::post_creates, "POST in blocks that creates", "the same, 2.01, two Location-Path options that lead to the body";
            td_coap_block_05 = "TD_COAP_BLOCK_05" => block::post_both_ways, "POST in blocks both ways", "Block1, then Block2 of the response, asked for with the same options and no body";
            td_coap_block_06 = "TD_COAP_BLOCK_06" => block::get_smallest, "GET, blocks of 16 bytes", "as 01 with the smallest size";
            td_coap_obs_01 = "TD_COAP_OBS_01" => observe::confirmable, "observing, CON", "empty Observe asks, ACK registers; CON notifications with one token and format, rising numbers, all acknowledged";
            td_coap_obs_02 = "TD_COAP_OBS_02" => observe::non_confirmable, "observing, NON", "the same in NON, nothing acknowledged";
            td_coap_obs_04 = "TD_COAP_OBS_04" => observe::reboot_of_server, "server rebooted", "silence; after Max-Age a registration with the same token; notifications go on";
            td_coap_obs_05 = "TD_COAP_OBS_05" => observe::client_off, "client switched off", "notifications are repeated, with the newest state, and end; our list is empty";
            td_coap_obs_06 = "TD_COAP_OBS_06" => observe::reset, "client refuses by RST", "RST to the next notification, then silence";
            td_coap_obs_07 = "TD_COAP_OBS_07" => observe::deleted, "observed resource deleted", "4.04 in CON without Observe, then silence";
            td_coap_obs_08 = "TD_COAP_OBS_08" => observe::format_changed, "its format changes", "4.06 in CON without Observe, then silence";
            td_coap_obs_09 = "TD_COAP_OBS_09" => observe::updated, "its content is replaced", "the notification has the new content";
            td_coap_obs_10 = "TD_COAP_OBS_10" => observe::unrelated_get, "a GET beside it", "another token, no Observe; notifications go on";
            td_coap_obs_11 = "TD_COAP_OBS_11" => observe::lossy, "loss", "lost notifications and lost ACKs: repeated; never two notifications at a time";
            td_coap_obs_12 = "TD_COAP_OBS_12" => observe::stopped, "GET with Observe 1", "the same token, ACK without Observe, then silence";
            td_coap_obs_13 = "TD_COAP_OBS_13" => observe::large, "large resource", "first blocks in notifications, the others by GET; whole states of one moment";
            td_coap_obs_14 = "TD_COAP_OBS_14" => observe::pumping, "size that varies", "registrations and notifications with and without Block2";
            td_coap_link_01 = "TD_COAP_LINK_01" => link::all, "`/.well-known/core`", "format 40; every resource is there";
            td_coap_link_02 = "TD_COAP_LINK_02" => link::of_type, "`rt=Type1`", "links of this type, no others";
            td_coap_link_03 = "TD_COAP_LINK_03" => link::with_type, "`rt=*`", "links with a type, no others";
            td_coap_link_04 = "TD_COAP_LINK_04" => link::one_of_two_types, "`rt=Type2`", "links of several types, this among them";
            td_coap_link_05 = "TD_COAP_LINK_05" => link::interface_prefix, "`if=If*`", "links whose interface begins so";
            td_coap_link_06 = "TD_COAP_LINK_06" => link::with_size, "`sz=*`", "links with a size, no others";
            td_coap_link_07 = "TD_COAP_LINK_07" => link::target, "`href=/link1`", "this link alone";
            td_coap_link_08 = "TD_COAP_LINK_08" => link::target_prefix, "`href=/link*`", "these three";
            td_coap_link_09 = "TD_COAP_LINK_09" => link::hierarchy, "a collection", "the list names it, it names its members, a member is there";
        }
    };
}

/// Runs a case; panics on failure.
type Run = for<'s> fn(&'s Start) -> Pin<Box<dyn Future<Output = ()> + 's>>;

/// One test description.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) checks: &'static str,
    pub(crate) run: Run,
}

macro_rules! list {
    ($($name:ident = $id:literal => $run:path, $title:literal, $checks:literal;)*) => {
        /// All cases, in the order of the table.
        pub(crate) const CASES: &[Case] = &[
            $(Case {
                id: $id,
                title: $title,
                checks: $checks,
                run: |start| Box::pin($run(start)),
            },)*
        ];
    };
}

for_each_plugtest!(list);

/// Identifiers and leading cells of the rows.
pub(crate) fn rows() -> Vec<(&'static str, String)> {
    let row = |case: &Case| {
        (
            case.id,
            format!("{} | {} | {}", case.id, case.title, case.checks),
        )
    };
    CASES.iter().map(row).collect()
}

pub(crate) fn with_id(id: &str) -> &'static Case {
    let found = CASES.iter().find(|case| case.id == id);
    found.unwrap_or_else(|| panic!("no case is called {id}"))
}
