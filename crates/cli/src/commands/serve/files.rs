//! Files as resources.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use carob::server::{Notifier, Refusal, Request, Resource, Upload};
use carob::{Code, ContentFormat, ETag, Payload, Response};
use carob_proto::link_format::LinkWriter;

use super::folder::{Entry, Folder, Found, Partial, PathError};
use crate::formats;

/// Files up to this size, in bytes, are read whole, so that all blocks are of one state; larger
/// ones are read block by block as they are asked for.
const WHOLE: u64 = 64 << 10;
/// Bytes of an upload that are gathered before they are written.
const GATHER: usize = 64 << 10;

/// The files of a folder: GET, and if `writable` PUT and DELETE, of which observers are told.
pub(super) fn resource(root: Folder, writable: bool) -> Resource {
    let root = Arc::new(root);
    let (reading, telling) = (Arc::clone(&root), Arc::clone(&root));
    let resource = Resource::new()
        .on_blocking(Code::GET, move |request| read(&reading, &request))
        .state_tag_blocking(move |request| state(&telling, &request));
    if !writable {
        // What others do to the files is not noticed, so there would be nothing to tell.
        return resource;
    }
    let (writing, deleting) = (Arc::clone(&root), root);
    let changes = Notifier::new();
    let (written, deleted) = (changes.clone(), changes.clone());
    resource
        .on_upload(Code::PUT, move |request: Request, upload| {
            let (changes, path) = (written.clone(), path(&request));
            let writing = write(Arc::clone(&writing), request, upload);
            async move {
                let answer = writing.await;
                if answer.is_ok() {
                    tell(&changes, path);
                }
                answer
            }
        })
        .on_blocking(Code::DELETE, move |request| {
            let answer = delete(&deleting, &request);
            if answer.is_ok() {
                tell(&deleted, path(&request));
            }
            answer
        })
        .observable(&changes)
}

/// The segments of a request's path that name something: a folder's may end with an empty one.
fn path(request: &Request) -> Vec<Vec<u8>> {
    let segments = request.segments().filter(|segment| !segment.is_empty());
    segments.map(<[u8]>::to_vec).collect()
}

/// Tells those who observe a file, or the folder it is in, that it has changed.
fn tell(changes: &Notifier, changed: Vec<Vec<u8>>) {
    changes.changed_for(move |request| {
        let observed = path(request);
        let folder = changed.split_last().map(|(_, folder)| folder);
        observed == changed || Some(&*observed) == folder
    });
}

fn segments(request: &Request) -> Vec<&[u8]> {
    request.segments().collect()
}

fn read(root: &Folder, request: &Request) -> Result<Response, Refusal> {
    let segments = segments(request);
    match root.find(&segments)? {
        Found::Folder(folder) => listing(&folder, request, &segments),
        Found::File(file) => content(&file, request, &segments),
    }
}

/// The state of the file that a request is about.
fn state(root: &Folder, request: &Request) -> Result<Option<ETag>, Refusal> {
    let file = root.place(&segments(request))?.existing()?;
    Ok(match file {
        Some(file) => Some(etag(&file.metadata()?)),
        None => None,
    })
}

/// The file, or the part of it that is asked for.
fn content(file: &File, request: &Request, segments: &[&[u8]]) -> Result<Response, Refusal> {
    let metadata = file.metadata()?;
    let name = segments
        .last()
        .map(|name| String::from_utf8_lossy(name))
        .unwrap_or_default();
    let format = format_of(&name);
    if request.accept().is_some_and(|accept| accept != format) {
        return Err(Refusal::not_acceptable(""));
    }
    let mut response = Response::content(format, "").with_etag(etag(&metadata));
    let size = metadata.len();
    if size <= WHOLE {
        response.payload = Payload::Whole(read_at(file, 0, size)?);
        return Ok(response);
    }
    let wanted = request.wanted();
    if wanted.offset >= size {
        return Err(Refusal::bad_option("Block2: beyond the end"));
    }
    let bytes = read_at(file, wanted.offset, wanted.take(size))?;
    let more = wanted.offset + (bytes.len() as u64) < size;
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

/// Tells states of a file apart: time of change, size and identity, mixed.
fn etag(metadata: &Metadata) -> ETag {
    let words = [
        metadata.mtime().cast_unsigned(),
        metadata.mtime_nsec().cast_unsigned(),
        metadata.len(),
        metadata.ino(),
    ];
    ETag::of(words.map(u64::to_be_bytes).as_flattened())
}

/// The content format by a name's extension.
fn format_of(name: &str) -> ContentFormat {
    formats::of_file(Path::new(name)).unwrap_or(ContentFormat::OCTET_STREAM)
}

/// What is in a folder, as links (RFC 6690 2).
fn listing(folder: &Folder, request: &Request, segments: &[&[u8]]) -> Result<Response, Refusal> {
    if request
        .accept()
        .is_some_and(|accept| accept != ContentFormat::LINK_FORMAT)
    {
        return Err(Refusal::not_acceptable(""));
    }
    let base: Vec<&[u8]> = segments
        .iter()
        .copied()
        .filter(|segment| !segment.is_empty())
        .collect();
    let mut links = LinkWriter::new();
    for Entry { name, size } in folder.entries()? {
        let path = base.iter().copied().chain([name.as_bytes()]);
        match size {
            Some(size) => links
                .path(path)
                .number("ct", format_of(&name).0.into())
                .number("sz", size),
            // A folder's path ends with a slash, so that relative references start within it.
            None => links
                .path(path.chain([&b""[..]]))
                .number("ct", ContentFormat::LINK_FORMAT.0.into()),
        };
    }
    Ok(Response::content(
        ContentFormat::LINK_FORMAT,
        links.finish(),
    ))
}

/// Takes a file as it arrives.
async fn write(
    root: Arc<Folder>,
    request: Request,
    mut upload: Upload,
) -> Result<Response, Refusal> {
    let begun = on_thread(move || {
        let place = root.place(&segments(&request))?;
        // A folder, or what is no file, cannot be written over.
        place.existing()?;
        place.begin()
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
            partial = on_thread(move || {
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
    let replaced = on_thread(move || partial.complete()).await?;
    Ok(Response::new(if replaced {
        Code::CHANGED
    } else {
        Code::CREATED
    }))
}

fn delete(root: &Folder, request: &Request) -> Result<Response, Refusal> {
    // What is not there is deleted as well (RFC 7252 5.8.4).
    root.place(&segments(request))?.remove()?;
    Ok(Response::new(Code::DELETED))
}

/// Does what blocks on a thread that may be blocked.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PathError> + Send + 'static,
) -> Result<T, Refusal> {
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
            PathError::Failed(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carob::{Client, OptionNumber, Reply, Server};

    /// Runs a test against a writable folder with a file and a folder in it.
    fn served<F: Future<Output = ()>>(name: &str, test: impl FnOnce(Client, String) -> F) {
        let root = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(root.join("a b.json"), "{}").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let files = resource(Folder::open(&root).unwrap(), true);
            let builder = Server::builder().bind("127.0.0.1:0").fallback(files);
            let server = builder.start().await.unwrap();
            let uri = format!("coap://{}", server.local_address());
            test(Client::open().unwrap(), uri).await;
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
}
