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
    _running: Running,
    _scratch: Scratch,
}

impl Serving {
    fn start() -> Self {
        let scratch = Scratch::new();
        let folder = scratch.folder("served");
        fs::write(folder.join("note.txt"), "first").unwrap();
        let (running, uri) = crate::process::serve(&scratch, &folder);
        Self {
            client: Client::open().unwrap(),
            uri,
            folder,
            _running: running,
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
    request.deadline(LIMIT).send().await.unwrap()
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
async fn if_none_match_lets_only_what_is_not_there_be_made_block_by_block_too() {
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
async fn a_known_entity_tag_is_answered_2_03_with_the_tag_and_nothing_else() {
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
