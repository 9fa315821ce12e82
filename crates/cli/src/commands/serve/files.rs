//! Files as resources.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use carob::server::{IntoResponse, Request, Resource, Upload};
use carob::{Code, ContentFormat, OptionNumber, Payload, Response};
use carob_proto::link_format::LinkWriter;

use super::folder::{Entry, Folder, Found, Partial, Refusal};

/// Files up to this size, in bytes, are read whole, so that all blocks are of one state; larger
/// ones are read block by block as they are asked for.
const WHOLE: u64 = 64 << 10;
/// Bytes of an upload that are gathered before they are written.
const GATHER: usize = 64 << 10;

/// The files of a folder: GET, and if `writable` PUT and DELETE.
pub(super) fn resource(root: Folder, writable: bool) -> Resource {
    let root = Arc::new(root);
    let (reading, writing, deleting) = (Arc::clone(&root), Arc::clone(&root), root);
    let resource = Resource::new().on_blocking(Code::GET, move |request| read(&reading, &request));
    if !writable {
        return resource;
    }
    resource
        .on_upload(Code::PUT, move |request, upload| {
            write(Arc::clone(&writing), request, upload)
        })
        .on_blocking(Code::DELETE, move |request| delete(&deleting, &request))
}

fn segments(request: &Request) -> Vec<&[u8]> {
    request.segments().collect()
}

fn read(root: &Folder, request: &Request) -> Result<Response, Refused> {
    let segments = segments(request);
    match root.find(&segments)? {
        Found::Folder(folder) => listing(&folder, request, &segments),
        Found::File(file) => Ok(content(&file, request, &segments)?),
    }
}

/// The file, or the part of it that is asked for.
fn content(file: &File, request: &Request, segments: &[&[u8]]) -> io::Result<Response> {
    let metadata = file.metadata()?;
    let name = segments
        .last()
        .map(|name| String::from_utf8_lossy(name))
        .unwrap_or_default();
    let format = format_of(&name);
    if request.accept().is_some_and(|accept| accept != format) {
        return Ok(Response::new(Code::NOT_ACCEPTABLE));
    }
    let etag = etag(&metadata);
    let mut response = Response::new(Code::CONTENT);
    push(&mut response, OptionNumber::ETAG, &etag);
    if request
        .options()
        .values(OptionNumber::ETAG)
        .any(|known| known == etag)
    {
        response.code = Code::VALID;
        return Ok(response);
    }
    response.set_format(format);
    let size = metadata.len();
    if size <= WHOLE {
        response.payload = Payload::Whole(read_at(file, 0, size)?);
        return Ok(response);
    }
    let wanted = request.wanted();
    if wanted.offset >= size {
        return Ok(Response::diagnostic(
            Code::BAD_OPTION,
            "Block2: beyond the end",
        ));
    }
    let bytes = read_at(file, wanted.offset, wanted.size.bytes() as u64)?;
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

/// Tells states of a file apart: time of change, size and identity, mixed (FNV-1a, 64 bits).
fn etag(metadata: &Metadata) -> [u8; 8] {
    let words = [
        metadata.mtime().cast_unsigned(),
        metadata.mtime_nsec().cast_unsigned(),
        metadata.len(),
        metadata.ino(),
    ];
    let bytes = words.iter().flat_map(|word| word.to_be_bytes());
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, mix).to_be_bytes()
}

/// The content format by a name's extension.
fn format_of(name: &str) -> ContentFormat {
    let extension = Path::new(name)
        .extension()
        .and_then(|text| text.to_str())
        .unwrap_or_default();
    let media_type = match extension.to_ascii_lowercase().as_str() {
        "txt" | "text" | "md" | "log" | "csv" => "text/plain",
        "json" => "application/json",
        "xml" => "application/xml",
        "cbor" => "application/cbor",
        "senml" => "application/senml+json",
        "senmlc" => "application/senml+cbor",
        "wlnk" => "application/link-format",
        "exi" => "application/exi",
        "js" => "application/javascript",
        "css" => "text/css",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        _ => "application/octet-stream",
    };
    ContentFormat::by_media_type(media_type).unwrap_or(ContentFormat::OCTET_STREAM)
}

/// What is in a folder, as links (RFC 6690 2).
fn listing(folder: &Folder, request: &Request, segments: &[&[u8]]) -> Result<Response, Refused> {
    if request
        .accept()
        .is_some_and(|accept| accept != ContentFormat::LINK_FORMAT)
    {
        return Err(Refused::with(Code::NOT_ACCEPTABLE));
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
) -> Result<Response, Refused> {
    let begun = on_thread(move || {
        let place = root.place(&segments(&request))?;
        let existing = place.existing()?;
        if !condition_holds(&request, existing.as_ref())? {
            return Ok(None);
        }
        place.begin().map(Some)
    });
    let Some(mut partial) = begun.await? else {
        return Err(Refused::with(Code::PRECONDITION_FAILED));
    };
    let mut gathered = BytesMut::new();
    loop {
        let block = match upload.next().await {
            Ok(block) => block,
            Err(error) => {
                return Err(Refused(Code::REQUEST_ENTITY_INCOMPLETE, error.to_string()));
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

/// If-Match and If-None-Match (RFC 7252 5.10.8).
fn condition_holds(request: &Request, existing: Option<&File>) -> Result<bool, Refusal> {
    let options = request.options();
    if options.contains(OptionNumber::IF_NONE_MATCH) && existing.is_some() {
        return Ok(false);
    }
    if !options.contains(OptionNumber::IF_MATCH) {
        return Ok(true);
    }
    let Some(file) = existing else {
        return Ok(false);
    };
    let etag = etag(&file.metadata()?);
    // An empty value stands for any state.
    Ok(options
        .values(OptionNumber::IF_MATCH)
        .any(|value| value.is_empty() || value == etag))
}

fn delete(root: &Folder, request: &Request) -> Result<Response, Refused> {
    let place = root.place(&segments(request))?;
    let existing = place.existing()?;
    if !condition_holds(request, existing.as_ref())? {
        return Err(Refused::with(Code::PRECONDITION_FAILED));
    }
    // What is not there is deleted as well (RFC 7252 5.8.4).
    place.remove()?;
    Ok(Response::new(Code::DELETED))
}

/// Does what blocks on a thread that may be blocked.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refused> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Refused::with(Code::INTERNAL_SERVER_ERROR)),
    }
}

fn push(response: &mut Response, number: OptionNumber, value: &[u8]) {
    response
        .options
        .push(number, value)
        .expect("a short option always fits");
}

/// A request that is not carried out, and what is said about it.
#[derive(Debug)]
struct Refused(Code, String);

impl Refused {
    fn with(code: Code) -> Self {
        Self(code, String::new())
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Self(Code::NOT_FOUND, "no such file".into()),
            Refusal::Forbidden => Self(Code::FORBIDDEN, "not a file of this folder".into()),
            Refusal::Failed(error) => error.into(),
        }
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self(Code::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        Response::diagnostic(self.0, &self.1)
    }
}
