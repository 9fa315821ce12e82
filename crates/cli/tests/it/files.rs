//! `carob serve --dir`: methods, conditional requests (RFC 7252 5.10.8), entity tags and concurrent writers.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::commands::harness::Server;
use crate::process::Scratch;
use carob::client::RequestBuilder;
use carob::{Body, Client, Code, ContentFormat, OptionNumber, Reply};
use tokio::io::AsyncWriteExt as _;

const LIMIT: Duration = Duration::from_secs(30);
/// Number of concurrent writers, and how long they compete.
const CLIENTS: usize = 8;
const CONTEST: Duration = Duration::from_secs(1);
/// Larger than the limit for reading a file whole, so that it is read block by block.
const LARGE: usize = 100_000;

struct Serving {
    client: Client,
    uri: String,
    folder: Scratch,
    server: Server,
}

impl Serving {
    fn start() -> Self {
        let folder = Scratch::new();
        folder.with("note.txt", "first");
        Self::of(folder, "")
    }

    fn of(folder: Scratch, options: &str) -> Self {
        let server = Server::with(&format!("--writable --dir {} {options}", folder.text("")));
        Self {
            client: Client::new().unwrap(),
            uri: server.uri.clone(),
            folder,
            server,
        }
    }

    fn request(&self, method: Code, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}/{path}", self.uri))
    }

    async fn put(&self, path: &str, body: impl Into<Vec<u8>>, condition: Option<&[u8]>) -> Code {
        let request = self.request(Code::PUT, path).body(body.into());
        let request = match condition {
            Some(tag) => request.option(OptionNumber::IF_MATCH, tag),
            None => request.option(OptionNumber::IF_NONE_MATCH, []),
        };
        send(request).await.code
    }
}

async fn send(request: RequestBuilder) -> Reply {
    request.timeout(LIMIT).send().await.unwrap()
}

fn tag(reply: &Reply) -> Vec<u8> {
    reply.options.first(OptionNumber::ETAG).unwrap().to_vec()
}

#[tokio::test]
async fn each_method_has_its_success_code() {
    let serving = Serving::start();
    let put = |body: &'static str| serving.request(Code::PUT, "new").body(body);
    assert_eq!(send(put("one")).await.code, Code::CREATED);
    assert_eq!(send(put("two")).await.code, Code::CHANGED);
    let reply = send(serving.request(Code::GET, "new")).await;
    assert_eq!((reply.code, reply.text()), (Code::CONTENT, Some("two")));
    let delete = || serving.request(Code::DELETE, "new");
    assert_eq!(send(delete()).await.code, Code::DELETED);
    assert!(!serving.folder.path("new").exists());
    let again = send(delete()).await.code;
    assert_eq!(
        again,
        Code::DELETED,
        "deleting an absent file succeeds, too"
    );
    let echo = serving.request(Code::POST, "echo").body("x");
    assert_eq!(send(echo).await.code, Code::CHANGED);
}

#[tokio::test]
async fn refused_writes_have_the_fitting_error_code() {
    let serving = Serving::start();
    let put = |path: &str| serving.request(Code::PUT, path).body("x");
    assert_eq!(send(put("no/such/folder")).await.code, Code::NOT_FOUND);
    let post = serving.request(Code::POST, "note.txt").body("x");
    assert_eq!(send(post).await.code, Code::METHOD_NOT_ALLOWED);
    assert_eq!(serving.folder.read("note.txt"), b"first");
}

#[tokio::test]
async fn get_is_safe() {
    let serving = Serving::start();
    let get = || serving.request(Code::GET, "note.txt");
    let (one, two) = (send(get()).await, send(get()).await);
    assert_eq!((one.text(), tag(&one)), (two.text(), tag(&two)));
}

#[tokio::test]
async fn if_match_guards_against_lost_updates() {
    let serving = Serving::start();
    let old = tag(&send(serving.request(Code::GET, "note.txt")).await);
    // An empty If-Match matches any existing representation (RFC 7252 5.10.8.1).
    for (path, body, condition, code, stored) in [
        (
            "note.txt",
            "no",
            &b"other"[..],
            Code::PRECONDITION_FAILED,
            "first",
        ),
        ("note.txt", "second", &old, Code::CHANGED, "second"),
        (
            "note.txt",
            "third",
            &old,
            Code::PRECONDITION_FAILED,
            "second",
        ),
        ("note.txt", "third", b"", Code::CHANGED, "third"),
        ("missing", "no", b"", Code::PRECONDITION_FAILED, "third"),
    ] {
        let put = serving.put(path, body, Some(condition)).await;
        assert_eq!(put, code, "{body} if {condition:?}");
        assert_eq!(
            serving.folder.read_text("note.txt"),
            stored,
            "{body} if {condition:?}"
        );
    }
    let delete = serving.request(Code::DELETE, "note.txt");
    let delete = delete.option(OptionNumber::IF_MATCH, old.clone());
    assert_eq!(send(delete).await.code, Code::PRECONDITION_FAILED);
    let get = serving.request(Code::GET, "note.txt");
    let get = get.option(OptionNumber::IF_MATCH, old);
    assert_eq!(send(get).await.code, Code::PRECONDITION_FAILED);
    assert_eq!(serving.folder.read("note.txt"), b"third");
}

