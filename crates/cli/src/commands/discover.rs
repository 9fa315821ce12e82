//! `carob discover`: the resources of a host, by its `/.well-known/core` (RFC 6690).

use carob::client::RequestBuilder;
use carob::link_format::{Link, LinkError, Links, matching};
use carob::{Code, ContentFormat, OptionNumber, Uri};
use carob_lab::text::TextTable;
use serde::Serialize;
use serde_json::json;

use super::client;
use super::request::group;
use crate::args::DiscoverArgs;
use crate::failure::{Failure, Kind, Outcome};
use crate::monitor::Monitor;
use crate::printer;

const LIST: &str = "/.well-known/core";

/// Requests the list and shows it.
pub(crate) async fn run(args: DiscoverArgs) -> Result<Outcome, Failure> {
    let uri = uri_of(&args.host);
    let outcome = ask(&uri, &args).await;
    if let (Err(failure), true) = (&outcome, args.json) {
        printer::failure_json(&uri, failure, None);
    }
    outcome
}

async fn ask(uri: &str, args: &DiscoverArgs) -> Result<Outcome, Failure> {
    super::check_keys(&args.network, None, &[uri.to_owned()])?;
    let monitor = Monitor::open(&args.watch)?;
    let client = client(&args.network, &monitor, |settings| {
        super::to_groups(settings, &args.group)
    })?;
    let mut request = client.get(uri).accept(ContentFormat::LINK_FORMAT);
    // RFC 6690 4.1 knows one argument. Servers need not heed even that, so the others, and that
    // once more, are seen to here.
    if let Some(first) = args.filter.first() {
        request = request.option(OptionNumber::URI_QUERY, first.as_bytes());
    }
    if group::is_group(uri) {
        return ask_group(uri, request, args).await;
    }
    if let Some(deadline) = args.network.deadline {
        request = request.timeout(deadline);
    }
    let reply = request.await;
    let reply =
        reply.map_err(|error| Failure::of_request(error, uri, monitor.counters().of_last))?;
    if let Some(error) = reply.error_for_code() {
        if args.json {
            printer::failure_json(uri, &Failure::new(Kind::Network, error), None);
        } else {
            printer::refusal(uri, &reply, reply.bytes());
        }
        return Ok(Outcome::Response(reply.code));
    }
    let links = links(uri, reply.bytes(), args)?;
    if args.json {
        printer::json(&links.iter().map(Entry::of).collect::<Vec<_>>());
    } else {
        show(uri, &links, args);
    }
    Ok(Outcome::Response(Code::CONTENT))
}

/// Sends a multicast request, and shows the links of each member.
async fn ask_group(
    uri: &str,
    request: RequestBuilder,
    args: &DiscoverArgs,
) -> Result<Outcome, Failure> {
    let deadline = args.network.deadline;
    let (mut gathered, lasts) = group::multicast(request, &args.group, deadline).await?;
    let mut anybody = false;
    while let Some(reply) = gathered.next().await {
        // A malformed response does not end the command: others may follow.
        let reply = match reply.map_err(Failure::from) {
            Ok(reply) => reply,
            Err(failure) => {
                printer::failure(&failure);
                continue;
            }
        };
        anybody = true;
        let links = match links(uri, reply.bytes(), args) {
            Ok(links) => links,
            Err(failure) => {
                printer::failure(&failure);
                continue;
            }
        };
        if args.json {
            let links: Vec<Entry> = links.iter().map(Entry::of).collect();
            printer::json(&json!({ "peer": reply.peer.to_string(), "links": links }));
        } else {
            printer::member(reply.peer, reply.after);
            show(uri, &links, args);
        }
    }
    if anybody {
        Ok(Outcome::Response(Code::CONTENT))
    } else {
        Err(group::nobody(uri, lasts))
    }
}

/// The links of a list that the options select.
fn links<'a>(uri: &str, bytes: &'a [u8], args: &'a DiscoverArgs) -> Result<Vec<Link<'a>>, Failure> {
    // Some servers end the list with a comma, against RFC 6690 2.
    let ended = bytes.trim_ascii_end();
    let bytes = ended.strip_suffix(b",").map_or(bytes, |list| {
        printer::remark(&format!("{uri}: the list of links ends with a comma"));
        list
    });
    let text = read(bytes).map_err(|error| {
        let text = format!("{uri} is not a list of links (RFC 6690): {error}");
        Failure::new(Kind::Network, text).hint(format_args!("carob get {uri} shows it"))
    })?;
    Ok(matching(text, args.filter.iter().map(String::as_bytes)).collect())
}

