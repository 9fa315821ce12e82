//! Signals to stop: Ctrl-C and, where there is such a thing, SIGTERM.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, Kind, Outcome};

/// Catches signals from its creation on, also before they are awaited.
#[cfg(unix)]
pub(super) struct Stop {
    interrupt: tokio::signal::unix::Signal,
    /// Of a server, which reads its credentials again.
    hang_up: Option<tokio::signal::unix::Signal>,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(windows)]
pub(super) struct Stop(tokio::signal::windows::CtrlC);

/// Requests by signal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signalled {
    Stop,
    #[cfg(unix)]
    Reload,
}

impl Stop {
    pub(super) fn listen() -> Result<Self, Failure> {
        #[cfg(unix)]
        let heard = {
            use tokio::signal::unix::{SignalKind, signal};
            signal(SignalKind::interrupt()).and_then(|interrupt| {
                let terminate = signal(SignalKind::terminate())?;
                Ok(Self {
                    interrupt,
                    hang_up: None,
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

    /// The same for a server: SIGHUP does not end it.
    pub(super) fn listen_as_server() -> Result<Self, Failure> {
        let stop = Self::listen()?;
        #[cfg(unix)]
        let stop = {
            use tokio::signal::unix::{SignalKind, signal};
            let hang_up = signal(SignalKind::hangup()).map_err(|error| {
                let text = format!("cannot wait for signals: {error}");
                Failure::new(Kind::Network, text)
            })?;
            Self {
                hang_up: Some(hang_up),
                ..stop
            }
        };
        Ok(stop)
    }

    /// Waits for the next, or until a server has ended by itself. Error: why it has. SIGHUP calls `reload`.
    pub(super) async fn asked_while(
        &mut self,
        closed: impl Future<Output = io::Result<()>>,
        reload: impl Fn(),
    ) -> Result<(), Failure> {
        let mut closed = std::pin::pin!(closed);
        let ended = loop {
            tokio::select! {
                signalled = self.signalled() => match signalled {
                    Signalled::Stop => return Ok(()),
                    #[cfg(unix)]
                    Signalled::Reload => reload(),
                },
                ended = &mut closed => break ended,
            }
        };
        #[cfg(not(unix))]
        let _ = reload;
        let why = ended.map_or_else(|error| error.to_string(), |()| "it was closed".to_owned());
        let text = format!("the server has stopped: {why}");
        Err(Failure::new(Kind::Network, text))
    }

    /// Waits for the next.
    pub(super) async fn asked(&mut self) {
        while self.signalled().await != Signalled::Stop {}
    }

    #[cfg(unix)]
    async fn signalled(&mut self) -> Signalled {
        tokio::select! {
            _ = self.interrupt.recv() => Signalled::Stop,
            _ = self.terminate.recv() => Signalled::Stop,
            () = next(&mut self.hang_up) => Signalled::Reload,
        }
    }

    #[cfg(windows)]
    async fn signalled(&mut self) -> Signalled {
        self.0.recv().await;
        Signalled::Stop
    }
}

/// Waits for a signal; without one, forever.
#[cfg(unix)]
async fn next(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
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

/// A flag that Ctrl-C raises, for work without a runtime. A second Ctrl-C ends the process.
pub(super) fn flag_of_interrupt() -> Result<&'static AtomicBool, Failure> {
    static FLAG: AtomicBool = AtomicBool::new(false);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| {
        let text = format!("cannot wait for signals: {error}");
        Failure::new(Kind::Network, text)
    })?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if FLAG.swap(true, Ordering::Relaxed) {
                    std::process::exit(i32::from(Outcome::Interrupted.number()));
                }
            }
        });
    });
    Ok(&FLAG)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Outcome;

    #[tokio::test]
    async fn failed_server_exits_with_4_and_its_reason() {
        let mut stop = Stop::listen().expect("signals");
        let closed = async { Err(io::Error::other("the interface is gone")) };
        let failure = stop
            .asked_while(closed, || {})
            .await
            .expect_err("it has ended");
        assert_eq!(
            failure.message,
            "the server has stopped: the interface is gone"
        );
        assert_eq!(Outcome::from(failure).number(), 4);
    }
}
