//! Fixed content is answered without touching the heap.
//!
//! The server has a thread of its own, and only that thread's allocations count.
#![allow(
    unsafe_code,
    reason = "an allocator can only be written so; it adds a count to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if COUNTED.try_with(Cell::get).unwrap_or(false) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A confirmable GET of /hello with this Message ID.
fn get(id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    [&[0x44, 0x01, high, low, 1, 2, 3, 4, 0xb5][..], b"hello"].concat()
}

/// Asks `requests` times, one after the other.
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

/// Asks several times at once, so that the answers leave as a run.
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

#[test]
fn slow_fixed_content_costs_no_allocation() {
    let (tell, told) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            // A small memory for duplicates, so that the test sees it full and turning over.
            let settings =
                carob::Config::new().engine(|config| config.limits.dedup_idempotent = 256);
            let (server, _) =
                crate::common::start(crate::common::resources().config(settings)).await;
            tell.send(server.local_address()).unwrap();
            COUNTED.with(|counted| counted.set(true));
            std::future::pending::<()>().await;
        });
    });
    let address = told.recv().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    // Tables grow to their size, and once more where they must make up for what was removed.
    ask(&socket, address, 0, 20_000);
    ask_at_once(&socket, address, 40_000, 400);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    assert!(before > 0, "the count counts: tables grew at first");
    ask(&socket, address, 20_000, 5_000);
    ask_at_once(&socket, address, 25_000, 1_000);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    drop(server);
}
