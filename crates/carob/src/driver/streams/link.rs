//! One connection: a task that reads, a task that writes, and the queue between it and the driver.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use carob_proto::endpoint::Disconnect;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{self, Message};

use super::{AbortOnDrop, Happening, QUEUE_HIGH};

/// Bytes asked for at a time.
const READ: usize = 16 << 10;
/// How long a connection that is closed may take to write what it still has.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Anything that bytes go both ways on.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection before anybody speaks CoAP on it.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<dyn Duplex>),
    WebSocket(Box<WebSocketStream<Box<dyn Duplex>>>),
}

/// How much waits to be written.
#[derive(Debug)]
pub(super) struct Flow {
    queued: AtomicUsize,
    eased: Notify,
    /// The same of all connections.
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

    /// Counts what waits no longer: its writer ends.
    fn give_back(&self) {
        let queued = self.queued.swap(0, Ordering::AcqRel);
        self.unsent.fetch_sub(queued, Ordering::AcqRel);
    }

    /// Waits until there is no more than there should be.
    async fn ease(&self) {
        loop {
            let eased = self.eased.notified();
            if !self.is_congested() {
                return;
            }
            eased.await;
        }
    }

    /// Notes that so much was written; whether that made the difference. What was given back before is
    /// not counted again.
    fn wrote(&self, bytes: usize) -> bool {
        let less = |queued: usize| Some(queued.saturating_sub(bytes));
        let before = self
            .queued
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
            .unwrap_or_else(|queued| queued);
        let after = before.saturating_sub(bytes);
        self.unsent.fetch_sub(before - after, Ordering::AcqRel);
        let eased = before > QUEUE_HIGH && after <= QUEUE_HIGH;
        if eased {
            self.eased.notify_waiters();
        }
        eased
    }
}

/// The driver's end of a connection. Dropping it closes the connection once what it has taken is
/// written, or its peer has not taken it for too long.
pub(super) struct Link {
    queue: mpsc::UnboundedSender<Bytes>,
    flow: Arc<Flow>,
    writing: AbortHandle,
    _reading: AbortOnDrop,
    /// Its end tells the writer that there is nobody any more.
    _alive: oneshot::Sender<()>,
}

/// The writer of a connection that the driver has closed: what waited is still written.
pub(super) struct Closing {
    writing: AbortHandle,
    flow: Arc<Flow>,
}

impl Closing {
    pub(super) fn has_ended(&self) -> bool {
        self.writing.is_finished()
    }

    /// Ends it with what waits to be written.
    pub(super) fn abort(self) {
        self.writing.abort();
        self.flow.give_back();
    }
}

/// Who tells the driver of a connection.
#[derive(Clone)]
struct Teller {
    peer: SocketAddr,
    link: u64,
    tell: mpsc::Sender<Happening>,
    flow: Arc<Flow>,
}

impl Teller {
    async fn read(&self, bytes: Bytes) -> bool {
        let Self { peer, link, .. } = *self;
        let read = Happening::Read { peer, link, bytes };
        self.tell.send(read).await.is_ok()
    }

    async fn ended(&self, why: Disconnect) {
        let Self { peer, link, .. } = *self;
        // A driver that has stopped needs to know nothing, here and below.
        let _ = self.tell.send(Happening::Ended { peer, link, why }).await;
    }

    async fn wrote(&self, bytes: usize) {
        let Self { peer, link, .. } = *self;
        if self.flow.wrote(bytes) {
            let _ = self.tell.send(Happening::Eased { peer, link }).await;
        }
    }
}

