//! `carob get`, `put`, `post`, `delete`: one request, its response shown.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use carob::client::BodyStream;
use carob::{Body, Code, ContentFormat, StreamedReply};
use carob_proto::trace::{Trace, What};
use tokio::fs::File;
use tokio::io::{AsyncWriteExt as _, stdin};

use super::client;
use crate::args::{RequestArgs, SendArgs};
use crate::failure::{Failure, Outcome};
use crate::printer::{self, Report};

/// Copies of messages sent.
#[derive(Debug, Default)]
struct Copies {
    all: AtomicU32,
    retransmissions: AtomicU32,
}

/// `put` and `post`: with a body.
pub(crate) async fn send(method: Code, args: SendArgs) -> Result<Outcome, Failure> {
    let SendArgs {
        request,
        payload,
        file,
        format,
    } = args;
    let body = match (payload, file) {
        (Some(text), _) if text == "-" => Body::reader(stdin()),
        (Some(text), _) => text.into_bytes().into(),
        (None, Some(path)) => {
            let file = File::open(&path).await;
            Body::reader(file.map_err(|error| Failure::file("read", &path, &error))?)
        }
        (None, None) => Body::from(Vec::new()),
    };
    run(method, request, Some((body, format))).await
}

/// Makes a request and shows its response.
pub(crate) async fn run(
    method: Code,
    args: RequestArgs,
    body: Option<(Body, Option<ContentFormat>)>,
) -> Result<Outcome, Failure> {
    let RequestArgs {
        exchange,
        output,
        accept,
        block_size,
        non,
    } = args;
    let copies = Arc::new(Copies::default());
    let counted = Arc::clone(&copies);
    let client = client(&exchange, |mut settings| {
        if let Some(size) = block_size {
            settings = settings
                .block_size(size)
                .engine(|config| config.negotiate_early = true);
        }
        settings.on_trace(move |trace| counted.count(trace))
    })?;
    let mut request = client.request(method, &exchange.uri).confirmable(!non);
    if let Some((body, format)) = body {
        request = request.body(body);
        if let Some(format) = format {
            request = request.format(format);
        }
    }
    if let Some(accept) = accept {
        request = request.accept(accept);
    }
    if let Some(deadline) = exchange.deadline {
        request = request.deadline(deadline);
    }
    let reply = match request.send_streaming().await {
        Ok(reply) => reply,
        Err(error) => {
            let failure = Failure::from(error);
            if exchange.json {
                printer::failure_json(&failure);
            }
            return Err(failure);
        }
    };
    let StreamedReply {
        head,
        peer,
        after,
        mut body,
        ..
    } = reply;
    let success = head.code.is_success();
    if exchange.verbose {
        printer::head(&head, peer, after);
    }
    let mut report = Report::new(&head, peer, after);
    let mut terminal = None;
    if exchange.json {
        match output.filter(|_| success) {
            Some(path) => {
                report.bytes = to_file(&path, &mut body).await?;
                report.file = Some(path.display().to_string());
            }
            None => report.payload(&whole(&mut body).await?),
        }
        report.copies(
            copies.all.load(Ordering::Relaxed),
            copies.retransmissions.load(Ordering::Relaxed),
        );
        printer::report(&report);
        return Ok(Outcome::Response(head.code));
    }
    if !success {
        let text = whole(&mut body).await?;
        printer::refusal(&exchange.uri, &head, &text);
        return Ok(Outcome::Response(head.code));
    }
    if let Some(path) = output {
        report.bytes = to_file(&path, &mut body).await?;
    } else if std::io::stdout().is_terminal() {
        let bytes = whole(&mut body).await?;
        report.bytes = bytes.len() as u64;
        terminal = Some(bytes);
    } else {
        report.bytes = to_stdout(&mut body).await?;
    }
    if let Some(bytes) = terminal {
        printer::body(&head, &bytes);
    }
    if report.bytes == 0 && !exchange.verbose {
        printer::code(&head);
    }
    if exchange.verbose {
        let retransmissions = copies.retransmissions.load(Ordering::Relaxed);
        printer::end(
            report.bytes,
            copies.all.load(Ordering::Relaxed),
            retransmissions,
        );
    }
    Ok(Outcome::Response(head.code))
}

impl Copies {
    fn count(&self, trace: &Trace) {
        if let What::Sent {
            retransmissions, ..
        } = trace.what
        {
            self.all.fetch_add(1, Ordering::Relaxed);
            if retransmissions > 0 {
                self.retransmissions.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The whole body.
async fn whole(body: &mut BodyStream) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.chunk().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

async fn to_stdout(body: &mut BodyStream) -> Result<u64, Failure> {
    let mut stdout = tokio::io::stdout();
    let failed = |error| Failure::file("write", Path::new("stdout"), &error);
    let mut bytes = 0;
    while let Some(chunk) = body.chunk().await? {
        stdout.write_all(&chunk).await.map_err(failed)?;
        bytes += chunk.len() as u64;
    }
    stdout.flush().await.map_err(failed)?;
    Ok(bytes)
}

/// Writes a body to a file that is there only once it is whole; its size.
async fn to_file(path: &Path, body: &mut BodyStream) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| Failure::file("write", path, &error);
    // What is no file, such as /dev/null, cannot be replaced by one.
    let special = tokio::fs::metadata(path)
        .await
        .is_ok_and(|found| !found.is_file());
    let partial = Partial(if special {
        None
    } else {
        Some(partial_name(path))
    });
    let place = partial.0.as_deref().unwrap_or(path);
    let mut file = File::create(place).await.map_err(failed)?;
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
            // It may never have been created; the error that stopped us is the one to tell.
            let _ = std::fs::remove_file(partial);
        }
    }
}
