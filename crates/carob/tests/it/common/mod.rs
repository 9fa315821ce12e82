//! A server with one resource of each kind, and its clients, on loopback.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::net::SocketAddr;
use std::time::Duration;

use carob::server::{Request, Resource, ServerBuilder, Upload, fixed, get};
use carob::{
    Client, Code, Config, ContentFormat, Payload, Reply, RequestBuilder, Response, Server,
    TransmissionParameters,
};

/// Time limit of a test.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Runs a test with a time limit.
pub(crate) async fn limited<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, test)
        .await
        .expect("the test takes no longer than its limit")
}

/// Sends a request with a time limit; panics on failure.
pub(crate) async fn send(request: RequestBuilder) -> Reply {
    limited(request.send()).await.unwrap()
}

/// Runs a test on a current-thread runtime with a time limit.
pub(crate) fn in_time(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    runtime.block_on(async { limited(test).await });
}

/// Short timeouts: three transmissions within about 200 ms.
pub(crate) fn impatient() -> TransmissionParameters {
    let mut parameters = TransmissionParameters::DEFAULT;
    parameters.ack_timeout = carob_cc::time::Duration::from_millis(20);
    parameters.max_retransmit = 2;
    parameters
}

pub(crate) fn large(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i / 251 + i) as u8).collect()
}

/// One resource of each kind.
pub(crate) fn resources() -> ServerBuilder {
    Server::builder()
        .bind("127.0.0.1:0")
        .resource("/hello", fixed("hello"))
        .resource("/echo", echo())
        .resource("/large", fixed(bytes::Bytes::from(large(1 << 20))))
        .resource("/parts", get(parts))
        .resource("/slow", get(slow))
        .resource(
            "/never",
            get(|_: Request| std::future::pending::<Response>()),
        )
        .resource("/panic", get(panic))
        .resource("/count", Resource::new().on_upload(Code::PUT, count))
        .resource(
            "/blocking",
            Resource::new().on_blocking(Code::GET, |_| {
                std::thread::sleep(Duration::from_millis(100));
                "done"
            }),
        )
}

pub(crate) async fn start(builder: ServerBuilder) -> (Server, String) {
    let server = builder.start().await.expect("a free port is bound");
    let uri = format!("coap://{}", server.local_address());
    (server, uri)
}

pub(crate) fn client() -> Client {
    Client::new().expect("a client opens")
}

pub(crate) fn client_with(settings: Config) -> Client {
    Client::builder()
        .config(settings)
        .open()
        .expect("a client opens")
}

/// A port without a listener: it was bound and released.
pub(crate) fn closed_port() -> SocketAddr {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port is bound");
    socket.local_addr().expect("it is bound")
}

/// A bound socket that never replies.
pub(crate) fn silent_peer() -> (std::net::UdpSocket, SocketAddr) {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port is bound");
    let address = socket.local_addr().expect("it is bound");
    (socket, address)
}

fn echo() -> Resource {
    let back = |code| {
        move |request: Request| async move {
            let mut response = Response::new(code);
            response.payload = Payload::Whole(request.payload().clone());
            if let Some(format) = request.content_format() {
                response = response.with_format(format);
            }
            response
        }
    };
    Resource::new()
        .put(back(Code::CREATED))
        .post(back(Code::CHANGED))
        .fetch(back(Code::CONTENT))
        .patch(back(Code::CHANGED))
        .ipatch(back(Code::CHANGED))
        .delete(|_: Request| async { Code::DELETED })
        .get(|request: Request| async move {
            let query: Vec<_> = request.query().map(String::from_utf8_lossy).collect();
            query.join("&")
        })
}

/// A body of 300,000 bytes that the handler generates block by block.
async fn parts(request: Request) -> Response {
    let (whole, wanted) = (large(300_000), request.wanted());
    let Some((range, more)) = wanted.slice(whole.len()) else {
        return Response::new(Code::BAD_OPTION);
    };
    let mut response = Response::content(ContentFormat::OCTET_STREAM, "");
    response.payload = Payload::Part {
        offset: wanted.offset,
        bytes: whole[range].to_vec().into(),
        more,
        size: Some(whole.len() as u64),
    };
    response
}

async fn slow(_: Request) -> &'static str {
    tokio::time::sleep(Duration::from_millis(400)).await;
    "at last"
}

async fn panic(_: Request) -> &'static str {
    panic!("a handler that panics, as the test wants it to")
}

/// Counts blocks and bytes of an upload.
async fn count(_: Request, mut upload: Upload) -> Result<Response, Response> {
    let (mut blocks, mut bytes, mut sum) = (0_u64, 0_u64, 0_u64);
    loop {
        match upload.next().await {
            Ok(Some(block)) => {
                blocks += 1;
                bytes += block.len() as u64;
                sum += block.iter().map(|byte| u64::from(*byte)).sum::<u64>();
            }
            Ok(None) => break,
            Err(error) => {
                return Err(Response::diagnostic(
                    Code::REQUEST_ENTITY_INCOMPLETE,
                    &error.to_string(),
                ));
            }
        }
    }
    let mut response =
        Response::content(ContentFormat::TEXT_PLAIN, format!("{blocks} {bytes} {sum}"));
    response.code = Code::CHANGED;
    Ok(response)
}
