//! Flows over the kernel's TCP.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use carob_emu::flow::{self, TcpInfo};
use socket2::Socket;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::run::Done;

pub(crate) const PORT: u16 = 5683;
const REQUEST: [u8; 20] = [1; 20];
/// A server's first data, like a CoAP server's CSM (RFC 8323 5.3.1). It matters: its acknowledgement
/// widens the window before the response is sent.
const GREETING: [u8; 6] = [2; 6];
/// 102,400 bytes and the 8 bytes of a CoAP message around them.
const ANSWER_BYTES: usize = 102_408;

/// The connections of one link, which stay open until all its flows are done: late
/// acknowledgements and retransmissions belong to what the other flows meet.
#[derive(Debug, Default)]
pub(crate) struct OpenConnections {
    /// The server's ends by the client's address.
    servers: RefCell<BTreeMap<SocketAddr, Rc<TcpStream>>>,
    clients: RefCell<Vec<TcpStream>>,
}

impl OpenConnections {
    /// Ends all of them.
    pub(crate) fn reset(&self) {
        let servers = std::mem::take(&mut *self.servers.borrow_mut());
        let servers = servers.into_values().filter_map(Rc::into_inner);
        let clients = self.clients.take();
        for connection in servers.chain(clients) {
            // One that has ended already cannot be ended.
            let _ = connection.into_std().and_then(flow::reset);
        }
    }
}

/// Serves one link for ever.
pub(crate) async fn serve(
    listener: std::net::TcpListener,
    open: Rc<OpenConnections>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let answer: Rc<[u8]> = vec![7; ANSWER_BYTES].into();
    loop {
        let (connection, peer) = listener.accept().await?;
        let connection = Rc::new(connection);
        open.servers
            .borrow_mut()
            .insert(peer, Rc::clone(&connection));
        let answer = Rc::clone(&answer);
        tokio::task::spawn_local(async move {
            let result = answer_one(&connection, &answer).await;
            if let Err(error) = result {
                eprintln!("the server's end of {peer}: {error}");
            }
        });
    }
}

async fn answer_one(connection: &TcpStream, answer: &[u8]) -> io::Result<()> {
    send(connection, &GREETING).await?;
    let (mut request, mut have) = ([0; REQUEST.len()], 0);
    while have < request.len() {
        connection.readable().await?;
        match connection.try_read(&mut request[have..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => have += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    send(connection, answer).await
}

async fn send(connection: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        connection.writable().await?;
        match connection.try_write(&bytes[sent..]) {
            Ok(more) => sent += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// One client's transfer, over a socket made in its namespace.
pub(crate) async fn fetch(
    socket: Socket,
    server: SocketAddr,
    wait: Duration,
    open: Rc<OpenConnections>,
) -> io::Result<Done> {
    socket.set_nonblocking(true)?;
    tokio::time::sleep(wait).await;
    let began = Instant::now();
    let socket = TcpSocket::from_std_stream(socket.into());
    let mut connection = socket.connect(server).await?;
    let setup = began.elapsed();

    let began = Instant::now();
    connection.write_all(&REQUEST).await?;
    let (mut buffer, mut missing) = (vec![0; 65_536], GREETING.len() + ANSWER_BYTES);
    while missing > 0 {
        let length = connection.read(&mut buffer).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        missing -= length;
    }
    let completion = began.elapsed();
    let info = open
        .servers
        .borrow()
        .get(&connection.local_addr()?)
        .map(|server| TcpInfo::read(&**server))
        .transpose()?;
    open.clients.borrow_mut().push(connection);
    Ok(Done {
        completion,
        setup: Some(setup),
        retransmitted: info.map(|info| info.retransmitted),
        timeouts: info.and_then(|info| info.timeouts),
    })
}
