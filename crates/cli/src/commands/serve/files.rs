//! Files as resources.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use carob::server::{Notifier, Refusal, Request, Resource, Upload};
use carob::{Code, ContentFormat, ETag, Payload, Response};
use nix::errno::Errno;

use super::folder::{Folder, Found, PathError, etag};
use super::upload::Partial;
use crate::{formats, printer};

/// Files up to this size, in bytes, are read whole, so that all blocks belong to one state; larger
/// ones are read block by block on request.
const WHOLE: u64 = 64 << 10;
/// Bytes of an upload that are gathered before they are written.
const GATHER: usize = 64 << 10;
/// Time between two errors of the system that are reported to the operator.
const REPORT: Duration = Duration::from_secs(1);

/// The files of a folder: GET, and if `writable` PUT and DELETE, of which observers are notified.
pub(super) fn resource(root: &Folder, writable: bool) -> Resource {
    let (reading, state_of) = (root.clone(), root.clone());
    let resource = Resource::new()
        .on(Code::GET, move |request| read(reading.clone(), request))
        .state_tag(move |request| state(state_of.clone(), request));
    if !writable {
        // Changes by other programs are not noticed, so there would be no notifications.
        return resource;
    }
    let (writing, deleting) = (root.clone(), root.clone());
    let changes = Notifier::new();
    let (written, deleted) = (changes.clone(), changes.clone());
    resource
        .on_upload(Code::PUT, move |request: Request, upload| {
            let (changes, path) = (written.clone(), path(&request));
            let writing = write(writing.clone(), request, upload);
            async move {
                let response = writing.await;
                if response.is_ok() {
                    notify(&changes, path);
                }
                response
            }
        })
        .on(Code::DELETE, move |request: Request| {
            let (changes, path) = (deleted.clone(), path(&request));
            let deleting = delete(deleting.clone(), request);
            async move {
                let response = deleting.await;
                if response.is_ok() {
                    notify(&changes, path);
                }
                response
            }
        })
        .observable(&changes)
}

/// The segments of a request's path that name something: a folder's may end with an empty one.
fn path(request: &Request) -> Vec<Vec<u8>> {
    let segments = request.segments().filter(|segment| !segment.is_empty());
    segments.map(<[u8]>::to_vec).collect()
}

/// Notifies the observers of a file, and of the folder it is in.
fn notify(changes: &Notifier, changed: Vec<Vec<u8>>) {
    changes.changed_for(move |request| {
        let observed = path(request);
        let folder = changed.split_last().map(|(_, folder)| folder);
        observed == changed || Some(&*observed) == folder
    });
}

fn segments(request: &Request) -> Vec<&[u8]> {
    request.segments().collect()
}

async fn read(root: Folder, request: Request) -> Result<Response, Refusal> {
    let (store, request) = (Arc::clone(&root.store), Arc::new(request));
    let asked = Arc::clone(&request);
    let found = on_thread(&root.clone(), move || {
        let segments = segments(&asked);
        match root.find(&segments)? {
            Found::File(file) => content(&root, file, &asked, &segments).map(Ok),
            Found::Folder(folder) => {
                let kept = folder.store.listings.kept(&folder, base(&segments))?;
                Ok(kept.map(listing).ok_or(folder))
            }
        }
    })
    .await?;
    let folder = match found {
        Ok(response) => return acceptable(response, &request),
        Err(folder) => folder,
    };
    // A request that waits here occupies no thread, and finds the listing read meanwhile.
    let _reading = store.listings.reading.lock().await;
    let asked = Arc::clone(&request);
    let links = on_thread(&folder.clone(), move || {
        let segments = segments(&asked);
        folder.store.listings.read(&folder, base(&segments))
    })
    .await?;
    acceptable(listing(links), &request)
}

/// The path of a folder without the empty segment at its end.
fn base<'s, 'r>(segments: &'s [&'r [u8]]) -> &'s [&'r [u8]] {
    match segments {
        [rest @ .., b""] => rest,
        all => all,
    }
}

fn listing(links: Bytes) -> Response {
    Response::content(ContentFormat::LINK_FORMAT, links)
}

/// A response in the format of Accept, or 4.06.
fn acceptable(response: Response, request: &Request) -> Result<Response, Refusal> {
    match request.accept() {
        Some(accept) if response.format() != Some(accept) => Err(Refusal::not_acceptable("")),
        _ => Ok(response),
    }
}

/// The state of the file that a request is about.
async fn state(root: Folder, request: Request) -> Result<Option<ETag>, Refusal> {
    on_thread(&root.clone(), move || {
        let file = root.place(&segments(&request))?.existing()?;
        Ok(match file {
            Some(file) => Some(etag(&file.metadata()?)),
            None => None,
        })
    })
    .await
}

