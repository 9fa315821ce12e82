//! `carob help`: commands, and topics that concern several of them.

use crate::args::{self, did_you_mean};
use crate::failure::{Failure, Kind, Outcome};
use crate::features;
use crate::printer;

/// Topics: name, summary, text.
pub(crate) const TOPICS: &[(&str, &str, &str)] = &[
    (
        "controllers",
        "Choosing and inspecting a congestion controller",
        "\
A congestion controller sets the retransmission timeouts, the window and the pacing of a peer. Without --cc and --profile it is `default`, that of RFC 7252.

Choose one for your link and traffic:
  carob lab compare --link nb-iot --traffic firmware
  carob lab compare --down 60kbit/s --up 20kbit/s --rtt 1.5s --loss 5%

Inspect:
  carob cc list              all controllers
  carob cc show cocoa-03     source, rules and constants of one
  carob cc trace --demo      timers for given round trips and losses

Use:
  carob get coap://localhost/large -o large.bin --cc cocoa-03
  carob serve --profile nb-iot

A profile sets controller, transmission parameters and block size; explicit options override it. `carob cc new NAME` writes a controller of your own. More: docs/which-controller.md, docs/controllers.md.",
    ),
    (
        "scenarios",
        "Names, cells and settings of the lab's experiments",
        "\
A scenario is a network, a workload and the algorithms to compare. `carob lab list` lists the built-in ones, as STUDY/FAMILY. Its sweep makes cells:

  thesis/long                 the scenario: all cells
  thesis/long-1c-high-2500    one cell
  'thesis/long-1c-*-2500'     the cells that match a pattern
  meters.toml                 a file of your own; `carob lab new meters` writes it

  carob lab show NAME         every setting and its source
  carob lab run NAME          a table and a report
  carob lab run NAME --set 'down.rate=60 kbit/s'

`carob lab keys` lists every key that --set and files take; the last part of a key is enough where it is unique. More: docs/scenario-keys.md.",
    ),
    (
        "units",
        "Times, rates, sizes and shares",
        "\
Options for people take a number and its unit, without a space or quoted:

  time      400ms, 5s, 10min      us, ms, s, min, h
  rate      60kbit/s              bit/s, kbit/s, Mbit/s
  requests  5000/s
  size      14kB, 64MiB           B, kB in the lab; KiB, MiB, GiB in --limit
  share     5%                    percent

In JSON and CSV a name ends with its unit: _ms, _us, _s, _bps, _bytes; a ratio is from 0 to 1.",
    ),
    (
        "uris",
        "Schemes, transports and default ports",
        "\
SCHEME://HOST[:PORT]/PATH[?QUERY]. An IPv6 address is in brackets: coap://[::1]/hello.

  coap        UDP               5683   RFC 7252
  coaps       DTLS 1.2          5684   --psk-file, CAROB_PSK, or --cert and --key
  coap+tcp    TCP               5683   RFC 8323
  coaps+tcp   TLS               5684   --ca, --cert, --key
  coap+ws     WebSocket         80
  coaps+ws    WebSocket, TLS    443

A multicast address, such as coap://224.0.1.187 or coap://[ff02::fd]/, makes a multicast request. Quote a URI with ? or & in a shell.",
    ),
    (
        "exit-codes",
        "Exit codes of requests, servers and the lab",
        "",
    ),
    (
        "output",
        "Terminals, pipes, colours and JSON",
        "\
Bodies, tables and JSON are on stdout; progress, remarks and errors on stderr.

On a terminal, tables are laid out for its width: long text is broken, then columns that are the same in every row are left out, then less important ones. A note names what is missing. Pipes and files get the whole table.

  --json         a JSON object (or a line of JSON each), with a stable schema
  --csv          comma-separated values (lab, cc trace)
  --color WHEN   auto, always or never

With `auto`, output has colours on a terminal, unless NO_COLOR is set or TERM is dumb. CLICOLOR_FORCE=1 has the effect of `always`. Meaning is never in the colour alone: the best value of a column is bold and named in a note or sentence, verdicts are words.",
    ),
    (
        "environment",
        "Environment variables",
        "\
  CAROB_PSK        the pre-shared key for --psk-identity (coaps)
  SSLKEYLOGFILE    append the secrets of TLS and DTLS sessions to this file, for Wireshark
  NO_COLOR         no colours, if not empty
  CLICOLOR_FORCE   colours in pipes, too, if not 0
  PATH             the lab prints how to add `carob`, if it is missing

There is no configuration file.",
    ),
];

/// The text of a topic.
fn text(name: &str) -> Option<String> {
    let (_, about, text) = TOPICS.iter().find(|(topic, ..)| *topic == name)?;
    let text = match *text {
        "" => args::exit_code_topic(),
        text => text.to_owned(),
    };
    Some(format!("{about}\n\n{}", text.trim_end()))
}

/// The list of topics, a line each.
pub(crate) fn list() -> String {
    let width = TOPICS.iter().map(|(name, ..)| name.len()).max();
    let width = width.unwrap_or_default();
    let lines = TOPICS
        .iter()
        .map(|(name, about, _)| format!("  {name:width$}  {about}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Prints the help of a command, or the text of a topic.
pub(crate) fn run(words: &[String]) -> Outcome {
    let [first, others @ ..] = words else {
        return args::help_of(&[]);
    };
    if first == "topics" {
        printer::help(&format!("Topics of `carob help TOPIC`:\n{}", list()));
        return Outcome::Done;
    }
    if let (Some(text), []) = (text(first), others) {
        printer::help(&text);
        return Outcome::Done;
    }
    if args::is_command(words) {
        return args::help_of(words);
    }
    if let Some(failure) = features::of_command(&words.join(" ")) {
        return Outcome::Failed(failure);
    }
    let names = TOPICS.iter().map(|(name, ..)| *name);
    let near = did_you_mean(first, names);
    let message = format!("no command or topic \"{}\"", words.join(" "));
    let hint = format!("{near}`carob help topics` lists the topics, `carob --help` the commands");
    Outcome::Failed(Failure::new(Kind::Usage, message).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_a_text_and_no_name_of_a_command() {
        for (name, ..) in TOPICS {
            assert!(
                text(name).is_some_and(|text| text.lines().count() > 3),
                "{name}"
            );
            assert!(!args::is_command(&[(*name).to_owned()]), "{name}");
        }
        assert!(text("exit-codes").is_some_and(|text| text.contains("130")));
    }
}
