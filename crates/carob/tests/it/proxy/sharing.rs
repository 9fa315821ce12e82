//! The proxy's cache, and its use by several clients (RFC 7252 5.6, 5.7.1, 11.2).

use std::time::Duration;

use carob::server::{Request, Resource};
use carob::{
    Client, ClientTls, Code, Config, ContentFormat, ETag, Identity, OptionNumber, Response, Scheme,
    Server, ServerTls,
};

use super::{RequestLog, age, forwarding, get, started, uri_of};
use crate::common::{client, in_time, start};

/// An origin whose resource counts its requests, with a Max-Age of `seconds`.
fn counting(heard: &RequestLog, seconds: u64) -> Resource {
    let hear = heard.clone();
    let read = move |request: Request| {
        let count = hear.hear(&request);
        let format = request.accept().unwrap_or(ContentFormat::TEXT_PLAIN);
        async move {
            Response::content(format, count.to_string())
                .with_max_age(Duration::from_secs(seconds))
                .with_etag(ETag::from(7))
        }
    };
    Resource::new()
        .get(read)
        .put(|_: Request| async { Code::CHANGED })
}

async fn origin(heard: &RequestLog, seconds: u64) -> (Server, String) {
    let builder = Server::builder().bind("127.0.0.1:0");
    start(builder.fallback(counting(heard, seconds))).await
}

#[test]
fn cached_max_age_decreases() {
    in_time(async {
        let heard = RequestLog::default();
        let (_origin, at) = origin(&heard, 30).await;
        let (proxy, uri) = started(forwarding()).await;
        let (one, two) = (client(), client());
        let first = get(&one, &uri, &at).await;
        assert_eq!((first.text(), age(&first)), (Some("1"), 30));
        // Max-Age has a resolution of one second.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let second = get(&two, &uri, &at).await;
        assert_eq!(second.text(), Some("1"), "for all clients");
        assert!(age(&second) < 30, "{second:?}");
        assert_eq!(heard.count(), 1);
        let usage = proxy.usage();
        assert_eq!(usage.cache.entries, 1);
        assert!(usage.cache.bytes > 0);
    });
}

#[test]
fn stale_response_is_revalidated_with_the_origin() {
    in_time(async {
        let heard = RequestLog::default();
        let (_origin, at) = origin(&heard, 0).await;
        let (_proxy, uri) = started(forwarding()).await;
        let client = client();
        assert_eq!(get(&client, &uri, &at).await.text(), Some("1"));
        // The proxy revalidates with its own tag, receives 2.03, and responds with the cached body.
        let again = get(&client, &uri, &at).await;
        assert_eq!((again.code, again.text()), (Code::CONTENT, Some("1")));
        let asked: Vec<_> = heard.last().etags().collect();
        assert_eq!(asked, [ETag::from(7)]);
        // A client with this entity tag gets 2.03, from the proxy or, for uncached resources, from the origin.
        for path in ["/", "/else"] {
            let request = client.get(format!("{at}{path}")).via(&uri);
            let request = request.option(OptionNumber::ETAG, ETag::from(7).as_slice().to_vec());
            let valid = request.await.unwrap();
            assert_eq!(
                (valid.code, valid.bytes().len()),
                (Code::VALID, 0),
                "{path}"
            );
        }
    });
}

#[test]
fn unsafe_request_through_the_proxy_invalidates_its_cache() {
    in_time(async {
        let heard = RequestLog::default();
        let (_origin, at) = origin(&heard, 60).await;
        let (_proxy, uri) = started(forwarding()).await;
        let (one, two) = (client(), client());
        assert_eq!(get(&one, &uri, &at).await.text(), Some("1"));
        assert_eq!(two.put(&at).via(&uri).await.unwrap().code, Code::CHANGED);
        get(&one, &uri, &at).await;
        assert_eq!(heard.count(), 2);
    });
}

#[test]
fn cache_key_covers_options_except_no_cache_key() {
    in_time(async {
        let heard = RequestLog::default();
        let (origin, at) = origin(&heard, 60).await;
        let builder = forwarding().allow("localhost".parse().unwrap());
        let (_proxy, uri) = started(builder).await;
        let client = client();
        let port = origin.local_address().port();
        let mut texts = Vec::new();
        // A different Uri-Host, path, query, Accept, and unknown option.
        for target in [
            format!("{at}/a"),
            format!("coap://localhost:{port}/a"),
            format!("{at}/b"),
            format!("{at}/a?x"),
        ] {
            texts.push(get(&client, &uri, &target).await.text().unwrap().to_owned());
        }
        let a = || client.get(format!("{at}/a")).via(&uri);
        let json = a().accept(ContentFormat::JSON).await.unwrap();
        let odd = a().option(OptionNumber(65_000), "x").await.unwrap();
        texts.extend([json, odd].map(|reply| reply.text().unwrap().to_owned()));
        assert_eq!(texts, ["1", "2", "3", "4", "5", "6"]);
        // NoCacheKey options are not part of the key (RFC 7252 5.4.6).
        let same = a().option(OptionNumber(65_052), [1]).await.unwrap();
        assert_eq!(same.text(), Some("1"));
    });
}

#[test]
fn responses_to_secured_requests_are_not_shared() {
    in_time(async {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        let tls = ServerTls::new(identity);
        let heard = RequestLog::default();
        let (_origin, at) = origin(&heard, 60).await;
        let secured = |tls: &ServerTls| {
            let tls = tls.clone();
            forwarding().server(
                Server::builder()
                    .bind("127.0.0.1:0")
                    .bind_tls("127.0.0.1:0", tls),
            )
        };
        let trusting = || {
            let tls = ClientTls::new().trust_pem(chain.as_bytes()).unwrap();
            let settings = Config::new().tls(tls);
            Client::builder().config(settings).open().unwrap()
        };
        let at_name = |uri: String| uri.replace("127.0.0.1", "localhost");
        let (proxy, plain) = started(secured(&tls)).await;
        let secure = at_name(uri_of(&proxy, Scheme::CoapsTcp));
        let client = trusting();
        assert_eq!(get(&client, &plain, &at).await.text(), Some("1"));
        // A secured request uses no cached response and adds none to the cache.
        assert_eq!(get(&client, &secure, &at).await.text(), Some("2"));
        assert_eq!(get(&client, &secure, &at).await.text(), Some("3"));
        assert_eq!(get(&client, &plain, &at).await.text(), Some("1"));
        // A secured change invalidates the shared response.
        let put = client.put(&at).via(&secure).await.unwrap();
        assert_eq!(put.code, Code::CHANGED);
        get(&client, &plain, &at).await;
        assert_eq!(heard.count(), 4);

        let (proxy, plain) = started(secured(&tls).share_secure()).await;
        let secure = at_name(uri_of(&proxy, Scheme::CoapsTcp));
        assert_eq!(get(&client, &secure, &at).await.text(), Some("5"));
        assert_eq!(get(&trusting(), &secure, &at).await.text(), Some("5"));
        assert_eq!(
            get(&client, &plain, &at).await.text(),
            Some("6"),
            "less secure"
        );
    });
}