/// The file, or the block requested. Of a large file, the state with which the peer's transfer
/// began, while that is held.
fn content(
    root: &Folder,
    file: File,
    request: &Request,
    segments: &[&[u8]],
) -> Result<Response, PathError> {
    let name = segments.last().map(|name| String::from_utf8_lossy(name));
    let format = format_of(&name.unwrap_or_default());
    let (peer, wanted) = (request.peer(), request.wanted());
    let (snapshots, now) = (&root.store.snapshots, Instant::now());
    let mut file = Arc::new(file);
    let mut size = file.metadata()?.len();
    if wanted.offset > 0
        && let Some(held) = snapshots.of(peer, segments, now)
    {
        size = held.metadata()?.len();
        file = held;
    }
    let mut response = Response::content(format, "").with_etag(etag(&file.metadata()?));
    if size <= WHOLE {
        response.payload = Payload::Whole(read_at(&file, 0, size)?);
        return Ok(response);
    }
    if wanted.offset >= size {
        let refusal = Refusal::bad_option("Block2: beyond the end");
        return Err(PathError::Refused(refusal));
    }
    let bytes = read_at(&file, wanted.offset, wanted.take(size))?;
    let more = wanted.offset + (bytes.len() as u64) < size;
    if !more {
        snapshots.end(peer, segments, now);
    } else if wanted.offset == 0 {
        snapshots.begin(peer, segments, file, now);
    }
    response.payload = Payload::Part {
        offset: wanted.offset,
        bytes,
        more,
        size: Some(size),
    };
    Ok(response)
}

/// `length` bytes from `offset` on, fewer at the end.
fn read_at(file: &File, offset: u64, length: u64) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes.into())
}

/// The content format by a name's extension.
pub(super) fn format_of(name: &str) -> ContentFormat {
    formats::of_file(Path::new(name)).unwrap_or(ContentFormat::OCTET_STREAM)
}

/// Takes a file as it arrives.
async fn write(root: Folder, request: Request, mut upload: Upload) -> Result<Response, Refusal> {
    let request = Arc::new(request);
    let asked = Arc::clone(&request);
    let place = root.clone();
    let begun = on_thread(&root, move || {
        let place = place.place(&segments(&asked))?;
        place.begin(asked.peer().ip())
    });
    let mut partial = begun.await?;
    let mut gathered = BytesMut::new();
    loop {
        let block = match upload.next().await {
            Ok(block) => block,
            Err(error) => {
                return Err(Refusal::request_entity_incomplete(error.to_string()));
            }
        };
        let last = block.is_none();
        gathered.extend_from_slice(&block.unwrap_or_default());
        if gathered.len() >= GATHER || (last && !gathered.is_empty()) {
            let bytes = gathered.split().freeze();
            partial = on_thread(&root, move || {
                let mut partial: Partial = partial;
                partial.write(&bytes)?;
                Ok(partial)
            })
            .await?;
        }
        if last {
            break;
        }
    }
    let complete = move || partial.complete(|state| request.preconditions_hold(state));
    let replaced = on_thread(&root, complete).await?;
    Ok(Response::new(if replaced {
        Code::CHANGED
    } else {
        Code::CREATED
    }))
}

async fn delete(root: Folder, request: Request) -> Result<Response, Refusal> {
    on_thread(&root.clone(), move || {
        let place = root.place(&segments(&request))?;
        // Deleting a missing resource succeeds (RFC 7252 5.8.4).
        place.remove(|state| request.preconditions_hold(state))?;
        Ok(Response::new(Code::DELETED))
    })
    .await
}

/// Does what blocks on one of the few threads for files.
async fn on_thread<T: Send + 'static>(
    root: &Folder,
    work: impl FnOnce() -> Result<T, PathError> + Send + 'static,
) -> Result<T, Refusal> {
    let Ok(_permit) = root.store.threads.acquire().await else {
        return Err(Refusal::internal_server_error(""));
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Refusal::internal_server_error("")),
    }
}

impl From<PathError> for Refusal {
    fn from(error: PathError) -> Self {
        match error {
            PathError::NotFound => Self::not_found("no such file"),
            PathError::Forbidden => Self::forbidden("not a file of this folder"),
            PathError::Refused(refusal) => refusal,
            PathError::Failed(error) => failed(&error),
        }
    }
}

/// The refusal for an error of the system, whose text is for the operator only.
fn failed(error: &io::Error) -> Refusal {
    report(error);
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG) => {
            Refusal::internal_server_error("the server has no space for the file")
        }
        Some(Errno::EMFILE | Errno::ENFILE) => {
            Refusal::service_unavailable("the server has too many files open")
                .with_max_age(Duration::from_secs(1))
        }
        _ => Refusal::internal_server_error("the server cannot access the file"),
    }
}

