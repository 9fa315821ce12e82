use alloc::string::ToString;

use super::*;

const COUNT: OptionNumber = OptionNumber(65_052);

fn options(all: &[(OptionNumber, &[u8])]) -> Options {
    let mut options = Options::new();
    for (number, value) in all {
        options.push(*number, value).unwrap();
    }
    options
}

fn local() -> SocketAddr {
    "192.0.2.1:7000".parse().unwrap()
}

fn uri_of(all: &[(OptionNumber, &[u8])]) -> Result<Option<String>, Refused> {
    let uri = requested(&options(all), local())?;
    Ok(uri.map(|uri| uri.to_string()))
}

#[test]
fn proxy_uri_is_split_or_refused() {
    let proxy_uri = OptionNumber::PROXY_URI;
    assert_eq!(uri_of(&[]), Ok(None));
    assert_eq!(
        uri_of(&[(proxy_uri, b"coap://EXAMPLE.org:61616/a%2fb?c=d")]),
        Ok(Some("coap://example.org:61616/a%2Fb?c=d".into()))
    );
    // Proxy-Uri takes precedence over all Uri-* (RFC 7252 5.10.2).
    assert_eq!(
        uri_of(&[
            (OptionNumber::URI_HOST, b"other"),
            (OptionNumber::URI_PATH, b"x"),
            (proxy_uri, b"coap+tcp://h/")
        ]),
        Ok(Some("coap+tcp://h/".into()))
    );
    assert_eq!(
        uri_of(&[(proxy_uri, b"http://example.org/")]),
        Err(Refused::Scheme)
    );
    for wrong in [&b"coap:"[..], b"/a", b"coap://", b"\xff", b"coap://h/#f"] {
        let refused = uri_of(&[(proxy_uri, wrong)]).unwrap_err();
        assert_eq!(refused, Refused::Malformed(proxy_uri), "{wrong:?}");
        assert_eq!(refused.response("x").code, Code::BAD_REQUEST);
    }
}

#[test]
fn proxy_scheme_replaces_the_scheme() {
    let (scheme, host) = (OptionNumber::PROXY_SCHEME, OptionNumber::URI_HOST);
    let port: &[u8] = &[0x1b, 0x58];
    assert_eq!(
        uri_of(&[(host, b"h"), (scheme, b"coap+ws")]),
        Ok(Some("coap+ws://h/".into())),
        "its own port, not the proxy's"
    );
    assert_eq!(
        uri_of(&[
            (host, b"h"),
            (OptionNumber::URI_PORT, port),
            (scheme, b"COAP")
        ]),
        Ok(Some("coap://h:7000/".into()))
    );
    assert_eq!(
        uri_of(&[(OptionNumber::URI_PATH, b"a"), (scheme, b"coap")]),
        Ok(Some("coap://192.0.2.1:7000/a".into())),
        "without a host it is ourselves"
    );
    for unknown in [&b"https"[..], b"coap+sms", b"\xff"] {
        assert_eq!(uri_of(&[(scheme, unknown)]), Err(Refused::Scheme));
    }
    assert_eq!(
        uri_of(&[(host, b"[::"), (scheme, b"coap")]),
        Err(Refused::Malformed(scheme))
    );
}

#[test]
fn options_for_proxy_round_trip_to_the_requested_uri() {
    for text in [
        "coap://example.org/a/b?c",
        "coap://example.org:7000/",
        "coap+tcp://[2001:db8::1]:5683/x",
        "coap://192.0.2.9/",
        "coaps+ws://example.org/%2F",
    ] {
        let target = Uri::parse(text).unwrap();
        for port in [5683, 7000, 80] {
            let asked = options_for_proxy(&target, port).unwrap();
            let heard = requested(&asked, ([127, 0, 0, 1], port).into());
            assert_eq!(heard, Ok(Some(target.clone())), "{text} by {port}");
        }
    }
    let target = Uri::parse("coap://h/").unwrap();
    let port = |proxy| options_for_proxy(&target, proxy).unwrap();
    assert!(!port(5683).contains(OptionNumber::URI_PORT));
    assert!(
        port(7000).contains(OptionNumber::URI_PORT),
        "or a proxy that goes by RFC 7252 6.5 would take its own"
    );
}

