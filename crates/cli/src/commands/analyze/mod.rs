//! `carob analyze`: round trips, losses and retransmissions of captures and event logs.

mod print;
mod report;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use carob_analyze::{Analysis, AnalyzeError, Analyzer, Devices, DtlsSecrets, Format, Options};
use carob_lab::compare::WrittenLink;

use crate::args::{AnalyzeArgs, DeviceSide};
use crate::commands::lab::output;
use crate::commands::tls;
use crate::failure::{Failure, Kind, Outcome};
use crate::printer;

/// Bytes of the longest key log.
const KEY_LOG_BYTES_MAX: u64 = 256 << 20;
/// Exit code without a CoAP message.
const NOTHING_FOUND: u8 = 1;

pub(super) fn run(args: &AnalyzeArgs) -> Result<Outcome, Failure> {
    let mut options = Options::default();
    options.ports.clone_from(&args.port);
    options.peer.clone_from(&args.peer);
    options.devices = args.devices.map(|side| match side {
        DeviceSide::Clients => Devices::Clients,
        DeviceSide::Servers => Devices::Servers,
    });
    options.secrets = secrets(args)?;
    let mut analyzer = Analyzer::new(options);
    for path in &args.files {
        read(&mut analyzer, path)?;
    }
    let analysis = analyzer.finish();
    let name = name_of(&args.files);
    if args.json {
        printer::json(&analysis);
    } else {
        print::show(args, &analysis);
    }
    if let Some(path) = &args.link_file {
        write_link(path, &analysis, &name, args.json)?;
    }
    if let Some(path) = &args.report {
        let html = report::page(&analysis, &name, &words(args)).html();
        output::write(path, &html).map_err(|error| Failure::file("write", path, &error))?;
        if !args.json {
            output::say(format_args!("Report: {}", path.display()));
        }
    }
    if analysis.contents.messages == 0 {
        return Ok(Outcome::Told(NOTHING_FOUND));
    }
    Ok(Outcome::Done)
}

/// The keys of DTLS sessions.
fn secrets(args: &AnalyzeArgs) -> Result<DtlsSecrets, Failure> {
    let mut secrets = DtlsSecrets::default();
    if let Some(path) = &args.psk_file {
        for key in tls::all_keys(path)? {
            secrets = secrets.pre_shared_key(key.identity(), key.key());
        }
    }
    if let Some(path) = &args.keylog {
        let failed = |error: &std::io::Error| Failure::file("read", path, error);
        let length = std::fs::metadata(path).map_err(|e| failed(&e))?.len();
        if length > KEY_LOG_BYTES_MAX {
            let problem = format_args!("{}: a key log is at most 256 MiB", path.display());
            return Err(Failure::new(Kind::File, problem)
                .hint("keep the lines of the sessions that were captured"));
        }
        let text = std::fs::read_to_string(path).map_err(|e| failed(&e))?;
        secrets = secrets.key_log(&text).map_err(|error| {
            Failure::new(Kind::File, format_args!("{}: {error}", path.display())).hint(
                "carob, browsers and libraries write such lines to the file SSLKEYLOGFILE names",
            )
        })?;
    }
    Ok(secrets)
}

fn read(analyzer: &mut Analyzer, path: &Path) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| Failure::file("read", path, error);
    let file = File::open(path).map_err(|error| failed(&error))?;
    analyzer.read(file).map_err(|error| match error {
        AnalyzeError::Io(error) => failed(&error),
        error => Failure::new(Kind::File, format_args!("{}: {error}", path.display()))
            .hint("tcpdump -w, Wireshark, and carob with --pcap or --log write such files"),
    })
}

/// The file's name, or the first name and the number of files.
fn name_of(files: &[PathBuf]) -> String {
    let first = files.first().map(|path| path.display().to_string());
    match (first, files.len()) {
        (Some(first), 1) => first,
        (Some(first), count) => format!("{first} and {} more", count - 1),
        (None, _) => String::new(),
    }
}

/// The command line that repeats the analysis.
fn words(args: &AnalyzeArgs) -> String {
    let mut words = vec!["carob analyze".to_owned()];
    let quoted = |path: &PathBuf| output::quoted(&path.display().to_string());
    words.extend(args.files.iter().map(quoted));
    words.extend(args.port.iter().map(|port| format!("--port {port}")));
    let peer = args.peer.iter();
    words.extend(peer.map(|peer| format!("--peer {}", output::quoted(peer))));
    for (option, path) in [("--psk-file", &args.psk_file), ("--keylog", &args.keylog)] {
        words.extend(path.iter().map(|path| format!("{option} {}", quoted(path))));
    }
    words.join(" ")
}

/// Writes the link fitted to a capture.
pub(super) fn fit(capture: &Path, link: &Path) -> Result<(), Failure> {
    let mut analyzer = Analyzer::new(Options::default());
    read(&mut analyzer, capture)?;
    write_link(
        link,
        &analyzer.finish(),
        &capture.display().to_string(),
        true,
    )
}

fn write_link(path: &Path, analysis: &Analysis, name: &str, quiet: bool) -> Result<(), Failure> {
    let Some(link) = &analysis.link else {
        return Err(no_link(name));
    };
    output::write(path, &link.to_toml(name)).map_err(|e| Failure::file("write", path, &e))?;
    if !quiet {
        output::say(format_args!("Link: {}", path.display()));
    }
    Ok(())
}

fn no_link(name: &str) -> Failure {
    let message = format_args!("{name}: too few round trips for a link");
    Failure::new(Kind::File, message).hint(format_args!(
        "`carob analyze {}` shows what was captured; capture at the client, at least 8 exchanges",
        output::quoted(name)
    ))
}

/// Returns the link fitted to a capture, if the file of that name is one.
pub(super) fn link_of_capture(name: &str) -> Result<Option<WrittenLink>, Failure> {
    let path = Path::new(name);
    let Ok(mut file) = File::open(path) else {
        return Ok(None);
    };
    let mut start = [0; 4];
    let is_capture = file.read_exact(&mut start).is_ok()
        && matches!(
            carob_analyze::detect(&start),
            Some(Format::Pcap | Format::Pcapng)
        );
    let is_log = path.extension().is_some_and(|end| end == "jsonl");
    if !is_capture && !is_log {
        return Ok(None);
    }
    let mut analyzer = Analyzer::new(Options::default());
    read(&mut analyzer, path)?;
    let fitted = analyzer.finish().link.ok_or_else(|| no_link(name))?;
    let link = WrittenLink::from_file(name, &fitted.to_toml(name));
    link.map(Some)
        .map_err(|error| Failure::new(Kind::File, &error).hint(&error.remedy))
}
