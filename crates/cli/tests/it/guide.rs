//! The guide's examples, typed as they are printed.
//!
//! Blocks marked `console` are run line by line in one folder per page; what follows a command must
//! be what it prints, where `...` stands for any text, and on a line of its own for any lines. Two
//! things are changed on the way: servers listen on a free port, and requests go there.
use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What no command may take.
const LIMIT: Duration = Duration::from_secs(30);

/// A command, and what it is to print.
#[derive(Debug)]
struct Example {
    command: String,
    output: Vec<String>,
}

/// The commands of a page, in order.
fn examples(page: &str) -> Vec<Example> {
    let mut all: Vec<Example> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line.trim_end() {
            "```console" => inside = true,
            "```" => inside = false,
            line if !inside => debug_assert!(!line.starts_with("$ "), "{line}"),
            line => match line.strip_prefix("$ ") {
                Some(command) => all.push(Example {
                    command: command.to_owned(),
                    output: Vec::new(),
                }),
                None => all
                    .last_mut()
                    .expect("a block begins with a command")
                    .output
                    .push(line.to_owned()),
            },
        }
    }
    all
}

/// Whether `text` is what a line with `...` for anything allows.
fn line_matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split("...");
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for piece in pieces {
        if let Some(piece) = last.replace(piece) {
            let Some(at) = rest.find(piece) else {
                return false;
            };
            rest = &rest[at + piece.len()..];
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

fn lines_match(patterns: &[String], lines: &[&str]) -> bool {
    match (patterns, lines) {
        ([], _) => lines.is_empty(),
        ([any, rest @ ..], _) if any == "..." => {
            (0..=lines.len()).any(|taken| lines_match(rest, &lines[taken..]))
        }
        ([first, rest @ ..], [line, lines @ ..]) => {
            line_matches(first, line) && lines_match(rest, lines)
        }
        _ => false,
    }
}

/// Where a page's examples are run; everything that was started ends with it.
struct Place {
    folder: PathBuf,
    port: u16,
    /// For the other one, where the guide has two.
    second: u16,
    /// The one over DTLS.
    secured: u16,
    servers: Vec<Child>,
}

impl Drop for Place {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

impl Place {
    fn new(page: &str) -> Self {
        let name = format!("guide-{page}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).expect("the build directory is writable");
        let sockets = [(); 3].map(|()| UdpSocket::bind("[::]:0").expect("a free port is bound"));
        let ports = sockets.map(|socket| socket.local_addr().expect("it is bound").port());
        let [port, second, secured] = ports;
        Self {
            folder,
            port,
            second,
            secured,
            servers: Vec::new(),
        }
    }

    /// The command as it is run here.
    fn here(&self, command: &str) -> String {
        let (port, secured) = (self.port, self.secured);
        command
            .replace("carob serve", &format!("carob serve --bind [::]:{port}"))
            .replace("--allow localhost", "--allow LOCALHOST")
            .replace("--dtls", &format!("--dtls [::]:{secured}"))
            .replace("localhost", &format!("localhost:{port}"))
            .replace(
                &format!("coaps://localhost:{port}"),
                &format!("coaps://localhost:{secured}"),
            )
            .replace("5685", &self.second.to_string())
    }

    /// What was printed, as it is in the guide.
    fn there(&self, output: &str) -> String {
        let (port, secured) = (self.port, self.secured);
        output
            .replace(&format!("localhost:{secured}"), "localhost")
            .replace(&format!("[::1]:{secured}"), "[::1]:5684")
            .replace(&format!("[::]:{secured}"), "[::]:5684")
            .replace(&format!("localhost:{port}"), "localhost")
            .replace(&format!("[::]:{port}"), "[::]:5683")
            .replace(&self.second.to_string(), "5685")
    }

    fn shell(&self, command: &str, output: &Path) -> Child {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let programs = Path::new(env!("CARGO_BIN_EXE_carob"))
            .parent()
            .expect("a program is in a folder");
        let all = [programs.to_path_buf()];
        let path = std::env::join_paths(all.into_iter().chain(std::env::split_paths(&path)))
            .expect("the paths are those of before");
        let stdout = File::create(output).expect("the folder is writable");
        let stderr = stdout.try_clone().expect("a file can be had twice");
        Command::new("bash")
            .args(["-c", &format!("exec 2>&1; {command}")])
            .env("PATH", path)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .expect("bash runs")
    }

    /// Runs an example and compares.
    fn try_example(&mut self, example: &Example) {
        let command = self.here(&example.command);
        let output = self.folder.join("output");
        let deadline = Instant::now() + LIMIT;
        if let Some(server) = command.strip_suffix('&') {
            let output = self.folder.join("server-output");
            let child = self.shell(&format!("exec {server}"), &output);
            self.servers.push(child);
            // It is there once it has said what it is to say.
            loop {
                let said = fs::read_to_string(&output).unwrap_or_default();
                let said = self.there(&said);
                let lines: Vec<_> = said.lines().collect();
                if lines_match(&example.output, &lines) && !lines.is_empty() {
                    return;
                }
                assert!(Instant::now() < deadline, "{}: {said}", example.command);
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let mut child = self.shell(&command, &output);
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if Instant::now() >= deadline {
                let _ = child.kill();
                panic!("{} takes longer than {LIMIT:?}", example.command);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let said = fs::read_to_string(&output).unwrap_or_default();
        let said = self.there(&said);
        assert!(status.success(), "{}: {status}\n{said}", example.command);
        let lines: Vec<_> = said.lines().collect();
        assert!(
            lines_match(&example.output, &lines),
            "{}\nprints\n{said}\nnot\n{}",
            example.command,
            example.output.join("\n")
        );
    }
}

fn try_page(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/src");
    let page = path.join(name).with_extension("md");
    let page = fs::read_to_string(page).expect("the page is there");
    let mut place = Place::new(name);
    // A page that does not start a server is read beside one that is there.
    if !["five-minutes", "operating", "secured"].contains(&name) {
        place.try_example(&Example {
            command: "carob serve &".into(),
            output: vec![
                "listening on coap://[::]:5683".into(),
                "amplification limit: on for global addresses".into(),
            ],
        });
    }
    let examples = examples(&page);
    assert!(!examples.is_empty(), "the page has examples");
    for example in &examples {
        place.try_example(example);
    }
}

#[test]
fn slow_five_minutes_with_client_and_server() {
    try_page("five-minutes");
}

#[test]
fn asking_through_a_proxy() {
    try_page("proxies");
}

#[test]
fn slow_how_congestion_control_is_chosen_and_watched() {
    try_page("congestion-control");
}

#[test]
fn slow_coap_over_dtls() {
    try_page("secured");
}

#[test]
fn operating_a_server() {
    try_page("operating");
}

#[test]
fn dots_stand_for_anything() {
    assert!(line_matches("a ... c", "a b c"));
    assert!(line_matches("...", "anything"));
    assert!(line_matches("a...", "a"));
    assert!(!line_matches("a ... c", "a b d"));
    assert!(!line_matches("a", "ab"));
    assert!(!line_matches("a...b", "a"));
    let lines = |text: &[&str]| text.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    assert!(lines_match(&lines(&["...", "b", "..."]), &["a", "b"]));
    assert!(!lines_match(&lines(&["...", "b", "..."]), &["a", "c"]));
    assert!(!lines_match(&lines(&[]), &["a"]));
}
