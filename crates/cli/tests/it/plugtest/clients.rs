//! Clients: Carob's library, and the peers' programs.

use std::{fmt::Write as _, time::Duration};

use carob::{BlockSize, Code, Config, OptionNumber, Response, client::Update};
use tokio::time::timeout;

use super::bench::Setup;
use super::servers::{self, Task};
use crate::installed::Peer;
use crate::interop::clients::{Client as Who, bytes, hex};

/// Longest wait for a response or notification.
const LIMIT: Duration = Duration::from_secs(30);

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: Code,
    path: String,
    non: bool,
    options: Vec<(OptionNumber, Vec<u8>)>,
    payload: Vec<u8>,
}

impl Ask {
    fn new(method: Code, path: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            non: false,
            options: Vec::new(),
            payload: Vec::new(),
        }
    }

    /// A path with its leading slash and an optional query.
    pub(crate) fn get(path: &str) -> Self {
        Self::new(Code::GET, path)
    }

    pub(crate) fn delete(path: &str) -> Self {
        Self::new(Code::DELETE, path)
    }

    /// A PUT with a text payload.
    pub(crate) fn put(path: &str, text: &str) -> Self {
        Self::new(Code::PUT, path).body(0, text)
    }

    /// A POST with a text payload.
    pub(crate) fn post(path: &str, text: &str) -> Self {
        Self::new(Code::POST, path).body(0, text)
    }

    /// Sets the payload with a Content-Format.
    pub(crate) fn body(mut self, format: u16, text: &str) -> Self {
        let value = if format == 0 {
            vec![]
        } else {
            vec![format as u8]
        };
        assert!(format < 256, "formats in tests have short numbers");
        self.options
            .retain(|(n, _)| *n != OptionNumber::CONTENT_FORMAT);
        self.payload = text.into();
        self.option(OptionNumber::CONTENT_FORMAT, &value)
    }

    pub(crate) fn non(mut self) -> Self {
        self.non = true;
        self
    }

    pub(crate) fn option(mut self, number: OptionNumber, value: &[u8]) -> Self {
        self.options.push((number, value.to_vec()));
        self
    }

    pub(crate) fn accept(self, format: u8) -> Self {
        let value = [format];
        self.option(OptionNumber::ACCEPT, &value[..usize::from(format > 0)])
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    fn uri(&self, port: u16) -> String {
        format!("coap://127.0.0.1:{port}{}", self.path)
    }

    /// The command for the peers' programs, without the client's name.
    fn words(&self, port: u16, setup: Setup) -> String {
        let kind = if self.non { "non" } else { "con" };
        let mut text = format!(
            "{kind} {} {}",
            self.method.name().unwrap_or("?"),
            self.uri(port)
        );
        let mut add = |name: &str, value: &str| {
            let _ = write!(text, " {name}={value}"); // a String takes every write
        };
        for (number, value) in &self.options {
            let uint = || {
                value
                    .iter()
                    .fold(0, |n, b| n << 8 | u32::from(*b))
                    .to_string()
            };
            match *number {
                OptionNumber::CONTENT_FORMAT => add("format", &uint()),
                OptionNumber::ACCEPT => add("accept", &uint()),
                OptionNumber::ETAG => add("etag", &hex(value)),
                OptionNumber::IF_MATCH => add("if-match", &hex(value)),
                OptionNumber::IF_NONE_MATCH => add("if-none-match", ""),
                other => panic!("the programs do not know option {}", other.0),
            }
        }
        if setup.early {
            add("block2", &setup.block.to_string());
        }
        if setup.empty_token {
            add("token", "");
        }
        if !self.payload.is_empty() {
            add("payload", &hex(&self.payload));
        }
        text
    }
}

/// A response as delivered to the application, reassembled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Such as `2.05`.
    pub(crate) code: String,
    pub(crate) format: Option<u32>,
    pub(crate) etag: Option<Vec<u8>>,
    pub(crate) location_path: Vec<String>,
    pub(crate) location_query: Vec<String>,
    pub(crate) payload: Vec<u8>,
}

impl Answer {
    fn of(response: &Response) -> Self {
        let texts = |number| {
            let values = response.options.values(number);
            let text = values.map(|value| String::from_utf8_lossy(value).into_owned());
            text.collect()
        };
        Self {
            code: response.code.to_string(),
            format: response.format().map(|format| format.0.into()),
            etag: response.etag().map(|tag| tag.as_slice().to_vec()),
            location_path: texts(OptionNumber::LOCATION_PATH),
            location_query: texts(OptionNumber::LOCATION_QUERY),
            payload: response.bytes().to_vec(),
        }
    }

    /// Parses the text after `answer` or `state` in a program's output.
    fn read(text: &str) -> Self {
        let mut words = text.split(' ');
        let mut answer = Self {
            code: words.next().unwrap_or_default().to_owned(),
            format: None,
            etag: None,
            location_path: Vec::new(),
            location_query: Vec::new(),
            payload: Vec::new(),
        };
        for word in words {
            let (name, value) = word.split_once('=').expect("NAME=VALUE");
            match name {
                "format" => answer.format = value.parse().ok(),
                "etag" => answer.etag = bytes(value),
                "location-path" => answer.location_path.push(value.to_owned()),
                "location-query" => answer.location_query.push(value.to_owned()),
                "payload" => answer.payload = bytes(value).expect("hexadecimal digits"),
                _ => panic!("unknown: {word}"),
            }
        }
        answer
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.payload).expect("the payload is text")
    }
}

/// A client on a separate port.
#[derive(Debug)]
pub(crate) enum Client {
    Ours(carob::Client),
    Theirs(Peer, Task),
}

