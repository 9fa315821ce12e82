//! A TCP relay that records both directions and can cut connections.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::wire::{Message, Side};
use carob_proto::codec::{BlockValue, Code, FrameReader, Framing, MessageView, OptionNumber};

const TICK: Duration = Duration::from_millis(10);
/// Bytes recorded per direction of a connection; the largest test body is a mebibyte.
const REMEMBERED_MAX: usize = 8 << 20;

/// Option number of Max-Message-Size in a CSM (RFC 8323 5.3.1).
const MAX_MESSAGE_SIZE: OptionNumber = OptionNumber(2);

/// A connection and its recorded bytes.
#[derive(Default)]
struct Passed {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    streams: Vec<TcpStream>,
}

#[derive(Default)]
struct State {
    connections: Vec<Passed>,
    /// Inserted before the first client's bytes.
    prefix: Vec<u8>,
}

/// A running relay, stopped on drop.
pub(crate) struct Relay {
    port: u16,
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Relays to this port of 127.0.0.1 and first sends `prefix` to the server, once.
    pub(crate) fn start(server: u16, prefix: &[u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        listener.set_nonblocking(true).expect("a system's socket");
        let state = Arc::new(Mutex::new(State {
            prefix: prefix.to_vec(),
            ..State::default()
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopped) = (Arc::clone(&state), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((client, _)) => join(client, server, &shared),
                    Err(_) => thread::sleep(TICK),
                }
            }
        });
        Self {
            port,
            state,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections on both sides.
    pub(crate) fn cut(&self) {
        for passed in &mut lock(&self.state).connections {
            end(passed);
        }
    }

    pub(crate) fn connections(&self) -> usize {
        lock(&self.state).connections.len()
    }

    /// Messages of a side, of all connections.
    pub(crate) fn from(&self, side: Side) -> Vec<Message> {
        let state = lock(&self.state);
        let streams = state.connections.iter().map(|passed| match side {
            Side::Client => &passed.to_server,
            Side::Server => &passed.to_client,
        });
        streams.flat_map(|stream| messages(stream)).collect()
    }

    /// The first bytes of the first connection in each direction, as text.
    pub(crate) fn heads(&self) -> (String, String) {
        let state = lock(&self.state);
        let first = state.connections.first().expect("a connection");
        let head = |bytes: &[u8]| {
            let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
            String::from_utf8_lossy(&bytes[..end.unwrap_or_default()]).into_owned()
        };
        (head(&first.to_server), head(&first.to_client))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.cut();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn end(passed: &mut Passed) {
    for stream in passed.streams.drain(..) {
        // Fails if the peer has already closed it.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn join(client: TcpStream, server: u16, state: &Arc<Mutex<State>>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)) else {
        return; // the client sees its connection end
    };
    for stream in [&client, &server] {
        stream.set_nonblocking(false).expect("a system's socket");
        stream.set_nodelay(true).expect("a system's socket");
    }
    let again = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
    let index = {
        let mut state = lock(state);
        let prefix = std::mem::take(&mut state.prefix);
        server.write_all(&prefix).expect("it has just connected");
        state.connections.push(Passed {
            streams: vec![again(&client), again(&server)],
            ..Passed::default()
        });
        state.connections.len() - 1
    };
    pump(again(&client), again(&server), state, move |state| {
        &mut state.connections[index].to_server
    });
    pump(server, client, state, move |state| {
        &mut state.connections[index].to_client
    });
}

fn pump(
    mut from: TcpStream,
    mut to: TcpStream,
    state: &Arc<Mutex<State>>,
    remembered: impl Fn(&mut State) -> &mut Vec<u8> + Send + 'static,
) {
    let state = Arc::clone(state);
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            {
                let mut state = lock(&state);
                let bytes = remembered(&mut state);
                let room = REMEMBERED_MAX - bytes.len();
                bytes.extend_from_slice(&buffer[..length.min(room)]);
            }
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}

fn messages(stream: &[u8]) -> Vec<Message> {
    let mut reader = FrameReader::new(Framing::Stream, u32::MAX);
    reader.push(stream);
    let mut found = Vec::new();
    while let Ok(Some(bytes)) = reader.next()
        && let Ok(view) = MessageView::parse_long(bytes)
    {
        found.push(Message::of(&view, bytes.len()));
    }
    found
}

/// Max-Message-Size, if the message is a CSM.
pub(crate) fn max_message_size(message: &Message) -> Option<u32> {
    (message.code == Code::CSM).then(|| message.number(MAX_MESSAGE_SIZE))?
}

/// Block1 or Block2, whichever describes the payload.
pub(crate) fn block(message: &Message) -> Option<BlockValue> {
    let number = if message.code.is_request() {
        OptionNumber::BLOCK1
    } else {
        OptionNumber::BLOCK2
    };
    let value = message
        .option(number)
        .filter(|_| !message.code.is_signalling())?;
    BlockValue::decode_reliable(value).ok()
}
