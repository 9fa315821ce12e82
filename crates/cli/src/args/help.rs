//! Additions of `--help` to the options: groups of commands, examples, exit codes.

use std::fmt::Write as _;

use anstyle::Style;
use clap::CommandFactory as _;

use super::Args;
use super::cc::trace_help;
use crate::failure::EXIT_CODES;
use crate::features;

/// Groups of commands, in the order of a tutorial; commands of no group come last.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Requests",
        &[
            "get", "discover", "observe", "put", "post", "delete", "fetch", "patch", "ipatch",
            "ping",
        ],
    ),
    ("Servers", &["serve", "proxy"]),
    ("Load generator", &["bench"]),
    ("Congestion control", &["try", "analyze", "cc", "lab"]),
    ("Setup", &["completions", "man"]),
];

const FIRST_STEPS: &str = "\
Without a command, the lab compares congestion controllers; that takes seconds.
Recommendations for six situations: docs/tutorials/choose-controller.md.

Examples:
  carob serve &
  carob discover localhost
  carob get coap://localhost/hello
  carob observe coap://localhost/time --count 3
  carob get coap://localhost/large -o large.bin --cc cocoa-03 --timing
  carob lab run thesis/long-1c-high-2500

`carob COMMAND --help` explains a command and has more examples.";

const SERVE: &str = "
Demo resources:
  /hello    32 bytes of text       /echo     returns the request's body
  /large    1 MiB in many blocks   /slow     answers after 1.5 s
  /time     changes each second    /count    a number; POST adds to it
  /sensors  JSON or CBOR           /.well-known/core lists them all
/time and /count can be observed.
";

/// Examples of each command. A test runs them all, in this order, in one folder, beside
/// `carob serve --dir . --writable --tcp --dtls --psk-file keys.txt`.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "get",
        &[
            "carob get coap://localhost/hello",
            "carob get coap://localhost/sensors --accept cbor",
            "carob get coap://localhost/sensors --json > answer.json",
            "carob get coap://localhost/large -o large.bin --cc cocoa-03 --timing",
            "carob get coap://localhost/hello coap://localhost/time -v",
            "carob get coap+tcp://localhost/large -o large.bin --timing",
        ],
    ),
    (
        "discover",
        &[
            "carob discover localhost",
            "carob discover localhost --filter obs --json",
        ],
    ),
    (
        "observe",
        &[
            "carob observe coap://localhost/time --count 3",
            "carob observe coap://localhost/time --for 2s --json",
        ],
    ),
    (
        "put",
        &[
            "carob put coap://localhost/notes.txt 'remember the milk'",
            "carob put coap://localhost/copy.bin --file large.bin",
            "carob put coap://localhost/new.txt hello --if-none-match",
        ],
    ),
    (
        "post",
        &[
            "carob post coap://localhost/count",
            "carob post coap://localhost/count 10",
            "carob post coap://localhost/count 1 --no-response",
            "date | carob post coap://localhost/echo - --format text",
        ],
    ),
    (
        "delete",
        &[
            "carob delete coap://localhost/notes.txt",
            "carob delete coap://localhost/new.txt --if-match any",
        ],
    ),
    (
        "fetch",
        &["carob fetch coap://localhost/echo '[\"temperature\"]' --format json"],
    ),
    (
        "patch",
        &[
            "carob patch coap://localhost/echo '[{\"op\":\"remove\",\"path\":\"/a\"}]' --format json-patch+json",
        ],
    ),
    (
        "ipatch",
        &["carob ipatch coap://localhost/echo '{\"a\":null}' --format merge-patch+json"],
    ),
    (
        "ping",
        &[
            "carob ping coap://localhost",
            "carob ping coap://localhost coap://127.0.0.1 --deadline 2s",
        ],
    ),
    (
        "serve",
        &[
            "carob serve",
            "carob serve --dir . --writable",
            "carob serve --bind 127.0.0.1:0 --json",
            "carob serve --tcp --ws [::]:8080",
            "carob serve --log events.jsonl --pcap messages.pcapng -v",
            "carob serve --limit request_rate=50 --limit observers=1000",
        ],
    ),
    (
        "proxy",
        &[
            "carob proxy --route /lab=coap://localhost",
            "carob proxy --allow '*.example.org' --allow 192.0.2.0/24:5683",
            "carob proxy --route /=coap://localhost --cc cocoa-plus --origin-cc default --json",
            "carob proxy --allow '*' --allow localhost --tcp --ws [::]:8080 -v",
        ],
    ),
    (
        "bench",
        &[
            "carob bench coap://localhost/hello --duration 2s",
            "carob bench coap://localhost/hello --outstanding 64 --ports 16 --requests 10000 --json",
            "carob bench coap://localhost/hello --rate 2000/s --arrivals poisson --duration 2s",
            "carob bench coap://localhost/echo --mode post --bytes 100 --requests 500",
            "carob bench coap://localhost/large --mode block --ports 4 --requests 8",
            "carob bench coap://localhost/up.bin --mode upload --bytes 100000 --ports 1 --requests 3",
            "carob bench coaps://localhost/hello --psk-file keys.txt --duration 2s",
            "carob bench coaps://localhost/hello --psk-file keys.txt --port-messages 1 --requests 100",
        ],
    ),
    (
        "try",
        &[
            "carob try coap://localhost/hello --pairs 3 --interval 100ms --yes",
            "carob try coap://localhost/large --traffic firmware --pairs 2 --cc default,cocoa-03 --yes",
        ],
    ),
    (
        "analyze",
        &[
            "carob get coap://localhost/large -o large.bin --pcap get.pcapng",
            "carob analyze get.pcapng",
            "carob analyze get.pcapng --link-file link.toml --report get.html",
            "carob analyze get.pcapng --peer 127.0.0.1 --json > get.json",
        ],
    ),
    (
        "cc",
        &[
            "carob cc list",
            "carob cc show cocoa-03",
            "carob cc trace --demo",
        ],
    ),
    (
        "lab",
        &[
            "carob lab list",
            "carob lab show thesis/long",
            "carob lab run thesis/long-1c-high-2500",
        ],
    ),
    (
        "completions",
        &[
            "carob completions bash > carob.bash",
            "carob completions fish > carob.fish",
        ],
    ),
    ("man", &["carob man > carob.1", "carob man --dir man1"]),
];

