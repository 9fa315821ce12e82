//! `carob serve --dir` as clients see it: what methods answer, conditions, entity tags.
#![cfg(unix)]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait for a real program, with a part of what others need for that"
)]

use std::{fs, path::PathBuf, time::Duration};

use crate::process::{Running, Scratch};
use carob::client::RequestBuilder;
use carob::{Client, Code, ContentFormat, OptionNumber, Reply};

const LIMIT: Duration = Duration::from_secs(30);
/// Larger than what is read whole, so that the file is read block by block.
const LARGE: usize = 100_000;

struct Serving {
    client: Client,
    uri: String,
    folder: PathBuf,
    running: Running,
    _scratch: Scratch,
}

impl Serving {
    fn start() -> Self {
        let scratch = Scratch::new();
        let folder = scratch.folder("served");
        fs::write(folder.join("note.txt"), "first").unwrap();
        let (running, uri) = crate::process::serve(&scratch, &folder);
        Self {
            client: Client::new().unwrap(),
            uri,
            folder,
            running,
            _scratch: scratch,
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
async fn a_method_s_success_has_its_own_code() {
    let serving = Serving::start();
    let put = |body: &'static str| serving.request(Code::PUT, "new").body(body);
    assert_eq!(send(put("one")).await.code, Code::CREATED);
    assert_eq!(send(put("two")).await.code, Code::CHANGED);
    let reply = send(serving.request(Code::GET, "new")).await;
    assert_eq!((reply.code, reply.text()), (Code::CONTENT, Some("two")));
    let delete = || serving.request(Code::DELETE, "new");
    assert_eq!(send(delete()).await.code, Code::DELETED);
    assert!(!serving.folder.join("new").exists());
    let again = send(delete()).await.code;
    assert_eq!(again, Code::DELETED, "what was not there is deleted, too");
    let echo = serving.request(Code::POST, "echo").body("x");
    assert_eq!(send(echo).await.code, Code::CHANGED);
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_with_a_code_that_fits() {
    let serving = Serving::start();
    let put = |path: &str| serving.request(Code::PUT, path).body("x");
    assert_eq!(send(put("no/such/folder")).await.code, Code::NOT_FOUND);
    let post = serving.request(Code::POST, "note.txt").body("x");
    assert_eq!(send(post).await.code, Code::METHOD_NOT_ALLOWED);
    assert_eq!(fs::read(serving.folder.join("note.txt")).unwrap(), b"first");
}

#[tokio::test]
async fn reading_twice_changes_nothing() {
    let serving = Serving::start();
    let get = || serving.request(Code::GET, "note.txt");
    let (one, two) = (send(get()).await, send(get()).await);
    assert_eq!((one.text(), tag(&one)), (two.text(), tag(&two)));
}

#[tokio::test]
async fn if_match_lets_only_a_known_state_be_changed() {
    let serving = Serving::start();
    let old = tag(&send(serving.request(Code::GET, "note.txt")).await);
    assert_eq!(
        serving.put("note.txt", "no", Some(b"other")).await,
        Code::PRECONDITION_FAILED
    );
    assert_eq!(fs::read(serving.folder.join("note.txt")).unwrap(), b"first");
    assert_eq!(
        serving.put("note.txt", "second", Some(&old)).await,
        Code::CHANGED
    );
    assert_eq!(
        serving.put("note.txt", "third", Some(&old)).await,
        Code::PRECONDITION_FAILED
    );
    // Empty: whatever is there, but something.
    assert_eq!(
        serving.put("note.txt", "third", Some(b"")).await,
        Code::CHANGED
    );
    assert_eq!(
        serving.put("missing", "no", Some(b"")).await,
        Code::PRECONDITION_FAILED
    );
    let delete = serving.request(Code::DELETE, "note.txt");
    let delete = delete.option(OptionNumber::IF_MATCH, old.clone());
    assert_eq!(send(delete).await.code, Code::PRECONDITION_FAILED);
    let get = serving.request(Code::GET, "note.txt");
    let get = get.option(OptionNumber::IF_MATCH, old);
    assert_eq!(send(get).await.code, Code::PRECONDITION_FAILED);
    assert_eq!(fs::read(serving.folder.join("note.txt")).unwrap(), b"third");
}

#[tokio::test]
async fn if_none_match_creates_only_absent_files_also_blockwise() {
    let serving = Serving::start();
    assert_eq!(
        serving.put("note.txt", "no", None).await,
        Code::PRECONDITION_FAILED
    );
    assert_eq!(fs::read(serving.folder.join("note.txt")).unwrap(), b"first");
    let large = vec![7; LARGE];
    assert_eq!(serving.put("big", large.clone(), None).await, Code::CREATED);
    assert_eq!(fs::read(serving.folder.join("big")).unwrap(), large);
    assert_eq!(
        serving.put("big", vec![8; LARGE], None).await,
        Code::PRECONDITION_FAILED
    );
    assert_eq!(fs::read(serving.folder.join("big")).unwrap(), large);
}

#[tokio::test]
async fn every_block_of_a_file_has_its_entity_tag() {
    let serving = Serving::start();
    fs::write(serving.folder.join("big"), vec![7; LARGE]).unwrap();
    let block = |number: u32| {
        let request = serving.request(Code::GET, "big");
        request.range(u64::from(number) * 1_024, 1_024)
    };
    let first = tag(&send(block(0)).await);
    assert_eq!(tag(&send(block(50)).await), first);
    fs::write(serving.folder.join("big"), vec![8; LARGE + 1]).unwrap();
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
async fn a_file_has_one_format() {
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

/// A server started by a shell line in which `SERVE` stands for the command.
fn serving_by(line: &str, scratch: &Scratch, folder: &std::path::Path) -> (Running, String) {
    let serve = format!(
        "{} serve --bind 127.0.0.1:0 --writable --dir {}",
        env!("CARGO_BIN_EXE_carob"),
        folder.display()
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &line.replace("SERVE", &serve)]);
    let mut running = Running::start(&mut command, scratch, "server");
    running.wait_until(LIMIT, |running| running.stdout().ends_with('\n'));
    let uri = running.stdout();
    let uri = uri.trim().strip_prefix("listening on ").unwrap();
    (running, uri.to_owned())
}

#[tokio::test]
async fn file_above_rlimit_is_refused_and_server_continues() {
    let scratch = Scratch::new();
    let folder = scratch.folder("served");
    // In blocks of 512 or 1,024 bytes, as the shell has it.
    let (running, uri) = serving_by("ulimit -f 100; exec SERVE", &scratch, &folder);
    let client = Client::new().unwrap();
    let uri = format!("{uri}/file");
    let refused = send(client.put(&uri).body(vec![7; 4 * LARGE])).await;
    assert_eq!(refused.code, Code::INTERNAL_SERVER_ERROR);
    assert_eq!(refused.text(), Some("the server has no space for the file"));
    assert!(running.stderr().contains("a request for a file failed"));
    let small = send(client.put(&uri).body("x")).await;
    assert_eq!(small.code, Code::CREATED);
    let entries = fs::read_dir(&folder).unwrap().count();
    assert_eq!(entries, 1, "nothing is left of the upload");
}

#[tokio::test]
async fn uploads_hold_so_many_bytes_on_disk() {
    let scratch = Scratch::new();
    let folder = scratch.folder("served");
    let line = "exec SERVE --limit upload_disk_bytes=256KiB";
    let (_running, uri) = serving_by(line, &scratch, &folder);
    let client = Client::new().unwrap();
    let uri = format!("{uri}/file");
    let refused = send(client.put(&uri).body(vec![7; 2 * LARGE])).await;
    assert_eq!(refused.code, Code::SERVICE_UNAVAILABLE);
    let fits = send(client.put(&uri).body(vec![7; LARGE])).await;
    assert_eq!(fits.code, Code::CREATED, "what was held is given back");
}

#[tokio::test]
async fn dotfiles_are_neither_read_nor_written_unless_asked_for() {
    let scratch = Scratch::new();
    let folder = scratch.folder("served");
    fs::create_dir(folder.join(".git")).unwrap();
    fs::write(folder.join(".git/config"), "c").unwrap();
    fs::write(folder.join(".carob-upload-1-0"), "left").unwrap();
    let client = Client::new().unwrap();
    for (options, read, written) in [
        ("", Code::NOT_FOUND, Code::NOT_FOUND),
        (" --hidden", Code::CONTENT, Code::CREATED),
    ] {
        let line = format!("exec SERVE{options}");
        let (_running, uri) = serving_by(&line, &scratch, &folder);
        let get = send(client.get(format!("{uri}/.git/config"))).await;
        assert_eq!(get.code, read, "{options}");
        let put = client.put(format!("{uri}/.env")).body("x");
        assert_eq!(send(put).await.code, written, "{options}");
        let left = folder.join(".carob-upload-1-0");
        assert!(!left.exists(), "uploads of an earlier run are removed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_can_be_read_while_two_clients_replace_it() {
    let serving = Serving::start();
    let began = std::time::Instant::now();
    // A second, or as long as a busy machine needs for two writes of each.
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
        fs::write(serving.folder.join(format!("file-{file}")), "x").unwrap();
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
    // Threads that were started for blocking work stay for some seconds.
    let status = format!("/proc/{}/status", serving.running.id());
    let status = fs::read_to_string(status).unwrap();
    let threads = status
        .lines()
        .find_map(|line| line.strip_prefix("Threads:"));
    let threads: usize = threads.unwrap().trim().parse().unwrap();
    assert!(threads <= 24, "{threads} threads");
}
