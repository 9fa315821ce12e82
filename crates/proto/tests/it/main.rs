//! The integration tests of `carob-proto`, one module a subject.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod aggregate;
mod amplification;
mod blockwise;
mod contract;
#[path = "../../../../vectors/corpus/reader.rs"]
mod corpus;
mod counters;
mod echo;
mod exchange;
mod fairness;
mod fleet_findings;
mod groups;
mod hostile;
mod limits;
mod net;
mod no_response;
mod notification_queue;
mod observe;
mod reliable;
mod reliable_endings;
mod retransmission_count;
mod retransmission_count_server;
mod retransmission_count_token;
mod retransmission_count_truth;
mod rfc7252_message_layer;
mod rfc7252_options;
mod rfc7252_requests;
mod rfc7641;
mod rfc7641_answers;
mod rfc7959;
mod rfc8323_connections;
mod rfc8323_csm;
mod rfc8323_properties;
mod rfc8323_signals;
mod rfc8974;
mod rfc8974_connections;
mod rfc9177;
mod stream;
#[path = "../../../../vectors/corpus/stream_reader.rs"]
mod stream_corpus;
#[path = "../../../../vectors/corpus/stream_script.rs"]
mod stream_script;
mod too_many_requests;
