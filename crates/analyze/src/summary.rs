//! Results of an analysis.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;

use crate::dtls::DtlsRecords;
use crate::fit::FittedLink;
use crate::input::{Damage, Format};
use crate::loss::Losses;
use crate::place::{Basis, Place, client_side, place_of};
use crate::sketch::{Quantiles, Sketch};
use crate::tracker::Tracker;
use crate::tracker::controllers::ControllerResult;
use crate::tracker::conversation::{Conversation, Flow, FlowCounts};
use crate::tracker::samples::Sample;
use crate::tracker::transfers::Transfer;

/// Peers that are listed one by one.
pub const PEERS_LISTED: usize = 100;
/// Round trips that are listed for figures.
pub(crate) const POINTS_LISTED: usize = 2_000;

/// The contents of the file or files.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Contents {
    /// Format of each file.
    pub formats: Vec<Format>,
    /// Bytes read.
    pub bytes: u64,
    /// Packets, or lines of a log.
    pub packets: u64,
    /// CoAP messages over UDP.
    pub messages: u64,
    /// Time from the first message to the last, in microseconds.
    pub span_us: u64,
    /// DTLS records: decrypted where keys were given.
    pub dtls: DtlsRecords,
    /// Messages that were decrypted, or that a program exported decrypted.
    pub decrypted: u64,
    /// TCP segments, which are not analysed.
    pub tcp_segments: u64,
    /// Packets that repeat one captured before, on another interface, at a mirror port or behind a router.
    /// Each packet counts once as a message.
    pub repeated: u64,
    /// Packets that the capture cut short: CoAP messages, DTLS records, and packets whose headers are cut.
    pub cut_short: u64,
    /// Those among them of which no CoAP header could be read.
    pub cut_unread: u64,
    /// Bytes of the longest packet that was cut short, as far as it was captured.
    pub cut_captured: u32,
    /// Bytes of the longest packet that was cut short, on the wire.
    pub cut_needed: u32,
    /// Fragments of packets of which others were not captured.
    pub fragments: u64,
    /// Packets in tunnels and encapsulations without a reader, by name.
    pub encapsulations: BTreeMap<&'static str, u64>,
    /// Messages with an address whose prefix is a 6LoWPAN context that the capture lacks.
    pub unknown_prefixes: u64,
    /// UDP datagrams to or from CoAP's ports that are no CoAP.
    pub malformed: u64,
    /// Other packets: other protocols, ports without CoAP.
    pub others: u64,
    /// Packets with headers cut short or lengths that contradict each other.
    pub broken: u64,
    /// Packets of link types without a reader, with the first such type.
    pub unknown_links: u64,
    /// The first link type without a reader.
    pub unknown_link: Option<u32>,
    /// Its name.
    pub unknown_link_name: Option<&'static str>,
    /// Packets without a time (Simple Packet Blocks), which are skipped.
    pub without_time: u64,
    /// Messages with a time before an earlier message's.
    pub disordered: u64,
    /// Replies without the message that they answer.
    pub stray_replies: u64,
    /// Messages of peers beyond [`CONVERSATIONS_MAX`](crate::limits::CONVERSATIONS_MAX).
    pub beyond_limit: u64,
    /// Damaged places.
    pub damages: Vec<Damage>,
    /// Damaged places, those not listed included.
    pub damage_count: u64,
}

/// Exchanges that one kind of peer began.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FlowReport {
    /// Exchanges: CON messages, and NON requests.
    pub exchanges: u64,
    /// CON messages among them.
    pub confirmable: u64,
    /// Notifications among them.
    pub notifications: u64,
    /// Exchanges with a reply.
    pub answered: u64,
    /// Exchanges that were rejected with RST.
    pub resets: u64,
    /// Exchanges without a reply.
    pub unanswered: u64,
    /// Exchanges that the end of the capture cut short.
    pub open: u64,
    /// Requests with a separate response.
    pub separate: u64,
    /// Retransmissions.
    pub retransmissions: u64,
    /// Spurious ones among them; `None` where this capture does not show it.
    pub spurious: Option<u64>,
    /// Retransmissions for which the rule is in doubt.
    pub spurious_uncertain: u64,
    /// Retransmissions of which neither is known.
    pub undecided: u64,
    /// Round trips; `None` where the capture is not at the sender.
    pub round_trip: Option<Quantiles>,
    /// Round trips of exchanges with one transmission, which need no assignment.
    pub unambiguous: Option<Quantiles>,
    /// Times to the response of NON requests, the server's time included.
    pub unconfirmed: Option<Quantiles>,
    /// Server times: from the empty ACK to the response, or at the server to the reply.
    pub server_time: Option<Quantiles>,
}

