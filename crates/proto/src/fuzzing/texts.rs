//! Texts: URIs, address prefixes, links, and requests to a proxy.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Input;
use crate::codec::{Code, MessageId, OptionNumber, Options, Scheme, Token, Type, Uri, Writer};
use crate::link_format::filter::Filter;
use crate::link_format::{LinkWriter, Links, Value};
use crate::prefix::{AmplificationLimit, Prefix};
use crate::proxy::{self, Route};

const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5_683);

/// A text is rejected, or the URI survives being written, as a text and as options.
pub fn uri(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else {
        return;
    };
    let uri = match Uri::parse(text) {
        Ok(uri) => uri,
        Err(error) => {
            let _ = error.to_string();
            assert!(
                usize::from(error.offset) <= text.len(),
                "{error:?} in {text:?}"
            );
            return;
        }
    };
    let written = uri.to_string();
    assert_eq!(Uri::parse(&written).as_ref(), Ok(&uri), "{text:?}");
    let zoned = written.contains('%') && written.contains('[');
    for destination in [HERE, (Ipv6Addr::LOCALHOST, uri.port()).into()] {
        let Ok(options) = uri.options_for(destination) else {
            continue;
        };
        let back = Uri::from_options(uri.scheme(), &options, destination);
        // A zone is local, so that it is not in the options.
        assert!(zoned || back.as_ref() == Ok(&uri), "{text:?}: {back:?}");
    }
    let below = uri.below([&b"x"[..]].into_iter(), [&b"y"[..]].into_iter());
    let below = below.expect("a segment and an argument fit any URI");
    assert_eq!(Uri::parse(&below.to_string()).as_ref(), Ok(&below));
}

/// A prefix is rejected, or survives being written, and contains itself.
pub fn prefix(data: &[u8]) {
    let mut input = Input(data);
    let address = Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(|_| input.byte()));
    let Ok(text) = core::str::from_utf8(input.0) else {
        return;
    };
    let mut limit = AmplificationLimit::default();
    for (n, text) in text.split(',').enumerate() {
        let prefix = match text.parse::<Prefix>() {
            Ok(prefix) => prefix,
            Err(error) => {
                let _ = error.to_string();
                continue;
            }
        };
        assert_eq!(prefix.to_string().parse(), Ok(prefix), "{text:?}");
        assert!(prefix.bits() <= 128);
        let address = IpAddr::V6(address);
        let own = Prefix::new(address, prefix.bits()).expect("no longer than an address");
        assert_eq!(prefix.contains(address), own == prefix);
        limit.set(prefix, n % 2 == 0);
        let rules = limit.rules().filter(|(other, _)| *other == prefix);
        assert_eq!(rules.count(), 1);
    }
    limit.holds_for(IpAddr::V6(address));
}

/// The first byte is the length of the query within the rest. Parsed links survive being written.
pub fn link_format(data: &[u8]) {
    let mut input = Input(data);
    let query = input.piece();
    let text = input.0;
    let filter = Filter::new(query);
    let Ok(links) = Links::from_bytes(text) else {
        return;
    };
    let (mut copied, mut written, mut count) = (LinkWriter::new(), LinkWriter::new(), 0);
    for link in links {
        let link = match link {
            Ok(link) => link,
            Err(error) => {
                assert!(error.offset <= text.len());
                break;
            }
        };
        count += 1;
        filter.matches(&link);
        copied.copy(&link);
        let mut entry = written.link(link.target());
        for attribute in link.attributes() {
            entry = match attribute.value {
                Some(value) => entry.attribute(attribute.name, &value.to_str()),
                None => entry.flag(attribute.name),
            };
        }
    }
    let (copied, written) = (copied.finish(), written.finish());
    assert_eq!(Links::new(&written).count(), count);
    for (first, second) in Links::new(&copied).zip(Links::new(&written)) {
        let first = first.expect("it was read before");
        let second = second.expect("what is written can be read");
        for (a, b) in first.attributes().zip(second.attributes()) {
            assert_eq!(a.name, b.name);
            assert_eq!(a.value.map(Value::to_str), b.value.map(Value::to_str));
        }
        assert_eq!(first.attributes().count(), second.attributes().count());
    }
}

