//! Analysis of captures of CoAP traffic: exchanges, round-trip times, losses,
//! retransmissions, and the timers that each congestion controller would have set.
//!
//! [`analyze`] reads a capture (pcap, pcapng) or an event log of Carob as a stream, in memory that
//! does not grow with the file ([`limits`]). Its [`Analysis`] has exchanges, round trips,
//! retransmissions and which of them were spurious, losses by direction where they can be known,
//! block-wise transfers, observations, the timeouts of every controller of `carob-cc`, and a
//! [`FittedLink`]. Damaged files give a partial result with the places of the damage.
//!
//! ```
//! use carob_analyze::{Options, analyze};
//!
//! let file = carob_analyze::synthetic::capture();
//! let analysis = analyze(&file[..], &Options::default())?;
//! assert_eq!(analysis.requests.exchanges, 20);
//! for finding in analysis.findings() {
//!     println!("{finding}");
//! }
//! # Ok::<(), carob_analyze::AnalyzeError>(())
//! ```
//!
//! # Rules
//!
//! - A retransmission is a CON with the Message ID and content of an earlier one of the same sender
//!   within EXCHANGE_LIFETIME.
//! - As many replies as transmissions answer one each. Fewer replies are assigned, in order, so that
//!   round trips are nearest to the recent one of this peer; a reply sooner than half of the
//!   shortest round trip after a transmission does not answer it.
//! - A retransmission is spurious if an earlier transmission was answered. Seen at the receiver: if
//!   it arrives sooner after the reply than another exchange ever followed a reply.
//! - A loss is a CON transmission to which no reply is assigned.

mod contents;
mod dtls;
mod fit;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod input;
pub mod limits;
mod loss;
mod message;
mod place;
mod sightings;
mod sketch;
mod summary;
pub mod synthetic;
mod tracker;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use contents::Reading;
use summary::{ObservationReport, POINTS_LISTED, Point, TransferReport};
use tracker::Tracker;

pub use dtls::{DtlsRecords, DtlsSecrets, KeyLogError};
pub use fit::{Certainty, Devices, Fitted, FittedLink};
pub use input::{Damage, Format, detect};
pub use loss::{Loss, LossBasis, Losses};
pub use place::{Basis, Place};
pub use sketch::{Quantiles, Sketch};
pub use summary::{Analysis, Contents, FlowReport, PEERS_LISTED, PeerReport};
pub use summary::{
    ObservationReport as Observations, Point as RoundTripPoint, TransferReport as Transfers,
};
pub use tracker::controllers::ControllerResult;
pub use tracker::transfers::Transfer;

/// Bytes of a buffer before a file.
const BUFFER_BYTES: usize = 256 << 10;

/// Settings of an analysis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// UDP ports of CoAP. Without any: 5683, and what reads as CoAP on other ports.
    pub ports: Vec<u16>,
    /// Text of addresses: peers without it are left out.
    pub peer: Option<String>,
    /// Side of the devices of the link; without it, the side with more addresses.
    pub devices: Option<Devices>,
    /// Keys of DTLS sessions; records of other sessions are counted.
    pub secrets: DtlsSecrets,
}

impl Options {
    /// Adds a UDP port of CoAP.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.ports.push(port);
        self
    }

    /// Leaves out peers whose addresses do not have this text.
    #[must_use]
    pub fn peer(mut self, text: impl Into<String>) -> Self {
        self.peer = Some(text.into());
        self
    }

    /// Sets the side of the devices.
    #[must_use]
    pub fn devices(mut self, devices: Devices) -> Self {
        self.devices = Some(devices);
        self
    }

    /// Sets the keys of DTLS sessions.
    #[must_use]
    pub fn secrets(mut self, secrets: DtlsSecrets) -> Self {
        self.secrets = secrets;
        self
    }
}

/// Reasons why there is no analysis.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnalyzeError {
    /// The file cannot be read.
    Io(io::Error),
    /// The file is neither a capture nor an event log; its first bytes.
    UnknownFormat(Vec<u8>),
    /// The file is empty.
    Empty,
}

impl fmt::Display for AnalyzeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_) => f.write_str("cannot be read"),
            Self::UnknownFormat(start) => {
                f.write_str("not a capture: it begins with")?;
                for byte in start {
                    write!(f, " {byte:02x}")?;
                }
                if let Some(name) = input::foreign_format(start) {
                    write!(f, " ({name})")?;
                }
                f.write_str("; expected pcap, pcapng, or an event log of JSON lines")
            }
            Self::Empty => f.write_str("the file is empty"),
        }
    }
}

