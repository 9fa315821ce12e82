//! Interoperability cases: requests and assertions.

pub(crate) mod copies;
pub(crate) mod messages;
pub(crate) mod methods;
pub(crate) mod observe;
pub(crate) mod options;
pub(crate) mod streams;
pub(crate) mod tokens;
pub(crate) mod transfers;

use crate::interop::bench::Bench;
use crate::interop::wire::Side;

/// Passes the list of all cases to a macro: test name, table row, function.
///
/// To add a case, add a line. `offers.toml` lists the peers that cannot run it, with reasons.
macro_rules! for_each_case {
    ($then:ident $($before:tt)*) => {
        $then! {
            $($before)*
            gets_a_resource => "GET", methods::get;
            puts_a_resource => "PUT", methods::put;
            posts_a_payload => "POST", methods::post;
            deletes_a_resource => "DELETE", methods::delete;
            fetches_with_a_payload => "FETCH", methods::fetch;
            patches_with_effect_each_time => "PATCH", methods::patch;
            patches_with_the_same_result => "iPATCH", methods::ipatch;
            gets_the_format_it_accepts => "Accept, or 4.06", methods::accept;
            creates_only_what_is_absent => "If-None-Match", methods::if_none_match;
            replaces_only_what_is_unchanged => "If-Match", methods::if_match;
            gets_no_body_that_it_has => "ETag, 2.03", methods::validate;
            discovers_what_matches => "discovery with a filter", methods::filter;
            answers_a_ping => "ping", messages::ping;
            gets_without_confirmation => "GET as NON", messages::non;
            receives_a_separate_response => "separate response", messages::separate;
            has_duplicated_requests_carried_out_once => "every message duplicated", messages::once;
            gets_in_small_blocks => "GET in blocks of 64 bytes", transfers::small_blocks;
            downloads_one_mebibyte => "1 MiB down", transfers::large_down;
            uploads_one_mebibyte => "1 MiB up", transfers::large_up;
            observes_until_it_cancels_by_get => "Observe, cancelled by GET", observe::cancel_by_get;
            observes_until_it_cancels_by_reset => "Observe, cancelled by Reset", observe::cancel_by_reset;
            observes_by_confirmable_notifications => "Observe, CON notifications", observe::confirmable;
            observes_by_non_confirmable_notifications => "Observe, NON notifications", observe::non_confirmable;
            observes_across_a_restart_of_the_server => "Observe, server restarted", observe::restart;
            observes_what_takes_several_blocks => "Observe, 4 KiB in blocks", observe::in_blocks;
            downloads_through_loss_and_duplication => "64 KiB down, loss and duplication", transfers::lossy_down;
            uploads_through_loss_and_duplication => "64 KiB up, loss and duplication", transfers::lossy_up;
            is_sent_an_option_that_counts_copies => "copies counted by an option, loss", copies::by_option;
            is_sent_tokens_that_count_copies => "copies counted by tokens, loss", copies::by_token;
            is_sent_a_long_token => "token of 20 bytes, then of 8", tokens::long;
            is_challenged_and_repeats => "4.01 with Echo", options::echo;
            tells_bodies_apart => "Request-Tag", options::request_tag;
            wants_no_response_to_a_non => "No-Response, NON", options::no_response_to_non;
            wants_no_response_to_a_con => "No-Response, CON", options::no_response_to_con;
            limits_the_hops => "Hop-Limit", options::hop_limit;
        }
    };
}

/// The same for cases over connections (RFC 8323).
macro_rules! for_each_stream_case {
    ($then:ident $($before:tt)*) => {
        $then! {
            $($before)*
            uses_the_methods_of_rfc_7252 => "GET, PUT, POST, DELETE", streams::methods;
            uses_the_methods_of_rfc_8132 => "FETCH, PATCH, iPATCH", streams::more_methods;
            is_refused_an_unknown_critical_option => "unknown critical option, 4.02", streams::critical;
            receives_a_large_body_at_once => "40 KiB down in one message", |bench| streams::one_message(bench, Side::Server);
            sends_a_large_body_at_once => "40 KiB up in one message", |bench| streams::one_message(bench, Side::Client);
            downloads_more_than_a_message => "1 MiB down, in blocks", |bench| streams::blocks(bench, Side::Server);
            uploads_more_than_a_message => "1 MiB up, in blocks", |bench| streams::blocks(bench, Side::Client);
            receives_several_blocks_a_message => "BERT down", |bench| streams::bert(bench, Side::Server);
            sends_several_blocks_a_message => "BERT up", |bench| streams::bert(bench, Side::Client);
            is_told_of_every_change => "Observe, notifications in order", streams::notified;
            observes_until_it_cancels => "Observe, cancelled by GET", streams::cancelled;
            asks_much_at_once => "answers out of order", streams::many;
            pings_over_the_connection => "Ping and Pong", streams::ping;
            releases_when_it_is_done => "Release at the end", streams::release;
            is_aborted_and_asks_again => "Abort by the server", streams::abort;
            survives_the_loss_of_its_connection => "Observe, connection lost", streams::lost;
            is_asked_over_its_own_connection => "asked by the server", streams::reverse;
            gets_on_without_a_csm => "the peer sends no CSM", streams::no_csm;
            may_insist_on_a_csm => "no CSM, and Carob insists", streams::insist;
            refuses_a_stranger => "certificate of a stranger", streams::stranger;
            agrees_on_the_subprotocol => "WebSocket path and subprotocol", streams::websocket;
        }
    };
}

/// A case of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// The test's name, and the key in results.
    pub(crate) name: &'static str,
    /// The leading cells of the row.
    pub(crate) title: &'static str,
    pub(crate) run: fn(&Bench),
}

/// The cases of a list, in its order.
macro_rules! list {
    ($($name:ident => $title:literal, $run:expr;)*) => {
        &[$(crate::interop::cases::Case { name: stringify!($name), title: $title, run: $run },)*]
    };
}

/// All cases over UDP.
pub(crate) const CASES: &[Case] = for_each_case!(list);

/// All cases over connections.
pub(crate) const STREAM_CASES: &[Case] = for_each_stream_case!(list);