/// Messages between two peers.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PeerReport {
    /// The client.
    pub client: SocketAddr,
    /// The server.
    pub server: SocketAddr,
    /// The place of the capture.
    pub place: Place,
    /// Its evidence.
    pub basis: Basis,
    /// Exchanges that the client began.
    pub requests: FlowReport,
    /// Exchanges that the server began: notifications and separate responses.
    pub responses: FlowReport,
}

/// Block-wise transfers.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct TransferReport {
    /// Complete ones.
    pub complete: u64,
    /// Bodies with missing blocks.
    pub incomplete: u64,
    /// Bytes a second of complete ones, in the field names of times.
    #[serde(skip)]
    pub goodput: Quantiles,
    /// Median goodput of complete ones, in bytes a second.
    pub median_goodput: u64,
    /// The first ones.
    pub listed: Vec<Transfer>,
}

/// Observations and their notifications.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ObservationReport {
    /// Observations.
    pub observations: u64,
    /// Notifications after the first response.
    pub notifications: u64,
    /// CON messages among them.
    pub confirmable: u64,
    /// Times between notifications of an observation.
    pub interval: Quantiles,
}

/// A round trip for figures.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Point {
    /// Time of the reply since the first message, in microseconds.
    pub at_us: u64,
    /// The round trip.
    pub round_trip_us: u64,
    /// First timeouts of all controllers, in the order of [`Analysis::controllers`].
    #[serde(skip)]
    pub timeouts: Option<Box<[u32]>>,
}

/// Results of an analysis.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Analysis {
    /// The contents of the file.
    pub contents: Contents,
    /// The place of the capture, by the messages of all peers.
    pub place: Place,
    /// Its evidence.
    pub basis: Basis,
    /// Pairs of peers.
    pub peer_count: u64,
    /// Clients, by address and port.
    pub clients: u64,
    /// Servers, by address and port.
    pub servers: u64,
    /// Exchanges that clients began.
    pub requests: FlowReport,
    /// Exchanges that servers began: notifications and separate responses.
    pub responses: FlowReport,
    /// Losses.
    pub losses: Losses,
    /// Block-wise transfers.
    pub transfers: TransferReport,
    /// Observations.
    pub observations: ObservationReport,
    /// Pauses of at least a second between messages of two peers.
    pub idle: Quantiles,
    /// Timeouts of every controller; empty if no sender is at the capture.
    pub controllers: Vec<ControllerResult>,
    /// The link model; `None` without round trips.
    pub link: Option<FittedLink>,
    /// Pairs of peers with the most exchanges.
    pub peers: Vec<PeerReport>,
    /// Round trips over time, a uniform sample.
    #[serde(skip)]
    pub points: Vec<Point>,
}

impl Point {
    pub(crate) fn new(sample: &Sample, first_us: u64) -> Self {
        Self {
            at_us: sample.at.saturating_sub(first_us),
            round_trip_us: sample.round_trip,
            timeouts: sample.first.clone(),
        }
    }
}

/// Sums of flows that are seen from the same place.
#[derive(Debug, Default)]
struct Sums {
    counts: FlowCounts,
    round_trips: Sketch,
    exact: Sketch,
    unconfirmed: Sketch,
    server_times: Sketch,
    /// Spurious ones among retransmissions that are judged at the receiver.
    spurious: u64,
    uncertain: u64,
    undecided: u64,
    has_spurious: bool,
    has_round_trips: bool,
}