const NUMBERS: [OptionNumber; 12] = [
    OptionNumber::PROXY_URI,
    OptionNumber::PROXY_SCHEME,
    OptionNumber::URI_HOST,
    OptionNumber::URI_PORT,
    OptionNumber::URI_PATH,
    OptionNumber::URI_QUERY,
    OptionNumber::HOP_LIMIT,
    OptionNumber::LOCATION_PATH,
    OptionNumber::LOCATION_QUERY,
    OptionNumber::MAX_AGE,
    OptionNumber::ETAG,
    OptionNumber::OBSERVE,
];

/// Options by number and value. A forwarded request is a valid message, and targets the requested
/// URI.
pub fn proxy(data: &[u8]) {
    let mut input = Input(data);
    let mut options = Options::new();
    while !input.is_empty() {
        let which = input.byte();
        let number = match NUMBERS.get(usize::from(which)) {
            Some(number) => *number,
            None => OptionNumber(input.number()),
        };
        // Options that do not fit cannot be in any message.
        let _ = options.push(number, input.piece());
    }
    let requested = proxy::requested(&options, HERE);
    if let Ok(uri) = &requested {
        let names = [OptionNumber::PROXY_URI, OptionNumber::PROXY_SCHEME];
        let for_proxy = names.iter().any(|name| options.contains(*name));
        assert_eq!(uri.is_some(), for_proxy);
    }
    if let Ok(Some(uri)) = &requested {
        assert_eq!(Uri::parse(&uri.to_string()).as_ref(), Ok(uri));
        let Ok(asked) = proxy::options_for_proxy(uri, HERE.port()) else {
            return;
        };
        let again = proxy::requested(&asked, HERE);
        let zoned = uri.to_string().contains("%25");
        assert!(
            zoned || again.as_ref() == Ok(&Some(uri.clone())),
            "{uri} {again:?}"
        );
    }
    let _ = proxy::hop_limit(&options, 16).map_err(|refused| refused.response("name"));
    let origin = Uri::parse("coap://[2001:db8::1]/a/b").expect("a URI");
    let prefix: Vec<String> = alloc::vec!["p".into()];
    let route = Route { prefix, origin };
    if let Ok(target) = route.target(&options) {
        assert_eq!(Uri::parse(&target.to_string()).as_ref(), Ok(&target));
    }
    let mut located = options.clone();
    if route.locate(&mut located).is_ok() {
        is_encodable(&located);
    }
    if let Some(link) = options.first(OptionNumber::URI_QUERY)
        && let Ok(link) = core::str::from_utf8(link)
    {
        let _ = route.link(link);
    }
    let counting = OptionNumber(65_052);
    for passed in [
        proxy::request_options(&options, counting),
        proxy::response_options(&options, counting),
    ]
    .into_iter()
    .flatten()
    {
        let own = |number: OptionNumber| number.is_of_uri() || number == counting;
        assert!(!passed.iter().any(|option| own(option.number)));
        is_encodable(&passed);
    }
    if let Ok(uri) = Uri::from_options(Scheme::Coap, &options, HERE) {
        assert_eq!(Uri::parse(&uri.to_string()).as_ref(), Ok(&uri));
    }
}

fn is_encodable(options: &Options) {
    let mut buffer = alloc::vec![0; options.encoded_len() + 64];
    let (kind, id) = (Type::Confirmable, MessageId(1));
    let writer = Writer::new(&mut buffer, kind, Code::GET, id, &Token::EMPTY);
    let mut writer = writer.expect("a header fits");
    options.encode(&mut writer).expect("options fit");
}