impl Link {
    pub(super) fn start(
        peer: SocketAddr,
        link: u64,
        stream: Stream,
        (tell, unsent): (mpsc::Sender<Happening>, Arc<AtomicUsize>),
    ) -> Self {
        let flow = Arc::new(Flow {
            queued: AtomicUsize::new(0),
            eased: Notify::new(),
            unsent,
        });
        let (queue, queued) = mpsc::unbounded_channel();
        let (alive, ended) = oneshot::channel();
        let teller = Teller {
            peer,
            link,
            tell,
            flow: Arc::clone(&flow),
        };
        let (writing, reading) = match stream {
            Stream::Tcp(stream) => {
                let (reader, writer) = stream.into_split();
                let writing = write(writer, queued, teller.clone());
                (
                    tokio::spawn(last_words(writing, ended)),
                    tokio::spawn(read(reader, teller)),
                )
            }
            Stream::Tls(stream) => {
                let (reader, writer) = tokio::io::split(stream);
                let writing = write(writer, queued, teller.clone());
                (
                    tokio::spawn(last_words(writing, ended)),
                    tokio::spawn(read(reader, teller)),
                )
            }
            Stream::WebSocket(stream) => {
                let (writer, reader) = (*stream).split();
                let writing = write_messages(writer, queued, teller.clone());
                (
                    tokio::spawn(last_words(writing, ended)),
                    tokio::spawn(read_messages(reader, teller)),
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

    /// Has these bytes written, after those before.
    pub(super) fn write(&self, bytes: Bytes) {
        self.flow.queued.fetch_add(bytes.len(), Ordering::AcqRel);
        self.flow.unsent.fetch_add(bytes.len(), Ordering::AcqRel);
        // A writer that has ended has told the driver, or will.
        let _ = self.queue.send(bytes);
    }

    pub(super) fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Ends the connection with what waits to be written.
    pub(super) fn abort(self) {
        self.close().abort();
    }

    /// Ends the connection once what waits is written.
    pub(super) fn close(self) -> Closing {
        Closing {
            writing: self.writing.clone(),
            flow: Arc::clone(&self.flow),
        }
    }
}

/// Writes until there is nothing more to write; once the driver has closed the connection, no longer
/// than a peer that reads would take.
async fn last_words(writing: impl Future<Output = ()>, ended: oneshot::Receiver<()>) {
    let patience = async {
        // Nothing is ever sent: this is its end.
        let _ = ended.await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        () = writing => {}
        () = patience => {}
    }
}

/// How a connection ended that the system says this of.
fn end_of(error: &io::Error) -> Disconnect {
    match error.kind() {
        // TLS that ends without a word, too: CoAP messages say themselves where they end.
        io::ErrorKind::UnexpectedEof => Disconnect::Closed,
        _ => Disconnect::Broken,
    }
}

async fn read(mut stream: impl AsyncRead + Unpin, teller: Teller) {
    let mut buffer = BytesMut::with_capacity(READ);
    let why = loop {
        teller.flow.ease().await;
        buffer.reserve(READ);
        match stream.read_buf(&mut buffer).await {
            Ok(0) => break Disconnect::Closed,
            Ok(_) => {
                if !teller.read(buffer.split().freeze()).await {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break end_of(&error),
        }
    };
    teller.ended(why).await;
}

async fn write(
    mut stream: impl AsyncWrite + Unpin,
    mut queue: mpsc::UnboundedReceiver<Bytes>,
    teller: Teller,
) {
    while let Some(bytes) = queue.recv().await {
        let mut written = stream.write_all(&bytes).await;
        if written.is_ok() && queue.is_empty() {
            written = stream.flush().await;
        }
        if let Err(error) = written {
            return teller.ended(end_of(&error)).await;
        }
        teller.wrote(bytes.len()).await;
    }
    // The driver has closed it. If the peer does not take it, the system's buffer is lost.
    let _ = stream.shutdown().await;
}

type Messages<T> = futures_util::stream::SplitStream<WebSocketStream<T>>;
type MessageSink<T> = futures_util::stream::SplitSink<WebSocketStream<T>, Message>;

async fn read_messages(mut stream: Messages<Box<dyn Duplex>>, teller: Teller) {
    let why = loop {
        teller.flow.ease().await;
        match stream.next().await {
            // CoAP messages are binary (RFC 8323 4.2).
            Some(Ok(Message::Binary(bytes))) => {
                if !teller.read(bytes).await {
                    return;
                }
            }
            // Its pings are answered by the library.
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Err(tungstenite::Error::Io(error))) => break end_of(&error),
            Some(
                Ok(Message::Close(_))
                | Err(
                    tungstenite::Error::ConnectionClosed
                    | tungstenite::Error::AlreadyClosed
                    | tungstenite::Error::Protocol(
                        tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
                    ),
                ),
            )
            | None => break Disconnect::Closed,
            Some(Ok(Message::Text(_)) | Err(_)) => break Disconnect::BadMessage,
        }
    };
    teller.ended(why).await;
}

/// Bytes of a frame. The library keeps a buffer as long as the longest frame for each connection, so longer
/// messages are sent in several frames (RFC 6455 5.4, RFC 8323 4.2).
const FRAME_BYTES: usize = 64 << 10;

/// Writes a message. Its last frame may wait in the library's buffer until that is flushed.
async fn write_message(
    stream: &mut MessageSink<Box<dyn Duplex>>,
    mut bytes: Bytes,
) -> Result<(), tungstenite::Error> {
    if bytes.len() <= FRAME_BYTES {
        return stream.feed(Message::Binary(bytes)).await;
    }
    let mut data = Data::Binary;
    while bytes.len() > FRAME_BYTES {
        let frame = Frame::message(bytes.split_to(FRAME_BYTES), OpCode::Data(data), false);
        stream.send(Message::Frame(frame)).await?;
        data = Data::Continue;
    }
    let last = Frame::message(bytes, OpCode::Data(data), true);
    stream.feed(Message::Frame(last)).await
}

async fn write_messages(
    mut stream: MessageSink<Box<dyn Duplex>>,
    mut queue: mpsc::UnboundedReceiver<Bytes>,
    teller: Teller,
) {
    while let Some(bytes) = queue.recv().await {
        let length = bytes.len();
        let mut written = write_message(&mut stream, bytes).await;
        // What the library holds counts as waiting.
        if written.is_ok() && (length > QUEUE_HIGH / 4 || queue.is_empty()) {
            written = stream.flush().await;
        }
        if written.is_err() {
            return teller.ended(Disconnect::Broken).await;
        }
        teller.wrote(length).await;
    }
    let _ = stream.close().await;
}