/// An observation.
#[derive(Debug)]
pub(crate) enum Watch {
    Ours(carob::client::Observation),
    Theirs(Task),
}

impl Client {
    pub(crate) async fn open(who: Who, setup: Setup) -> Self {
        match who {
            Who::Carob => {
                let size = BlockSize::from_bytes_at_most(setup.block.into());
                let settings = Config::new()
                    .block_size(size.expect("a block size"))
                    .parameters(setup.parameters());
                let settings = settings.engine(move |config| {
                    config.negotiate_early = setup.early;
                    if setup.empty_token {
                        config.token_length = 0;
                    }
                });
                let client = carob::Client::builder().config(settings).open();
                Self::Ours(client.expect("a client opens"))
            }
            Who::Of(peer) => {
                let (ack, retransmissions) = setup.timers();
                let command = format!("client {} {ack} {retransmissions}", setup.block);
                let mut told = servers::of(peer).tell(&command);
                told.until("ready").await;
                Self::Theirs(peer, told)
            }
        }
    }

    pub(crate) async fn ask(&self, ask: &Ask, port: u16, setup: Setup) -> Answer {
        match self {
            Self::Ours(client) => {
                let reply = timeout(LIMIT, builder(client, ask, port)).await;
                let reply = reply.expect("in time").expect("an answer");
                Answer::of(&reply)
            }
            Self::Theirs(peer, client) => {
                let words = ask.words(port, setup);
                let command = format!("ask {} {words}", client.tag());
                let said = servers::of(*peer).tell(&command).hear().await;
                let answer = said.strip_prefix("answer ");
                Answer::read(answer.unwrap_or_else(|| panic!("{ask:?}: {said}")))
            }
        }
    }

    pub(crate) async fn ping(&self, port: u16) {
        let uri = format!("coap://127.0.0.1:{port}");
        match self {
            Self::Ours(client) => {
                let answered = timeout(LIMIT, client.ping(uri)).await;
                answered.expect("in time").expect("an answer");
            }
            Self::Theirs(peer, client) => {
                let command = format!("ping {} {uri}", client.tag());
                let said = servers::of(*peer).tell(&command).hear().await;
                assert_eq!(said, "answer 0.00");
            }
        }
    }

    pub(crate) async fn observe(&self, ask: &Ask, port: u16, setup: Setup) -> Watch {
        match self {
            Self::Ours(client) => {
                let observed = timeout(LIMIT, builder(client, ask, port).observe()).await;
                Watch::Ours(observed.expect("in time").expect("an answer"))
            }
            Self::Theirs(peer, client) => {
                let words = ask.words(port, setup);
                let command = format!("observe {} {words}", client.tag());
                Watch::Theirs(servers::of(*peer).tell(&command))
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Self::Theirs(_, told) = self {
            told.add("close");
        }
    }
}

fn builder(client: &carob::Client, ask: &Ask, port: u16) -> carob::client::RequestBuilder {
    let mut request = client.request(ask.method, ask.uri(port));
    for (number, value) in &ask.options {
        request = request.option(*number, value.clone());
    }
    request.body(ask.payload.clone()).confirmable(!ask.non)
}

impl Watch {
    /// The next notification, or the final one; nothing if none arrives within `limit`.
    pub(crate) async fn within(&mut self, limit: Duration) -> Option<Answer> {
        timeout(limit, self.state()).await.unwrap_or_default()
    }

    /// The next notification, or the final one.
    pub(crate) async fn next(&mut self) -> Answer {
        let state = self.within(LIMIT).await;
        state.expect("a notification in time")
    }

    async fn state(&mut self) -> Option<Answer> {
        match self {
            Self::Ours(observation) => loop {
                match observation.next().await? {
                    Ok(Update::State(reply) | Update::Ended(reply)) => {
                        return Some(Answer::of(&reply));
                    }
                    Ok(_) => {} // stale: it goes on
                    Err(error) => panic!("the observation failed: {error}"),
                }
            },
            Self::Theirs(told) => {
                let said = told.hear().await;
                let state = said.strip_prefix("state ");
                Some(Answer::read(state.unwrap_or_else(|| panic!("{said}"))))
            }
        }
    }

    /// Cancels with GET and Observe 1.
    pub(crate) async fn stop(self) {
        match self {
            Self::Ours(observation) => {
                let stopped = timeout(LIMIT, observation.stop()).await;
                stopped.expect("in time").expect("an answer");
            }
            Self::Theirs(told) => told.add("stop"),
        }
    }

    /// Drops the observation; the next notification is rejected.
    pub(crate) async fn forget(self) {
        match self {
            Self::Ours(observation) => drop(observation),
            Self::Theirs(mut told) => {
                told.add("forget");
                loop {
                    // In-flight notifications may come first.
                    let said = told.hear().await;
                    if said == "forgotten" {
                        return;
                    }
                    assert!(said.starts_with("state "), "{said}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_and_response_are_formatted_as_by_the_programs() {
        let ask = Ask::put("/a?b=c", "x")
            .non()
            .accept(41)
            .option(OptionNumber::IF_MATCH, &[0, 0xff]);
        assert_eq!(
            ask.words(5, Setup::PLAIN),
            "non PUT coap://127.0.0.1:5/a?b=c format=0 accept=41 if-match=00ff payload=78"
        );
        let answer =
            Answer::read("2.01 format=50 etag=0a location-path=a location-path=b payload=");
        assert_eq!(answer.code, "2.01");
        assert_eq!((answer.format, answer.etag), (Some(50), Some(vec![10])));
        assert_eq!(answer.location_path, ["a", "b"]);
        assert!(answer.location_query.is_empty() && answer.payload.is_empty());
    }
}