#[tokio::test]
async fn if_none_match_creates_only_absent_files_also_blockwise() {
    let serving = Serving::start();
    assert_eq!(
        serving.put("note.txt", "no", None).await,
        Code::PRECONDITION_FAILED
    );
    assert_eq!(serving.folder.read("note.txt"), b"first");
    let large = vec![7; LARGE];
    assert_eq!(serving.put("big", large.clone(), None).await, Code::CREATED);
    assert_eq!(serving.folder.read("big"), large);
    assert_eq!(
        serving.put("big", vec![8; LARGE], None).await,
        Code::PRECONDITION_FAILED
    );
    assert_eq!(serving.folder.read("big"), large);
}

#[tokio::test]
async fn every_block_of_a_file_has_its_entity_tag() {
    let serving = Serving::start();
    fs::write(serving.folder.path("big"), vec![7; LARGE]).unwrap();
    let block = |number: u32| {
        let request = serving.request(Code::GET, "big");
        request.range(u64::from(number) * 1_024, 1_024)
    };
    let first = tag(&send(block(0)).await);
    assert_eq!(tag(&send(block(50)).await), first);
    fs::write(serving.folder.path("big"), vec![8; LARGE + 1]).unwrap();
    assert_ne!(
        tag(&send(block(50)).await),
        first,
        "another state has another"
    );
}

#[tokio::test]
async fn known_etag_is_answered_2_03_with_etag_only() {
    let serving = Serving::start();
    let known = tag(&send(serving.request(Code::GET, "note.txt")).await);
    let get = |tag: &[u8]| {
        let request = serving.request(Code::GET, "note.txt");
        let other = request.option(OptionNumber::ETAG, *b"other");
        other.option(OptionNumber::ETAG, tag)
    };
    let valid = send(get(&known)).await;
    assert_eq!((valid.code, valid.bytes().len()), (Code::VALID, 0));
    assert_eq!(tag(&valid), known);
    assert_eq!(send(get(b"unknown")).await.code, Code::CONTENT);
}

