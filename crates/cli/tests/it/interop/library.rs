//! In-process clients and servers on the library, for features without a command-line option.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use carob::{
    Client, ClientTls, Code, Config, ContentFormat, Identity, Resource, Response, Server,
    ServerTls,
    server::{Request, fixed, get},
};

use crate::interop::transport::{Certificates, To, Transport, pem};

const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const HELLO: &str = "hello from a server in the test";

/// Runs a future on a current-thread runtime.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let limited = tokio::time::timeout(LIMIT, future).await;
        limited.expect("it ends in time")
    })
}

/// Configuration with the test's certificates; `strict` requires a CSM.
pub(crate) fn settings(certificates: &Certificates, strict: bool) -> Config {
    let tls = ClientTls::new().trust_pem(&pem(&certificates.authority));
    Config::new()
        .tls(tls.expect("a certificate"))
        .connections(|connections| connections.csm_required = strict)
}

pub(crate) fn client(certificates: &Certificates, strict: bool) -> Client {
    let builder = Client::builder().config(settings(certificates, strict));
    builder.open().expect("a socket")
}

/// A server with `/hello` and `/reverse`. The latter requests `/hello` from its client over the same connection and
/// returns the response.
async fn server(transport: Transport, certificates: &Certificates, strict: bool) -> Server {
    let own = Arc::new(OnceLock::<Client>::new());
    let asks = Arc::clone(&own);
    let reverse = Resource::new().post(move |request: Request| {
        let asks = Arc::clone(&asks);
        let uri = format!("{}://{}/hello", transport.scheme(), request.peer());
        async move {
            let client = asks.get().expect("the server has started");
            match client.get(uri).await {
                Ok(reply) => {
                    let text = String::from_utf8_lossy(reply.bytes()).into_owned();
                    let mut response = Response::content(ContentFormat::TEXT_PLAIN, text);
                    response.code = Code::CHANGED;
                    response
                }
                Err(error) => {
                    let mut response =
                        Response::content(ContentFormat::TEXT_PLAIN, error.to_string());
                    response.code = Code::BAD_GATEWAY;
                    response
                }
            }
        }
    });
    let builder = Server::builder()
        .without_datagrams()
        .config(settings(certificates, strict))
        .resource(
            "/hello",
            fixed(Response::content(ContentFormat::TEXT_PLAIN, HELLO)),
        )
        .resource(
            "/slow",
            get(|_: Request| async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Response::content(ContentFormat::TEXT_PLAIN, "slow")
            }),
        )
        .resource("/reverse", reverse);
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    let tls = || {
        let (chain, key) = (pem(&certificates.certificate), pem(&certificates.key));
        ServerTls::new(Identity::from_pem(&chain, &key).expect("it is PEM"))
    };
    let builder = match transport {
        Transport::Udp => panic!("for connections only"),
        Transport::Tcp => builder.bind_tcp(any),
        Transport::Tls => builder.bind_tls(any, tls()),
        Transport::WebSocket => builder.bind_ws(any),
        Transport::SecureWebSocket => builder.bind_wss(any, tls()),
    };
    let server = builder.start().await.expect("it starts");
    let _ = own.set(server.client());
    server
}

/// Starts a Carob server that prompts a peer's server to send it a request; returns the response.
pub(crate) fn request_reverse(to: To, certificates: &Certificates) -> String {
    block_on(async {
        let server = server(to.transport, certificates, false).await;
        let reply = server.client().post(to.uri("reverse")).await;
        let reply = reply.expect("an answer");
        assert_eq!(reply.code, Code::CHANGED, "{reply:?}");
        String::from_utf8_lossy(reply.bytes()).into_owned()
    })
}

/// A server in a background thread.
pub(crate) struct InProcess {
    pub(crate) to: To,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl InProcess {
    pub(crate) fn start(transport: Transport, certificates: &Certificates, strict: bool) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (tell, told) = mpsc::channel();
        let certificates = certificates.clone();
        let thread = thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let server = server(transport, &certificates, strict).await;
                let _ = tell.send(server.local_address().port());
                let _ = stopped.await;
            });
        });
        let port = told.recv_timeout(LIMIT).expect("the server starts");
        Self {
            to: To { transport, port },
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic shows as a missing answer
        }
    }
}
