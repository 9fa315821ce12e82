//! The resources every `carob serve` has.

use std::time::Duration;

use carob::server::{Request, Resource, ServerBuilder, fixed, get};
use carob::{Code, ContentFormat, ETag, Response};

/// 32 bytes.
const HELLO: &str = "hello, this is 32 bytes of text\n";
const WELCOME: &str = "Carob serves here. What there is: /.well-known/core\n";
const ECHO: &str = "Send something here by any method with a body, and get it back.\n";
/// Size of `/large` in bytes.
const LARGE: usize = 1 << 20;
/// Time that `/slow` takes, well beyond the delay of its acknowledgement.
const SLOW: Duration = Duration::from_millis(1_500);

/// Adds them.
pub(super) fn resources(builder: ServerBuilder) -> ServerBuilder {
    builder
        .resource("/", fixed(WELCOME).attribute("title", "what this is"))
        .resource(
            "/hello",
            fixed(HELLO).attribute("title", "32 bytes of text"),
        )
        .resource(
            "/echo",
            echo().attribute("title", "returns what it is sent"),
        )
        .resource(
            "/large",
            fixed(large()).attribute("title", "1 MiB in many blocks"),
        )
        .resource(
            "/slow",
            get(slow).attribute("title", "answers after 1.5 s, separately"),
        )
}

fn echo() -> Resource {
    let back = |code| {
        move |request: Request| async move {
            let mut response = Response::new(code);
            if let Some(format) = request.content_format() {
                response = response.with_format(format);
            }
            response.payload = carob::Payload::Whole(request.payload().clone());
            response
        }
    };
    Resource::new()
        .fixed(ECHO)
        .post(back(Code::CHANGED))
        .put(back(Code::CHANGED))
        .fetch(back(Code::CONTENT))
        // Whatever the patch, it is done: nothing is kept here (RFC 8132 3).
        .patch(back(Code::CHANGED))
        .ipatch(back(Code::CHANGED))
}

/// Every byte is its own offset, modulo 256; so any block can be checked alone.
fn large() -> Response {
    let bytes: Vec<u8> = (0..LARGE).map(|offset| offset as u8).collect();
    let tag = ETag::of(&bytes);
    Response::content(ContentFormat::OCTET_STREAM, bytes).with_etag(tag)
}

async fn slow(_: Request) -> &'static str {
    tokio::time::sleep(SLOW).await;
    "at last\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_is_32_bytes_and_large_a_mebibyte() {
        assert_eq!(HELLO.len(), 32);
        assert_eq!(large().bytes().len(), 1 << 20);
        assert_eq!(large().bytes()[300..302], [44, 45]);
    }
}