#[tokio::test]
async fn content_format_of_a_file_is_fixed() {
    let serving = Serving::start();
    let get = |format| serving.request(Code::GET, "note.txt").accept(format);
    let reply = send(get(ContentFormat::TEXT_PLAIN)).await;
    assert_eq!(reply.format(), Some(ContentFormat::TEXT_PLAIN));
    assert_eq!(
        send(get(ContentFormat::CBOR)).await.code,
        Code::NOT_ACCEPTABLE
    );
    let slow = serving
        .request(Code::GET, "slow")
        .accept(ContentFormat::CBOR);
    assert_eq!(send(slow).await.code, Code::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn file_above_rlimit_is_refused_and_server_continues() {
    let folder = Scratch::new();
    // The shell's unit is 512 or 1,024 bytes.
    let limited = ["sh", "-c", "ulimit -f 100; exec \"$@\"", "sh"];
    let server = Server::under(&limited, &["--writable", "--dir", &folder.text("")]);
    let client = Client::new().unwrap();
    let uri = server.path("file");
    let refused = send(client.put(&uri).body(vec![7; 4 * LARGE])).await;
    assert_eq!(refused.code, Code::INTERNAL_SERVER_ERROR);
    assert_eq!(refused.text(), Some("the server has no space for the file"));
    let small = send(client.put(&uri).body("x")).await;
    assert_eq!(small.code, Code::CREATED);
    assert_eq!(folder.files(), ["file"], "nothing is left of the upload");
    assert!(server.stop().stderr.contains("a request for a file failed"));
}

#[tokio::test]
async fn uploads_hold_so_many_bytes_on_disk() {
    let serving = Serving::of(Scratch::new(), "--limit upload_disk_bytes=256KiB");
    let put = |bytes| serving.request(Code::PUT, "file").body(vec![7; bytes]);
    assert_eq!(send(put(2 * LARGE)).await.code, Code::SERVICE_UNAVAILABLE);
    let fits = send(put(LARGE)).await.code;
    assert_eq!(fits, Code::CREATED, "the quota was not released");
}

#[tokio::test]
async fn dotfiles_are_hidden_by_default() {
    for (options, read, written) in [
        ("", Code::NOT_FOUND, Code::NOT_FOUND),
        ("--hidden", Code::CONTENT, Code::CREATED),
    ] {
        let folder = Scratch::new();
        folder.folder(".git");
        folder.with(".git/config", "c");
        folder.with(".carob-upload-1-0", "left");
        let serving = Serving::of(folder, options);
        let get = send(serving.request(Code::GET, ".git/config")).await;
        assert_eq!(get.code, read, "{options}");
        let put = serving.request(Code::PUT, ".env").body("x");
        assert_eq!(send(put).await.code, written, "{options}");
        let left = serving.folder.path(".carob-upload-1-0");
        assert!(!left.exists(), "uploads of an earlier run are removed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_can_be_read_while_two_clients_replace_it() {
    let serving = Serving::start();
    let began = Instant::now();
    // At least two writes by each client, which a busy machine may not finish in a second.
    let is_over =
        move |written| began.elapsed() > Duration::from_secs(if written > 1 { 1 } else { 30 });
    let uri = format!("{}/rewritten", serving.uri);
    let created = serving.request(Code::PUT, "rewritten").body(vec![0; LARGE]);
    assert_eq!(send(created).await.code, Code::CREATED);
    let writers: Vec<_> = (1..=2)
        .map(|fill| {
            let uri = uri.clone();
            tokio::spawn(async move {
                let client = Client::new().unwrap();
                let mut written = 0;
                while !is_over(written) {
                    let put = send(client.put(&uri).body(vec![fill; LARGE])).await;
                    assert_eq!(put.code, Code::CHANGED);
                    written += 1;
                }
                written
            })
        })
        .collect();
    let mut states = std::collections::BTreeSet::new();
    while !is_over(states.len()) {
        let reply = send(serving.request(Code::GET, "rewritten")).await;
        let first = reply.bytes()[0];
        assert_eq!(reply.bytes().len(), LARGE);
        assert!(reply.bytes().iter().all(|byte| *byte == first), "one state");
        states.insert(tag(&reply));
    }
    for writer in writers {
        assert!(writer.await.unwrap() > 1);
    }
    assert!(states.len() > 1, "the file was replaced between transfers");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_for_files_occupy_few_threads() {
    let serving = Serving::start();
    for file in 0..1_000 {
        fs::write(serving.folder.path(&format!("file-{file}")), "x").unwrap();
    }
    let mut requests = tokio::task::JoinSet::new();
    for client in 0..4 {
        let client = (client > 0).then(|| Client::new().unwrap());
        let client = client.unwrap_or_else(|| serving.client.clone());
        for _ in 0..100 {
            for path in ["", "note.txt"] {
                let get = client.get(format!("{}/{path}", serving.uri));
                requests.spawn(async move { send(get).await.code });
            }
        }
    }
    let codes = requests.join_all().await;
    let served = codes.iter().filter(|code| **code == Code::CONTENT).count();
    assert!(served > 100, "{served}");
    // Idle threads of the blocking pool live for some seconds, so that they are still counted.
    let status = format!("/proc/{}/status", serving.server.id());
    let status = fs::read_to_string(status).unwrap();
    let threads = status
        .lines()
        .find_map(|line| line.strip_prefix("Threads:"));
    let threads: usize = threads.unwrap().trim().parse().unwrap();
    assert!(threads <= 24, "{threads} threads");
}

/// Increments a number with If-Match until `until`; returns the number of acknowledged increments.
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
    let serving = Serving::start();
    serving.folder.with("number", "0");
    let until = Instant::now() + CONTEST;
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|_| tokio::spawn(increment(format!("{}/number", serving.uri), until)))
        .collect();
    let mut acknowledged = 0;
    for task in tasks {
        acknowledged += task.await.unwrap();
    }
    let number = fs::read_to_string(serving.folder.path("number")).unwrap();
    assert!(acknowledged > 0);
    assert_eq!(number, acknowledged.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_eight_clients_creates_a_file() {
    const FILES: usize = 40;
    let serving = Serving::start();
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

/// A block-wise PUT without its last block: the writer of its body, and the pending response.
struct Held {
    body: tokio::io::DuplexStream,
    response: tokio::task::JoinHandle<Reply>,
}

impl Held {
    /// Sends all blocks but the last.
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

/// Waits until the server has started this number of uploads.
async fn wait_for_uploads(folder: &Path, count: usize) {
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

/// Two clients upload a file under the same condition; the first of them ends with this code.
async fn upload_twice(serving: &Serving, condition: (OptionNumber, Vec<u8>), first: Code) {
    let uri = format!("{}/file", serving.uri);
    let one = Held::begin(&uri, b'1', condition.clone()).await;
    let two = Held::begin(&uri, b'2', condition).await;
    wait_for_uploads(&serving.folder.path(""), 2).await;
    assert_eq!(one.end().await, first);
    assert_eq!(two.end().await, Code::PRECONDITION_FAILED);
    assert_eq!(serving.folder.read("file"), [b'1'; 4_096]);
}

#[tokio::test]
async fn second_of_two_uploads_with_one_if_match_is_refused() {
    let serving = Serving::start();
    serving.folder.with("file", "first");
    let read = send(serving.request(Code::GET, "file")).await;
    let condition = (OptionNumber::IF_MATCH, tag(&read));
    upload_twice(&serving, condition, Code::CHANGED).await;
}

#[tokio::test]
async fn second_of_two_uploads_with_if_none_match_is_refused() {
    let condition = (OptionNumber::IF_NONE_MATCH, Vec::new());
    upload_twice(&Serving::start(), condition, Code::CREATED).await;
}
