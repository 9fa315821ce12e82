//! Bodies of requests and responses, and their files.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use carob::client::BodyStream;
use carob::{Body, Reply, Response, StreamedReply};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::failure::Failure;

/// A response whose body may still be on its way.
pub(super) struct Received {
    pub(super) head: Response,
    pub(super) peer: SocketAddr,
    /// Time from the request to the first part of the response, or to the end of a whole one.
    pub(super) after: Duration,
    pub(super) body: ReplyBody,
}

pub(super) enum ReplyBody {
    Streamed(BodyStream),
    /// The whole body, until it is taken.
    Whole(Option<Bytes>),
}

impl ReplyBody {
    async fn chunk(&mut self) -> Result<Option<Bytes>, carob::Error> {
        match self {
            Self::Streamed(body) => body.chunk().await,
            Self::Whole(bytes) => Ok(bytes.take()),
        }
    }
}

impl From<StreamedReply> for Received {
    fn from(reply: StreamedReply) -> Self {
        Self {
            head: reply.head,
            peer: reply.peer,
            after: reply.after,
            body: ReplyBody::Streamed(reply.body),
        }
    }
}

impl From<Reply> for Received {
    fn from(reply: Reply) -> Self {
        Self {
            body: ReplyBody::Whole(Some(reply.bytes().clone())),
            head: reply.response,
            peer: reply.peer,
            after: reply.after,
        }
    }
}

/// The body of a request from a file, streamed or read as a whole.
pub(super) async fn body(path: &Path, whole: bool) -> Result<Body, Failure> {
    let failed = |error: std::io::Error| Failure::file("read", path, &error);
    if whole {
        return Ok(tokio::fs::read(path).await.map_err(failed)?.into());
    }
    Ok(Body::reader(File::open(path).await.map_err(failed)?))
}

/// The body of a request from stdin, streamed or read as a whole.
pub(super) async fn stdin(whole: bool) -> Result<Body, Failure> {
    let mut stdin = tokio::io::stdin();
    if !whole {
        return Ok(Body::reader(stdin));
    }
    let mut bytes = Vec::new();
    let read = stdin.read_to_end(&mut bytes).await;
    read.map_err(|error| Failure::file("read", Path::new("stdin"), &error))?;
    Ok(bytes.into())
}

/// The whole body.
pub(super) async fn whole(body: &mut ReplyBody) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.chunk().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Writes a body to stdout as it comes; how many bytes. A reader that goes away has had enough.
pub(super) async fn to_stdout(body: &mut ReplyBody) -> Result<u64, Failure> {
    let mut stdout = tokio::io::stdout();
    let mut bytes = 0;
    let outcome = async {
        while let Some(chunk) = body.chunk().await? {
            bytes += chunk.len() as u64;
            // Written out, so that a reader that has gone away is noticed with the next.
            let written = async {
                stdout.write_all(&chunk).await?;
                stdout.flush().await
            };
            match written.await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                Err(error) => return Err(Failure::file("write", Path::new("stdout"), &error)),
            }
        }
        Ok(())
    };
    outcome.await?;
    Ok(bytes)
}

/// Writes a body to a file that is there only once it is whole; its size.
pub(super) async fn to_file(path: &Path, body: &mut ReplyBody) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| Failure::file("write", path, &error);
    // A device such as /dev/null cannot be replaced by a file.
    let special = tokio::fs::metadata(path)
        .await
        .is_ok_and(|found| !found.is_file());
    let partial = Partial(if special {
        None
    } else {
        Some(partial_name(path))
    });
    let place = partial.0.as_deref().unwrap_or(path);
    let file = std::fs::File::create(place).map_err(failed)?;
    if !special {
        // The lock ends with the process: partial files without one have no owner.
        let _ = file.try_lock();
        remove_leftovers(path);
    }
    let mut file = File::from_std(file);
    let mut bytes = 0;
    while let Some(chunk) = body.chunk().await? {
        file.write_all(&chunk).await.map_err(failed)?;
        bytes += chunk.len() as u64;
    }
    file.flush().await.map_err(failed)?;
    drop(file);
    partial.complete(path).map_err(failed)?;
    Ok(bytes)
}

fn partial_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    name.into()
}

/// Removes partial files of this name that killed processes left.
fn remove_leftovers(path: &Path) {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return;
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else {
        return;
    };
    for entry in entries.flatten() {
        let candidate = entry.file_name();
        let process = candidate.to_str().and_then(|candidate| {
            let rest = candidate.strip_prefix(name)?.strip_prefix('.')?;
            rest.strip_suffix(".part")?.parse::<u32>().ok()
        });
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if process.is_none() || !is_file {
            continue;
        }
        let unlocked = std::fs::File::open(entry.path()).and_then(|file| Ok(file.try_lock()?));
        if unlocked.is_ok() {
            // Files that cannot be removed stay, without harm.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A file that is removed unless it is completed.
struct Partial(Option<PathBuf>);

impl Partial {
    fn complete(mut self, path: &Path) -> std::io::Result<()> {
        match self.0.take() {
            Some(partial) => {
                let renamed = std::fs::rename(&partial, path);
                if renamed.is_err() {
                    self.0 = Some(partial);
                }
                renamed
            }
            None => Ok(()),
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(partial) = &self.0 {
            // It may never have been created; the error that ended the download is the one to report.
            let _ = std::fs::remove_file(partial);
        }
    }
}
