//! `carob lab page`: serves the lab's page, a folder of static files, on loopback.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::output::say;
use crate::failure::{Failure, Kind, Outcome};

/// The longest request, header included, in bytes.
const REQUEST_MAX: u64 = 16 << 10;
/// The longest time without a byte of a request, or with an unread response.
const PATIENCE: Duration = Duration::from_secs(10);
/// Open connections; further ones are closed at once.
const CONNECTIONS_MAX: usize = 64;
/// The page's own policy (web/index.html), and no frame of another page.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
    connect-src 'self'; worker-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";
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

/// Where `cargo xtask web` builds the page, below the root of a checkout.
const BUILT: &str = "target/web";

/// Serves a folder until the process ends; without one the page of this checkout.
pub(super) fn run(folder: Option<PathBuf>, port: u16) -> Result<Outcome, Failure> {
    let folder = folder.unwrap_or_else(|| built(&env::current_dir().unwrap_or_default()));
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
    let folder: Arc<Path> = folder.into();
    for stream in listener.incoming().flatten() {
        spawn(&folder, stream);
    }
    Ok(Outcome::Done)
}

/// The page built in a folder or one of those above it.
fn built(folder: &Path) -> PathBuf {
    let mut places = folder.ancestors().map(|folder| folder.join(BUILT));
    let found = places.find(|place| place.join("index.html").is_file());
    found.unwrap_or_else(|| PathBuf::from(BUILT))
}

/// Serves a connection in a new thread. Closes it if there are [`CONNECTIONS_MAX`], or the system
/// has no thread left.
fn spawn(folder: &Arc<Path>, stream: TcpStream) {
    let connection = Connection;
    if OPEN.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
        return;
    }
    let folder = folder.clone();
    // A client that closes its connection early is no failure of the server.
    let serving = move || {
        let _connection = connection;
        drop(serve(&folder, &stream));
    };
    drop(std::thread::Builder::new().spawn(serving));
}

/// Connections that are open.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// One of the open connections.
struct Connection;

impl Drop for Connection {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
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
        let (mut line, mut is_own) = (String::new(), true);
        while reader.read_line(&mut line)? > 2 {
            is_own &= host(&line).is_none_or(is_loopback);
            line.clear();
        }
        let mut words = first.split_whitespace();
        let (method, target) = (words.next(), words.next().unwrap_or_default());
        let response = match method {
            _ if !is_own => Response::error("421 Misdirected Request"),
            Some("GET" | "HEAD") => Response::of(folder, target),
            _ => Response::error("405 Method Not Allowed"),
        };
        response.write(stream, method == Some("HEAD"))?;
    }
}

/// The name or address in a line of a request's head, if it is the Host field.
fn host(line: &str) -> Option<&str> {
    let (name, value) = line.split_once(':')?;
    let value = value.trim();
    let end = match value.rfind([':', ']']) {
        Some(place) if value[place..].starts_with(':') => place,
        _ => value.len(),
    };
    name.eq_ignore_ascii_case("host").then_some(&value[..end])
}

/// Returns true for a name of this machine: a page elsewhere whose name leads here (DNS rebinding) cannot
/// choose the browser's Host header.
fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// A response of HTTP/1.1.
struct Response {
    status: &'static str,
    kind: &'static str,
    length: u64,
    body: Box<dyn io::Read>,
}

impl Response {
    fn error(status: &'static str) -> Self {
        let body = format!("{status}\n");
        Self {
            status,
            kind: TYPES[7].1,
            length: body.len() as u64,
            body: Box::new(io::Cursor::new(body)),
        }
    }

    /// The file that a target names.
    fn of(folder: &Path, target: &str) -> Self {
        let Some((name, (file, length))) =
            name(target).and_then(|name| Some((name, open(folder, name)?)))
        else {
            return Self::error("404 Not Found");
        };
        let end = Path::new(name).extension().and_then(|end| end.to_str());
        let kind = TYPES.iter().find(|(known, _)| Some(*known) == end);
        Self {
            status: "200 OK",
            kind: kind.map_or("application/octet-stream", |(_, kind)| kind),
            length,
            body: Box::new(file.take(length)),
        }
    }