#[test]
fn hop_limit_is_decremented_or_added() {
    let limited = |value: &[u8]| hop_limit(&options(&[(OptionNumber::HOP_LIMIT, value)]), 16);
    assert_eq!(hop_limit(&Options::new(), 16), Ok(16));
    assert_eq!(limited(&[255]), Ok(254));
    assert_eq!(limited(&[2]), Ok(1));
    assert_eq!(limited(&[1]), Err(Refused::HopLimit));
    for wrong in [&[][..], &[0], &[1, 0]] {
        let refused = limited(wrong).unwrap_err();
        assert_eq!(refused.response("p").code, Code::BAD_REQUEST, "{wrong:?}");
    }
    let reached = Refused::HopLimit.response("p1");
    assert_eq!(
        (reached.code, &reached.bytes()[..]),
        (Code::HOP_LIMIT_REACHED, &b"p1"[..])
    );
    assert_eq!(hop_limit_diagnostic("p0", b"p1 p2"), b"p0 p1 p2");
    assert_eq!(hop_limit_diagnostic("p0", b""), b"p0");
    let long = [b'x'; HOPS_BYTES];
    assert_eq!(hop_limit_diagnostic("p0", &long), long);
}

#[test]
fn forwarded_request_drops_hop_by_hop_options() {
    let (safe, safe_critical) = (OptionNumber(65_000), OptionNumber(65_001));
    let kept = [
        (OptionNumber::IF_MATCH, &b"t"[..]),
        (OptionNumber::OSCORE, b"x"),
        (OptionNumber::CONTENT_FORMAT, &[50]),
        (OptionNumber::ACCEPT, &[60]),
        (OptionNumber::ECHO, b"e"),
        (safe, b"1"),
        (safe_critical, b"2"),
    ];
    let mut request = options(&kept);
    for number in [
        OptionNumber::URI_HOST,
        OptionNumber::URI_PATH,
        OptionNumber::URI_QUERY,
        OptionNumber::PROXY_SCHEME,
        OptionNumber::OBSERVE,
        OptionNumber::BLOCK2,
        OptionNumber::Q_BLOCK1,
        OptionNumber::Q_BLOCK2,
        OptionNumber::ETAG,
        OptionNumber::HOP_LIMIT,
        OptionNumber::NO_RESPONSE,
        OptionNumber::REQUEST_TAG,
        OptionNumber::MAX_AGE,
        OptionNumber::LOCATION_PATH,
        COUNT,
    ] {
        request.push(number, b"x").unwrap();
    }
    // One repeated, and one too long.
    request.push(OptionNumber::CONTENT_FORMAT, &[1]).unwrap();
    let forwarded = request_options(&request, COUNT).unwrap();
    assert_eq!(forwarded, options(&kept));
    for unsafe_one in [OptionNumber(65_002), OptionNumber(65_003)] {
        let refused = request_options(&options(&[(unsafe_one, b"x")]), COUNT);
        assert_eq!(refused, Err(Refused::Option(unsafe_one)));
        let refused = refused.unwrap_err().response("x");
        assert_eq!(refused.code, Code::BAD_OPTION);
    }
}

