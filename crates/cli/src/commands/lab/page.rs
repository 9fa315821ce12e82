//! `carob lab page`: serves the lab's page, a folder of static files, on loopback.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::output::say;
use crate::failure::{Failure, Kind, Outcome};

/// The longest request, header included, in bytes.
const REQUEST_MAX: u64 = 16 << 10;
/// The longest time without a byte of a request, or with an unread response.
const PATIENCE: Duration = Duration::from_secs(10);
/// Types of files by the end of their names; others are sent as bytes.
const TYPES: [(&str, &str); 8] = [
    ("html", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("json", "application/json"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("txt", "text/plain; charset=utf-8"),
];

/// Serves a folder until the process ends.
pub(super) fn run(folder: &Path, port: u16) -> Result<Outcome, Failure> {
    if !folder.join("index.html").is_file() {
        let message = format_args!("{} has no index.html", folder.display());
        return Err(Failure::new(Kind::File, message)
            .hint("`cargo xtask web` in a checkout builds the page in target/web"));
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).map_err(|error| {
        Failure::new(Kind::Usage, format_args!("{address}: {error}")).hint("choose another --port")
    })?;
    let address = listener.local_addr().unwrap_or(address);
    say(format_args!("http://{address}/\nCtrl-C ends it."));
    for stream in listener.incoming().flatten() {
        let folder = folder.to_owned();
        // A client that closes its connection early is no failure of the server.
        std::thread::spawn(move || drop(serve(&folder, &stream)));
    }
    Ok(Outcome::Done)
}

/// Answers the requests of a connection.
fn serve(folder: &Path, stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    loop {
        let mut reader = BufReader::new(stream.take(REQUEST_MAX));
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            line.clear();
        }
        let mut words = first.split_whitespace();
        let (method, target) = (words.next(), words.next().unwrap_or_default());
        let response = match method {
            Some("GET" | "HEAD") => Response::of(folder, target),
            _ => Response::error("405 Method Not Allowed"),
        };
        response.write(stream, method == Some("HEAD"))?;
    }
}

/// A response of HTTP/1.1.
struct Response {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl Response {
    fn error(status: &'static str) -> Self {
        let body = format!("{status}\n").into_bytes();
        Self {
            status,
            kind: TYPES[7].1,
            body,
        }
    }

    /// The file that a target names.
    fn of(folder: &Path, target: &str) -> Self {
        let Some(path) = path(folder, target) else {
            return Self::error("404 Not Found");
        };
        let end = path.extension().and_then(|end| end.to_str());
        let kind = TYPES.iter().find(|(known, _)| Some(*known) == end);
        match std::fs::read(&path) {
            Ok(body) => Self {
                status: "200 OK",
                kind: kind.map_or("application/octet-stream", |(_, kind)| kind),
                body,
            },
            Err(_) => Self::error("404 Not Found"),
        }
    }

    fn write(&self, mut stream: &TcpStream, is_head: bool) -> io::Result<()> {
        let (status, kind, length) = (self.status, self.kind, self.body.len());
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Cache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        if !is_head {
            stream.write_all(&self.body)?;
        }
        stream.flush()
    }
}

/// The file below `folder` that a target names; none above it, and no hidden file.
fn path(folder: &Path, target: &str) -> Option<PathBuf> {
    let name = target.split(['?', '#']).next()?.strip_prefix('/')?;
    let name = if name.is_empty() { "index.html" } else { name };
    let is_plain = |part: Component<'_>| match part {
        Component::Normal(part) => !part.to_string_lossy().starts_with('.'),
        _ => false,
    };
    let relative = Path::new(name);
    let is_plain = relative.components().all(is_plain) && !name.contains(['\\', '%', ':']);
    is_plain.then(|| folder.join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_stays_below_the_folder() {
        let folder = Path::new("/page");
        let of = |target| path(folder, target).map(|path| path.display().to_string());
        assert_eq!(of("/").as_deref(), Some("/page/index.html"));
        assert_eq!(of("/app.js?x=1").as_deref(), Some("/page/app.js"));
        for outside in [
            "/../x",
            "//etc/passwd",
            "/%2e%2e/x",
            "/.git/config",
            "/a/../b",
            "x",
        ] {
            assert_eq!(of(outside), None, "{outside}");
        }
    }

    #[test]
    fn a_connection_gets_files_with_their_types() {
        let folder = std::env::temp_dir().join(format!("carob-page-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("lab.wasm"), b"\0asm").unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let served = folder.clone();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            serve(&served, &stream)
        });
        let mut client = TcpStream::connect(address).unwrap();
        for (request, status, kind) in [
            ("GET /lab.wasm HTTP/1.1", "200 OK", "application/wasm"),
            ("HEAD /lab.wasm HTTP/1.1", "200 OK", "application/wasm"),
            ("GET /none HTTP/1.1", "404 Not Found", "text/plain"),
            (
                "PUT /lab.wasm HTTP/1.1",
                "405 Method Not Allowed",
                "text/plain",
            ),
        ] {
            write!(client, "{request}\r\nHost: x\r\n\r\n").unwrap();
            let mut reader = BufReader::new(&client);
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                head += &line;
                line.clear();
            }
            assert!(
                head.contains(status) && head.contains(kind),
                "{request}: {head}"
            );
            let length = head.split("Content-Length: ").nth(1).unwrap();
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            let mut body = vec![
                0;
                if request.starts_with("HEAD") {
                    0
                } else {
                    length
                }
            ];
            reader.read_exact(&mut body).unwrap();
            assert!(body.is_empty() || status != "200 OK" || body == b"\0asm");
        }
        drop(client);
        server.join().unwrap().unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }
}
