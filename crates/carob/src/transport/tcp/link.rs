//! One connection: a task that reads, a task that writes, and the queue between it and the driver.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use carob_proto::endpoint::Disconnect;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;

use super::{AbortOnDrop, ConnectionEvent, QUEUE_HIGH};
#[cfg(feature = "tls")]
use crate::transport::duplex::Duplex;
use crate::transport::duplex::disconnect_of;
#[cfg(feature = "websocket")]
use crate::transport::websocket;

/// Bytes per read.
const READ: usize = 16 << 10;
/// Time limit for writing the queue of a closed connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection before its first CoAP message.
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<dyn Duplex>),
    #[cfg(feature = "websocket")]
    WebSocket(Box<websocket::WebSocket>),
}

/// Bytes queued for writing.
#[derive(Debug)]
pub(super) struct Flow {
    queued: AtomicUsize,
    drained: Notify,
    /// The total of all connections.
    unsent: Arc<AtomicUsize>,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.unsent
            .fetch_sub(*self.queued.get_mut(), Ordering::AcqRel);
    }
}

impl Flow {
    pub(super) fn is_congested(&self) -> bool {
        self.queued() > QUEUE_HIGH
    }

    pub(super) fn queued(&self) -> usize {
        self.queued.load(Ordering::Acquire)
    }

    /// Subtracts the queued bytes from the endpoint's total when the writer ends.
    fn release_queued(&self) {
        let queued = self.queued.swap(0, Ordering::AcqRel);
        self.unsent.fetch_sub(queued, Ordering::AcqRel);
    }

    /// Waits until the total is at most the limit.
    async fn wait_drained(&self) {
        loop {
            // Created before the check, so that a notification between the two is not missed.
            let drained = self.drained.notified();
            if !self.is_congested() {
                return;
            }
            drained.await;
        }
    }

    /// Subtracts written bytes; returns whether that ended the congestion. Bytes released before
    /// are not counted again.
    fn on_written(&self, bytes: usize) -> bool {
        let less = |queued: usize| Some(queued.saturating_sub(bytes));
        let before = self
            .queued
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
            .unwrap_or_else(|queued| queued);
        let after = before.saturating_sub(bytes);
        self.unsent.fetch_sub(before - after, Ordering::AcqRel);
        // Once per congestion: at the crossing of the watermark.
        let drained = before > QUEUE_HIGH && after <= QUEUE_HIGH;
        if drained {
            self.drained.notify_waiters();
        }
        drained
    }
}

/// The driver's end of a connection. Dropping it closes the connection once its queue is written,
/// or after a time limit.
pub(super) struct Link {
    queue: mpsc::UnboundedSender<Bytes>,
    flow: Arc<Flow>,
    writing: AbortHandle,
    _reading: AbortOnDrop,
    /// Dropped with the link, which signals the writer that the driver closed it.
    _alive: oneshot::Sender<()>,
}

/// The writer of a closed connection, which still writes its queue.
pub(super) struct Closing {
    writing: AbortHandle,
    flow: Arc<Flow>,
}

impl Closing {
    pub(super) fn has_ended(&self) -> bool {
        self.writing.is_finished()
    }

    /// Ends the writer and discards its queue.
    pub(super) fn abort(self) {
        self.writing.abort();
        self.flow.release_queued();
    }
}

/// Reports of a connection to its transport.
#[derive(Clone)]
struct Reporter {
    peer: SocketAddr,
    link: u64,
    events: mpsc::Sender<ConnectionEvent>,
    flow: Arc<Flow>,
}

impl Reporter {
    async fn read(&self, bytes: Bytes) -> bool {
        let Self { peer, link, .. } = *self;
        let read = ConnectionEvent::Read { peer, link, bytes };
        self.events.send(read).await.is_ok()
    }

    async fn ended(&self, why: Disconnect) {
        let Self { peer, link, .. } = *self;
        // A stopped driver needs no report, here and below.
        let _ = self
            .events
            .send(ConnectionEvent::Ended { peer, link, why })
            .await;
    }

    async fn on_written(&self, bytes: usize) {
        let Self { peer, link, .. } = *self;
        if self.flow.on_written(bytes) {
            let _ = self
                .events
                .send(ConnectionEvent::Drained { peer, link })
                .await;
        }
    }
}

