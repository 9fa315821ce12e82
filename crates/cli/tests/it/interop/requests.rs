//! Requests and responses of all clients, as the application sees them.

use core::fmt::{self, Write as _};
use std::time::Duration;

use carob::{Code, OptionNumber, Response};

/// Limit for a request over loopback on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// A request.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) method: Code,
    /// With the query, without the leading slash.
    pub(crate) path: String,
    pub(crate) non: bool,
    pub(crate) options: Vec<(OptionNumber, Vec<u8>)>,
    pub(crate) payload: Vec<u8>,
    /// The requested block size in bytes.
    pub(crate) block_size: Option<u16>,
    pub(crate) connection: Connection,
    /// Port of the forward-proxy that gets the request; for commands only.
    pub(crate) proxy: Option<u16>,
    /// The response timeout.
    pub(crate) limit: Duration,
}

/// Variants of connection setup.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connection {
    /// Default: trusts the CA of the test's certificates.
    Usual,
    /// Sends no CSM, if the client can omit it.
    WithoutCsm,
    /// Trusts another CA than the server's.
    TrustingStrangers,
}

impl Ask {
    pub(crate) fn new(method: Code, path: &str) -> Self {
        Self {
            method,
            path: path.trim_start_matches('/').to_owned(),
            non: false,
            options: Vec::new(),
            payload: Vec::new(),
            block_size: None,
            connection: Connection::Usual,
            proxy: None,
            limit: LIMIT,
        }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new(Code::GET, path)
    }

    pub(crate) fn put(path: &str) -> Self {
        Self::new(Code::PUT, path)
    }

    pub(crate) fn post(path: &str) -> Self {
        Self::new(Code::POST, path)
    }

    pub(crate) fn delete(path: &str) -> Self {
        Self::new(Code::DELETE, path)
    }

    pub(crate) fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// Sets a payload with its Content-Format.
    pub(crate) fn content(self, format: u16, text: &str) -> Self {
        let content = self.payload(text.as_bytes());
        content.option(OptionNumber::CONTENT_FORMAT, &uint_value(format))
    }

    /// Sets a payload of text/plain.
    pub(crate) fn text(self, text: &str) -> Self {
        self.content(0, text)
    }

    pub(crate) fn non(mut self) -> Self {
        self.non = true;
        self
    }

    pub(crate) fn option(mut self, number: OptionNumber, value: &[u8]) -> Self {
        self.options.push((number, value.to_vec()));
        self
    }

    pub(crate) fn accept(self, format: u16) -> Self {
        self.option(OptionNumber::ACCEPT, &uint_value(format))
    }

    /// The empty value matches any representation (RFC 7252 5.10.8.1).
    pub(crate) fn if_match(self, etag: &[u8]) -> Self {
        self.option(OptionNumber::IF_MATCH, etag)
    }

    pub(crate) fn if_none_match(self) -> Self {
        self.option(OptionNumber::IF_NONE_MATCH, &[])
    }

    /// The entity tag of a cached representation.
    pub(crate) fn etag(self, etag: &[u8]) -> Self {
        self.option(OptionNumber::ETAG, etag)
    }

    pub(crate) fn block_size(mut self, bytes: u16) -> Self {
        self.block_size = Some(bytes);
        self
    }

    pub(crate) fn connection(mut self, connection: Connection) -> Self {
        self.connection = connection;
        self
    }

    /// Sends the request to a forward-proxy.
    pub(crate) fn through(mut self, proxy: u16) -> Self {
        self.proxy = Some(proxy);
        self
    }

    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the payload, which may be a mebibyte.
        write!(f, "{} {}", self.method, self.path)
    }
}

/// A response as reported by the client, reassembled.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Such as `2.05`, or `2` if the client reports only that the request succeeded.
    pub(crate) code: String,
    /// None, like the following, if absent or not reported by the client.
    pub(crate) format: Option<u32>,
    pub(crate) etag: Option<Vec<u8>>,
    pub(crate) location_path: Vec<String>,
    pub(crate) location_query: Vec<String>,
    pub(crate) payload: Vec<u8>,
    /// The output of a command, for failure messages.
    pub(crate) said: String,
}

impl Answer {
    pub(crate) fn of(response: &Response) -> Self {
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
            said: String::new(),
        }
    }

    /// Parses the text after `answer` or `state` in the output of a plugtest program.
    pub(crate) fn read(text: &str) -> Self {
        let mut words = text.split(' ');
        let mut answer = Self {
            code: words.next().unwrap_or_default().to_owned(),
            ..Self::default()
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

    pub(crate) fn is_success(&self) -> bool {
        self.code.starts_with('2')
    }

    /// Whether the code is this 2.xx, as far as the client reports it.
    pub(crate) fn succeeded_with(&self, code: &str) -> bool {
        self.code == code || self.code == "2"
    }

    pub(crate) fn text(&self) -> &str {
        core::str::from_utf8(&self.payload).expect("the payload is text")
    }
}

/// The value of an option of format uint (RFC 7252 3.2).
fn uint_value(number: u16) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros..].to_vec()
}

/// The number in an option of format uint.
pub(crate) fn uint(value: &[u8]) -> u32 {
    value.iter().fold(0, |n, byte| n << 8 | u32::from(*byte))
}

/// Decodes hexadecimal digits.
pub(crate) fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a String takes every write
        text
    })
}