#[test]
fn forwarded_response_keeps_representation_options() {
    let kept = [
        (OptionNumber::ETAG, &b"t"[..]),
        (OptionNumber::LOCATION_PATH, b"a"),
        (OptionNumber::CONTENT_FORMAT, &[50]),
        (OptionNumber::MAX_AGE, &[7]),
        (OptionNumber(65_000), b"1"),
        (OptionNumber(65_001), b"2"),
    ];
    let mut response = options(&kept);
    for number in [OptionNumber::OBSERVE, OptionNumber::SIZE2, COUNT] {
        response.push(number, &[1]).unwrap();
    }
    assert_eq!(response_options(&response, COUNT), Ok(options(&kept)));
    let unsafe_one = OptionNumber(65_002);
    assert_eq!(
        response_options(&options(&[(unsafe_one, b"x")]), COUNT),
        Err(Refused::Option(unsafe_one))
    );
}

#[test]
fn age_reduces_max_age() {
    let (secs, millis) = (Duration::from_secs, Duration::from_millis);
    assert_eq!(aged(secs(60), secs(0)), secs(60));
    assert_eq!(aged(secs(60), millis(1)), secs(59));
    assert_eq!(aged(secs(60), secs(10)), secs(50));
    assert_eq!(aged(secs(60), secs(61)), secs(0));
}

fn route(prefix: &[&str], origin: &str) -> Route {
    Route {
        prefix: prefix.iter().map(ToString::to_string).collect(),
        origin: Uri::parse(origin).unwrap(),
    }
}

#[test]
fn a_route_leads_to_its_origin_and_back() {
    let path = |segments: &[&str]| {
        let mut options = Options::new();
        for segment in segments {
            options
                .push(OptionNumber::URI_PATH, segment.as_bytes())
                .unwrap();
        }
        options.push(OptionNumber::URI_QUERY, b"q=1").unwrap();
        options
    };
    let to = |route: &Route, segments: &[&str]| {
        let target = route.target(&path(segments));
        target.map(|uri| uri.to_string())
    };
    let plain = route(&["a"], "coap://h:61616");
    assert_eq!(
        to(&plain, &["a", "b", "c"]),
        Ok("coap://h:61616/b/c?q=1".into())
    );
    assert_eq!(to(&plain, &["a"]), Ok("coap://h:61616/?q=1".into()));
    let deep = route(&["a", "b"], "coap://h/x/?k");
    assert_eq!(to(&deep, &["a", "b", "c"]), Ok("coap://h/x/c?k&q=1".into()));
    assert!(to(&plain, &["a", ".."]).is_err(), "no way up");

    let located = |route: &Route, segments: &[&str]| -> Vec<Vec<u8>> {
        let mut options = Options::new();
        for segment in segments {
            let number = OptionNumber::LOCATION_PATH;
            options.push(number, segment.as_bytes()).unwrap();
        }
        route.locate(&mut options).unwrap();
        let values = options.values(OptionNumber::LOCATION_PATH);
        values.map(<[u8]>::to_vec).collect()
    };
    assert_eq!(located(&plain, &["n"]), [b"a".to_vec(), b"n".to_vec()]);
    let there = [b"a".to_vec(), b"b".to_vec(), b"n".to_vec()];
    assert_eq!(located(&deep, &["x", "n"]), there);
    assert!(
        located(&deep, &["y"]).is_empty(),
        "it is not to be had here"
    );
}

#[test]
fn links_lead_to_this_side() {
    let (plain, root) = (route(&["a"], "coap://h"), route(&[], "coap://h"));
    assert_eq!(plain.link("/s/t").as_deref(), Some("/a/s/t"));
    assert_eq!(plain.link("/").as_deref(), Some("/a"));
    assert_eq!(root.link("/s").as_deref(), Some("/s"));
    assert_eq!(root.link("/").as_deref(), Some("/"));
    let deep = route(&["a"], "coap://h/x");
    assert_eq!(deep.link("/x/y").as_deref(), Some("/a/y"));
    assert_eq!(deep.link("/x").as_deref(), Some("/a"));
    assert_eq!(deep.link("/xy"), None);
    assert_eq!(deep.link("coap://else/y").as_deref(), Some("coap://else/y"));
    assert_eq!(deep.link("relative"), None);
}