impl Link {
    pub(super) fn start(
        peer: SocketAddr,
        link: u64,
        stream: Stream,
        (events, unsent): (mpsc::Sender<ConnectionEvent>, Arc<AtomicUsize>),
    ) -> Self {
        let flow = Arc::new(Flow {
            queued: AtomicUsize::new(0),
            drained: Notify::new(),
            unsent,
        });
        let (queue, queued) = mpsc::unbounded_channel();
        let (alive, ended) = oneshot::channel();
        let reporter = Reporter {
            peer,
            link,
            events,
            flow: Arc::clone(&flow),
        };
        let (writing, reading) = match stream {
            Stream::Tcp(stream) => {
                let (reader, writer) = stream.into_split();
                let writing = write(writer, queued, reporter.clone());
                (
                    tokio::spawn(drain_and_close(writing, ended)),
                    tokio::spawn(read(reader, reporter)),
                )
            }
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => {
                let (reader, writer) = tokio::io::split(stream);
                let writing = write(writer, queued, reporter.clone());
                (
                    tokio::spawn(drain_and_close(writing, ended)),
                    tokio::spawn(read(reader, reporter)),
                )
            }
            #[cfg(feature = "websocket")]
            Stream::WebSocket(stream) => {
                let (reader, writer) = websocket::split(*stream);
                let writing = write_messages(writer, queued, reporter.clone());
                (
                    tokio::spawn(drain_and_close(writing, ended)),
                    tokio::spawn(read_messages(reader, reporter)),
                )
            }
        };
        Self {
            queue,
            flow,
            writing: writing.abort_handle(),
            _reading: AbortOnDrop(reading.abort_handle()),
            _alive: alive,
        }
    }

    /// Queues bytes for writing.
    pub(super) fn write(&self, bytes: Bytes) {
        self.flow.queued.fetch_add(bytes.len(), Ordering::AcqRel);
        self.flow.unsent.fetch_add(bytes.len(), Ordering::AcqRel);
        // A writer that has ended reports it to the driver.
        let _ = self.queue.send(bytes);
    }

    pub(super) fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Ends the connection and discards its queue.
    pub(super) fn abort(self) {
        self.close().abort();
    }

    /// Ends the connection once its queue is written.
    pub(super) fn close(self) -> Closing {
        Closing {
            writing: self.writing.clone(),
            flow: Arc::clone(&self.flow),
        }
    }
}

/// Writes until the queue is empty; after the driver has closed the connection, for a limited time.
async fn drain_and_close(writing: impl Future<Output = ()>, ended: oneshot::Receiver<()>) {
    let patience = async {
        // The channel carries no values; its end is the signal.
        let _ = ended.await;
        // A peer that reads nothing must not keep the queue of a closed connection in memory.
        tokio::time::sleep(CLOSE_TIMEOUT).await;
    };
    tokio::select! {
        () = writing => {}
        () = patience => {}
    }
}

async fn read(mut stream: impl AsyncRead + Unpin, reporter: Reporter) {
    let mut buffer = BytesMut::with_capacity(READ);
    let why = loop {
        // A peer that does not read its responses is not read from: TCP's window then stops its
        // requests.
        reporter.flow.wait_drained().await;
        buffer.reserve(READ);
        match stream.read_buf(&mut buffer).await {
            Ok(0) => break Disconnect::Closed,
            Ok(_) => {
                if !reporter.read(buffer.split().freeze()).await {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break disconnect_of(&error),
        }
    };
    reporter.ended(why).await;
}

async fn write(
    mut stream: impl AsyncWrite + Unpin,
    mut queue: mpsc::UnboundedReceiver<Bytes>,
    reporter: Reporter,
) {
    while let Some(bytes) = queue.recv().await {
        let mut written = stream.write_all(&bytes).await;
        // TLS keeps records in a buffer until it is flushed; one flush serves all that is
        // queued.
        if written.is_ok() && queue.is_empty() {
            written = stream.flush().await;
        }
        if let Err(error) = written {
            return reporter.ended(disconnect_of(&error)).await;
        }
        reporter.on_written(bytes.len()).await;
    }
    // The driver has closed the connection. If the peer does not read, the system's buffer is
    // lost.
    let _ = stream.shutdown().await;
}

#[cfg(feature = "websocket")]
async fn read_messages(mut stream: websocket::MessageReader, reporter: Reporter) {
    let why = loop {
        reporter.flow.wait_drained().await;
        match stream.next().await {
            Ok(bytes) => {
                if !reporter.read(bytes).await {
                    return;
                }
            }
            Err(why) => break why,
        }
    };
    reporter.ended(why).await;
}

#[cfg(feature = "websocket")]
async fn write_messages(
    mut stream: websocket::MessageWriter,
    mut queue: mpsc::UnboundedReceiver<Bytes>,
    reporter: Reporter,
) {
    while let Some(bytes) = queue.recv().await {
        let length = bytes.len();
        let mut written = stream.write(bytes).await;
        // Bytes in the library's buffer count as queued.
        if written.is_ok() && (length > QUEUE_HIGH / 4 || queue.is_empty()) {
            written = stream.flush().await;
        }
        if written.is_err() {
            return reporter.ended(Disconnect::Broken).await;
        }
        reporter.on_written(length).await;
    }
    let _ = stream.close().await;
}
