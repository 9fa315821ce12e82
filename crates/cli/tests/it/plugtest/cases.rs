//! The list of cases: identifiers of the test descriptions, subjects and checks.
//!
//! The descriptions of CoAP#4 have no TD_COAP_CORE_24 to 30 and no TD_COAP_OBS_03. Earlier events used these numbers
//! for proxies and for today's TD_COAP_OBS_12.

mod basic;
mod block;
mod link;
mod observe;

use crate::interop::cases::Case;
use crate::interop::requests::Ask;
use crate::plugtest::setup::Setup;
use basic::{SENT, method};

/// Passes the list of all cases to a macro: test name, two cells of the row, function. All cases
/// also check that the application's result equals the message on the wire.
macro_rules! for_each_plugtest {
    ($then:ident $($before:tt)*) => {
        $then! {
            $($before)*
            td_coap_core_01 => "GET, CON | one Message ID and token, 2.05, format, body", |bench| method(bench, &Ask::get("/test"));
            td_coap_core_02 => "DELETE, CON | 2.02; a format if there is a body", |bench| method(bench, &Ask::delete("/test"));
            td_coap_core_03 => "PUT, CON | format sent, 2.04 or 2.01; the server has the body", |bench| method(bench, &Ask::put("/test").text(SENT));
            td_coap_core_04 => "POST, CON | format sent, 2.01 or 2.04; the server has the body", |bench| method(bench, &Ask::post("/test").text(SENT));
            td_coap_core_05 => "GET, NON | NON both ways, one token, no ACK", |bench| method(bench, &Ask::get("/test").non());
            td_coap_core_06 => "DELETE, NON | the same with 2.02", |bench| method(bench, &Ask::delete("/test").non());
            td_coap_core_07 => "PUT, NON | the same; the server has the body", |bench| method(bench, &Ask::put("/test").text(SENT).non());
            td_coap_core_08 => "POST, NON | the same; the server has the body", |bench| method(bench, &Ask::post("/test").text(SENT).non());
            td_coap_core_09 => "separate response | empty ACK, CON with a Message ID of its own and the token, ACK to it", basic::separate;
            td_coap_core_10 => "token | 1 to 8 bytes, echoed", basic::token;
            td_coap_core_11 => "token, separate response | 1 to 8 bytes, echoed in the CON", basic::token_separate;
            td_coap_core_12 => "empty token | no token either way", basic::empty_token;
            td_coap_core_13 => "path of three segments | three Uri-Path options", basic::segments;
            td_coap_core_14 => "query of three arguments | three Uri-Query options, understood", basic::query;
            td_coap_core_15 => "loss, piggybacked response | request or response lost: the same request again, the same response", basic::lossy;
            td_coap_core_16 => "loss, separate response | request, ACK, response, or ACKs to it lost: repeated, answered once; a response ends the repeating", basic::lossy_separate;
            td_coap_core_17 => "separate response, NON | no ACK, NON response", basic::separate_non;
            td_coap_core_18 => "Location-Path | 2.01, three options, no slashes in them; the body is there", basic::location_path;
            td_coap_core_19 => "Location-Query | 2.01, two options", basic::location_query;
            td_coap_core_20 => "Accept | text, then XML, each as asked for; another Message ID", basic::accept;
            td_coap_core_21 => "ETag | 2.03 without a body while it holds; 2.05 with another tag after a change", basic::etag;
            td_coap_core_22 => "If-Match | 2.04 with the current tag; 4.12 with an old one, and nothing changed", basic::if_match;
            td_coap_core_23 => "If-None-Match | 2.01, then 4.12, and nothing changed", basic::if_none_match;
            td_coap_core_31 => "ping | four bytes CON, four bytes RST with its Message ID", basic::ping;
            td_coap_block_01 => "GET, early negotiation | Block2 from the first request on; numbers, sizes and flags of all blocks", |bench| block::get(bench, Setup::EARLY);
            td_coap_block_02 => "GET, late negotiation | no Block2 at first; also with a client that wants smaller blocks", block::get_late;
            td_coap_block_03 => "PUT in blocks | Block1 both ways, 2.31 until the last; also with a client that begins with larger blocks", block::put;
            td_coap_block_04 => "POST in blocks that creates | the same, 2.01, two Location-Path options that lead to the body", block::post_creates;
            td_coap_block_05 => "POST in blocks both ways | Block1, then Block2 of the response, asked for with the same options and no body", block::post_both_ways;
            td_coap_block_06 => "GET, blocks of 16 bytes | as 01 with the smallest size", |bench| block::get(bench, Setup { block: 16, ..Setup::EARLY });
            td_coap_obs_01 => "observing, CON | empty Observe asks, ACK registers; CON notifications with one token and format, rising numbers, all acknowledged", observe::confirmable;
            td_coap_obs_02 => "observing, NON | the same in NON, nothing acknowledged", observe::non_confirmable;
            td_coap_obs_04 => "server rebooted | silence; after Max-Age a registration with the same token; notifications go on", observe::reboot_of_server;
            td_coap_obs_05 => "client switched off | notifications are repeated, with the newest state, and end; our list is empty", observe::client_off;
            td_coap_obs_06 => "client refuses by RST | RST to the next notification, then silence", observe::reset;
            td_coap_obs_07 => "observed resource deleted | 4.04 in CON without Observe, then silence", observe::deleted;
            td_coap_obs_08 => "its format changes | 4.06 in CON without Observe, then silence", observe::format_changed;
            td_coap_obs_09 => "its content is replaced | the notification has the new content", observe::updated;
            td_coap_obs_10 => "a GET beside it | another token, no Observe; notifications go on", observe::unrelated_get;
            td_coap_obs_11 => "loss | lost notifications and lost ACKs: repeated; never two notifications at a time", observe::lossy;
            td_coap_obs_12 => "GET with Observe 1 | the same token, ACK without Observe, then silence", observe::stopped;
            td_coap_obs_13 => "large resource | first blocks in notifications, the others by GET; whole states of one moment", observe::large;
            td_coap_obs_14 => "size that varies | registrations and notifications with and without Block2", observe::pumping;
            td_coap_link_01 => "`/.well-known/core` | format 40; every resource is there", link::all;
            td_coap_link_02 => "`rt=Type1` | links of this type, no others", |bench| link::filtered_targets(bench, "rt=Type1", &["/link1", "/link3"]);
            td_coap_link_03 => "`rt=*` | links with a type, no others", link::with_type;
            td_coap_link_04 => "`rt=Type2` | links of several types, this among them", link::one_of_two_types;
            td_coap_link_05 => "`if=If*` | links whose interface begins so", |bench| link::filtered_targets(bench, "if=If*", &["/link1", "/link2"]);
            td_coap_link_06 => "`sz=*` | links with a size, no others", link::with_size;
            td_coap_link_07 => "`href=/link1` | this link alone", |bench| link::filtered_targets(bench, "href=/link1", &["/link1"]);
            td_coap_link_08 => "`href=/link*` | these three", |bench| link::filtered_targets(bench, "href=/link*", &["/link1", "/link2", "/link3"]);
            td_coap_link_09 => "a collection | the list names it, it names its members, a member is there", link::hierarchy;
        }
    };
}

/// All cases, in the order of the table.
pub(crate) const CASES: &[Case] = for_each_plugtest!(list);