/// Shows links to people.
fn show(uri: &str, links: &[Link<'_>], args: &DiscoverArgs) {
    if args.raw {
        printer::links(links.iter().map(Link::source));
    } else if links.is_empty() {
        printer::remark(&format!("{uri}: no resources"));
    } else {
        printer::table(&table(links));
    }
}

/// The text, if all of it can be read.
fn read(bytes: &[u8]) -> Result<&str, LinkError> {
    for link in Links::from_bytes(bytes)? {
        link?;
    }
    Ok(core::str::from_utf8(bytes).unwrap_or_default())
}

/// URI of a host's list; a URI with a path names another list, such as a collection's.
fn uri_of(host: &str) -> String {
    let whole = super::with_scheme(host);
    // A request to it reports the error.
    match Uri::parse(&whole) {
        Ok(uri) if uri.options().is_empty() || uri.path().next().is_none() => {
            format!("{}{LIST}", whole.trim_end_matches('/'))
        }
        _ => whole,
    }
}

/// A link as the machine interface has it.
#[derive(Debug, Serialize)]
struct Entry {
    target: String,
    title: Option<String>,
    rt: Vec<String>,
    #[serde(rename = "if")]
    interfaces: Vec<String>,
    ct: Vec<u16>,
    sz: Option<u64>,
    obs: bool,
    /// All attributes, unchanged and in their order.
    attributes: Vec<(String, Option<String>)>,
}

impl Entry {
    fn of(link: &Link<'_>) -> Self {
        let texts = |name| link.words(name).map(|word| word.to_string()).collect();
        let attributes = link.attributes().map(|attribute| {
            let value = attribute.value.map(|value| value.to_string());
            (attribute.name.to_owned(), value)
        });
        Self {
            target: link.target().to_owned(),
            title: link.value("title").map(|title| title.to_string()),
            rt: texts("rt"),
            interfaces: texts("if"),
            ct: link.content_formats().map(|format| format.0).collect(),
            sz: link.size(),
            obs: link.is_observable(),
            attributes: attributes.collect(),
        }
    }
}

/// The links for people: a column for each attribute that at least one of them has.
fn table(links: &[Link<'_>]) -> TextTable {
    let rows: Vec<[String; 7]> = links.iter().map(row).collect();
    let columns = ["path", "title", "rt", "if", "ct", ">sz", "obs"];
    let said = |column: &usize| *column == 0 || rows.iter().any(|row| !row[*column].is_empty());
    let shown: Vec<usize> = (0..columns.len()).filter(said).collect();
    let mut table = TextTable::new(shown.iter().map(|&n| columns[n]));
    for row in &rows {
        // It comes from elsewhere and goes to a terminal.
        let plain = |cell: &str| printer::harmless(cell).replace('\n', " ");
        table.add(shown.iter().map(|&n| plain(&row[n])).collect());
    }
    table
}

fn row(link: &Link<'_>) -> [String; 7] {
    let Entry {
        target,
        title,
        rt,
        interfaces,
        sz,
        obs,
        ..
    } = Entry::of(link);
    let formats: Vec<_> = link.content_formats().map(|f| f.to_string()).collect();
    [
        target,
        title.unwrap_or_default(),
        rt.join(" "),
        interfaces.join(" "),
        formats.join(", "),
        sz.map(|size| size.to_string()).unwrap_or_default(),
        if obs { "yes" } else { "" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "</sensors/temp>;rt=\"temperature-c core.s\";obs;ct=\"0 50\",\
                        </large>;title=\"1 \u{1b}MiB\";ct=42;sz=1048576";

    fn links() -> Vec<Link<'static>> {
        Links::new(TEXT).map(Result::unwrap).collect()
    }

    #[test]
    fn host_may_have_many_notations() {
        for (host, uri) in [
            ("example.net", "coap://example.net/.well-known/core"),
            (
                "example.net:5684",
                "coap://example.net:5684/.well-known/core",
            ),
            ("::1", "coap://[::1]/.well-known/core"),
            ("[::1]:5", "coap://[::1]:5/.well-known/core"),
            ("coap://127.0.0.1", "coap://127.0.0.1/.well-known/core"),
            ("coap://h/", "coap://h/.well-known/core"),
            ("coap://h/sensors", "coap://h/sensors"),
            ("h/sensors/", "coap://h/sensors/"),
            ("no host", "coap://no host"),
        ] {
            assert_eq!(uri_of(host), uri, "{host}");
        }
    }

    #[test]
    fn table_omits_empty_columns() {
        let text = table(&links()).to_string();
        let lines: Vec<_> = text.lines().collect();
        let columns: Vec<_> = lines[0].split_whitespace().collect();
        assert_eq!(
            columns,
            ["path", "title", "rt", "ct", "sz", "obs"],
            "nobody says \"if\""
        );
        let place = |name: &str| lines[0].find(name).unwrap();
        let formats = "text/plain; charset=utf-8, application/json";
        assert_eq!(lines[2].find("/sensors/temp"), Some(0));
        assert_eq!(lines[2].find("temperature-c core.s"), Some(place("rt")));
        assert_eq!(lines[2].find(formats), Some(place("ct")));
        assert_eq!(lines[2].find("yes"), Some(place("obs")));
        assert_eq!(
            lines[3].find(r"1 \u{1b}MiB"),
            Some(place("title")),
            "control characters are escaped"
        );
        assert_eq!(
            lines[3].find("1048576"),
            Some(place("sz") + 2 - 7),
            "to the right"
        );
    }

    #[test]
    fn json_has_parsed_and_raw_attributes() {
        let entry = serde_json::to_value(Entry::of(&links()[0])).unwrap();
        assert_eq!(
            entry,
            serde_json::json!({
                "target": "/sensors/temp", "title": null, "rt": ["temperature-c", "core.s"],
                "if": [], "ct": [0, 50], "sz": null, "obs": true,
                "attributes": [["rt", "temperature-c core.s"], ["obs", null], ["ct", "0 50"]],
            })
        );
    }

    #[test]
    fn a_list_that_breaks_off_is_an_error() {
        assert_eq!(read(b"</a>,</b").unwrap_err().offset, 8);
        assert_eq!(read(b"</a>,</b>"), Ok("</a>,</b>"));
    }
}
