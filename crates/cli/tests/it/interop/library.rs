//! Clients and servers on Carob's library, for features without a command-line option.

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use carob::client::RequestBuilder;
use carob::server::{Request, fixed, get};
use carob::{
    Client, ClientTls, Code, Config, ContentFormat, Identity, Resource, Response, Server, ServerTls,
};
use tokio::runtime::Runtime;

use crate::interop::requests::Ask;
use crate::interop::transport::{Certificates, To, Transport, pem};

const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const HELLO: &str = "hello from a server in the test";

/// Runs a future, and meanwhile and afterwards the clients and servers that were started here.
#[track_caller]
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let builder = builder.worker_threads(2).enable_all();
        builder.build().expect("a runtime")
    });
    let limited = RUNTIME.block_on(async { tokio::time::timeout(LIMIT, future).await });
    limited.expect("it ends in time")
}

/// Configuration with the test's certificates; `strict` requires a CSM.
pub(crate) fn settings(certificates: &Certificates, strict: bool) -> Config {
    let tls = ClientTls::new().trust_pem(&pem(&certificates.authority));
    Config::new()
        .tls(tls.expect("a certificate"))
        .connections(|connections| connections.csm_required = strict)
}

/// Opens a client.
pub(crate) fn client(settings: Config) -> Client {
    block_on(async { Client::builder().config(settings).open() }).expect("a socket")
}

pub(crate) fn request(client: &Client, to: To, ask: &Ask) -> RequestBuilder {
    let mut request = client.request(ask.method, to.uri(&ask.path));
    for (number, value) in &ask.options {
        request = request.option(*number, value.clone());
    }
    request.body(ask.payload.clone()).confirmable(!ask.non)
}

/// Sends GETs one after the other and expects 2.xx.
pub(crate) fn get_repeatedly(settings: Config, uri: &str, count: usize) {
    let client = client(settings);
    block_on(async {
        for _ in 0..count {
            let reply = client.get(uri).timeout(LIMIT).send().await;
            let reply = reply.unwrap_or_else(|error| panic!("{uri}: {error}"));
            assert!(reply.code.is_success(), "{}", reply.code);
        }
    });
}

/// Starts a server with `/hello` and `/reverse`. The latter requests `/hello` from its client over the same connection
/// and returns the response.
pub(crate) fn serve(transport: Transport, certificates: &Certificates, strict: bool) -> Server {
    let own = Arc::new(OnceLock::<Client>::new());
    let asks = Arc::clone(&own);
    let reverse = Resource::new().post(move |request: Request| {
        let asks = Arc::clone(&asks);
        let uri = format!("{}://{}/hello", transport.scheme(), request.peer());
        async move {
            let client = asks.get().expect("the server has started");
            let (code, text) = match client.get(uri).await {
                Ok(reply) => {
                    let text = String::from_utf8_lossy(reply.bytes()).into_owned();
                    (Code::CHANGED, text)
                }
                Err(error) => (Code::BAD_GATEWAY, error.to_string()),
            };
            let mut response = Response::content(ContentFormat::TEXT_PLAIN, text);
            response.code = code;
            response
        }
    });
    let hello = fixed(Response::content(ContentFormat::TEXT_PLAIN, HELLO));
    let slow = get(|_: Request| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Response::content(ContentFormat::TEXT_PLAIN, "slow")
    });
    let builder = Server::builder()
        .without_datagrams()
        .config(settings(certificates, strict))
        .resource("/hello", hello)
        .resource("/slow", slow)
        .resource("/reverse", reverse);
    let any = "127.0.0.1:0";
    let tls = || {
        let (chain, key) = (pem(&certificates.certificate), pem(&certificates.key));
        ServerTls::new(Identity::from_pem(&chain, &key).expect("it is PEM"))
    };
    let builder = match transport {
        Transport::Udp | Transport::Dtls { .. } => panic!("for connections only"),
        Transport::Tcp => builder.bind_tcp(any),
        Transport::Tls => builder.bind_tls(any, tls()),
        Transport::WebSocket => builder.bind_ws(any),
        Transport::SecureWebSocket => builder.bind_wss(any, tls()),
    };
    let server = block_on(builder.start()).expect("it starts");
    let _ = own.set(server.client());
    server
}

/// Starts a Carob server that prompts a peer's server to send it a request; returns the response.
pub(crate) fn request_reverse(to: To, certificates: &Certificates) -> String {
    let server = serve(to.transport, certificates, false);
    let reply = block_on(async { server.client().post(to.uri("reverse")).await });
    let reply = reply.expect("an answer");
    assert_eq!(reply.code, Code::CHANGED, "{reply:?}");
    String::from_utf8_lossy(reply.bytes()).into_owned()
}