impl Sums {
    /// Adds a flow of which the capture is at the sender, at the receiver, or neither.
    fn add(&mut self, flow: &Flow, is_sender: bool, is_receiver: bool) {
        let (sum, new) = (&mut self.counts, &flow.counts);
        sum.exchanges += new.exchanges;
        sum.confirmable += new.confirmable;
        sum.notifications += new.notifications;
        sum.answered += new.answered;
        sum.resets += new.resets;
        sum.unanswered += new.unanswered;
        sum.open += new.open;
        sum.separate += new.separate;
        sum.retransmissions += new.retransmissions;
        self.server_times.merge(&flow.server_times);
        if is_sender {
            self.has_spurious = true;
            self.has_round_trips = true;
            self.spurious += new.spurious;
            self.uncertain += new.spurious_uncertain;
            self.undecided += new.undecided;
            self.round_trips.merge(&flow.round_trips);
            self.exact.merge(&flow.exact);
            self.unconfirmed.merge(&flow.unconfirmed);
        } else if is_receiver {
            // Where responses are separate, the reply is an empty ACK.
            if new.separate * 2 < new.exchanges {
                self.server_times.merge(&flow.exact);
                self.server_times.merge(&flow.unconfirmed);
            }
            let Some((needed, spurious)) = receiver_retransmissions(flow) else {
                self.undecided += new.retransmissions;
                return;
            };
            self.has_spurious = true;
            self.spurious += spurious;
            self.undecided += new.retransmissions - needed - spurious;
        } else {
            self.undecided += new.retransmissions;
        }
    }

    fn report(&self) -> FlowReport {
        let some = |sketch: &Sketch| (sketch.count() > 0).then(|| sketch.quantiles());
        let trips = |sketch| some(sketch).filter(|_| self.has_round_trips);
        let FlowCounts {
            exchanges,
            confirmable,
            notifications,
            answered,
            resets,
            unanswered,
            open,
            separate,
            retransmissions,
            ..
        } = self.counts;
        FlowReport {
            exchanges,
            confirmable,
            notifications,
            answered,
            resets,
            unanswered,
            open,
            separate,
            retransmissions,
            spurious: self.has_spurious.then_some(self.spurious),
            spurious_uncertain: self.uncertain,
            undecided: self.undecided,
            round_trip: trips(&self.round_trips),
            unambiguous: trips(&self.exact),
            unconfirmed: trips(&self.unconfirmed),
            server_time: some(&self.server_times),
        }
    }
}

/// Needed and spurious retransmissions as the receiver sees them; `None` without a round trip to
/// compare with.
///
/// A retransmission that arrives sooner after the reply than the shortest time in which another
/// exchange followed a reply was sent before the reply had arrived: spurious. One that arrives later
/// was sent because the reply was lost: needed. One without a reply before it is undecided.
pub(crate) fn receiver_retransmissions(flow: &Flow) -> Option<(u64, u64)> {
    if flow.turnarounds.count() == 0 {
        return None;
    }
    let round_trip = flow.turnarounds.quantile(0.02);
    let spurious = flow.after_reply.count_below(round_trip);
    Some((flow.after_reply.count() - spurious, spurious))
}

/// Places of the capture from where flows of the client and of the server are seen at the sender
/// and at the receiver.
pub(crate) fn sees(place: Place, is_client: bool) -> (bool, bool) {
    match place {
        Place::Both => (true, false),
        Place::Client => (is_client, !is_client),
        Place::Server => (!is_client, is_client),
        Place::Between | Place::Unknown => (false, false),
    }
}

/// Conversations of the same peers, captured at one or several points.
pub(crate) struct Pair<'a> {
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
    pub(crate) views: Vec<View<'a>>,
}

/// A conversation at one point.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) conversation: &'a Conversation,
    pub(crate) client: usize,
    pub(crate) place: Place,
    pub(crate) basis: Basis,
}

impl View<'_> {
    fn messages(&self) -> u64 {
        self.conversation.messages.iter().sum()
    }

    /// The exchanges of one peer.
    pub(crate) fn flow(&self, is_client: bool) -> &Flow {
        let side = if is_client {
            self.client
        } else {
            1 - self.client
        };
        &self.conversation.flows[side]
    }
}

impl<'a> Pair<'a> {
    /// The views in which the exchanges of one peer are seen best, one of each file.
    pub(crate) fn best(&self, is_client: bool) -> Vec<View<'a>> {
        let rank = |view: &View<'_>| match sees(view.place, is_client) {
            (true, _) => 0,
            (_, true) => 1,
            _ => 2,
        };
        let least = self.views.iter().map(rank).min();
        let mut best: Vec<View<'a>> = Vec::new();
        for view in self.views.iter().filter(|view| Some(rank(view)) == least) {
            match best
                .iter_mut()
                .find(|known| known.conversation.file == view.conversation.file)
            {
                Some(known) if known.messages() < view.messages() => *known = *view,
                Some(_) => {}
                None => best.push(*view),
            }
        }
        best
    }
}

