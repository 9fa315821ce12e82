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

/// Lets a write beyond the limit of file sizes (`ulimit -f`, LimitFSIZE) fail, where SIGXFSZ would
/// end the process.
pub(super) fn survive_file_size_limit() -> Result<(), Failure> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // The handler stays when the stream of signals is dropped.
        let handled = signal(SignalKind::from_raw(nix::libc::SIGXFSZ)).map(drop);
        handled.map_err(|error| {
            let text = format!("cannot handle SIGXFSZ: {error}");
            Failure::new(Kind::Network, text)
        })?;
    }
    Ok(())
}
