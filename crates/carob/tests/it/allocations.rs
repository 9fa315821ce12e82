//! Allocations of a server per request for fixed content, in steady state: none over UDP, a fixed number over TCP and
//! DTLS.
//!
//! Each server runs on its own thread, which has a separate counter.
#![allow(
    unsafe_code,
    reason = "an allocator can only be written so; it adds a count to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use carob::server::{ServerBuilder, fixed};
use carob::{Config, Server, ServerDtls};

use crate::secured::{device, keys};

struct Counting;

thread_local! {
    /// Counter of this thread, if its allocations are counted.
    static COUNTER: Cell<Option<&'static AtomicU64>> = const { Cell::new(None) };
}

fn count() {
    if let Ok(Some(counter)) = COUNTER.try_with(Cell::get) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: all calls are forwarded to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: same contract as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: same contract as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: same contract as the caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Buffers that grow with the datagrams of a batch, at most.
const BUFFERS_OF_A_BATCH: u64 = 8;

/// Allocations per request over TCP in steady state.
const PER_TCP_REQUEST: u64 = 2;

/// Allocations per request in a DTLS session.
const PER_DTLS_REQUEST: u64 = 6;

/// Tolerance for tables that still grow, and for retransmissions on a busy machine.
const SLACK: u64 = 100;

/// A Confirmable GET of /hello with this Message ID.
fn get(id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    [&[0x44, 0x01, high, low, 1, 2, 3, 4, 0xb5][..], b"hello"].concat()
}

/// Sends GETs in sequence.
fn ask(socket: &UdpSocket, server: SocketAddr, first: u16, requests: u16) {
    let mut buffer = [0; 64];
    for n in 0..requests {
        let id = first.wrapping_add(n);
        socket.send_to(&get(id), server).unwrap();
        let (length, _) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((buffer[1], &buffer[2..4]), (0x45, &id.to_be_bytes()[..]));
        assert!(buffer[..length].ends_with(b"hello"));
    }
}

/// Sends GETs in bursts of eight, so that responses are sent in batches.
fn ask_at_once(socket: &UdpSocket, server: SocketAddr, first: u16, bursts: u16) {
    const BURST: u16 = 8;
    let mut buffer = [0; 64];
    for burst in 0..bursts {
        let ids = (0..BURST).map(|n| first.wrapping_add(burst * BURST + n));
        for id in ids.clone() {
            socket.send_to(&get(id), server).unwrap();
        }
        for id in ids {
            let (length, _) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!((buffer[1], &buffer[2..4]), (0x45, &id.to_be_bytes()[..]));
            assert!(buffer[..length].ends_with(b"hello"));
        }
    }
}

/// Starts a server on a new thread; returns its address and counter.
fn start(builder: fn() -> ServerBuilder) -> (SocketAddr, &'static AtomicU64) {
    let counter: &AtomicU64 = Box::leak(Box::default());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            // Small, so that the test fills the duplicate table and evicts from it.
            let config = Config::new().engine(|config| config.limits.dedup_idempotent = 256);
            let builder = builder().resource("/hello", fixed("hello"));
            let server = builder.config(config).start().await.unwrap();
            tell.send(server.local_address()).unwrap();
            COUNTER.with(|own| own.set(Some(counter)));
            std::future::pending::<()>().await;
        });
    });
    (told.recv().unwrap(), counter)
}

#[test]
fn slow_fixed_content_costs_no_allocation_over_udp() {
    let (address, counter) = start(|| Server::builder().bind("127.0.0.1:0"));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    // Tables grow to their size, and once more for removed entries.
    ask(&socket, address, 0, 20_000);
    ask_at_once(&socket, address, 40_000, 400);
    let before = counter.load(Ordering::Relaxed);
    assert!(before > 0, "the count counts: tables grew at first");
    ask(&socket, address, 20_000, 5_000);
    ask_at_once(&socket, address, 25_000, 1_000);
    // A batch larger than any before, as a busy machine makes them, grows each of its buffers once.
    let grown = counter.load(Ordering::Relaxed) - before;
    assert!(grown <= BUFFERS_OF_A_BATCH, "{grown} for 13,000 requests");
}

/// Sends GETs in sequence over TCP; a response ends with the content.
fn ask_over_tcp(stream: &mut TcpStream, requests: u32) {
    const GET: &[u8] = b"\x64\x01\x01\x02\x03\x04\xb5hello";
    let mut buffer = [0; 256];
    for _ in 0..requests {
        stream.write_all(GET).unwrap();
        let mut length = 0;
        while !buffer[..length].ends_with(b"hello") {
            let read = stream.read(&mut buffer[length..]).unwrap();
            assert!(read > 0, "the server has closed the connection");
            length += read;
        }
    }
}

#[test]
fn slow_fixed_content_costs_few_allocations_over_tcp() {
    let (address, counter) = start(|| {
        Server::builder()
            .without_datagrams()
            .bind_tcp("127.0.0.1:0")
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    stream.write_all(b"\x00\xe1").unwrap(); // an empty CSM
    ask_over_tcp(&mut stream, 2_000);
    let before = counter.load(Ordering::Relaxed);
    ask_over_tcp(&mut stream, 2_000);
    let cost = counter.load(Ordering::Relaxed) - before;
    assert!(cost <= 2_000 * PER_TCP_REQUEST + SLACK, "{cost}");
}

#[tokio::test]
async fn slow_fixed_content_costs_few_allocations_over_dtls() {
    let dtls = || {
        Server::builder()
            .without_datagrams()
            .bind_dtls("127.0.0.1:0", ServerDtls::new().keys(keys()))
    };
    let (address, counter) = start(dtls);
    let client = device();
    let uri = format!("coaps://{address}/hello");
    let ask = async |requests| {
        for _ in 0..requests {
            let reply = client.get(&uri).await.expect("a response");
            assert_eq!(reply.text(), Some("hello"));
        }
    };
    ask(2_000).await;
    let before = counter.load(Ordering::Relaxed);
    ask(2_000).await;
    let cost = counter.load(Ordering::Relaxed) - before;
    assert!(cost <= 2_000 * PER_DTLS_REQUEST + SLACK, "{cost}");
}