/// Groups conversations by their peers.
pub(crate) fn pairs(tracker: &Tracker) -> Vec<Pair<'_>> {
    let mut grouped: BTreeMap<[SocketAddr; 2], Vec<View<'_>>> = BTreeMap::new();
    for conversation in &tracker.conversations {
        if conversation.is_foreign() {
            continue;
        }
        let (place, basis) = place_of(conversation);
        let client = client_side(conversation);
        let view = View {
            conversation,
            client,
            place,
            basis,
        };
        grouped.entry(conversation.peers).or_default().push(view);
    }
    let pairs = grouped.into_iter().filter_map(|(peers, views)| {
        let client = views.iter().find(|view| view.conversation.client.is_some());
        let client = client.or(views.first())?.client;
        Some(Pair {
            client: peers[client],
            server: peers[1 - client],
            views,
        })
    });
    pairs.collect()
}

/// Reports of exchanges, and the rows of peers.
pub(crate) struct Exchanges {
    pub(crate) place: Place,
    pub(crate) basis: Basis,
    pub(crate) requests: FlowReport,
    pub(crate) responses: FlowReport,
    pub(crate) idle: Quantiles,
    pub(crate) peers: Vec<PeerReport>,
}

pub(crate) fn exchanges(pairs: &[Pair<'_>]) -> Exchanges {
    let (mut requests, mut responses) = (Sums::default(), Sums::default());
    let mut idle = Sketch::default();
    let mut places: BTreeMap<(Place, Basis), u64> = BTreeMap::new();
    let mut peers = Vec::new();
    for pair in pairs {
        let (mut own, mut theirs) = (Sums::default(), Sums::default());
        let mut seen = (Place::Unknown, Basis::Nothing);
        for (is_client, all, one) in [
            (true, &mut requests, &mut own),
            (false, &mut responses, &mut theirs),
        ] {
            for view in pair.best(is_client) {
                let flow = view.flow(is_client);
                let (is_sender, is_receiver) = sees(view.place, is_client);
                all.add(flow, is_sender, is_receiver);
                one.add(flow, is_sender, is_receiver);
                if is_client {
                    seen = (view.place, view.basis);
                    idle.merge(&view.conversation.idle);
                    *places.entry(seen).or_default() += view.messages();
                }
            }
        }
        peers.push(PeerReport {
            client: pair.client,
            server: pair.server,
            place: seen.0,
            basis: seen.1,
            requests: own.report(),
            responses: theirs.report(),
        });
        // Rows of the most exchanges; more are never kept than twice the limit.
        if peers.len() >= 2 * PEERS_LISTED {
            keep_largest(&mut peers);
        }
    }
    keep_largest(&mut peers);
    let most = places.iter().max_by_key(|(_, messages)| **messages);
    let (place, basis) = most.map_or((Place::Unknown, Basis::Nothing), |(place, _)| *place);
    Exchanges {
        place,
        basis,
        requests: requests.report(),
        responses: responses.report(),
        idle: idle.quantiles(),
        peers,
    }
}

/// Round trips of senders at the capture, each with true if the sender is a client.
pub(crate) fn samples(tracker: &Tracker) -> Vec<(&Sample, bool)> {
    let places: Vec<(Place, usize)> = (tracker.conversations.iter())
        .map(|conversation| (place_of(conversation).0, client_side(conversation)))
        .collect();
    let each = tracker.reservoir.samples.iter().filter_map(|sample| {
        let (place, client) = *places.get(sample.conversation as usize)?;
        let is_client = usize::from(sample.side) == client;
        sees(place, is_client).0.then_some((sample, is_client))
    });
    each.collect()
}

fn keep_largest(peers: &mut Vec<PeerReport>) {
    let exchanges = |row: &PeerReport| row.requests.exchanges + row.responses.exchanges;
    peers.sort_by_key(|row| std::cmp::Reverse(exchanges(row)));
    peers.truncate(PEERS_LISTED);
}