/// Commands that make requests, with the exit codes of [`EXIT_CODES`].
const REQUESTS: &[&str] = &[
    "get", "discover", "put", "post", "delete", "fetch", "patch", "ipatch", "ping",
];
/// Commands of [`REQUESTS`] that take several URIs.
const SEVERAL: &[&str] = &["get", "delete", "ping"];

/// Endings of `carob observe`, and its exit codes beyond [`EXIT_CODES`].
const OBSERVE: &str = "
At its end, and when it is interrupted, the command deregisters (GET with Observe 1).
";
const OBSERVE_CODES: &[(u8, &str)] = &[
    (0, "--count or --for was reached, or the output was closed"),
    (
        1,
        "the server ended it with 4.xx, or the resource is not observable",
    ),
    (5, "the server ended it with 5.xx"),
];
/// Checks and counters of `carob bench`, and its exit codes beyond [`EXIT_CODES`].
const BENCH: &str = "
Checks: a response counts only if its type, Message ID and token match an outstanding request and
its code is 2.xx; for bodies also its length and ETag. All others are counted by kind.

Closed loop: each response starts the next request, so a stalled server receives fewer requests and
few of them measure the stall. For the latency that users see, set a rate (--rate): latency is then
measured from the intended time of a request.

A Message ID must not repeat between two endpoints within EXCHANGE_LIFETIME (247 s). So a source
port is replaced by a new one after 60,000 messages (--port-messages). Congestion control of the new
port starts from its initial state.

Over coaps each source port has a DTLS session, established before the measurement. The session of a
replacement port is established with its first request, whose latency includes the handshake. The
session uses a key or certificates, as in `carob get`. Its handshake has the timers of RFC 6347, 1 s,
doubled at each retransmission, within --timeout. A session that the server closes, or on which
nothing arrives for --timeout, is abandoned; the next request establishes another.