/// Logs an error of the system for the operator, at most one in each [`REPORT`].
fn report(error: &io::Error) {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    /// Milliseconds after the first error before which none is reported.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = u64::try_from(BEGAN.elapsed().as_millis()).unwrap_or(u64::MAX);
    let after = |next| (now >= next).then_some(now.saturating_add(REPORT.as_millis() as u64));
    let due = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
    if due.is_ok() {
        printer::remark(&format!("a request for a file failed: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::Store;
    use super::*;
    use carob::{Client, OptionNumber, Reply, Server};

    /// Runs a test against a writable folder with a file and a folder in it.
    fn served<F: Future<Output = ()>>(name: &str, test: impl FnOnce(Client, String) -> F) {
        served_from(name, |client, uri, _| test(client, uri));
    }

    /// The same with the folder.
    fn served_from<F: Future<Output = ()>>(
        name: &str,
        test: impl FnOnce(Client, String, Folder) -> F,
    ) {
        let root = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(root.join("a b.json"), "{}").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let folder = Folder::open(&root, Store::default()).unwrap();
            let files = resource(&folder, true);
            let builder = Server::builder().bind("127.0.0.1:0").fallback(files);
            let server = builder.start().await.unwrap();
            let uri = format!("coap://{}", server.local_address());
            test(Client::new().unwrap(), uri, folder).await;
        });
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_file_is_changed_only_in_the_state_that_is_named() {
        served("carob-files-state", |client, uri| async move {
            let uri = format!("{uri}/a%20b.json");
            let first: Reply = client.get(&uri).await.unwrap();
            let tag = first.etag().unwrap();
            let known = client.get(&uri).option(OptionNumber::ETAG, tag.as_slice());
            assert_eq!(known.await.unwrap().code, Code::VALID);
            let put = |body: &'static str| {
                let request = client.put(&uri).body(body);
                request.option(OptionNumber::IF_MATCH, tag.as_slice())
            };
            assert_eq!(put("[1]").await.unwrap().code, Code::CHANGED);
            assert_eq!(put("[2]").await.unwrap().code, Code::PRECONDITION_FAILED);
            let delete = client
                .delete(&uri)
                .option(OptionNumber::IF_NONE_MATCH, *b"");
            assert_eq!(delete.await.unwrap().code, Code::PRECONDITION_FAILED);
            let last = client.get(&uri).await.unwrap();
            assert_eq!(last.text(), Some("[1]"));
            assert_eq!(last.format(), Some(ContentFormat::JSON));
        });
    }

    #[test]
    fn a_folder_lists_its_files_as_links() {
        served("carob-files-links", |client, uri| async move {
            let list = client.get(&uri).await.unwrap();
            assert_eq!(list.text(), Some("</a%20b.json>;ct=50;sz=2,</sub/>;ct=40"));
            let refused = client.put(format!("{uri}/sub")).body("x").await.unwrap();
            assert_eq!(refused.code, Code::FORBIDDEN);
            let missing = client.get(format!("{uri}/sub/x")).await.unwrap();
            let text = (missing.code, missing.text());
            assert_eq!(text, (Code::NOT_FOUND, Some("no such file")));
        });
    }

    #[test]
    fn folder_listing_is_cached_until_it_changes() {
        served_from("carob-files-once", |client, uri, folder| async move {
            let past = std::time::SystemTime::now() - Duration::from_secs(60);
            let own = File::from(folder.descriptor.try_clone().unwrap());
            own.set_modified(past).unwrap();
            let mut requests = tokio::task::JoinSet::new();
            for _ in 0..100 {
                let get = client.get(&uri);
                requests.spawn(async move { get.await.unwrap() });
            }
            let lists = requests.join_all().await;
            assert!(lists.iter().all(|list| list.text() == lists[0].text()));
            assert_eq!(folder.store.listings.reads(), 1);
            for name in ["one", "two"] {
                let put = client.put(format!("{uri}/{name}")).body("x");
                assert_eq!(put.await.unwrap().code, Code::CREATED);
                let list = client.get(&uri).await.unwrap();
                assert!(list.text().unwrap().contains(name), "{list:?}");
            }
            assert_eq!(folder.store.listings.reads(), 3);
        });
    }

    #[test]
    fn transfer_reads_one_state_while_file_is_replaced() {
        served("carob-files-held", |client, uri| async move {
            let uri = format!("{uri}/large");
            let put = |fill: u8| client.put(&uri).body(vec![fill; 100_000]);
            assert_eq!(put(1).await.unwrap().code, Code::CREATED);
            let block = |number: u64| client.get(&uri).range(number * 1_024, 1_024);
            let first = block(0).await.unwrap();
            let other = Client::new().unwrap();
            let replacing = other.put(&uri).body(vec![2; 100_000]);
            assert_eq!(replacing.await.unwrap().code, Code::CHANGED);
            for number in [1, 50, 97] {
                let next = block(number).await.unwrap();
                assert_eq!(next.etag(), first.etag(), "block {number}");
                assert!(next.bytes().iter().all(|byte| *byte == 1));
            }
            let whole = client.get(&uri).await.unwrap();
            assert_ne!(whole.etag(), first.etag());
            assert!(whole.bytes().iter().all(|byte| *byte == 2));
        });
    }
}