impl std::error::Error for AnalyzeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for AnalyzeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Analyses one file.
///
/// # Errors
///
/// A file that cannot be read, is empty, or is of another format. Damage within a capture is no
/// error: the [`Analysis`] covers the part that was read, and names its end.
pub fn analyze(file: impl Read, options: &Options) -> Result<Analysis, AnalyzeError> {
    let mut analyzer = Analyzer::new(options.clone());
    analyzer.read(file)?;
    Ok(analyzer.finish())
}

/// An analysis of several files: captures of the same traffic at several places, or one after the
/// other.
#[derive(Debug)]
pub struct Analyzer {
    options: Options,
    tracker: Tracker,
    reading: Reading,
}

impl Analyzer {
    /// Begins an analysis.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            tracker: Tracker::new(),
            reading: Reading::default(),
        }
    }

    /// Reads a file to its end.
    ///
    /// # Errors
    ///
    /// As [`analyze`].
    pub fn read(&mut self, file: impl Read) -> Result<(), AnalyzeError> {
        let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
        let start = file.fill_buf()?;
        if start.is_empty() {
            return Err(AnalyzeError::Empty);
        }
        let start = &start[..start.len().min(64)];
        let Some(format) = detect(start) else {
            let start = &start[..start.len().min(8)];
            return Err(AnalyzeError::UnknownFormat(start.to_vec()));
        };
        self.tracker.next_file();
        self.reading.contents.formats.push(format);
        match format {
            Format::EventLog => self.reading.log(file, &self.options, &mut self.tracker)?,
            Format::Pcap | Format::Pcapng => {
                self.reading
                    .capture(format, file, &self.options, &mut self.tracker)?;
            }
        }
        self.tracker.conclude_all();
        Ok(())
    }

    /// Ends the analysis.
    pub fn finish(self) -> Analysis {
        let Self {
            options,
            tracker,
            reading,
        } = self;
        let pairs = summary::pairs(&tracker);
        let clients: BTreeSet<_> = pairs.iter().map(|pair| pair.client).collect();
        let servers: BTreeSet<_> = pairs.iter().map(|pair| pair.server).collect();
        let found = summary::exchanges(&pairs);
        let losses = Losses::of(&pairs);
        let is_unknown_sender = matches!(found.place, Place::Client | Place::Both);
        let hosts = |peers: &BTreeSet<std::net::SocketAddr>| {
            peers
                .iter()
                .map(std::net::SocketAddr::ip)
                .collect::<BTreeSet<_>>()
                .len()
        };
        let devices = options.devices.unwrap_or_else(|| {
            if hosts(&servers) > hosts(&clients) {
                Devices::Servers
            } else {
                Devices::Clients
            }
        });
        let samples = summary::samples(&tracker);
        let link = fit::fit(&fit::Evidence {
            samples: samples.clone(),
            arrivals: &tracker.arrivals,
            losses: &losses,
            packet_bytes_max: tracker.totals.packet_bytes_max,
            devices,
        });
        let first_us = tracker.totals.first_us.unwrap_or_default();
        let mut points: Vec<Point> = samples
            .iter()
            .take(POINTS_LISTED)
            .map(|(sample, _)| Point::new(sample, first_us))
            .collect();
        points.sort_by_key(|point| point.at_us);
        let (listed, goodput, [complete, incomplete]) = tracker.transfers();
        let notifications = tracker.notifications();
        Analysis {
            place: found.place,
            basis: found.basis,
            peer_count: pairs.len() as u64,
            clients: clients.len() as u64,
            servers: servers.len() as u64,
            requests: found.requests,
            responses: found.responses,
            losses,
            transfers: TransferReport {
                complete,
                incomplete,
                goodput: goodput.quantiles(),
                median_goodput: goodput.quantile(0.5),
                listed: listed.to_vec(),
            },
            observations: ObservationReport {
                observations: notifications.observations,
                notifications: notifications.count,
                confirmable: notifications.confirmable,
                interval: notifications.intervals.quantiles(),
            },
            idle: found.idle,
            controllers: if samples.is_empty() {
                Vec::new()
            } else {
                tracker.controllers(is_unknown_sender)
            },
            link,
            peers: found.peers,
            points,
            contents: reading.finish(&tracker.totals),
        }
    }
}
