//! `carob serve --dir --writable` with several writers: no acknowledged update is lost, one client
//! creates a file (RFC 7252 5.10.8).
#![cfg(unix)]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait for a real program, with a part of what others need for that"
)]

use std::time::{Duration, Instant};
use std::{fs, path::PathBuf};

use crate::process::{Running, Scratch};
use carob::client::RequestBuilder;
use carob::{Body, Client, Code, OptionNumber, Reply};
use tokio::io::AsyncWriteExt as _;

const LIMIT: Duration = Duration::from_secs(30);
const CLIENTS: usize = 8;
/// Time during which clients compete.
const CONTEST: Duration = Duration::from_secs(1);

struct Serving {
    uri: String,
    folder: PathBuf,
    _running: Running,
    _scratch: Scratch,
}

fn serving() -> Serving {
    let scratch = Scratch::new();
    let folder = scratch.folder("served");
    let (running, uri) = crate::process::serve(&scratch, &folder);
    Serving {
        uri,
        folder,
        _running: running,
        _scratch: scratch,
    }
}

async fn send(request: RequestBuilder) -> Reply {
    request.timeout(LIMIT).send().await.unwrap()
}

fn tag(reply: &Reply) -> Vec<u8> {
    reply.options.first(OptionNumber::ETAG).unwrap().to_vec()
}

/// Increments a number with If-Match until the contest is over; the acknowledged increments.
async fn increment(uri: String, until: Instant) -> u64 {
    let client = Client::new().unwrap();
    let mut acknowledged = 0;
    while Instant::now() < until {
        let read = send(client.get(&uri)).await;
        let number: u64 = read.text().unwrap().parse().unwrap();
        let put = client.put(&uri).body((number + 1).to_string());
        let put = send(put.option(OptionNumber::IF_MATCH, tag(&read))).await;
        match put.code {
            Code::CHANGED => acknowledged += 1,
            Code::PRECONDITION_FAILED => {}
            other => panic!("{other}"),
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_increment_of_eight_clients_is_lost() {
    let serving = serving();
    fs::write(serving.folder.join("number"), "0").unwrap();
    let until = Instant::now() + CONTEST;
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|_| tokio::spawn(increment(format!("{}/number", serving.uri), until)))
        .collect();
    let mut acknowledged = 0;
    for task in tasks {
        acknowledged += task.await.unwrap();
    }
    let number = fs::read_to_string(serving.folder.join("number")).unwrap();
    assert!(acknowledged > 0);
    assert_eq!(number, acknowledged.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_eight_clients_creates_a_file() {
    const FILES: usize = 40;
    let serving = serving();
    let clients: Vec<_> = (0..CLIENTS).map(|_| Client::new().unwrap()).collect();
    for file in 0..FILES {
        let mut puts = Vec::new();
        for client in &clients {
            let put = client.put(format!("{}/new-{file}", serving.uri)).body("x");
            let put = put.option(OptionNumber::IF_NONE_MATCH, []);
            puts.push(tokio::spawn(send(put)));
        }
        let (mut created, mut refused) = (0, 0);
        for put in puts {
            match put.await.unwrap().code {
                Code::CREATED => created += 1,
                Code::PRECONDITION_FAILED => refused += 1,
                other => panic!("{other}"),
            }
        }
        assert_eq!((created, refused), (1, CLIENTS - 1), "file {file}");
    }
}

/// A block-wise PUT whose last block is held back: the writer end of its body, and the response.
struct Held {
    body: tokio::io::DuplexStream,
    response: tokio::task::JoinHandle<Reply>,
}

impl Held {
    /// Sends all but the last block.
    async fn begin(uri: &str, fill: u8, condition: (OptionNumber, Vec<u8>)) -> Self {
        let (mut body, reader) = tokio::io::duplex(64 << 10);
        let client = Client::new().unwrap();
        let put = client.put(uri).body(Body::reader(reader));
        let put = put.option(condition.0, condition.1);
        let response = tokio::spawn(send(put));
        body.write_all(&[fill; 4_096]).await.unwrap();
        Self { body, response }
    }

    async fn end(self) -> Code {
        drop(self.body);
        self.response.await.unwrap().code
    }
}

/// Waits until the server has begun so many uploads.
async fn begun(folder: &std::path::Path, count: usize) {
    let until = Instant::now() + LIMIT;
    let uploads = || {
        let names = fs::read_dir(folder).unwrap().flatten();
        let names = names.map(|entry| entry.file_name().into_encoded_bytes());
        names.filter(|name| name.starts_with(b".carob-")).count()
    };
    while uploads() < count {
        assert!(Instant::now() < until, "{} of {count} uploads", uploads());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_later_of_two_uploads_with_one_if_match_is_refused() {
    let serving = serving();
    let (path, uri) = (serving.folder.join("file"), format!("{}/file", serving.uri));
    fs::write(&path, "first").unwrap();
    let read = send(Client::new().unwrap().get(&uri)).await;
    let condition = || (OptionNumber::IF_MATCH, tag(&read));
    let one = Held::begin(&uri, b'1', condition()).await;
    let two = Held::begin(&uri, b'2', condition()).await;
    begun(&serving.folder, 2).await;
    assert_eq!(one.end().await, Code::CHANGED);
    assert_eq!(two.end().await, Code::PRECONDITION_FAILED);
    assert_eq!(fs::read(&path).unwrap(), [b'1'; 4_096]);
}

#[tokio::test]
async fn the_later_of_two_uploads_with_if_none_match_is_refused() {
    let serving = serving();
    let (path, uri) = (serving.folder.join("file"), format!("{}/file", serving.uri));
    let condition = || (OptionNumber::IF_NONE_MATCH, Vec::new());
    let one = Held::begin(&uri, b'1', condition()).await;
    let two = Held::begin(&uri, b'2', condition()).await;
    begun(&serving.folder, 2).await;
    assert_eq!(one.end().await, Code::CREATED);
    assert_eq!(two.end().await, Code::PRECONDITION_FAILED);
    assert_eq!(fs::read(&path).unwrap(), [b'1'; 4_096]);
}
