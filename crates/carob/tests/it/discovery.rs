//! `/.well-known/core`: the list of resources and filtering (RFC 6690).

use crate::common::{client, client_with, send, start};
use carob::link_format::Links;
use carob::server::{Resource, fixed};
use carob::{BlockSize, Code, Config, ContentFormat, Reply, Server};

async fn ask(uri: &str, query: &str) -> Reply {
    let uri = format!("{uri}/.well-known/core{query}");
    send(client().get(uri)).await
}

fn sensors() -> carob::server::ServerBuilder {
    let sensor = |kind: &str| fixed("1").attribute("rt", kind).attribute("if", "sensor");
    Server::builder()
        .bind("127.0.0.1:0")
        .resource("/sensors/temp", sensor("temperature-c").flag("obs"))
        .resource("/sensors/light", sensor("light-lux core.sen-light"))
        .resource("/secret", fixed("x").unlisted())
}

#[tokio::test]
async fn query_filters_resources() {
    let (_server, uri) = start(sensors()).await;
    let all = ask(&uri, "").await;
    assert_eq!(
        all.text(),
        Some(
            "</sensors/temp>;rt=\"temperature-c\";if=\"sensor\";obs;ct=0;sz=1,\
             </sensors/light>;rt=\"light-lux core.sen-light\";if=\"sensor\";ct=0;sz=1"
        )
    );
    for (query, targets) in [
        ("?rt=core.sen-light", &["/sensors/light"][..]),
        ("?rt=light*", &["/sensors/light"]),
        ("?href=/sensors*", &["/sensors/temp", "/sensors/light"]),
        ("?href=/sensors/*&obs", &["/sensors/temp"]),
        ("?ct=0&if=sensor", &["/sensors/temp", "/sensors/light"]),
    ] {
        let reply = ask(&uri, query).await;
        assert_eq!(reply.format(), Some(ContentFormat::LINK_FORMAT), "{query}");
        let found: Vec<_> = Links::new(reply.text().unwrap())
            .map(|link| link.unwrap().target())
            .collect();
        assert_eq!(found, targets, "{query}");
    }
}

#[tokio::test]
async fn query_without_matches_gives_an_empty_list() {
    let (_server, uri) = start(sensors()).await;
    for query in ["?rt=none", "?foo=*", "?href=/secret"] {
        let reply = ask(&uri, query).await;
        assert_eq!(
            (reply.code, reply.text()),
            (Code::CONTENT, Some("")),
            "{query}"
        );
        assert_eq!(reply.format(), Some(ContentFormat::LINK_FORMAT), "{query}");
    }
}

#[tokio::test]
async fn long_list_is_block_wise() {
    let mut builder = Server::builder().bind("127.0.0.1:0");
    for n in 0..200 {
        let kind = if n % 2 == 0 { "even" } else { "odd" };
        builder = builder.resource(&format!("/r/{n}"), fixed("x").attribute("rt", kind));
    }
    let (_server, uri) = start(builder).await;
    assert_eq!(Links::new(ask(&uri, "").await.text().unwrap()).count(), 200);
    let settings = Config::new()
        .block_size(BlockSize::MIN)
        .engine(|config| config.negotiate_early = true);
    let request = client_with(settings).get(format!("{uri}/.well-known/core?rt=odd"));
    let reply = send(request).await;
    let targets: Vec<_> = Links::new(reply.text().unwrap())
        .map(|link| link.unwrap().target().to_owned())
        .collect();
    let odd: Vec<_> = (0..200)
        .filter(|n| n % 2 == 1)
        .map(|n| format!("/r/{n}"))
        .collect();
    assert_eq!(targets, odd);
}

#[tokio::test]
async fn custom_resource_replaces_the_list() {
    let own = Resource::new().fixed("mine");
    let (_server, uri) = start(sensors().resource("/.well-known/core", own)).await;
    assert_eq!(ask(&uri, "").await.text(), Some("mine"));
}

#[tokio::test]
async fn list_has_the_link_format_only() {
    let (_server, uri) = start(sensors()).await;
    let request = |format| {
        client()
            .get(format!("{uri}/.well-known/core"))
            .accept(format)
    };
    let json = send(request(ContentFormat::JSON)).await;
    assert_eq!(json.code, Code::NOT_ACCEPTABLE);
    let links = send(request(ContentFormat::LINK_FORMAT)).await;
    assert_eq!(links.code, Code::CONTENT);
}

#[tokio::test]
async fn invalid_link_attribute_is_named_in_error() {
    let builder = sensors().resource("/a/b", fixed("x").attribute("r t", "y"));
    let error = builder.start().await.unwrap_err();
    assert_eq!(
        error.report().to_string(),
        "cannot serve /a/b: \"r t\" cannot be the name of an attribute"
    );
}
