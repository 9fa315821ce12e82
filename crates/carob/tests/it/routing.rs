//! Routing of requests to resources, and path parameters.

use crate::common::{client, send, start};
use carob::server::{Request, Resource, Upload, fixed, get};
use carob::{Body, Code, Server};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn server() -> carob::server::ServerBuilder {
    let rest = |request: Request| async move {
        let rest: Vec<_> = request.rest().map(text).collect();
        format!("rest {}", rest.join("|"))
    };
    Server::builder()
        .bind("127.0.0.1:0")
        .resource("/sensors/all", fixed("all of them"))
        .resource(
            "/sensors/{id}/value",
            get(|request: Request| async move {
                let unit = request.query_value("unit").unwrap_or("none");
                let id = request.parameter("id").unwrap_or("?");
                format!("{id} in {unit}, {:?}", request.parameter("other"))
            }),
        )
        .resource("/files/*", get(rest))
        .resource(
            "/upload/{name}",
            Resource::new().on_upload(
                Code::PUT,
                |request: Request, mut upload: Upload| async move {
                    let mut bytes = 0;
                    while let Ok(Some(block)) = upload.next().await {
                        bytes += block.len();
                    }
                    format!("{} {bytes}", request.parameter("name").unwrap_or("?"))
                },
            ),
        )
}

async fn ask(uri: &str, path: &str) -> (Code, String) {
    let reply = send(client().get(format!("{uri}{path}"))).await;
    (reply.code, text(reply.bytes()))
}

#[tokio::test]
async fn handler_gets_path_parameters() {
    let (_server, uri) = start(server()).await;
    for (path, answer) in [
        ("/sensors/all", "all of them"),
        ("/sensors/7/value", "7 in none, None"),
        ("/sensors/%C3%BC%2F/value?unit=C", "ü/ in C, None"),
        ("/sensors/all/value?x=1&unit=K&unit=F", "all in K, None"),
        ("/sensors/7/value?unit", "7 in none, None"),
        ("/sensors/7/value?units=C&unit=", "7 in , None"),
    ] {
        assert_eq!(
            ask(&uri, path).await,
            (Code::CONTENT, answer.into()),
            "{path}"
        );
    }
    assert_eq!(ask(&uri, "/sensors/7").await.0, Code::NOT_FOUND);
    assert_eq!(ask(&uri, "/sensors//value").await.0, Code::NOT_FOUND);
}

#[tokio::test]
async fn wildcard_gets_the_rest_of_the_path() {
    let (_server, uri) = start(server()).await;
    for (path, answer) in [
        ("/files", "rest "),
        ("/files/", "rest "),
        ("/files/a/b%2Fc/", "rest a|b/c|"),
    ] {
        assert_eq!(
            ask(&uri, path).await,
            (Code::CONTENT, answer.into()),
            "{path}"
        );
    }
    let fallback = get(|request: Request| async move {
        request.rest().map(text).collect::<Vec<_>>().join("|")
    });
    let (_server, uri) = start(server().fallback(fallback)).await;
    assert_eq!(ask(&uri, "/x/y").await.1, "x|y");
    assert_eq!(ask(&uri, "/sensors/7").await.1, "sensors|7");
}

#[tokio::test]
async fn block_wise_upload_to_a_path_with_parameter() {
    let (_server, uri) = start(server()).await;
    let body = Body::reader(std::io::Cursor::new(vec![7; 5_000]));
    let request = client().put(format!("{uri}/upload/blob")).body(body);
    let reply = send(request).await;
    assert_eq!(reply.text(), Some("blob 5000"));
}

#[tokio::test]
async fn only_literal_paths_are_listed() {
    let (_server, uri) = start(server()).await;
    let (_, list) = ask(&uri, "/.well-known/core").await;
    assert_eq!(list, "</sensors/all>;ct=0;sz=11");
}

#[tokio::test]
async fn invalid_path_pattern_error_has_the_reason() {
    let builder = server().resource("/a/*/b", fixed("x"));
    assert_eq!(
        builder.start().await.unwrap_err().to_string(),
        "cannot serve /a/*/b: nothing can follow \"*\""
    );
}