With --port-messages 1, each request has a session of its own, so that its latency is that of a
handshake and a request. A server may limit handshakes and ignore those above the limit. `carob serve`
accepts 100 a second of one source, with a burst of 1,000, and all of them with
--limit handshake_rate=0 --limit handshake_work=100.

If any request succeeded, the exit code is 0; otherwise it is that of the most frequent error.
";
const BENCH_CODES: &[(u8, &str)] = &[
    (0, "a request succeeded"),
    (3, "no request was answered in time"),
    (
        4,
        "no request succeeded for another reason: cannot resolve, bind or establish a session",
    ),
];
const PROXY: &str = "
Without --route and --allow no request is forwarded. A reverse-proxy (--route) maps the paths that
begin with PATH to its origin. The longest matching path applies, and /.well-known/core lists the
resources of all origins. A forward-proxy (--allow) forwards requests to hosts that match a pattern
[SCHEME://]HOST[:PORT]; HOST is a name, *.NAME, *, an address or a network (192.0.2.0/24).
Names and * never resolve to loopback or link-local addresses: these must be allowed as addresses,
or as localhost. Requests to other hosts are answered 5.05.

Each side, that of the clients and that of the origins, has a congestion controller (--cc,
--origin-cc). All clients share fresh responses and one observation of each resource. Responses over
secure connections or from secure origins are not shared unless --share-secure is set.
";
const SERVE_CODES: &[(u8, &str)] = &[
    (0, "stopped by Ctrl-C or SIGTERM"),
    (1, "a file or folder could not be read or written"),
    (130, "interrupted again during the shutdown"),
];

/// The definition of the command line, with all its help.
pub(crate) fn command() -> clap::Command {
    let mut command = Args::command();
    let names: Vec<String> = (command.get_subcommands())
        .map(|verb| verb.get_name().to_owned())
        .collect();
    for name in &names {
        let help = after(name, &names);
        if !help.is_empty() {
            command = command.mut_subcommand(name, |verb| verb.after_long_help(help));
        }
    }
    let traced = |verb: clap::Command| verb.after_long_help(trace_help());
    command = command.mut_subcommand("cc", |verb| verb.mut_subcommand("trace", traced));
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{heading}Options:{heading:#}\n{{options}}{{after-help}}",
        groups(&command),
        heading = HEADING,
    );
    let first_steps = [FIRST_STEPS, &features::absent_commands()].join("\n\n");
    let after = format!("{first_steps}\n{}", exit_codes(&[], &[]));
    with_long_help(command)
        .help_template(template)
        .after_long_help(unbroken(&after))
        .after_help(first_steps.trim_end().to_owned())
}

/// A program's definition in which `-h` of each command points to `--help`.
pub fn with_long_help(program: clap::Command) -> clap::Command {
    let name = program.get_name().to_owned();
    program.mut_subcommands(|verb| point_to_long_help(verb, &name))
}

/// `-h` shows options only: examples, rules and exit codes are in `--help`, unbroken lines that clap
/// breaks for the terminal.
fn point_to_long_help(command: clap::Command, above: &str) -> clap::Command {
    let name = format!("{above} {}", command.get_name());
    let command = match command.get_after_long_help().map(ToString::to_string) {
        Some(text) => command
            .after_long_help(unbroken(&text))
            .after_help(format!("`{name} --help` has examples and details.")),
        None => command,
    };
    command.mut_subcommands(|verb| point_to_long_help(verb, &name))
}

/// The text with each paragraph on one line. Lines that begin with spaces are unchanged.
fn unbroken(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
        match lines.last_mut() {
            Some(last) if is_prose(last) && is_prose(line) && !last.ends_with(':') => {
                last.extend([" ", line]);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

/// The style of clap's headings.
const HEADING: Style = Style::new().bold().underline();
const LITERAL: Style = Style::new().bold();

/// The commands, group by group.
fn groups(command: &clap::Command) -> String {
    let visible = || command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let width = visible().map(|verb| verb.get_name().len()).max();
    let width = width.unwrap_or_default();
    let grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let rest: Vec<_> = visible()
        .map(clap::Command::get_name)
        .filter(|name| !grouped(name))
        .collect();
    let mut text = String::new();
    for (title, names) in GROUPS.iter().copied().chain([("More", &rest[..])]) {
        let verbs: Vec<_> = (names.iter())
            .filter_map(|name| command.find_subcommand(name))
            .collect();
        if verbs.is_empty() {
            continue;
        }
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{HEADING}{title}:{HEADING:#}");
        for verb in verbs {
            let (name, about) = (verb.get_name(), verb.get_about());
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {LITERAL}{name:width$}{LITERAL:#}  {about}");
        }
        text.push('\n');
    }
    text
}

/// The text after a command's options.
fn after(name: &str, commands: &[String]) -> String {
    let mut text = String::new();
    if let Some((_, examples)) = EXAMPLES.iter().find(|(verb, _)| *verb == name) {
        text.push_str("Examples:\n");
        for example in examples.iter().filter(|one| features::has(one, commands)) {
            let _ = writeln!(text, "  {example}");
        }
    }
    match name {
        "observe" => {
            text.push_str(OBSERVE);
            text.push_str(&exit_codes(OBSERVE_CODES, &[]));
        }
        "bench" => {
            text.push_str(BENCH);
            text.push_str(&exit_codes(BENCH_CODES, &[]));
        }
        "serve" => {
            text.push_str(SERVE);
            text.push_str(&exit_codes(SERVE_CODES, &[3, 5]));
        }
        "proxy" => {
            text.push_str(PROXY);
            text.push_str(&exit_codes(SERVE_CODES, &[3, 5]));
        }
        "lab" => text.push_str(
            "\nPublished studies, their claims and calibration: the program carob-studies.",
        ),
        _ if REQUESTS.contains(&name) => {
            text.push_str(&exit_codes(&[], &[]));
        }
        _ => {}
    }
    if SEVERAL.contains(&name) {
        text.push_str("Of several requests, the highest counts.");
    }
    text.trim_end().to_owned()
}

/// The exit codes, some with another meaning and some left out.
fn exit_codes(other: &[(u8, &str)], without: &[u8]) -> String {
    format!("\nExit codes:\n{}", code_lines(other, without))
}

fn code_lines(other: &[(u8, &str)], without: &[u8]) -> String {
    let mut text = String::new();
    for (code, meaning) in EXIT_CODES {
        if without.contains(code) {
            continue;
        }
        let other = other.iter().find(|(other, _)| other == code);
        let meaning = other.map_or(meaning, |(_, meaning)| meaning);
        let _ = writeln!(text, "  {code:3}  {meaning}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }

    /// First words of the help of flags.
    const VERBS: &[&str] = &[
        "Accept", "Add", "Allow", "Begin", "Cache", "Change", "Draw", "Give", "Join", "Limit",
        "List", "Make", "Print", "Read", "Reject", "Require", "Run", "Select", "Send", "Serve",
        "Set", "Share", "Show", "Start", "Stop", "Take", "Use", "Wait", "Write",
    ];

    /// Options and positional arguments, of a command and of those below it, whose help has another form.
    fn other_forms(command: &clap::Command) -> Vec<String> {
        let mut found = Vec::new();
        for argument in command.get_arguments() {
            let help = argument.get_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let text = help.split(" [default").next().unwrap_or_default();
            let is_verb = VERBS.contains(&text.split(' ').next().unwrap_or_default());
            let takes_value = argument.get_action().takes_values();
            let is_long = takes_value && text.chars().count() > 70;
            if takes_value == is_verb || is_long || text.ends_with('.') {
                let id = argument.get_id();
                found.push(format!("{} {id}: {help}", command.get_name()));
            }
        }
        found.extend(command.get_subcommands().flat_map(other_forms));
        found
    }

    #[test]
    fn help_of_values_is_a_noun_phrase_and_of_flags_a_verb() {
        assert_eq!(other_forms(&command()), Vec::<String>::new());
    }

    #[cfg(feature = "full")]
    #[test]
    fn every_name_in_the_help_is_a_command() {
        let command = command();
        let named = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .chain(REQUESTS)
            .chain(SEVERAL);
        for name in named.chain(EXAMPLES.iter().map(|(name, _)| name)) {
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
    }
}
