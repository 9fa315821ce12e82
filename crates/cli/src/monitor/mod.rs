//! Monitors of an endpoint: its event log, its capture, its messages on stderr, and counters.

mod capture;
mod handshakes;
mod log;
mod silence;
mod timing;
pub(crate) mod warnings;
mod wire;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carob::Config;
use carob_proto::trace::Trace;

use crate::args::WatchArgs;
use crate::failure::Failure;
use crate::printer::{self, Parameters};

use capture::Capture;
use log::EventLog;
use silence::SilentPeer;
pub(crate) use timing::Counters;
use wire::Wire;

/// Watches one endpoint. Clones are one and the same.
#[derive(Clone)]
pub(crate) struct Monitor {
    watching: Arc<Mutex<Watching>>,
    logs: bool,
    captures: bool,
    shows: bool,
}

struct Watching {
    counters: Counters,
    parameters: Option<Parameters>,
    log: Option<EventLog>,
    capture: Option<Capture>,
    wire: Option<Wire>,
    silence: Option<SilentPeer>,
}

impl Monitor {
    /// Opens the files of the command line.
    pub(crate) fn open(args: &WatchArgs) -> Result<Self, Failure> {
        let watching = Watching {
            counters: Counters::default(),
            parameters: None,
            log: args.log.as_deref().map(EventLog::open).transpose()?,
            capture: args.pcap.as_deref().map(Capture::open).transpose()?,
            wire: (args.verbose > 0).then(|| Wire::new(args.verbose > 1)),
            silence: None,
        };
        Ok(Self {
            logs: watching.log.is_some(),
            captures: watching.capture.is_some(),
            shows: watching.wire.is_some(),
            watching: Arc::new(Mutex::new(watching)),
        })
    }

    /// A client's settings with this monitor in them, which counts its messages in any case.
    pub(crate) fn of_client(&self, settings: Config) -> Config {
        if !self.shows {
            self.lock().silence = SilentPeer::new();
        }
        self.hear(settings, true)
    }

    /// A server's settings with this monitor, without hooks that nothing uses.
    pub(crate) fn of_server(&self, settings: Config) -> Config {
        let (monitor, report) = (self.clone(), handshakes::Report::new());
        self.hear(settings, false)
            .on_handshake_failed(move |failed| {
                report.see(failed);
                if monitor.logs
                    && let Some(log) = &mut monitor.lock().log
                {
                    log.write(&handshakes::json(failed));
                }
            })
    }

    fn hear(&self, mut settings: Config, counts: bool) -> Config {
        let monitor = self.clone();
        let hear = move |trace: &Trace| monitor.lock().hear(trace);
        if self.logs {
            settings = settings.on_every_trace(hear);
        } else if self.shows || counts {
            settings = settings.on_trace(hear);
        }
        if self.shows || self.captures {
            let monitor = self.clone();
            settings = settings.on_datagram(move |datagram| {
                let mut watching = monitor.lock();
                if let Some(wire) = &mut watching.wire {
                    wire.see(datagram);
                }
                if let Some(capture) = &mut watching.capture {
                    capture.see(datagram);
                }
            });
        }
        settings
    }

    /// Keeps the transmission parameters of an endpoint; `explicit` ones are shown to people.
    pub(crate) fn begin(&self, settings: &Config, explicit: bool) {
        let parameters = Parameters::new(settings.transmission_parameters(), explicit);
        if self.shows && explicit {
            printer::parameters(&parameters);
        }
        self.lock().parameters = Some(parameters);
    }

    /// Resets the counters.
    pub(crate) fn reset_tally(&self) {
        let mut watching = self.lock();
        watching.counters = Counters::default();
        if let Some(silence) = &mut watching.silence {
            silence.reset();
        }
    }

    /// Removes the line about a silent peer, before anything else is shown.
    pub(crate) fn end_wait(&self) {
        if let Some(silence) = &self.lock().silence {
            silence.clear();
        }
    }

    /// The counters since then.
    pub(crate) fn counters(&self) -> Counters {
        self.lock().counters
    }

    fn lock(&self) -> MutexGuard<'_, Watching> {
        self.watching.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates a file that only its owner may read: it holds what sessions keep secret.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

impl Watching {
    fn hear(&mut self, trace: &Trace) {
        self.counters.count(trace);
        if let Some(silence) = &mut self.silence {
            silence.hear(trace, self.parameters.map(|of| of.max_retransmit));
        }
        if let Some(wire) = &mut self.wire {
            wire.hear(trace);
        }
        if let Some(log) = &mut self.log {
            log.hear(trace);
        }
    }
}
