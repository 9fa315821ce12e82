//! WebSockets (RFC 8323 4): the handshakes, and binary messages.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use carob_proto::endpoint::Disconnect;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::header::{HOST, ORIGIN, SEC_WEBSOCKET_PROTOCOL};
use tokio_tungstenite::tungstenite::http::{HeaderMap, HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config, client_async_with_config};

use super::duplex::{Duplex, disconnect_of};
use crate::http_host;

/// An open WebSocket.
pub(crate) type WebSocket = WebSocketStream<Box<dyn Duplex>>;

/// Bytes of a frame. The library keeps a buffer as long as the longest frame for each connection, so
/// longer messages are sent in several frames (RFC 6455 5.4, RFC 8323 4.2).
const FRAME_BYTES: usize = 64 << 10;

/// Performs the client's handshake (RFC 8323 4.1) with `to`; `name` is the host of the URI, if that
/// is not an address.
pub(crate) async fn connect(
    stream: Box<dyn Duplex>,
    secure: bool,
    to: SocketAddr,
    name: Option<&str>,
    max_message: usize,
) -> io::Result<WebSocket> {
    let scheme = if secure { "wss" } else { "ws" };
    let host = match (name, to) {
        (Some(name), _) => name.to_owned(),
        (None, SocketAddr::V4(to)) => to.ip().to_string(),
        (None, SocketAddr::V6(to)) => format!("[{}]", to.ip()),
    };
    // RFC 8323 4.1: this path, this subprotocol.
    let uri = format!("{scheme}://{host}:{}/.well-known/coap", to.port());
    let mut request = uri.into_client_request().map_err(io::Error::other)?;
    let coap = HeaderValue::from_static("coap");
    request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, coap);
    let limits = limits(max_message);
    let (stream, _) = client_async_with_config(request, stream, Some(limits))
        .await
        .map_err(io::Error::other)?;
    Ok(stream)
}

/// Performs the server's handshake (RFC 8323 4.1) with clients that are no web pages, or pages of this
/// host or of `origins`.
pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    max_message: usize,
    origins: &[String],
) -> io::Result<WebSocketStream<S>> {
    let limits = limits(max_message);
    #[expect(clippy::result_large_err, reason = "the library's signature")]
    let agree = |request: &Request, response| agree(request, response, origins);
    let accepted = accept_hdr_async_with_config(stream, agree, Some(limits)).await;
    accepted.map_err(io::Error::other)
}

/// Agrees to the subprotocol `coap` and to no other (RFC 8323 4.1).
#[expect(clippy::result_large_err, reason = "the library's signature")]
fn agree(
    request: &Request,
    mut response: Response,
    origins: &[String],
) -> Result<Response, ErrorResponse> {
    let refuse = |status, text: &str| {
        let mut refusal = ErrorResponse::new(Some(text.to_owned()));
        *refusal.status_mut() = status;
        Err(refusal)
    };
    if request.uri().path() != "/.well-known/coap" {
        return refuse(StatusCode::NOT_FOUND, "CoAP is at /.well-known/coap");
    }
    if let Some((status, text)) = foreign_page(request.headers(), origins) {
        return refuse(status, text);
    }
    let offered = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL);
    let coap = offered
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|protocol| protocol.trim() == "coap");
    if !coap {
        return refuse(StatusCode::BAD_REQUEST, "the subprotocol here is \"coap\"");
    }
    let coap = HeaderValue::from_static("coap");
    response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, coap);
    Ok(response)
}

/// The refusal of a request from a web page of another site (RFC 6455 4.2.2, 10.2). Browsers always send
/// Origin, other clients do not have to, and the same-origin policy does not apply to WebSockets. Where names
/// are configured, Host is one of them in every request.
fn foreign_page(headers: &HeaderMap, origins: &[String]) -> Option<(StatusCode, &'static str)> {
    let mut pages = headers.get_all(ORIGIN).iter().peekable();
    // Not a browser: those send Origin (RFC 6455 4.1).
    if pages.peek().is_none() && origins.is_empty() {
        return None;
    }
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    let host = host.map(http_host::without_port).unwrap_or_default();
    // Two Host fields are an error (RFC 9112 3.2): which of them counts would be a guess.
    if hosts.next().is_some() || !http_host::is_own(host, origins) {
        let text = "this server is reached by an address, localhost or a name of --ws-origin";
        return Some((StatusCode::MISDIRECTED_REQUEST, text));
    }
    let is_allowed = |page: &HeaderValue| {
        let (_, page) = page.to_str().ok()?.split_once("://")?;
        let page = http_host::without_port(page);
        Some(page.eq_ignore_ascii_case(host) || http_host::is_named(page, origins))
    };
    let allowed = pages.all(|page| is_allowed(page).unwrap_or(false));
    let text = "web pages of this origin are not allowed: name it with --ws-origin";
    (!allowed).then_some((StatusCode::FORBIDDEN, text))
}

/// Limits received messages to the longest CoAP message, in bytes.
fn limits(max_message: usize) -> WebSocketConfig {
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(max_message);
    config.max_frame_size = Some(max_message);
    config
}

/// The halves of a WebSocket.
pub(crate) fn split(stream: WebSocket) -> (MessageReader, MessageWriter) {
    let (writer, reader) = stream.split();
    (MessageReader(reader), MessageWriter(writer))
}

/// The receiving half of a WebSocket.
pub(crate) struct MessageReader(SplitStream<WebSocket>);

impl MessageReader {
    /// Receives the next CoAP message. Error: the way the connection ended.
    pub(crate) async fn next(&mut self) -> Result<Bytes, Disconnect> {
        loop {
            match self.0.next().await {
                // CoAP messages are binary (RFC 8323 4.2).
                Some(Ok(Message::Binary(bytes))) => return Ok(bytes),
                // The library answers pings.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(tungstenite::Error::Io(error))) => return Err(disconnect_of(&error)),
                Some(
                    Ok(Message::Close(_))
                    | Err(
                        tungstenite::Error::ConnectionClosed
                        | tungstenite::Error::AlreadyClosed
                        | tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake),
                    ),
                )
                | None => return Err(Disconnect::Closed),
                Some(Ok(Message::Text(_)) | Err(_)) => return Err(Disconnect::BadMessage),
            }
        }
    }
}

/// The sending half of a WebSocket.
pub(crate) struct MessageWriter(SplitSink<WebSocket, Message>);

impl MessageWriter {
    /// Writes a message. Its last frame may wait in the library's buffer for [`flush`](Self::flush).
    pub(crate) async fn write(&mut self, mut bytes: Bytes) -> Result<(), tungstenite::Error> {
        if bytes.len() <= FRAME_BYTES {
            return self.0.feed(Message::Binary(bytes)).await;
        }
        let mut data = Data::Binary;
        while bytes.len() > FRAME_BYTES {
            let frame = Frame::message(bytes.split_to(FRAME_BYTES), OpCode::Data(data), false);
            // Sent, not fed, so that the library holds one frame.
            self.0.send(Message::Frame(frame)).await?;
            data = Data::Continue;
        }
        let last = Frame::message(bytes, OpCode::Data(data), true);
        self.0.feed(Message::Frame(last)).await
    }

    /// Flushes the library's buffer.
    pub(crate) async fn flush(&mut self) -> Result<(), tungstenite::Error> {
        self.0.flush().await
    }

    /// Sends a Close frame.
    pub(crate) async fn close(&mut self) -> Result<(), tungstenite::Error> {
        self.0.close().await
    }
}
