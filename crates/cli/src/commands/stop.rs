//! Being asked to stop: Ctrl-C and, where there is such a thing, SIGTERM.

use crate::failure::{Failure, Kind};

/// Hears them from the moment it is made, whether or not anybody waits for them yet.
#[cfg(unix)]
pub(super) struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(windows)]
pub(super) struct Stop(tokio::signal::windows::CtrlC);

impl Stop {
    pub(super) fn listen() -> Result<Self, Failure> {
        #[cfg(unix)]
        let heard = {
            use tokio::signal::unix::{SignalKind, signal};
            signal(SignalKind::interrupt()).and_then(|interrupt| {
                let terminate = signal(SignalKind::terminate())?;
                Ok(Self {
                    interrupt,
                    terminate,
                })
            })
        };
        #[cfg(windows)]
        let heard = tokio::signal::windows::ctrl_c().map(Self);
        heard.map_err(|error| {
            let text = format!("cannot wait for signals: {error}");
            Failure::new(Kind::Network, text)
        })
    }

    /// Waits for the next.
    pub(super) async fn asked(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(windows)]
        self.0.recv().await;
    }
}