    fn write(mut self, mut stream: &TcpStream, is_head: bool) -> io::Result<()> {
        let (status, kind, length) = (self.status, self.kind, self.length);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Cache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Security-Policy: {POLICY}\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        if !is_head && io::copy(&mut self.body, &mut stream)? < length {
            // The file became shorter: the connection ends, so that nobody waits for the rest.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        stream.flush()
    }
}

/// Opens a regular file below a folder, with its length. Symbolic links below the folder are refused.
fn open(folder: &Path, name: &str) -> Option<(File, u64)> {
    let mut path = folder.to_owned();
    for part in Path::new(name).components() {
        path.push(part);
        let is_link = path.symlink_metadata().ok()?.is_symlink();
        (!is_link).then_some(())?;
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
        options.custom_flags(flags.bits());
    }
    let file = options.open(&path).ok()?;
    let metadata = file.metadata().ok()?;
    metadata.is_file().then_some((file, metadata.len()))
}

/// The name of the file that a target names, relative to the folder; none above it, and no hidden file.
fn name(target: &str) -> Option<&str> {
    let name = target.split(['?', '#']).next()?.strip_prefix('/')?;
    let name = if name.is_empty() { "index.html" } else { name };
    let is_plain = |part: Component<'_>| match part {
        Component::Normal(part) => !part.to_string_lossy().starts_with('.'),
        _ => false,
    };
    let is_plain = Path::new(name).components().all(is_plain) && !name.contains(['\\', '%', ':']);
    is_plain.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_checkout_is_found_from_its_folders() {
        let name = format!("carob-checkout-{}", std::process::id());
        let root = env::temp_dir().join(name);
        let below = root.join("crates/lab");
        std::fs::create_dir_all(&below).expect("a folder");
        assert_eq!(built(&below), Path::new(BUILT), "named where it is missing");
        let page = root.join(BUILT);
        std::fs::create_dir_all(&page).expect("a folder");
        File::create(page.join("index.html")).expect("a file");
        assert_eq!(built(&below), page);
        assert_eq!(built(&root), page);
        std::fs::remove_dir_all(&root).expect("it is removed");
    }

    #[test]
    fn a_target_stays_below_the_folder() {
        assert_eq!(name("/"), Some("index.html"));
        assert_eq!(name("/app.js?x=1"), Some("app.js"));
        for outside in [
            "/../x",
            "//etc/passwd",
            "/%2e%2e/x",
            "/.git/config",
            "/a/../b",
            "x",
        ] {
            assert_eq!(name(outside), None, "{outside}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_served() {
        for own in [
            "Host: localhost:8000\r\n",
            "host: 127.0.0.1",
            "HOST:[::1]:80",
        ] {
            assert!(host(own).is_some_and(is_loopback), "{own}");
        }
        for other in [
            "Host: x.example:80",
            "Host: 192.0.2.1",
            "Host:",
            "Host: localhost.x",
        ] {
            assert!(
                host(other).is_some_and(|name| !is_loopback(name)),
                "{other}"
            );
        }
        assert_eq!(host("Accept: a:b"), None);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_pipes_are_not_served() {
        let folder = env::temp_dir().join(format!("carob-links-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("own")).unwrap();
        std::fs::write(folder.join("own/file"), "x").unwrap();
        std::os::unix::fs::symlink("/etc", folder.join("etc")).unwrap();
        std::os::unix::fs::symlink("own/file", folder.join("link")).unwrap();
        assert!(open(&folder, "own/file").is_some());
        for refused in ["etc/passwd", "link", "own"] {
            assert!(open(&folder, refused).is_none(), "{refused}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn connections_beyond_the_limit_are_closed_at_once() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let folder: Arc<Path> = Path::new("/nowhere").into();
        let all: Vec<TcpStream> = (0..=CONNECTIONS_MAX)
            .map(|_| {
                let client = TcpStream::connect(address).unwrap();
                spawn(&folder, listener.accept().unwrap().0);
                client
            })
            .collect();
        let mut last = &all[CONNECTIONS_MAX];
        assert_eq!(last.read(&mut [0]).unwrap(), 0);
        all[0].set_nonblocking(true).unwrap();
        let waits = (&all[0]).read(&mut [0]).expect_err("it is open");
        assert_eq!(waits.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(OPEN.load(Ordering::Relaxed), CONNECTIONS_MAX);
    }

    #[test]
    fn a_connection_gets_files_with_their_types() {
        let folder = env::temp_dir().join(format!("carob-page-{}", std::process::id()));
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
            write!(client, "{request}\r\nHost: localhost\r\n\r\n").unwrap();
            let mut reader = BufReader::new(&client);
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                head += &line;
                line.clear();
            }
            assert!(
                head.contains(status) && head.contains(kind) && head.contains(POLICY),
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
